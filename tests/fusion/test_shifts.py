"""Shifted copies of one value: stencils, rolls, overlapping slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pirkit


def laplacian(x: Any) -> Any:
    rows = np.roll(x, 1, 0) + np.roll(x, -1, 0)
    return rows + np.roll(x, 1, 1) + np.roll(x, -1, 1) - 4 * x


def inner(x: Any) -> Any:
    return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]


@pytest.mark.parametrize("f", [laplacian, inner])
def test_points_of_one_stencil_are_one_kernel(f: Any) -> None:
    x = np.random.default_rng(0).normal(size=(64, 64))
    assert fused(f, x) == 1
    np.testing.assert_allclose(pirkit.jit(f)(x), f(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("f", [laplacian, inner])
def test_a_stencil_of_a_stencil_stores_what_it_reads(f: Any) -> None:
    """Computing the inner one at each point of the outer one would cost five times as much."""
    x = np.random.default_rng(0).normal(size=(64, 64))
    assert fused(lambda v: f(f(v)), x) == 2
    np.testing.assert_allclose(pirkit.jit(lambda v: f(f(v)))(x), f(f(x)), rtol=1e-12, atol=1e-11)


def fused(f: Any, x: Any) -> int:
    program = pirkit.jit(f).lower(x)
    text = str(pirkit.run_passes(program, ["canonicalize", "cse", "fuse{single=true}"]))
    return text.count("pir.map_expr @")


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 70), st.integers(-80, 80), st.integers(-6, 6))
def test_reads_that_wrap_around(rows: int, columns: int, right: int, down: int) -> None:
    """Along the vector axis such a read is two guarded ones: all tails, shifts and sizes."""
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)

    def f(x: Any) -> Any:
        return np.roll(x, (right, down), (1, 0)) + np.tile(np.roll(x[0], right), 2)[:columns] * 2

    np.testing.assert_array_equal(pirkit.jit(f)(x), f(x))


@pytest.mark.parametrize(("width", "kernels"), [(16, 1), (24, 2)])
def test_slices_that_share_nothing_compute_nothing_again(width: int, kernels: int) -> None:
    """Each element of a costly value is needed once; of slices that overlap, some twice."""
    x = np.random.default_rng(0).normal(size=(4096, 32))

    def f(x: Any) -> Any:
        t = np.exp(x) * np.tanh(x) * np.sin(x)
        return t[:, :width] * np.exp(t[:, 32 - width :])

    assert fused(f, x) == kernels
    np.testing.assert_allclose(pirkit.jit(f)(x), f(x), rtol=1e-12, atol=1e-12)
    kept = fused(lambda x: (t := np.exp(x) * np.tanh(x) * np.sin(x), t[:, :16] * t[:, 16:]), x)
    assert kept == 2, "one loop stores all elements, and another one would compute them again"
