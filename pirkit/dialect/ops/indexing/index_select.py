"""Rows added at indices, rows selected between tensors, indices of one shard."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axis, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.indexing import check_index
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

KIND = "gather"


@op
class IndexAdd:
    """`x` with the slices of `add_value` added at `index` along `axis`; repeated ones add up.

    Refuses at run time an index outside of the dimension.

    C1: `axis` names a dimension of `x`.
    C2: `index` is 1-D, of int32 or int64.
    C3: `add_value` has a slice of `x` for each index.
    """

    name = "pd_op.index_add"
    same_dtype = ("x", "add_value")
    signature = "x, index, add_value ; axis: i32 = 0 -> out"
    dtypes = dt.REAL
    inplace = {"out": "x"}


@infer_meta(IndexAdd)
def _(x: TensorMeta, index: TensorMeta, add_value: TensorMeta, *, axis: int) -> TensorMeta:
    require(x.rank > 0, "C1", "a tensor without dimensions has no axis")
    at = normalize_axis(axis, x.rank)
    require(index.rank == 1 and index.dtype in dt.INTS, "C2", f"{index} is no list of indices")
    wanted = (*x.shape[:at], index.shape[0], *x.shape[at + 1 :])
    given = add_value.shape
    fits = len(given) == len(wanted) and all(map(same_dim, given, wanted))
    require(fits, "C3", f"{show(given)} is added to slices {show(wanted)}")
    return x


@reference(IndexAdd)
def _(x: Array, index: Array, add_value: Array, *, axis: int) -> Array:
    size = x.shape[axis]
    if index.size and not (index.min() >= -size and index.max() < size):
        raise RuntimeFault(f"index_add: an index is outside [-{size}, {size})")
    out = widened(x).copy()
    np.add.at(np.moveaxis(out, axis, 0), index, np.moveaxis(widened(add_value), axis, 0))
    return out.astype(x.dtype)


@samples(IndexAdd)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 2), s.array([0, 0, 2], dt.int64), s.tensor(3, 2))
    yield s(s.tensor(2, 3), s.array([2, 1], dt.int32), s.tensor(2, 2), axis=-1)


@bad_samples(IndexAdd)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4, 2), s.array([0], dt.int64), s.tensor(1, 2), axis=2)
    yield "C1", s(s.tensor(), s.array([0], dt.int64), s.tensor(1))
    yield "C2", s(s.tensor(4, 2), s.tensor(1, dtype=dt.float32), s.tensor(1, 2))
    yield "C3", s(s.tensor(4, 2), s.array([0], dt.int64), s.tensor(2, 2))


@op
class ShardIndex:
    """Indices within the shard `shard_id`; `ignore_value` for indices of other shards.

    C1: `input` is an integer tensor.
    C2: `shard_id` is one of `nshards`.
    C3: each index lies in `[0, index_num)`.
    """

    name = "pd_op.shard_index"
    signature = "input ; index_num: i32, nshards: i32, shard_id: i32, ignore_value: i32 = -1 -> out"
    dtypes = dt.INTS
    domain = (0.0, 19.0)


@infer_meta(ShardIndex)
def _(input: TensorMeta, *, nshards: int, shard_id: int, **_: int) -> TensorMeta:
    require(input.dtype.is_integer, "C1", f"indices of dtype {input.dtype}")
    require(0 <= shard_id < nshards, "C2", f"no shard {shard_id} of {nshards}")
    return input


@reference(ShardIndex)
def _(input: Array, *, index_num: int, nshards: int, shard_id: int, ignore_value: int) -> Array:
    check_index(input, index_num, "C3", from_end=False)
    size, dtype, input = -(-index_num // nshards), input.dtype, input.astype(np.int64)
    return np.where(input // size == shard_id, input % size, ignore_value).astype(dtype)


@samples(ShardIndex)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 1), index_num=20, nshards=2, shard_id=0)
    yield s(s.tensor(4, 1), index_num=21, nshards=2, shard_id=1, ignore_value=-7)


@bad_samples(ShardIndex)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4, 1, dtype=dt.float32), index_num=20, nshards=2, shard_id=0)
    yield "C2", s(s.tensor(4, 1), index_num=20, nshards=2, shard_id=2)
    yield "C3", s(s.array([20], dt.int64), index_num=20, nshards=2, shard_id=1)


@op
class Multiplex:
    """Row i of the result is row i of the tensor that `index` names for it.

    Refuses at run time an index without a tensor.

    C1: there are tensors, all of one shape of at least two dimensions, and of one dtype.
    C2: `index` has one column, and no more rows than the tensors.
    """

    name = "pd_op.multiplex"
    signature = "inputs[], index -> out"
    dtypes = (dt.float32, dt.float64, dt.int32, dt.int64)
    operand_dtypes = {"index": dt.INTS}


@infer_meta(Multiplex)
def _(inputs: VecMeta, index: TensorMeta) -> TensorMeta:
    items = inputs.items
    all_equal = bool(items) and all(
        i.rank == items[0].rank >= 2
        and i.dtype is items[0].dtype
        and all(map(same_dim, i.shape, items[0].shape))
        for i in items
    )
    require(all_equal, "C1", "the tensors differ in shape or dtype, or are no rows")
    column = index.rank == 2 and same_dim(index.shape[1], 1)
    height = items[0].shape[0]
    rows = column and (height == UNKNOWN or index.shape[0] <= height)
    require(rows, "C2", f"index {show(index.shape)} for rows of {show(items[0].shape)}")
    return items[0].with_shape((index.shape[0], *items[0].shape[1:]))


@reference(Multiplex)
def _(inputs: list[Array], index: Array) -> Array:
    which = index[:, 0].astype(np.int64)  # bools would be a mask
    if which.size and not (which.min() >= 0 and which.max() < len(inputs)):
        raise RuntimeFault(f"multiplex: an index is outside [0, {len(inputs)})")
    return np.stack(inputs)[which, np.arange(len(which))]


@samples(Multiplex)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(3, 2), s.tensor(3, 2)], s.array([[1], [0], [1]], dt.int32))
    yield s([s.tensor(3, 2), s.tensor(3, 2)], s.array([[1], [0]], dt.int32))


@bad_samples(Multiplex)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([s.tensor(3, 2), s.tensor(3, 3)], s.array([[1]], dt.int32))
    yield "C1", s([s.tensor(3, 2), s.tensor(3, 2, dtype=dt.int8)], s.array([[1]], dt.int32))
    yield "C2", s([s.tensor(3, 2), s.tensor(3, 2)], s.array([1], dt.int32))
