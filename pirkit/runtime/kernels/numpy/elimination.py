"""Linear systems and determinants, by LAPACK itself.

numpy.linalg computes float32 in float64. Batches of matrices of less than `LEAST` rows are left to
numpy, whose loops over a batch are compiled: a call through ctypes costs more than that.

A matrix in memory is the transpose of the one that LAPACK sees, hence the opposite triangles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Final

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Bind, Binding, Step
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.lapack import Routine, lapack, row_numbers
from pirkit.runtime.registry import kernel

LEAST: Final = 24
REAL: Final = (dt.float32, dt.float64)
_SINGULAR: Final = "the matrix is not invertible"


def is_large(meta: TensorMeta) -> bool:
    """Whether the matrices of a batch are worth a call of LAPACK each."""
    return min(meta.shape[-2:]) >= LEAST and not prod(meta.shape) == 0


def is_worth_calls(meta: TensorMeta) -> bool:
    """As `is_large`; a single matrix is worth a call whatever its size."""
    return is_large(meta) or (prod(meta.shape[:-2]) == 1 and not prod(meta.shape) == 0)


def matrices_of(x: Array) -> Array:
    """The matrices of a batch, along one axis."""
    return x.reshape(-1, *x.shape[-2:])


class _Elimination:
    """Factors the matrices of a batch, transposed, with their row exchanges."""

    def __init__(self, b: Binding, getrf: Routine) -> None:
        n = b.input().shape[-1]
        self.factors, self.pivots = b.workspace((n, n)), b.workspace((n,), dt.int64)
        self._factor = getrf.on(n, n, self.factors, n, self.pivots)

    def numbers(self, x: Array) -> Iterator[int]:
        """The number of each matrix, once it is factored."""
        for k, matrix in enumerate(matrices_of(x)):
            self.factors[...] = matrix
            self._factor()
            yield k


def refuse_singular(factors: Array) -> None:
    """Raise RuntimeFault for a triangle with a zero on its diagonal."""
    if not factors.diagonal().all():
        raise RuntimeFault(_SINGULAR)


@kernel("inverse", dtypes=REAL)
def inverse(b: Binding) -> Step | None:
    getrf, getri = lapack("getrf", b.dtype), lapack("getri", b.dtype)
    if getrf is None or getri is None or not is_worth_calls(b.input()):
        return None
    n = b.input().shape[-1]
    done, work = _Elimination(b, getrf), b.workspace((64 * n,))
    factors = done.factors
    invert = getri.on(n, factors, n, done.pivots, work, work.size)

    def step(x: Array, out: Array) -> None:
        results = matrices_of(out)
        for k in done.numbers(x):
            refuse_singular(factors)
            invert()
            results[k] = factors

    return step


@kernel("solve", dtypes=REAL)
def solve(b: Binding) -> Step | None:
    getrf, getrs = lapack("getrf", b.dtype), lapack("getrs", b.dtype)
    if getrf is None or getrs is None or not is_worth_calls(b.input()):
        return None
    n, right, out_shape = b.input().shape[-1], b.input(1).shape, b.output().shape
    if not prod(out_shape):
        return None
    holds_vectors = len(right) == 1 or right == b.input().shape[:-1]
    columns, lead = (1, right[:-1]) if holds_vectors else (right[-1], right[:-2])
    batch = np.broadcast_shapes(b.input().shape[:-2], lead)
    if batch != b.input().shape[:-2]:
        return None  # one matrix for several right sides: numpy's loop is as good
    done, columns_first = _Elimination(b, getrf), b.workspace((columns, n))
    substitute = getrs.on("T", n, columns, done.factors, n, done.pivots, columns_first, n)

    def step(x: Array, y: Array, out: Array) -> None:
        sides = np.broadcast_to(y.reshape(*lead, n, columns), (*batch, n, columns))
        given, results = matrices_of(sides), out.reshape(-1, n, columns)
        for k in done.numbers(x):
            refuse_singular(done.factors)
            columns_first[...] = given[k].T
            substitute()
            results[k] = columns_first.T

    return step


def _determinant(write: Callable[[int, Array, float, tuple[Array, ...]], None]) -> Bind:
    """``write`` gets the number of a matrix, the diagonal of U, and the sign of the exchanges."""

    def bind(b: Binding) -> Step | None:
        getrf = lapack("getrf", b.dtype)
        if getrf is None or not is_worth_calls(b.input()):
            return None
        done, order = _Elimination(b, getrf), np.arange(1, b.input().shape[-1] + 1)

        def step(x: Array, *outs: Array) -> None:
            for k in done.numbers(x):
                swaps = np.count_nonzero(row_numbers(done.pivots) != order)
                write(k, done.factors.diagonal().astype(np.float64), 1.0 - 2 * (swaps % 2), outs)

        return step

    return bind


def _write_det(k: int, diagonal: Array, sign: float, outs: tuple[Array, ...]) -> None:
    with np.errstate(all="ignore"):
        outs[0].reshape(-1)[k] = sign * np.prod(diagonal)


def _write_slogdet(k: int, diagonal: Array, sign: float, outs: tuple[Array, ...]) -> None:
    signs, logarithms = outs if len(outs) == 2 else outs[0].reshape(2, -1)
    with np.errstate(all="ignore"):
        signs.reshape(-1)[k] = sign * np.prod(np.sign(diagonal))
        logarithms.reshape(-1)[k] = np.log(np.abs(diagonal)).sum()


kernel("det", dtypes=REAL)(_determinant(_write_det))
kernel("slogdet", "slogdet_v2", dtypes=REAL)(_determinant(_write_slogdet))


@kernel("lu", dtypes=REAL)
def lu(b: Binding) -> Step | None:
    getrf = lapack("getrf", b.dtype)
    if getrf is None or not b.attrs["pivot"] or not is_worth_calls(b.input()):
        return None
    rows, columns = b.input().shape[-2:]
    factors, pivots = b.workspace((columns, rows)), b.workspace((min(rows, columns),), dt.int64)
    factor = getrf.on(rows, columns, factors, rows, pivots)

    def step(x: Array, out: Array, swaps: Array, infos: Array) -> None:
        results, numbers = matrices_of(out), swaps.reshape(-1, pivots.size)
        for k, matrix in enumerate(matrices_of(x)):
            factors[...] = matrix.T
            infos.reshape(-1)[k] = factor()
            results[k], numbers[k] = factors.T, row_numbers(pivots)

    return step


@kernel("cholesky", dtypes=REAL)
def cholesky(b: Binding) -> Step | None:
    potrf = lapack("potrf", b.dtype)
    if potrf is None or not is_worth_calls(b.input()):
        return None
    n, upper = b.input().shape[-1], b.attrs["upper"]
    room = b.workspace((n, n))
    factor = potrf.on("L" if upper else "U", n, room, n)
    gone = np.tri(n, k=-1, dtype=np.bool_) if upper else ~np.tri(n, dtype=np.bool_)

    def step(x: Array, out: Array) -> None:
        results = matrices_of(out)
        for k, matrix in enumerate(matrices_of(x)):
            room[...] = matrix
            if factor():
                raise RuntimeFault("cholesky: a matrix is not positive definite")
            np.copyto(room, 0, where=gone)
            results[k] = room

    return step
