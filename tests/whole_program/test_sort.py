"""Sorts of short rows in native programs: the order of the library's, also of equal elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.runtime.plan import Call

Array = np.ndarray[Any, Any]


def both(function: Any, x: Array) -> None:
    """A program of one native call gives what the library gives, bit by bit."""
    program = trace(function, (x,)).program
    native, library = pirkit.compile(program), pirkit.compile(program, pipeline="@simplify",
                                                              backend="reference")  # fmt: skip
    assert [c.kernel for c in native.plan.body if isinstance(c, Call)] == ["pir.segment"]
    given = {native.plan.inputs[0].name: x}
    for got, want in zip(native.run(given).values(), library.run(given).values(), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def rows(shape: tuple[int, ...], dtype: str) -> Array:
    """Numbers with many equal ones; of floats also NaN, infinities and both zeros."""
    drawn = np.random.default_rng(7).integers(-4, 5, shape).astype(dtype)
    if drawn.dtype.kind == "f":
        for k, value in enumerate((np.nan, np.inf, -np.inf, -0.0, np.nan)):
            drawn.reshape(-1)[k :: 11 + k] = value
    return drawn


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 41), 1), ((2, 19, 5), 1), ((1, 9), 0), ((33,), 0)]
)
def test_argsort(shape: tuple[int, ...], axis: int, descending: bool, dtype: str) -> None:
    both(lambda x: ops.argsort(x, axis=axis, descending=descending), rows(shape, dtype))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((4, 30), 1, 7), ((23, 6), 0, 23), ((5, 40), 1, 1)]
)
def test_topk(shape: tuple[int, ...], axis: int, k: int, largest: bool) -> None:
    both(lambda x: ops.topk(x, k, axis=axis, largest=largest), rows(shape, "float32"))


def test_one_result_of_two() -> None:
    both(lambda x: ops.argsort(x, axis=1)[1] + 1, rows((3, 20), "float32"))
    both(lambda x: ops.topk(x, 3)[0] * 2.0, rows((3, 20), "float32"))


def test_many_long_rows_are_left_to_the_library() -> None:
    x = rows((64, 300), "float32")
    found = pirkit.compile(trace(lambda x: ops.argsort(x * 2.0), (x,)).program)
    assert "pd_op.argsort" in [c.kernel for c in found.plan.body if isinstance(c, Call)]
