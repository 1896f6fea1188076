"""Views with another shape or axis order: reshape, transpose, squeeze, expand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from pirkit.dialect.kinds import KEEPS_SIGN, RESHAPE, VIEW
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import (
    mul_dims,
    normalize_axes,
    normalize_axis,
    numel,
    requested,
    same_dim,
    show,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = VIEW

Sizes = Sequence[int | None] | None


@op
class Reshape:
    """The elements of `x` in a new shape; 0 keeps the dimension of `x`, one -1 takes the rest.

    If `x` has no elements, a 0 is the size 0. A -1 beside as many zeros as `x` has is then the
    quotient of the sizes other than 0, and beside more or fewer zeros it is 0.

    C1: `shape` holds no size below -1.
    C2: `shape` holds -1 at most once.
    C3: a 0 stands for a dimension that `x` has, unless an unknown size of `x` may be 0.
    C4: the number of elements stays.
    """

    name = "pd_op.reshape"
    traits = (KEEPS_SIGN, RESHAPE)
    signature = "x, shape: intarray -> out"
    dtypes = dt.ANY
    inplace = {"out": "x"}


@infer_meta(Reshape)
def _(x: TensorMeta, *, shape: Sizes) -> TensorMeta:
    if shape is None:
        return x.with_shape(requested(shape))
    return x.with_shape(reshaped(x.shape, shape))


def _require_fit(fits: bool, old: tuple[int, ...], shape: Sequence[int | None]) -> None:
    message = f"{show(old)} does not fit in {list(shape)}"
    require(fits, "C4", message, help=f"there are {numel(old)} elements; -1 takes what is left")


def reshaped(old: tuple[int, ...], shape: Sequence[int | None]) -> tuple[int, ...]:
    """The sizes that a shape asks of a tensor.

    Raises ConstraintError (C2, C3, C4) if the elements do not fit.
    """
    sizes = list(requested(shape, least=-1))
    known = None not in shape
    require(not known or sizes.count(-1) < 2, "C2", f"shape {list(shape)} holds -1 twice")
    if 0 not in old:
        for i, d in enumerate(sizes):
            if d == 0 and (i < len(old) or UNKNOWN not in old):
                require(i < len(old), "C3", f"size {i} of {list(shape)} is 0, {show(old)} ends")
                sizes[i] = old[i]
    total = numel(old)
    if not known or total == UNKNOWN:
        return tuple(sizes)
    rest = prod(d for d in sizes if d != -1)
    if -1 in sizes and rest == 0 and sizes.count(0) == old.count(0):
        rest, total = prod(d for d in sizes if d > 0), prod(d for d in old if d)
        _require_fit(total % rest == 0, old, shape)
        return tuple([total // rest if d == -1 else d for d in sizes])
    if -1 in sizes:
        fits = rest != 0 and total % rest == 0
        _require_fit(fits or total == 0, old, shape)
        sizes[sizes.index(-1)] = total // rest if rest else 0
    _require_fit(prod(sizes) == total, old, shape)
    return tuple(sizes)


@reference(Reshape)
def _(x: Array, *, shape: Sequence[int]) -> Array:
    return x.reshape(reshaped(x.shape, shape))


@op
class Transpose:
    """The dimensions of `x` in the order `perm`.

    C1: `perm` names every dimension of `x` once.
    """

    name = "pd_op.transpose"
    traits = (KEEPS_SIGN,)
    signature = "x ; perm: i32[] -> out"
    dtypes = dt.ANY
    inplace = {"out": "x"}


@infer_meta(Transpose)
def _(x: TensorMeta, *, perm: Sequence[int]) -> TensorMeta:
    count = f"perm {list(perm)} has {len(perm)} entries for rank {x.rank}"
    require(len(perm) == x.rank, "C1", count)
    order = normalize_axes(perm, x.rank, what="perm") if perm else ()
    return x.with_shape(x.shape[i] for i in order)


@reference(Transpose)
def _(x: Array, *, perm: Sequence[int]) -> Array:
    return x.transpose(perm) if x.ndim else x


@op
class Squeeze:
    """`x` without the dimensions `axis` of size 1; all of size 1 if `axis` is empty.

    With an empty `axis`, a dimension that is unknown is taken to be another than 1, as in Paddle.

    C1: each axis names a dimension of `x`.
    """

    name = "pd_op.squeeze"
    traits = (RESHAPE,)
    signature = "x, axis: intarray = [] -> out"
    dtypes = dt.ANY
    inplace = {"out": "x"}


@infer_meta(Squeeze)
def _(x: TensorMeta, *, axis: Sizes) -> TensorMeta:
    if axis is None or None in axis:
        known = 0 if axis is None else len(axis)
        return x.with_shape((UNKNOWN,) * max(x.rank - known, 0))
    gone = _squeezed(x.shape, [a for a in axis if a is not None])
    return x.with_shape(d for i, d in enumerate(x.shape) if i not in gone)


def _squeezed(shape: tuple[int, ...], axis: Sequence[int]) -> set[int]:
    """Dimensions to drop; a named one that is unknown is taken to be 1, as in Paddle."""
    if not axis:
        return {i for i, d in enumerate(shape) if d == 1}
    named = {normalize_axis(a, max(len(shape), 1)) for a in axis}  # a 0-D tensor has axes 0 and -1
    return {i for i in named if i < len(shape) and shape[i] in (1, UNKNOWN)}


@reference(Squeeze)
def _(x: Array, *, axis: Sequence[int]) -> Array:
    return np.squeeze(x, axis=tuple(_squeezed(x.shape, axis)))


@op
class Unsqueeze:
    """`x` with dimensions of size 1 put in at `axis`, one after the other.

    C1: each axis lies in the tensor as it has become by then.
    """

    name = "pd_op.unsqueeze"
    traits = (RESHAPE,)
    signature = "x, axis: intarray = [] -> out"
    dtypes = dt.ANY
    inplace = {"out": "x"}


@infer_meta(Unsqueeze)
def _(x: TensorMeta, *, axis: Sizes) -> TensorMeta:
    if axis is None or None in axis:
        return x.with_shape((UNKNOWN,) * (x.rank + (1 if axis is None else len(axis))))
    return x.with_shape(_unsqueezed(x.shape, [a for a in axis if a is not None]))


def _unsqueezed(shape: tuple[int, ...], axis: Sequence[int]) -> tuple[int, ...]:
    out = list(shape)
    for a in axis:
        rank = len(out) + 1
        require(-rank <= a < rank, "C1", f"axis {a} is out of range for {show(out)}")
        out.insert(a + rank if a < 0 else a, 1)
    return tuple(out)


@reference(Unsqueeze)
def _(x: Array, *, axis: Sequence[int]) -> Array:
    return x.reshape(_unsqueezed(x.shape, axis))


@op
class Flatten:
    """`x` with the dimensions `start_axis` to `stop_axis` made one.

    C1: both axes name a dimension of `x`.
    C2: `start_axis` does not come after `stop_axis`.
    """

    name = "pd_op.flatten"
    traits = (KEEPS_SIGN, RESHAPE)
    signature = "x ; start_axis: i32 = 1, stop_axis: i32 = 1 -> out"
    dtypes = dt.ANY
    inplace = {"out": "x"}


@infer_meta(Flatten)
def _(x: TensorMeta, *, start_axis: int, stop_axis: int) -> TensorMeta:
    return x.with_shape(_flattened(x.shape, start_axis, stop_axis))


def _flattened(shape: tuple[int, ...], start_axis: int, stop_axis: int) -> tuple[int, ...]:
    start = normalize_axis(start_axis, len(shape), what="start_axis")
    stop = normalize_axis(stop_axis, len(shape), what="stop_axis")
    require(start <= stop, "C2", f"start_axis {start} is after stop_axis {stop}")
    if not shape:
        return (1,)
    return (*shape[:start], mul_dims(*shape[start : stop + 1]), *shape[stop + 1 :])


@reference(Flatten)
def _(x: Array, *, start_axis: int, stop_axis: int) -> Array:
    return x.reshape(_flattened(x.shape, start_axis, stop_axis))


@op
class Expand:
    """`x` broadcast to `shape`; -1 keeps the dimension of `x`.

    C1: `shape` has at least as many sizes as `x` has dimensions.
    C2: a size equals the dimension of `x`, or that is 1.
    C3: a size that is -1 stands for a dimension of `x`.
    """

    name = "pd_op.expand"
    signature = "x, shape: intarray = [] -> out"
    dtypes = dt.ANY


@infer_meta(Expand)
def _(x: TensorMeta, *, shape: Sizes) -> TensorMeta:
    if shape is None:
        return x.with_shape((UNKNOWN,) * max(x.rank, 1))
    return x.with_shape(_expanded(x.shape, shape))


def _expanded(old: tuple[int, ...], shape: Sequence[int | None]) -> tuple[int, ...]:
    lead = len(shape) - len(old)
    require(lead >= 0, "C1", f"{show(old)} has more dimensions than {list(shape)}")
    out: list[int] = []
    for i, size in enumerate(shape):
        have = old[i - lead] if i >= lead else 1
        if size is None:
            out.append(UNKNOWN if have in (1, UNKNOWN) else have)
        elif size == -1:
            require(i >= lead, "C3", f"size {i} of {list(shape)} is -1 but new")
            out.append(have)
        else:
            fits = size >= 0 and (have == 1 or same_dim(have, size))
            require(fits, "C2", f"{show(old)} does not broadcast to {list(shape)}")
            out.append(size)
    return tuple(out)


@reference(Expand)
def _(x: Array, *, shape: Sequence[int]) -> Array:
    return np.broadcast_to(x, _expanded(x.shape, shape))


@op
class ExpandAs:
    """`x` broadcast to the shape of `y`, or to `target_shape`.

    C1: `x` has no more dimensions than the target.
    C2: each dimension of `x` is that of the target, or 1.
    """

    name = "pd_op.expand_as"
    signature = "x, y? ; target_shape: i64[] = [] -> out"
    dtypes = dt.ANY
    reads_meta_only = ("y",)


@infer_meta(ExpandAs)
def _(x: TensorMeta, y: TensorMeta | None, *, target_shape: Sequence[int]) -> TensorMeta:
    target = tuple(target_shape) if y is None else y.shape
    sizes = [None if d == UNKNOWN else d for d in target]
    return x.with_shape(_expanded(x.shape, sizes))


@reference(ExpandAs)
def _(x: Array, y: Array | None, *, target_shape: Sequence[int]) -> Array:
    return np.broadcast_to(x, _expanded(x.shape, target_shape if y is None else y.shape))


# --- samples -------------------------------------------------------------------------------------


@samples(Reshape)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), shape=(4, 6))
    yield s(s.tensor(2, 3, 4), shape=(0, -1))
    yield s(s.tensor(2, 3), shape=(-1,))
    yield s(s.tensor(), shape=(1, 1))
    yield s(s.tensor(1), shape=())
    yield s(s.tensor(0, 3), shape=(0, 3, 1))


@samples(Transpose)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), perm=(2, 0, 1))
    yield s(s.tensor(2, 3), perm=(-1, 0))
    yield s(s.tensor(), perm=())
    yield s(s.tensor(0, 3), perm=(1, 0))


@samples(Squeeze)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(1, 3, 1), axis=(0,))
    yield s(s.tensor(2, 3), axis=())
    yield s(s.tensor(1, 3, 1), axis=(0, -1))
    yield s(s.tensor(1), axis=(0,))
    yield s(s.tensor(1, 0), axis=(0,))


@samples(Unsqueeze)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), axis=(0,))
    yield s(s.tensor(2, 3), axis=(-1, 0))
    yield s(s.tensor(), axis=(0, 1))
    yield s(s.tensor(0, 3), axis=(1,))


@samples(Flatten)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), start_axis=1, stop_axis=2)
    yield s(s.tensor(2, 3, 4), start_axis=0, stop_axis=-1)
    yield s(s.tensor(), start_axis=0, stop_axis=-1)
    yield s(s.tensor(0, 3), start_axis=0, stop_axis=1)


@samples(Expand)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 1), shape=(3, 4))
    yield s(s.tensor(3), shape=(2, -1))
    yield s(s.tensor(), shape=(2, 2))
    yield s(s.tensor(1, 3), shape=(0, 3))


@samples(ExpandAs)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 1), s.tensor(3, 4))
    yield s(s.tensor(3), s.tensor(2, 3), target_shape=(2, 3))
    yield s(s.tensor(3), None, target_shape=(2, 3))


@bad_samples(Reshape)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), shape=(-2, 3))
    yield "C2", s(s.tensor(2, 3), shape=(-1, -1))
    yield "C3", s(s.tensor(6), shape=(6, 0))
    yield "C4", s(s.tensor(2, 3), shape=(4, -1))
    yield "C4", s(s.tensor(2, 3), shape=(7,))


@bad_samples(Transpose)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), perm=(0,))
    yield "C1", s(s.tensor(2, 3), perm=(0, 0))


@bad_samples(Squeeze)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(1, 3), axis=(2,))


@bad_samples(Unsqueeze)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(3,))


@bad_samples(Flatten)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), start_axis=0, stop_axis=2)
    yield "C2", s(s.tensor(2, 3), start_axis=1, stop_axis=0)


@bad_samples(Expand)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), shape=(3,))
    yield "C2", s(s.tensor(2, 3), shape=(2, 4))
    yield "C2", s(s.tensor(1, 3), shape=(-2, 3))
    yield "C3", s(s.tensor(3), shape=(-1, 3))


@bad_samples(ExpandAs)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(3))
    yield "C2", s(s.tensor(2, 3), s.tensor(2, 4))
