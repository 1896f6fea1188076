"""Joining and splitting tensors: concat, stack, split, unbind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.diag.limits import check
from pirkit.dialect.kinds import KEEPS_SIGN, MOVEMENT, VIEW
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import add_dims, normalize_axis, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

KIND = MOVEMENT

Sizes = Sequence[int | None] | None


@op
class Concat:
    """The tensors of a list one after the other along `axis`.

    C1: the list is not empty.
    C2: `axis` names a dimension.
    C3: all have the same rank and dtype, and agree in every dimension but `axis`.
    """

    name = "pd_op.concat"
    traits = (KEEPS_SIGN,)
    signature = "x[], axis: i32 = 0 -> out"
    dtypes = dt.ANY


@infer_meta(Concat)
def _(x: VecMeta, *, axis: int | None) -> TensorMeta:
    require(len(x) > 0, "C1", "there is nothing to concatenate")
    first = x.items[0]
    if axis is None:
        return first.with_shape((UNKNOWN,) * first.rank)
    require(first.rank > 0, "C2", "a tensor without dimensions has no axis")
    at = normalize_axis(axis, first.rank, "C2")
    dims = list(first.shape)
    for item in x.items[1:]:
        agree = (
            item.rank == first.rank
            and item.dtype is first.dtype
            and all(i == at or same_dim(dims[i], d) for i, d in enumerate(item.shape))
        )
        message = f"{first} and {item} do not concatenate along {axis}"
        help = "they have as many axes, and equal sizes but along that one: `reshape` adds axes"
        require(agree, "C3", message, help=help)
        for i, d in enumerate(item.shape):
            dims[i] = add_dims(dims[i], d) if i == at else max(dims[i], d)
    return first.with_shape(dims)


@reference(Concat)
def _(x: Sequence[Array], *, axis: int) -> Array:
    return np.concatenate(x, axis=axis)


@op
class Stack:
    """The tensors of a list along a new dimension `axis`.

    C1: the list is not empty.
    C2: `axis` lies in the result.
    C3: all have the same dtype and shape.
    """

    name = "pd_op.stack"
    signature = "x[] ; axis: i32 = 0 -> out"
    dtypes = dt.ANY


@infer_meta(Stack)
def _(x: VecMeta, *, axis: int) -> TensorMeta:
    require(len(x) > 0, "C1", "there is nothing to stack")
    first = x.items[0]
    rank = first.rank + 1
    require(-rank <= axis < rank, "C2", f"axis {axis} is out of range for a result of rank {rank}")
    dims = list(first.shape)
    for item in x.items[1:]:
        agree = (
            item.rank == first.rank
            and item.dtype is first.dtype
            and all(map(same_dim, dims, item.shape))
        )
        require(agree, "C3", f"{first} and {item} do not stack")
        dims = [max(a, b) for a, b in zip(dims, item.shape, strict=True)]
    dims.insert(axis + rank if axis < 0 else axis, len(x))
    return first.with_shape(dims)


@reference(Stack)
def _(x: Sequence[Array], *, axis: int) -> Array:
    return np.stack(x, axis=axis)


def _parts(part: TensorMeta, count: int) -> VecMeta:
    """A list of equal parts; LimitError for more than `list_elements` of them."""
    check("list_elements", count)
    return VecMeta((part,) * count)


@op
class Split:
    """`x` split along `axis` into parts of the sizes `sections`, of which one may be -1.

    C1: `axis` names a dimension of `x`.
    C2: the sizes add up to the dimension, and at most one is -1.
    """

    name = "pd_op.split"
    kind = VIEW
    signature = "x, sections: intarray, axis: i32 -> out[]"
    dtypes = dt.ANY


@infer_meta(Split)
def _(x: TensorMeta, *, sections: Sizes, axis: int | None) -> VecMeta:
    require(x.rank > 0, "C1", "a tensor without dimensions has no axis")
    if sections is None:
        return VecMeta((x.with_shape((UNKNOWN,) * x.rank),))
    if axis is None:
        return VecMeta(tuple(x.with_shape((UNKNOWN,) * x.rank) for _ in sections))
    at = normalize_axis(axis, x.rank)
    sizes = _sections(x.shape[at], sections)
    return VecMeta(tuple(x.with_shape((*x.shape[:at], d, *x.shape[at + 1 :])) for d in sizes))


def _sections(total: int, sections: Sequence[int | None]) -> list[int]:
    sizes = [UNKNOWN if d is None else d for d in sections]
    if None in sections:
        return sizes
    require(sizes.count(-1) < 2, "C2", f"sections {sizes} hold -1 twice")
    require(min(sizes, default=0) >= -1, "C2", f"sections {sizes} hold a negative size")
    rest = sum(d for d in sizes if d != -1)
    if total == UNKNOWN:
        return sizes
    fits = rest <= total if -1 in sizes else rest == total
    require(fits, "C2", f"sections {sizes} do not add up to {total}")
    return [total - rest if d == -1 else d for d in sizes]


@reference(Split)
def _(x: Array, *, sections: Sequence[int], axis: int) -> list[Array]:
    sizes = _sections(x.shape[axis], sections)
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


@op
class SplitWithNum:
    """`x` split along `axis` into `num` equal parts.

    C1: `axis` names a dimension of `x`.
    C2: `num` is positive and divides the dimension.
    """

    name = "pd_op.split_with_num"
    kind = VIEW
    signature = "x, axis: i32 ; num: i32 -> out[]"
    dtypes = dt.ANY


@infer_meta(SplitWithNum)
def _(x: TensorMeta, *, axis: int | None, num: int) -> VecMeta:
    require(x.rank > 0, "C1", "a tensor without dimensions has no axis")
    require(num > 0, "C2", f"num is {num}")
    if axis is None:
        return _parts(x.with_shape((UNKNOWN,) * x.rank), num)
    at = normalize_axis(axis, x.rank)
    size = x.shape[at]
    require(size == UNKNOWN or size % num == 0, "C2", f"{num} does not divide {size}")
    piece = UNKNOWN if size == UNKNOWN else size // num
    return _parts(x.with_shape((*x.shape[:at], piece, *x.shape[at + 1 :])), num)


@reference(SplitWithNum)
def _(x: Array, *, axis: int, num: int) -> list[Array]:
    require(x.shape[axis] % num == 0, "C2", f"{num} does not divide {x.shape[axis]}")
    return np.split(x, num, axis=axis)


@op
class Unbind:
    """The slices of `input` along `axis`, which goes.

    C1: `axis` names a dimension of `input` whose size is known.
    """

    name = "pd_op.unbind"
    kind = VIEW
    signature = "input ; axis: i32 = 0 -> out[]"
    dtypes = dt.ANY


@infer_meta(Unbind)
def _(input: TensorMeta, *, axis: int) -> VecMeta:
    require(input.rank > 0, "C1", "a tensor without dimensions has no axis")
    at = normalize_axis(axis, input.rank)
    count = input.shape[at]
    require(count != UNKNOWN, "C1", f"dimension {axis} of {show(input.shape)} is unknown")
    piece = input.with_shape((*input.shape[:at], *input.shape[at + 1 :]))
    return _parts(piece, count)


@reference(Unbind)
def _(input: Array, *, axis: int) -> list[Array]:
    return list(np.moveaxis(input, axis, 0))


@op
class Unstack:
    """The slices of `x` along `axis`, which goes; `num` says how many there are.

    C1: `axis` names a dimension of `x`.
    C2: `num` is the size of that dimension, and not negative.
    """

    name = "pd_op.unstack"
    kind = VIEW
    signature = "x ; axis: i32 = 0, num: i32 = 0 -> out[]"
    dtypes = dt.ANY


@infer_meta(Unstack)
def _(x: TensorMeta, *, axis: int, num: int) -> VecMeta:
    require(x.rank > 0, "C1", "a tensor without dimensions has no axis")
    at = normalize_axis(axis, x.rank)
    fits = num >= 0 and same_dim(num, x.shape[at])
    require(fits, "C2", f"num is {num} for dimension {axis} of {show(x.shape)}")
    return _parts(x.with_shape((*x.shape[:at], *x.shape[at + 1 :])), num)


@reference(Unstack)
def _(x: Array, *, axis: int, num: int) -> list[Array]:
    require(x.shape[axis] == num, "C2", f"num is {num} for dimension {axis} of {show(x.shape)}")
    return list(np.moveaxis(x, axis, 0))


# --- samples -------------------------------------------------------------------------------------


@samples(Concat)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(2, 3), s.tensor(1, 3)], axis=0)
    yield s([s.tensor(2, 3), s.tensor(2, 0), s.tensor(2, 1)], axis=-1)
    yield s([s.tensor(4)], axis=0)


@samples(Stack)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(2, 3), s.tensor(2, 3)], axis=0)
    yield s([s.tensor(2, 3), s.tensor(2, 3)], axis=-1)
    yield s([s.tensor(), s.tensor()], axis=0)


@samples(Split)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 6), sections=(1, 2, 3), axis=1)
    yield s(s.tensor(4, 2), sections=(1, -1), axis=-2)
    yield s(s.tensor(3), sections=(3,), axis=0)


@samples(SplitWithNum)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 6), num=3, axis=1)
    yield s(s.tensor(4, 2), num=2, axis=0)
    yield s(s.tensor(0, 2), num=2, axis=0)


@samples(Unbind)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), axis=0)
    yield s(s.tensor(2, 3), axis=-1)


@samples(Unstack)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), axis=0, num=2)
    yield s(s.tensor(2, 3), axis=-1, num=3)


@bad_samples(Concat)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([], axis=0)
    yield "C2", s([s.tensor(2, 3)], axis=2)
    yield "C3", s([s.tensor(2, 3), s.tensor(2, 4)], axis=0)


@bad_samples(Stack)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([], axis=0)
    yield "C2", s([s.tensor(2, 3)], axis=3)
    yield "C3", s([s.tensor(2, 3), s.tensor(2, 4)], axis=0)


@bad_samples(Split)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), sections=(1, 2), axis=2)
    yield "C1", s(s.tensor(), sections=(1,), axis=0)
    yield "C2", s(s.tensor(2, 3), sections=(1, 1), axis=1)
    yield "C2", s(s.tensor(2, 3), sections=(-1, -1), axis=1)
    yield "C2", s(s.tensor(2, 3), sections=(-2, 5), axis=1)


@bad_samples(SplitWithNum)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), num=1, axis=2)
    yield "C1", s(s.tensor(), num=1, axis=0)
    yield "C2", s(s.tensor(2, 3), num=2, axis=1)


@bad_samples(Unbind)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2)


@bad_samples(Unstack)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2, num=2)
    yield "C2", s(s.tensor(2, 3), axis=0, num=3)
