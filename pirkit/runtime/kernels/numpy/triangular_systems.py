"""Solves with triangles and with factors that are given, by BLAS and LAPACK.

A matrix in memory is the transpose of the one that BLAS sees: `x @ out = y` is solved as
`out.T @ x.T = y.T`, with the matrix on the right, which needs no copy of the operands.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.elimination import (
    REAL,
    is_worth_calls,
    matrices_of,
    refuse_singular,
)
from pirkit.runtime.native.lapack import blas_routine, lapack, row_numbers
from pirkit.runtime.registry import kernel


def _systems(factors: Array, sides: Array, out: Array) -> Iterator[tuple[Array, Array]]:
    """Each matrix with its right sides, which are copied into the result, to be solved there."""
    np.copyto(out, sides)
    spread = np.broadcast_to(factors, (*out.shape[:-2], *factors.shape[-2:]))
    return zip(map(np.ascontiguousarray, matrices_of(spread)), matrices_of(out), strict=True)


@kernel("triangular_solve", dtypes=REAL)
def triangular_solve(b: Binding) -> Step | None:
    trsm = blas_routine("trsm", b.dtype)
    if trsm is None or not is_worth_calls(b.input()) or not b.output().numel:
        return None
    n, columns = b.output().shape[-2:]
    unit = b.attrs["unitriangular"]
    options = ("L" if b.attrs["upper"] else "U", "T" if b.attrs["transpose"] else "N")
    one = np.ones((), b.dtype.np)
    solve = trsm.on("R", *options, "U" if unit else "N", columns, n, one, ..., n, ..., columns)

    def step(x: Array, y: Array, out: Array) -> None:
        for matrix, side in _systems(x, y, out):
            if not unit:
                refuse_singular(matrix)
            solve(matrix, side)

    return step


@kernel("cholesky_solve", dtypes=REAL)
def cholesky_solve(b: Binding) -> Step | None:
    trsm = blas_routine("trsm", b.dtype)
    if trsm is None or not is_worth_calls(b.input(1)) or not b.output().numel:
        return None
    n, columns = b.output().shape[-2:]
    triangle, order = ("L", ("T", "N")) if b.attrs["upper"] else ("U", ("N", "T"))
    one = np.ones((), b.dtype.np)
    sizes = columns, n, one, ..., n, ..., columns
    solves = [trsm.on("R", triangle, transposed, "N", *sizes) for transposed in order]

    def step(x: Array, y: Array, out: Array) -> None:
        for matrix, side in _systems(y, x, out):
            refuse_singular(matrix)
            for solve in solves:
                solve(matrix, side)

    return step


@kernel("lu_solve", dtypes=REAL)
def lu_solve(b: Binding) -> Step | None:
    getrs = lapack("getrs", b.dtype)
    if getrs is None or not is_worth_calls(b.input(1)) or not b.output().numel:
        return None
    n, columns = b.output().shape[-2:]
    factors, sides = b.workspace((n, n)), b.workspace((columns, n))
    swaps, trans = b.workspace((n,), dt.int64), b.attrs["trans"]

    def step(given: Array, lu: Array, pivots: Array, out: Array) -> None:
        if pivots.min() < 1 or pivots.max() > n:
            raise RuntimeFault(f"lu_solve: a pivot is outside of 1 to {n}")
        np.copyto(out, given)
        rows = pivots.reshape(-1, n)
        for matrix, row, side in zip(matrices_of(lu), rows, matrices_of(out), strict=True):
            refuse_singular(matrix)
            factors[...], sides[...] = matrix.T, side.T
            row_numbers(swaps)[...] = row
            getrs(trans, n, columns, factors, n, swaps, sides, n)
            side[...] = sides.T

    return step
