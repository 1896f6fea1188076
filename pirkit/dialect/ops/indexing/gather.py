"""Gathers: reads at computed indices, by element, by coordinates, or by a mask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, normalize_axis, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.indexing import check_index
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "gather"


@op
class GatherNd:
    """The parts of `x` at the coordinates in the last dimension of `index`.

    C1: `index` has a dimension, the last no longer than the rank of `x`, of int32 or int64.
    C2: each coordinate lies in its dimension.
    """

    name = "pd_op.gather_nd"
    signature = "x, index -> out"
    dtypes = dt.ANY


@infer_meta(GatherNd)
def _(x: TensorMeta, index: TensorMeta) -> TensorMeta:
    depth = index.shape[-1] if index.rank else UNKNOWN
    fits = index.rank > 0 and index.dtype in dt.INTS and depth <= x.rank
    require(fits, "C1", f"index is a {index} for a tensor of rank {x.rank}")
    require(depth != UNKNOWN, "C1", f"the last dimension of {show(index.shape)} is unknown")
    return x.with_shape((*index.shape[:-1], *x.shape[depth:]))


@reference(GatherNd)
def _(x: Array, index: Array) -> Array:
    depth = index.shape[-1]
    if depth == 0:
        return np.broadcast_to(x, (*index.shape[:-1], *x.shape))
    coordinates = tuple(np.moveaxis(index, -1, 0))
    for size, places in zip(x.shape, coordinates, strict=False):
        check_index(places, size, "C2")
    return np.asarray(x[coordinates])


@op
class IndexSample:
    """From each row of `x` the elements at the indices in that row of `index`.

    C1: `x` and `index` are matrices with as many rows, `index` of int32 or int64.
    C2: each index lies in `[0, columns)`.
    """

    name = "pd_op.index_sample"
    signature = "x, index -> out"
    dtypes = dt.ANY


@infer_meta(IndexSample)
def _(x: TensorMeta, index: TensorMeta) -> TensorMeta:
    fits = x.rank == 2 and index.rank == 2 and same_dim(x.shape[0], index.shape[0])
    require(fits and index.dtype in dt.INTS, "C1", f"x is a {x}, index a {index}")
    return x.with_shape(index.shape)


@reference(IndexSample)
def _(x: Array, index: Array) -> Array:
    check_index(index, x.shape[1], "C2", from_end=False)
    return np.take_along_axis(x, index, axis=1)


@op
class TakeAlongAxis:
    """The elements of `arr` whose place along `axis` is in `indices`, element by element.

    C1: `axis` names a dimension of `arr`.
    C2: `indices` has the rank of `arr`, and int32 or int64.
    C3: each index lies in `[-size, size)`.
    """

    name = "pd_op.take_along_axis"
    signature = "arr, indices ; axis: i32 -> out"
    dtypes = dt.ANY


@infer_meta(TakeAlongAxis)
def _(arr: TensorMeta, indices: TensorMeta, *, axis: int) -> TensorMeta:
    normalize_axis(axis, arr.rank)
    fits = arr.rank == indices.rank and indices.dtype in dt.INTS
    require(fits, "C2", f"indices are a {indices} for a tensor of rank {arr.rank}")
    return arr.with_shape(indices.shape)


@reference(TakeAlongAxis)
def _(arr: Array, indices: Array, *, axis: int) -> Array:
    if arr.ndim == 0:
        return arr
    check_index(indices, arr.shape[axis], "C3")
    grid: list[Array] = [*cast("tuple[Array, ...]", np.indices(indices.shape, sparse=True))]
    grid[axis] = indices
    return np.asarray(arr[tuple(grid)])


@op
class MaskedSelect:
    """The elements of `x` where `mask` holds, in row-major order.

    C1: `mask` is bool.
    C2: `x` and `mask` broadcast.
    """

    name = "pd_op.masked_select"
    signature = "x, mask -> out"
    dtypes = dt.ANY


@infer_meta(MaskedSelect)
def _(x: TensorMeta, mask: TensorMeta) -> TensorMeta:
    require(mask.dtype is dt.bool_, "C1", f"mask is a {mask}")
    broadcast(x.shape, mask.shape, constraint="C2")
    return x.with_shape((UNKNOWN,))


@reference(MaskedSelect)
def _(x: Array, mask: Array) -> Array:
    values, chosen = (x, mask) if x.shape == mask.shape else np.broadcast_arrays(x, mask)
    return values[chosen]


@op
class NonZero:
    """The coordinates of the elements of `condition` that are not zero, one row each.

    C1: `condition` has at least one dimension.
    """

    name = "pd_op.nonzero"
    signature = "condition -> out"
    dtypes = dt.ANY


@infer_meta(NonZero)
def _(condition: TensorMeta) -> TensorMeta:
    require(condition.rank > 0, "C1", "a tensor without dimensions has no coordinates")
    return TensorMeta((UNKNOWN, condition.rank), dt.int64)


@reference(NonZero)
def _(condition: Array) -> Array:
    return np.array(condition.nonzero(), np.int64).T


# --- samples -------------------------------------------------------------------------------------


@samples(GatherNd)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(3, 4)
    yield s(x, s.array([[0, -1], [2, 0]], dt.int64))
    yield s(x, s.array([[[1]], [[0]]], dt.int32))
    yield s(x, s.array([1], dt.int64))
    yield s(x, s.ints((2, 0), 0, 1))


@samples(IndexSample)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4), s.ints((3, 2), 0, 4))
    yield s(s.tensor(2, 3), s.ints((2, 5), 0, 3, dt.int32))


@samples(TakeAlongAxis)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4), s.array([[-1, 0]], dt.int64), axis=1)
    yield s(s.tensor(3, 4), s.ints((2, 4), 0, 3), axis=0)
    yield s(s.tensor(2, 3, 4), s.ints((2, 3, 1), 0, 4, dt.int32), axis=2)


@samples(MaskedSelect)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4), s.bools(3, 4))
    yield s(s.tensor(3, 4), s.bools(4))


@samples(NonZero)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4))
    yield s(s.array([0, 1, 0]))
    yield s(s.tensor(0, 2))


@bad_samples(GatherNd)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(3, 4)
    yield "C1", s(x, s.array([[0, 0, 0]], dt.int64))
    yield "C2", s(x, s.array([[0, 4]], dt.int64))


@bad_samples(IndexSample)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, 4), s.ints((2, 2), 0, 4))
    yield "C2", s(s.tensor(3, 4), s.array([[0], [4], [0]], dt.int64))


@bad_samples(TakeAlongAxis)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    arr = s.tensor(3, 4)
    yield "C1", s(arr, s.array([[0]], dt.int64), axis=2)
    yield "C2", s(arr, s.array([0], dt.int64), axis=0)
    yield "C3", s(arr, s.array([[4]], dt.int64), axis=1)


@bad_samples(MaskedSelect)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3), s.ints((3,), 0, 2))
    yield "C2", s(s.tensor(3), s.bools(4))


@bad_samples(NonZero)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor())
