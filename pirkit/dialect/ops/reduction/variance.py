"""Variance, and sums that leave out NaN, as Paddle's programs for GPUs hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import reduced
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert, in_f32, widened
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "reduction"


class _Moment:
    """C1: each axis names a dimension of `x`, and none twice."""

    signature = (
        "x ; axis: i64[] = [], keepdim: bool = False, unbiased: bool = True, "
        "correction: f64 = 1.0 -> out"
    )
    dtypes = dt.FLOATS


@op
class Var(_Moment):
    """The sum of squared distances from the mean, divided by their number less `correction`.

    The divisor is at least 0. `unbiased` is what Paddle computed `correction` from.
    """

    name = "pd_op.var"


@op
class Std(_Moment):
    """The square root of `var`."""

    name = "pd_op.std"


@op
class Nansum:
    """`sum` of the elements that are not NaN.

    C1: each axis names a dimension of `x`, and none twice.
    """

    name = "pd_op.nansum"
    signature = "x ; axis: i64[] = [], dtype: dtype = Undefined, keepdim: bool = False -> out"
    dtypes = (*dt.FLOATS, *dt.INTS)


@infer_meta(Var, Std)
def _(x: TensorMeta, *, axis: Sequence[int], keepdim: bool, **_: object) -> TensorMeta:
    return x.with_shape(reduced(x.shape, axis, keepdim))


@infer_meta(Nansum)
def _(x: TensorMeta, *, axis: Sequence[int], dtype: DType | None, keepdim: bool) -> TensorMeta:
    return TensorMeta(reduced(x.shape, axis, keepdim), dtype or _sum_dtype(x.dtype))


def _sum_dtype(dtype: DType) -> DType:
    return dt.int64 if dtype in (dt.bool_, dt.int32) else dtype


def _var(x: Array, *, axis: Sequence[int], keepdim: bool, correction: float, **_: object) -> Array:
    axes = tuple(a % x.ndim for a in axis) if axis and x.ndim else tuple(range(x.ndim))
    number = int(np.prod([x.shape[a] for a in axes]))
    distance = x - x.mean(axis=axes, keepdims=True)
    total = np.sum(distance * distance, axis=axes, keepdims=keepdim)
    return np.asarray(total / x.dtype.type(max(number - correction, 0.0)))


reference(Var)(in_f32(_var))


@reference(Std)
@in_f32
def _(x: Array, **how: Any) -> Array:
    return np.asarray(np.sqrt(_var(x, **how)))


@reference(Nansum)
def _(x: Array, *, axis: Sequence[int], dtype: DType | None, keepdim: bool) -> Array:
    target = dtype or _sum_dtype(dt.of_array(x))
    some = x if x.dtype.kind in "biu" else np.where(np.isnan(x), np.zeros((), x.dtype), x)
    wide = widened(convert(some, target))
    axes = tuple(axis) if axis and x.ndim else None
    return np.asarray(np.sum(wide, axis=axes, keepdims=keepdim)).astype(target.np)


@samples(Var, Std)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 3), axis=(0,))
    yield s(s.tensor(4, 3), axis=(-1,), keepdim=True, unbiased=False, correction=0.0)
    yield s(s.tensor(2, 3, 4), axis=(0, 2), correction=2.5)
    yield s(s.tensor(2, 3))


@samples(Nansum)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 3), axis=(0,))
    yield s(s.tensor(4, 3), axis=(-1,), keepdim=True)
    yield s(s.tensor(4, 3), dtype=dt.float64)
    if s.dtype.is_float:
        yield s(s.array([1.0, float("nan"), 2.0]))


@bad_samples(Var, Std, Nansum)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(2,))
    yield "C1", s(s.tensor(2, 3), axis=(0, -2))
