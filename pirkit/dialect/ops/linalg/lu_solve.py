"""Linear systems whose matrix is factored already."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.linalg.lu import exchanges
from pirkit.dialect.ops.linalg.solve import REAL_FIELDS
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "factorization"


@op
class LuSolve:
    """The `out` with `A @ out = b`, or `A.T @ out = b`, of whose `A` the factors are given.

    `lu` and `pivots` are results of `lu`: factors of `A` with exchanged rows. A zero on their
    diagonal and a pivot that is no row are refused at run time.

    C1: `lu` holds square matrices, and `pivots` of int32 a number for each of their rows.
    C2: `b` has as many rows, and the leading dimensions of `lu`.
    C3: `trans` is `N`, or `T` for the transposed matrix.
    """

    name = "pd_op.lu_solve"
    signature = "b, lu, pivots ; trans: str -> out"
    dtypes = REAL_FIELDS
    same_dtype = ("b", "lu")
    operand_dtypes = {"pivots": dt.INTS}


@infer_meta(LuSolve)
def _(b: TensorMeta, lu: TensorMeta, pivots: TensorMeta, *, trans: str) -> TensorMeta:
    square = lu.rank >= 2 and same_dim(*lu.shape[-2:])
    fits = square and pivots.dtype is dt.int32 and _agree(pivots.shape, lu.shape[:-1])
    require(fits, "C1", f"pivots {pivots} for the factors {lu}")
    rows = b.rank == lu.rank and _agree(b.shape[:-1], lu.shape[:-1])
    require(rows, "C2", f"the right side {show(b.shape)} for {show(lu.shape)}")
    require(trans in ("N", "T"), "C3", f"trans {trans!r}")
    return b


def _agree(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return len(a) == len(b) and all(map(same_dim, a, b))


@reference(LuSolve)
def _(b: Array, lu: Array, pivots: Array, *, trans: str) -> Array:
    """By substitution, column by column of the factors, for all matrices at once."""
    rows, columns = b.shape[-2:]
    count = prod(b.shape[:-2])
    out: Array = np.array(b).reshape(count, rows, columns)
    factors, swaps = lu.reshape(count, rows, rows), exchanges(pivots.reshape(count, rows), rows)
    every = np.arange(count)
    if not np.diagonal(factors, axis1=1, axis2=2).all():
        raise RuntimeFault("the matrix is not invertible")
    is_plain = trans == "N"
    if is_plain:
        for i in range(rows):
            _exchange(out, every, i, swaps[:, i])
    else:
        factors = factors.swapaxes(-1, -2)
    for i in range(rows):
        if not is_plain:
            out[:, i] /= factors[:, i, i, None]
        out[:, i + 1 :] -= factors[:, i + 1 :, i, None] * out[:, i, None]
    for i in reversed(range(rows)):
        if is_plain:
            out[:, i] /= factors[:, i, i, None]
        out[:, :i] -= factors[:, :i, i, None] * out[:, i, None]
    if not is_plain:
        for i in reversed(range(rows)):
            _exchange(out, every, i, swaps[:, i])
    return out.reshape(b.shape)


def _exchange(x: Array, every: Array, row: int, places: Array) -> None:
    x[every, places], x[:, row] = x[:, row].copy(), x[every, places]


@samples(LuSolve)
def _(s: SampleMaker) -> Iterator[Sample]:
    three = s.tensor(3, 3) + s.array(np.eye(3) * 4)
    yield s(s.tensor(3, 2), three, s.array([2, 3, 3], dt.int32), trans="N")
    yield s(s.tensor(3, 1), three, s.array([3, 2, 3], dt.int32), trans="T")
    pivots = s.array([[3, 3, 3], [1, 2, 3]], dt.int32)
    yield s(s.tensor(2, 3, 2), s.tensor(2, 3, 3) + s.array(np.eye(3) * 4), pivots, trans="N")
    yield s(s.tensor(0, 3, 2), s.tensor(0, 3, 3), pivots[:0], trans="T")
    yield s(s.tensor(3, 0), three, s.array([3, 2, 3], dt.int32), trans="N")


@bad_samples(LuSolve)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    pivots = s.array([2, 3, 3], dt.int32)
    yield "C1", s(s.tensor(3, 2), s.tensor(3, 4), pivots, trans="N")
    yield "C1", s(s.tensor(3, 2), s.tensor(3, 3), pivots[:2], trans="N")
    yield "C2", s(s.tensor(4, 2), s.tensor(3, 3), pivots, trans="N")
    yield "C3", s(s.tensor(3, 2), s.tensor(3, 3), pivots, trans="C")
