"""LU factorization with row exchanges, and what is computed from the factors.

Leading dimensions are a batch of matrices. Rows are counted from 1, as in LAPACK: pivot number i is
the row that was exchanged with row i when column i was eliminated.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.ops.linalg.solve import FIELDS
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "factorization"


@op
class Lu:
    """`out` holds L below its diagonal, without the ones on it, and U on and above it.

    With the rows of `x` exchanged by `pivots`, `x` is `L @ U`. `infos` is the number of the first
    zero on the diagonal of U, 0 if there is none. Without `pivot` no rows are exchanged.

    C1: `x` has at least two dimensions.
    """

    name = "pd_op.lu"
    signature = "x ; pivot: bool = True -> out, pivots, infos"
    dtypes = FIELDS
    inplace = {"out": "x"}


@op
class LuUnpack:
    """The matrices in the result `x` of `lu`, whose pivots are `y`: `lu` factored `pmat @ l @ u`.

    What is not unpacked is empty, of float32.

    C1: `x` has at least two dimensions, and `y` a pivot for each of its rows or columns.
    """

    name = "pd_op.lu_unpack"
    signature = "x, y ; unpack_ludata: bool = True, unpack_pivots: bool = True -> pmat, l, u"
    dtypes = FIELDS
    operand_dtypes = {"y": dt.INTS}


def _least(rows: int, columns: int) -> int:
    return UNKNOWN if UNKNOWN in (rows, columns) else min(rows, columns)


@infer_meta(Lu)
def _(x: TensorMeta, **_: object) -> tuple[TensorMeta, ...]:
    require(x.rank >= 2, "C1", f"shape {show(x.shape)} is no matrix")
    batch, least = x.shape[:-2], _least(*x.shape[-2:])
    return x, TensorMeta((*batch, least), dt.int32), TensorMeta(batch, dt.int32)


@paddle_meta(Lu)
def _(x: TensorMeta, *, pivot: bool) -> tuple[TensorMeta, ...]:
    found, pivots, info = infer_meta.of(Lu)(x, pivot=pivot)
    return found, pivots if pivot else TensorMeta((0,), dt.float32), info


@infer_meta(LuUnpack)
def _(
    x: TensorMeta, y: TensorMeta, *, unpack_ludata: bool, unpack_pivots: bool
) -> tuple[TensorMeta, ...]:
    require(x.rank >= 2, "C1", f"shape {show(x.shape)} is no matrix")
    batch, (rows, columns) = x.shape[:-2], x.shape[-2:]
    least = _least(rows, columns)
    fits = y.rank == x.rank - 1 and same_dim(y.shape[-1], least)
    require(fits, "C1", f"pivots of shape {show(y.shape)} for {show(x.shape)}")
    nothing = TensorMeta((0,), dt.float32)
    lower, upper = x.with_shape((*batch, rows, least)), x.with_shape((*batch, least, columns))
    return (
        x.with_shape((*batch, rows, rows)) if unpack_pivots else nothing,
        lower if unpack_ludata else nothing,
        upper if unpack_ludata else nothing,
    )


@reference(Lu)
def _(x: Array, *, pivot: bool) -> tuple[Array, ...]:
    *batch, rows, columns = x.shape
    least = min(rows, columns)
    out: Array = np.array(x).reshape(prod(batch), rows, columns)
    pivots = np.empty((len(out), least), np.int32)
    infos: Array = np.zeros(len(out), np.int32)
    every = np.arange(len(out))
    for i in range(least):
        size = np.abs(out[:, i:, i].real) + np.abs(out[:, i:, i].imag)  # as in LAPACK
        place = i + np.argmax(size, axis=1) if pivot else np.full(len(out), i)
        pivots[:, i] = place + 1
        out[every, place], out[:, i] = out[:, i].copy(), out[every, place]
        corner = out[:, i, i].copy()
        infos[(corner == 0) & (infos == 0)] = i + 1
        divisor = np.where(corner == 0, 1, corner)
        out[:, i + 1 :, i] /= divisor[:, None]
        out[:, i + 1 :, i + 1 :] -= out[:, i + 1 :, i, None] * out[:, i, None, i + 1 :]
    found: Array = out.reshape(x.shape)
    return found, pivots.reshape(*batch, least), infos.reshape(batch)


def exchanges(pivots: Array, rows: int) -> Array:
    """Pivots counted from 0. Raises RuntimeFault for one that is no row."""
    if pivots.size and not 1 <= pivots.min() <= pivots.max() <= rows:
        raise RuntimeFault(f"a pivot is outside of 1 to {rows}")
    return pivots - 1


@reference(LuUnpack)
def _(x: Array, y: Array, *, unpack_ludata: bool, unpack_pivots: bool) -> tuple[Array, ...]:
    rows, columns = x.shape[-2:]
    least = min(rows, columns)
    empty = np.zeros(0, np.float32)
    lower = upper = pmat = empty
    if unpack_ludata:
        lower = np.tril(x[..., :least], -1) + np.eye(rows, least, dtype=x.dtype)
        upper = np.triu(x[..., :least, :])
    if unpack_pivots:
        swaps = exchanges(y.reshape(prod(x.shape[:-2]), least), rows)
        order: Array = np.empty((len(swaps), rows), np.int64)
        order[:] = np.arange(rows)
        every = np.arange(len(swaps))
        for i in range(least):
            place = swaps[:, i]
            order[every, place], order[:, i] = order[:, i].copy(), order[every, place]
        pmat = np.eye(rows, dtype=x.dtype)[order].swapaxes(-1, -2)
        pmat = pmat.reshape(*x.shape[:-2], rows, rows)
    return pmat, lower, upper


@samples(Lu)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 3))
    yield s(s.tensor(2, 4, 3))
    yield s(s.tensor(2, 4))
    yield s(s.tensor(0, 2, 2))


@samples(LuUnpack)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 3), s.array([2, 3, 3], dt.int32))
    yield s(s.tensor(2, 4, 3), s.array([[4, 2, 3], [1, 3, 4]], dt.int32))
    yield s(s.tensor(2, 4), s.array([2, 2], dt.int32))
    yield s(s.tensor(3, 3), s.array([2, 3, 3], dt.int32), unpack_pivots=False)
    yield s(s.tensor(3, 3), s.array([2, 3, 3], dt.int32), unpack_ludata=False)


@bad_samples(Lu)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3))


@bad_samples(LuUnpack)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3), s.array([1], dt.int32))
    yield "C1", s(s.tensor(3, 3), s.array([1, 2], dt.int32))
