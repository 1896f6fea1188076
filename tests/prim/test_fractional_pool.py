"""Fractional pooling and tensors side by side, against numbers that Paddle 3.3.1 computed."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import RuntimeFault

WINDOWS: Final = [
    (11, 5, 0, 0.219279284, [0, 2, 4, 6, 9], [1, 3, 5, 8, 10]),
    (9, 4, 0, 0.33900031, [0, 2, 4, 7], [1, 3, 6, 8]),
    (10, 3, 0, 0.507173119, [0, 4, 7], [3, 6, 9]),
    (9, 6, 0, 0.860670116, [0, 1, 3, 4, 6, 7], [0, 2, 3, 5, 6, 8]),
    (9, 4, 0, 0.844146602, [0, 2, 4, 6], [1, 3, 5, 8]),
    (15, 6, 10, 0.25, [0, 1, 2, 3, 4, 5], [9, 10, 11, 12, 13, 14]),
    (17, 5, 4, 0.958055491, [0, 3, 6, 9, 13], [3, 6, 9, 12, 16]),
    (8, 5, 4, 0.333333333, [0, 1, 2, 3, 4], [3, 4, 5, 6, 7]),
    (6, 3, 3, 0.771083233, [0, 1, 3], [2, 3, 5]),
    (6, 3, 4, 0.566785022, [0, 1, 2], [3, 4, 5]),
]
"""Length, number and size of windows, `random_u`; the first and the last element of each."""


@pytest.mark.parametrize(("length", "count", "size", "u", "firsts", "lasts"), WINDOWS)
def test_windows_are_those_of_paddle(
    length: int, count: int, size: int, u: float, firsts: list[int], lasts: list[int]
) -> None:
    """A row that falls has its maxima at the start of each window, one that grows at the end."""
    row = np.arange(length, dtype=np.float32).reshape(1, 1, 1, length)

    def pooled(x: Any) -> Any:
        return ops.fractional_max_pool2d(x, [1, count], [0, size], u)

    for x, wanted in ((-row, firsts), (row, lasts)):
        for run in (pooled, pirkit.jit(pooled)):
            out, mask = run(x)
            np.testing.assert_array_equal(np.asarray(mask).reshape(-1), wanted)
            np.testing.assert_array_equal(np.asarray(out).reshape(-1), x.reshape(-1)[wanted])


def test_the_gradients_of_windows_that_overlap_add_up() -> None:
    x = np.array([3.0, 5.0, 1.0, 2.0, 4.0, 0.0]).reshape(1, 1, 1, 6)
    slope = pirkit.grad(lambda x: ops.fractional_max_pool2d(x, [1, 4], [1, 3], 0.5)[0].sum())(x)
    np.testing.assert_array_equal(np.asarray(slope).reshape(-1), [0.0, 2.0, 0.0, 0.0, 2.0, 0.0])


def test_a_number_that_paddle_draws_is_asked_for() -> None:
    with pytest.raises(RuntimeFault, match="random_u 0; pass a number"):
        ops.fractional_max_pool2d(np.ones((1, 1, 4, 4), np.float32), [2, 2])


ROW: Final = np.arange(3, dtype=np.float32)
SQUARE: Final = np.full((2, 2), 7, np.float32)


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"copy_data": True, "use_align": False}, [0, 1, 2, 7, 7, 7, 7]),
        ({"copy_data": True, "align_size": 16}, [0, 1, 2, 0, 7, 7, 7, 7]),
        ({"copy_data": True, "align_size": 10}, [0, 1, 2, 0, 0, 7, 7, 7, 7, 0]),
        ({"copy_data": True, "align_size": 16, "size_of_dtype": 8}, [0, 1, 2, 0, 7, 7, 7, 7]),
        ({"set_constant": True, "constant": 2.5, "use_align": False}, [2.5] * 7),
        (
            {"copy_data": True, "set_constant": True, "constant": 1.0, "align_size": 4},
            [0, 1, 2, 7, 7, 7, 7],
        ),
        ({"set_constant": True, "constant": 2.5}, [2.5] * 2048),
    ],
)
def test_tensors_side_by_side(attributes: dict[str, Any], wanted: list[float]) -> None:
    """What lies between aligned tensors is undefined in Paddle, and 0 here unless it is set."""

    def fused(x: Any, y: Any) -> Any:
        return ops.coalesce_tensor([x, y], "float32", **attributes)

    for run in (fused, pirkit.jit(fused)):
        (row, square), found = run(ROW, SQUARE)
        np.testing.assert_array_equal(found, wanted)
        fill = wanted[0] if "copy_data" not in attributes else None
        np.testing.assert_array_equal(row, ROW if fill is None else ROW * 0 + fill)
        np.testing.assert_array_equal(square, SQUARE if fill is None else SQUARE * 0 + fill)
