"""Reductions to sums, means, products and truth values.

An empty list of axes means all of them. f16 and bf16 are summed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.ops.elementwise.unary import from_ints
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axes, reduced, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert, widened
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "reduction"

Axes = Sequence[int | None] | None


def axes_of(x: Array, axis: Sequence[int], reduce_all: bool = False) -> tuple[int, ...]:
    """The axes to reduce, counted from the front; all of them for an empty list."""
    if reduce_all or not axis:
        return tuple(range(x.ndim))
    return normalize_axes(axis, x.ndim) if x.ndim else ()


@op
class Sum:
    """Sum over `axis`, in `dtype` if it is given; bool and int32 are summed in int64.

    C1: each axis names a dimension of `x`, and none twice.
    """

    name = "pd_op.sum"
    library_ns = {"run": 14.0, "int32": 0.2, "int64": 0.15}
    combiner = "sum"
    signature = "x, axis: intarray = [] ; dtype: dtype = Undefined, keepdim: bool = False -> out"
    dtypes = dt.ANY
    reads_meta_only = ()


@infer_meta(Sum)
def _(x: TensorMeta, *, axis: Axes, dtype: DType | None, keepdim: bool) -> TensorMeta:
    return TensorMeta(reduced(x.shape, axis, keepdim), dtype or _sum_dtype(x.dtype))


def _sum_dtype(dtype: DType) -> DType:
    return dt.int64 if dtype in (dt.bool_, dt.int32) else dtype


@reference(Sum)
def _(x: Array, *, axis: Sequence[int], dtype: DType | None, keepdim: bool) -> Array:
    target = dtype or _sum_dtype(dt.of_array(x))
    wide = widened(convert(x, target))
    total = np.sum(wide, axis=axes_of(x, axis), keepdims=keepdim, dtype=wide.dtype)
    return np.asarray(total).astype(target.np)


@op
class Mean:
    """Mean over `axis`, in the dtype of `x`: integers truncate, of booleans it is whether any is.

    C1: each axis names a dimension of `x`, and none twice.
    """

    name = "pd_op.mean"
    signature = "x, axis: intarray = [] ; keepdim: bool = False -> out"
    dtypes = (*dt.NUMBERS, dt.bool_)


@op
class MeanAll:
    """Mean of all elements, 0-D."""

    name = "pd_op.mean_all"
    signature = "x -> out"
    dtypes = dt.FLOATS


@infer_meta(Mean)
def _(x: TensorMeta, *, axis: Axes, keepdim: bool) -> TensorMeta:
    return x.with_shape(reduced(x.shape, axis, keepdim))


@infer_meta(MeanAll)
def _(x: TensorMeta) -> TensorMeta:
    return x.with_shape(())


@reference(Mean)
def _(x: Array, *, axis: Sequence[int], keepdim: bool) -> Array:
    return _mean(x, axes_of(x, axis), keepdim)


@reference(MeanAll)
def _(x: Array) -> Array:
    return _mean(x, tuple(range(x.ndim)), False)


def _mean(x: Array, axes: tuple[int, ...], keepdim: bool) -> Array:
    if x.dtype == np.bool_:
        return np.asarray(np.any(x, axis=axes, keepdims=keepdim))
    count = prod(x.shape[a] for a in axes)
    if x.dtype.kind in "fcV":
        wide = widened(x)
        total = np.asarray(np.sum(wide, axis=axes, keepdims=keepdim, dtype=wide.dtype))
        return (total / wide.dtype.type(count)).astype(x.dtype)
    total = np.asarray(np.sum(x, axis=axes, keepdims=keepdim, dtype=np.float64))  # may leave int64
    return np.asarray(np.trunc(total / max(count, 1))).astype(x.dtype)


@op
class Prod:
    """Product over `axis`, or over all with `reduce_all`.

    C1: each axis names a dimension of `x`, and none twice.
    """

    name = "pd_op.prod"
    library_ns = {"run": 15.0, "float32": 0.35, "float64": 0.35}
    combiner = "prod"
    signature = "x, axis: intarray ; keepdim: bool, reduce_all: bool -> out"
    dtypes = dt.NUMBERS


@infer_meta(Prod)
def _(x: TensorMeta, *, axis: Axes, keepdim: bool, reduce_all: bool) -> TensorMeta:
    return x.with_shape(reduced(x.shape, () if reduce_all else axis, keepdim))


@reference(Prod)
def _(x: Array, *, axis: Sequence[int], keepdim: bool, reduce_all: bool) -> Array:
    wide = widened(x)
    axes = axes_of(x, axis, reduce_all)
    return np.asarray(np.prod(wide, axis=axes, keepdims=keepdim, dtype=wide.dtype)).astype(x.dtype)


class _Quantifier:
    """A truth value over `axis`.

    C1: each axis names a dimension of `x`, and none twice.
    """

    signature = "x ; axis: i64[] = [], keepdim: bool = False -> out"
    dtypes = (dt.bool_, *dt.REAL)


@op
class Any_(_Quantifier):
    """True where some element over `axis` is not zero.

    C1: each axis names a dimension of `x`, and none twice.
    """

    name = "pd_op.any"
    combiner = "max"


@op
class All(_Quantifier):
    """True where no element over `axis` is zero.

    C1: each axis names a dimension of `x`, and none twice.
    """

    name = "pd_op.all"
    combiner = "min"


@infer_meta(Any_, All)
def _(x: TensorMeta, *, axis: Axes, keepdim: bool) -> TensorMeta:
    return TensorMeta(reduced(x.shape, axis, keepdim), dt.bool_)


@paddle_meta(Any_, All)
def _(x: TensorMeta, *, axis: Axes, keepdim: bool) -> TensorMeta:
    return x.with_shape(reduced(x.shape, axis, keepdim))


@reference(Any_)
def _(x: Array, *, axis: Sequence[int], keepdim: bool) -> Array:
    return np.asarray(np.any(x != 0, axis=axes_of(x, axis), keepdims=keepdim))


@reference(All)
def _(x: Array, *, axis: Sequence[int], keepdim: bool) -> Array:
    return np.asarray(np.all(x != 0, axis=axes_of(x, axis), keepdims=keepdim))


@op
class LogSumExp:
    """Logarithm of the sum of exponentials over `axis`, stable for large elements.

    Integers enter as float32.

    C1: each axis names a dimension of `x`, and none twice.
    C2: `x` is not bool and not complex.
    """

    name = "pd_op.logsumexp"
    signature = "x ; axis: i32[] = [], keepdim: bool = False, reduce_all: bool = False -> out"
    dtypes = dt.REAL


@infer_meta(LogSumExp)
def _(x: TensorMeta, *, axis: Axes, keepdim: bool, reduce_all: bool) -> TensorMeta:
    require(x.dtype not in (dt.bool_, *dt.COMPLEX), "C2", f"{x} has no exponentials to add up")
    made = x if x.dtype in dt.FLOATS else x.with_dtype(dt.float32)
    return made.with_shape(reduced(x.shape, () if reduce_all else axis, keepdim))


@reference(LogSumExp)
@from_ints
def _(x: Array, *, axis: Sequence[int], keepdim: bool, reduce_all: bool) -> Array:
    axes = axes_of(x, axis, reduce_all)
    if not x.size:
        return np.log(np.sum(x, axis=axes, keepdims=keepdim))
    top = np.max(x, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)  # inf - inf would make NaN of an infinite sum
    total = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
    return total if keepdim else np.squeeze(total, axis=axes)


@op
class ReduceAs:
    """`x` summed to the shape of `target`, as `sum` does: the inverse of broadcasting.

    C1: `target` broadcasts to `x`.
    """

    name = "pd_op.reduce_as"
    signature = "x, target -> out"
    dtypes = dt.NUMBERS
    reads_meta_only = ("target",)


@infer_meta(ReduceAs)
def _(x: TensorMeta, target: TensorMeta) -> TensorMeta:
    tail = x.shape[x.rank - target.rank :] if target.rank else ()
    fits = target.rank <= x.rank and all(
        d == 1 or same_dim(d, s) for d, s in zip(target.shape, tail, strict=True)
    )
    require(fits, "C1", f"{show(target.shape)} does not broadcast to {show(x.shape)}")
    return TensorMeta(target.shape, _sum_dtype(x.dtype))


@reference(ReduceAs)
def _(x: Array, target: Array) -> Array:
    lead = x.ndim - target.ndim
    stretched = [lead + i for i, d in enumerate(target.shape) if d == 1 and x.shape[lead + i] != 1]
    out = _sum_dtype(dt.of_array(x))
    wide = widened(convert(x, out))
    total = np.sum(wide, axis=(*range(lead), *stretched), dtype=wide.dtype, keepdims=True)
    return np.asarray(total).reshape(target.shape).astype(out.np)


# --- samples -------------------------------------------------------------------------------------


@samples(Sum)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield from _reductions(s)
    yield s(s.tensor(2, 3), axis=(1,), dtype=dt.float64)


@samples(Mean, Any_, All)
def _reductions(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), axis=(0, -1))
    yield s(s.tensor(2, 3, 4), axis=(), keepdim=True)
    yield s(s.tensor(2, 3), axis=())
    yield s(s.tensor(), axis=(0,))
    yield s(s.tensor(0, 3), axis=(1,))


@samples(Prod)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), axis=(0, -1), keepdim=False, reduce_all=False)
    yield s(s.tensor(2, 3), axis=(0, 1), keepdim=True, reduce_all=True)
    yield s(s.tensor(0, 3), axis=(0,), keepdim=False, reduce_all=False)


@samples(LogSumExp)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4, low=-50, high=50), axis=(1,))
    yield s(s.tensor(2, 3), axis=(0, 1), keepdim=True, reduce_all=True)
    yield s(s.tensor(2, 3), axis=(-1,))
    yield s(s.tensor(), axis=(0,))


@samples(MeanAll)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor(4))


@samples(ReduceAs)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(3))
    yield s(s.tensor(2, 3), s.tensor(2, 1))
    yield s(s.tensor(2, 3), s.tensor())
    yield s(s.tensor(4, 2, 3), s.tensor(1, 2, 1))
    yield s(s.tensor(2, 3), s.tensor(2, 3))


@bad_samples(Sum, Mean, Any_, All)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(2,))
    yield "C1", s(s.tensor(2, 3), axis=(0, -2))


@bad_samples(LogSumExp)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(2,))
    yield "C2", s(s.bools(3))


@bad_samples(Prod)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(2,), keepdim=False, reduce_all=False)


@bad_samples(ReduceAs)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2))
