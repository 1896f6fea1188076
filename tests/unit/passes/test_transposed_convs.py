"""Transposed convolutions with constant filters as convolutions: numbers, and what is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.dialect.program import Program
from pirkit.passes import transposed_convs
from pirkit.runtime.lazy_numpy import Array
from tests.tolerance import drift

# Height and width, window, strides, paddings, output padding.
CASES = [
    ((4, 4), (4, 4), (2, 2), (1, 1), ()),
    ((3, 5), (3, 2), (2, 3), (0, 0), ()),
    ((3, 2), (5, 3), (2, 1), (2, 1), ()),
    ((2, 3), (3, 4), (2, 2), (1, 0, 0, 1), ()),
    ((2, 2), (2, 7), (3, 2), (0, 3), ()),
    ((3, 3), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((3, 2), (2, 2), (3, 3), (0, 0), (2, 1)),
    ((5, 5), (1, 1), (2, 2), (0, 0), ()),
]


def built(x: Array, w: Array, **given: Any) -> Program:
    b = pirkit.ProgramBuilder()
    image = b.input("x", x.shape, x.dtype.name)
    b.output("y", b.conv2d_transpose(image, b.parameter("w", w), **given))
    return b.finish()


@pytest.mark.parametrize(("sizes", "window", "strides", "paddings", "more"), CASES)
def test_the_numbers_stay(
    sizes: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...],
    paddings: tuple[int, ...], more: tuple[int, ...], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(transposed_convs, "PACKING", 0)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 8, *sizes))
    w = rng.standard_normal((8, 6, *window))
    options = {"strides": strides, "paddings": paddings, "output_padding": more}
    given = built(x, w, **options)
    made = pirkit.run_passes(given, "convolve-transposed")
    assert "conv2d_transpose" not in str(made)
    found, expected = (pirkit.compile(p, pipeline="")(x=x)["y"] for p in (made, given))
    frozen = pirkit.compile(given, freeze=True)(x=x)["y"]
    for each in (found, frozen):
        assert drift(each, expected) is None


@pytest.mark.parametrize("paddings", [(0, 0), (2, 1), (1, 0, 0, 1)])
@pytest.mark.parametrize("dilations", [(1, 1), (2, 3)])
def test_without_strides_it_pays_always(
    paddings: tuple[int, ...], dilations: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 9, 8)), rng.standard_normal((3, 5, 3, 2))
    given = built(x, w, paddings=paddings, dilations=dilations)
    made = pirkit.run_passes(given, "convolve-transposed")
    assert "conv2d_transpose" not in str(made)
    found, expected = (pirkit.compile(p, pipeline="")(x=x)["y"] for p in (made, given))
    assert drift(found, expected) is None


@pytest.mark.parametrize(
    ("window", "options"),
    [
        ((1, 1), {"strides": (2, 2)}),  # few weights: packing them is cheap
        ((4, 4), {"strides": (2, 2), "dilations": (2, 2)}),
        ((4, 4), {"groups": 2}),
        (
            (4, 4),
            {"paddings": (5, 5), "strides": (2, 2)},
        ),  # more is cut off than the filter reaches
    ],
)
def test_what_is_left(window: tuple[int, int], options: dict[str, Any]) -> None:
    given = built(np.ones((1, 64, 6, 6)), np.ones((64, 64, *window)), **options)
    assert "pd_op.conv2d_transpose" in str(pirkit.run_passes(given, "convolve-transposed"))
