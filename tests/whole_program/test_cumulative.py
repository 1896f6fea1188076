"""Cumulative sums, products and extrema have native code, and the bits of numpy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType


def native(function: Callable[[Any], Any], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    exe = pirkit.compile(trace(function, (x,)).program, require_native=True)
    return next(iter(exe.run({"x0": x}).values()))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@given(
    shape=st.lists(st.integers(1, 70), min_size=1, max_size=3).filter(lambda s: np.prod(s) < 9000),
    place=st.integers(0, 2),
    dtype=st.sampled_from([np.float32, np.float64, np.int32, np.int64]),
    flags=st.tuples(st.booleans(), st.booleans()),
)
def test_bits_are_those_of_numpy(
    name: str, shape: list[int], place: int, dtype: type, flags: tuple[bool, bool]
) -> None:
    axis, (reverse, exclusive) = place % len(shape), flags
    x = (np.random.default_rng(0).standard_normal(shape) * 5).astype(dtype)
    op = getattr(ops, name)
    found = native(lambda x: op(x, axis, exclusive=exclusive, reverse=reverse), x)
    order = (slice(None),) * axis + (slice(None, None, -1 if reverse else 1),)
    accumulate = (np.add if name == "cumsum" else np.multiply).accumulate
    wanted = accumulate(x[order], axis, dtype)
    if exclusive:
        first = np.full_like(wanted.take([0], axis), 0 if name == "cumsum" else 1)
        wanted = np.concatenate([first, np.delete(wanted, -1, axis)], axis)
    np.testing.assert_array_equal(found, wanted[order])


@pytest.mark.parametrize("dtype", [dt.bfloat16, dt.float16], ids=repr)
@pytest.mark.parametrize("shape", [(40, 37), (3, 5), (2, 61), (70, 3)])
@pytest.mark.parametrize("axis", [0, 1])
def test_half_precision_is_summed_in_float32(
    dtype: DType, shape: tuple[int, int], axis: int
) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype.np)
    wide = x.astype(np.float32)
    for op, exact in (
        (lambda x: ops.cumsum(x, axis), np.add.accumulate(wide, axis)),
        (lambda x: ops.cumsum(x, axis, exclusive=True), np.add.accumulate(wide, axis) - wide),
        (lambda x: ops.cummax(x, axis)[0], np.maximum.accumulate(wide, axis)),
    ):
        found = native(op, x)
        assert found.dtype == dtype.np
        error = np.abs(found.astype(np.float32) - exact)
        assert (error <= np.abs(exact) * 2.0**-8 + 1e-4).all()
    found = native(lambda x: ops.cumsum(x, axis), x)
    rounded = np.add.accumulate(wide, axis).astype(dtype.np)
    np.testing.assert_array_equal(found, rounded)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@given(
    shape=st.lists(st.integers(1, 70), min_size=1, max_size=3).filter(lambda s: np.prod(s) < 9000),
    place=st.integers(0, 2),
    dtype=st.sampled_from([np.float32, np.float64, np.int32, np.int64]),
    counted=st.sampled_from([dt.int32, dt.int64]),
    kept=st.sampled_from([slice(0, 2), slice(0, 1), slice(1, 2)]),
)
def test_extrema_and_their_places(
    name: str, shape: list[int], place: int, dtype: type, counted: DType, kept: slice
) -> None:
    axis, rng = place % len(shape), np.random.default_rng(0)
    x = rng.integers(-9, 9, shape).astype(dtype)
    if dtype in (np.float32, np.float64):
        x[rng.random(shape) < 0.02] = np.nan
    op = getattr(ops, name)
    program = trace(lambda x: op(x, axis, dtype=counted)[kept], (x,)).program
    found = pirkit.compile(program, require_native=True).run({"x0": x}).values()
    rows = np.moveaxis(x, axis, 0)
    best, where, values, places = rows[0], np.zeros(rows[0].shape, counted.np), [], []
    for k, row in enumerate(rows):
        takes = (row >= best if name == "cummax" else row <= best) | (row != row)
        best, where = np.where(takes, row, best), np.where(takes, counted.np.type(k), where)
        values.append(best)
        places.append(where)
    wanted = [np.stack(rows, axis) for rows in (values, places)][kept]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def test_all_elements_and_one_and_the_sign_of_zero() -> None:
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(native(lambda x: ops.cumsum(x), x), np.cumsum(x))
    assert native(lambda x: ops.cumsum(x, 0), np.array(3.0)) == 3.0
    zeros = native(lambda x: ops.cumsum(x, 0), np.array([-0.0, 0.0]))
    np.testing.assert_array_equal(np.signbit(zeros), [True, False])


def test_threads_share_slices() -> None:
    x = np.random.default_rng(1).standard_normal((333, 1000))
    with pirkit.threads(2):
        np.testing.assert_array_equal(native(lambda x: ops.cumsum(x, 1), x), np.cumsum(x, 1))


def test_other_element_types_run_in_numpy() -> None:
    x = np.arange(5, dtype=np.int16)
    exe = pirkit.compile(trace(lambda x: ops.cumsum(x, 0), (x,)).program)
    assert exe.native is None
    np.testing.assert_array_equal(next(iter(exe.run({"x0": x}).values())), np.cumsum(x))
