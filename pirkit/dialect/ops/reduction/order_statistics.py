"""The k-th smallest, median and most frequent element, and cumulative extrema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from pirkit.dialect.kinds import CUMULATIVE_MAXIMUM, CUMULATIVE_MINIMUM
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.reduction.reduction import axes_of
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axis, reduced, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert, widened
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "sort"


@op
class KthValue:
    """The `k`-th smallest element along `axis` (from 1), and where it stands; NaN is greatest.

    C1: `axis` names a dimension of `x`.
    C2: `k` is between 1 and the size of that dimension.
    """

    name = "pd_op.kthvalue"
    signature = "x ; k: i64 = 1, axis: i32 = -1, keepdim: bool = False -> out, indices"
    dtypes = dt.REAL


@op
class Mode:
    """The most frequent element along `axis`, the least of several, and its last position.

    C1: `axis` names a dimension of `x`.
    C2: that dimension is not empty.
    """

    name = "pd_op.mode"
    signature = "x ; axis: i32 = -1, keepdim: bool = False -> out, indices"
    dtypes = dt.REAL


@infer_meta(KthValue)
def _(x: TensorMeta, *, k: int, axis: int, keepdim: bool) -> tuple[TensorMeta, TensorMeta]:
    at = normalize_axis(axis, x.rank)
    size = x.shape[at] if x.rank else 1
    fits = k >= 1 and (size == UNKNOWN or k <= size)
    require(fits, "C2", f"k is {k} for a dimension of {size}")
    return _reduced_pair(x, axis, keepdim)


@infer_meta(Mode)
def _(x: TensorMeta, *, axis: int, keepdim: bool) -> tuple[TensorMeta, TensorMeta]:
    at = normalize_axis(axis, x.rank)
    require(not x.rank or x.shape[at] != 0, "C2", f"dimension {axis} of {show(x.shape)} is empty")
    return _reduced_pair(x, axis, keepdim)


def _reduced_pair(x: TensorMeta, axis: int, keepdim: bool) -> tuple[TensorMeta, TensorMeta]:
    shape = reduced(x.shape, (axis,), keepdim) if x.rank else ()
    return x.with_shape(shape), TensorMeta(shape, dt.int64)


@reference(KthValue)
def _(x: Array, *, k: int, axis: int, keepdim: bool) -> tuple[Array, Array]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    order = np.argsort(widened(x), axis=axis, kind="stable")
    return _picked(x, np.take(order, [k - 1], axis=axis), axis, keepdim)


@reference(Mode)
def _(x: Array, *, axis: int, keepdim: bool) -> tuple[Array, Array]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    order = np.moveaxis(np.argsort(widened(x), axis=axis, kind="stable"), axis, -1)
    ordered = np.take_along_axis(np.moveaxis(x, axis, -1), order, -1)
    position = np.arange(int(x.shape[axis]))
    starts = np.ones(ordered.shape, np.bool_)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    run = position - np.maximum.accumulate(np.where(starts, position, 0), axis=-1)
    last = np.argmax(run, axis=-1, keepdims=True)
    where = np.moveaxis(np.take_along_axis(order, last, -1), -1, axis)
    return _picked(x, where, axis, keepdim)


def _picked(x: Array, where: Array, axis: int, keepdim: bool) -> tuple[Array, Array]:
    out, indices = np.take_along_axis(x, where, axis), where.astype(np.int64)
    return (out, indices) if keepdim else (out.squeeze(axis), indices.squeeze(axis))


@samples(KthValue)
def _(s: SampleMaker) -> Iterator[Sample]:
    values = s.array([[3, 1, 2, 5], [7, 0, 6, 4]])
    yield s(values, k=2)
    yield s(values, k=1, axis=0, keepdim=True)
    yield s(s.tensor())


@samples(Mode)
def _(s: SampleMaker) -> Iterator[Sample]:
    values = s.array([[2, 2, 3, 3, 1], [1, 2, 3, 4, 4]])
    yield s(values)
    yield s(values, axis=0, keepdim=True)
    yield s(s.tensor())


@bad_samples(KthValue)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2)
    yield "C2", s(s.tensor(2, 3), k=4)


@bad_samples(Mode)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2)
    yield "C2", s(s.tensor(0, 3), axis=0)


class _Median:
    """C1: each axis names a dimension of `x`, and none twice.
    C2: `mode` is `avg` or `min`.
    """

    signature = "x ; axis: intarray = [], keepdim: bool = True, mode: str = 'avg' -> out, medians~"
    dtypes = (dt.float32, dt.float64, dt.int32, dt.int64)


@op
class Median(_Median):
    """The middle element over `axis` (all if empty); NaN if any element is.

    Between two in the middle `mode` takes their mean (`avg`) or the lesser one (`min`). `medians`
    holds the positions, both of them for `avg`. As in Paddle the median of no elements is NaN, at
    position 0.
    """

    name = "pd_op.median"


@op
class NanMedian(_Median):
    """As `median`, of the elements that are not NaN; NaN, at position -1, if there is none."""

    name = "pd_op.nanmedian"


_MODES: Final = ("avg", "min")


@infer_meta(Median, NanMedian)
def _(
    x: TensorMeta, *, axis: Sequence[int | None] | None, keepdim: bool, mode: str
) -> tuple[TensorMeta, TensorMeta]:
    require(mode in _MODES, "C2", f"mode {mode!r} is not in {_MODES}")
    shape = reduced(x.shape, axis, keepdim)
    pair = (2,) if mode == "avg" else ()
    return x.with_shape(shape), TensorMeta((*shape, *pair), dt.int64)


@reference(Median)
def _(x: Array, *, axis: Sequence[int], keepdim: bool, mode: str) -> tuple[Array, Array]:
    return _median(x, axes_of(x, axis), keepdim, mode, skip_nan=False)


@reference(NanMedian)
def _(x: Array, *, axis: Sequence[int], keepdim: bool, mode: str) -> tuple[Array, Array]:
    return _median(x, axes_of(x, axis), keepdim, mode, skip_nan=True)


def _median(
    x: Array, axes: tuple[int, ...], keepdim: bool, mode: str, *, skip_nan: bool
) -> tuple[Array, Array]:
    axes = tuple(sorted(axes))  # positions count elements in the order of ``x``
    other_axes = [i for i in range(x.ndim) if i not in axes]
    rows = np.transpose(x, (*other_axes, *axes)).reshape(
        *(x.shape[i] for i in other_axes), prod(x.shape[i] for i in axes)
    )
    shape = tuple(
        [1 if i in axes else d for i, d in enumerate(x.shape) if keepdim or i not in axes]
    )
    if not rows.shape[-1]:
        nothing = convert(np.full(shape, np.nan), dt.of_array(x))
        return nothing, np.zeros(shape if mode == "min" else (*shape, 2), np.int64)
    order = np.argsort(rows, axis=-1, kind="stable")
    is_nan = np.isnan(rows)
    count = np.sum(~is_nan, axis=-1, keepdims=True)
    last = count if skip_nan else np.full_like(count, rows.shape[-1])
    middle = np.concatenate([np.maximum(last - 1, 0) // 2, last // 2], axis=-1)
    missing = (count == 0) if skip_nan else np.any(is_nan, axis=-1, keepdims=True)
    where = np.take_along_axis(order, np.minimum(middle, rows.shape[-1] - 1), -1)
    where = np.where((count == 0) & skip_nan, -1, where).astype(np.int64)
    pair = np.take_along_axis(rows, where, -1)
    low, high = pair[..., :1], pair[..., 1:]
    value = low if mode == "min" else _mean(low, high)
    if dt.of_array(x).is_float:
        value = np.where(missing, x.dtype.type(np.nan), value)
    if mode == "min":
        return value.reshape(shape), where[..., 0].reshape(shape)
    return value.reshape(shape), where.reshape(*shape, 2)


def _mean(low: Array, high: Array) -> Array:
    """The mean of two: halves do not overflow, and of equal integers float64 rounds nothing."""
    if dt.of_array(low).is_float:
        return low / 2 + high / 2
    mean = np.trunc((low.astype(np.float64) + high) / 2).astype(low.dtype)
    return np.where(low == high, low, mean)


@samples(Median, NanMedian)
def _(s: SampleMaker) -> Iterator[Sample]:
    values = s.array([[3, 1, 2, 5], [7, 0, 6, 4]])
    yield s(values, axis=(1,), keepdim=False)
    yield s(values, axis=(-1,), mode="min")
    yield s(values)
    yield s(values, axis=(0, 1), keepdim=False, mode="min")
    yield s(s.array([[3, 1, 2], [7, 9, 6]]), axis=(1,))


@bad_samples(Median, NanMedian)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(2,))
    yield "C2", s(s.tensor(2, 3), mode="max")


class _RunningExtremum:
    """C1: `axis` names a dimension of `x`.
    C2: `dtype` is int32 or int64.
    """

    signature = "x ; axis: i32 = -1, dtype: dtype = int64 -> out, indices"
    dtypes = (dt.float32, dt.float64, dt.int32, dt.int64)


@op
class CumMax(_RunningExtremum):
    """Greatest element up to each one along `axis`, and where it stands; NaN stays."""

    name = "pd_op.cummax"
    traits = (CUMULATIVE_MAXIMUM,)


@op
class CumMin(_RunningExtremum):
    """Least element up to each one along `axis`, and where it stands; NaN stays."""

    name = "pd_op.cummin"
    traits = (CUMULATIVE_MINIMUM,)


@infer_meta(CumMax, CumMin)
def _(x: TensorMeta, *, axis: int, dtype: DType) -> tuple[TensorMeta, TensorMeta]:
    normalize_axis(axis, x.rank)
    require(dtype in (dt.int32, dt.int64), "C2", f"dtype {dtype} cannot count positions")
    return x, x.with_dtype(dtype)


@reference(CumMax)
def _(x: Array, *, axis: int, dtype: DType) -> tuple[Array, Array]:
    return _running(np.maximum, x, axis, dtype)


@reference(CumMin)
def _(x: Array, *, axis: int, dtype: DType) -> tuple[Array, Array]:
    return _running(np.minimum, x, axis, dtype)


def _running(choose: np.ufunc, x: Array, axis: int, dtype: DType) -> tuple[Array, Array]:
    if not x.ndim:
        return x, np.zeros((), dtype.np)
    out = choose.accumulate(x, axis=axis)
    shape = [1] * x.ndim
    shape[axis] = int(x.shape[axis])
    position = np.arange(shape[axis]).reshape(shape)
    found = np.where((x == out) | (x != x), position, 0)  # only NaN differs from itself
    return out, np.maximum.accumulate(found, axis=axis).astype(dtype.np)


@samples(CumMax, CumMin)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.array([[1, 3, 3, 2], [4, 3, 4, 5]]), axis=1)
    yield s(s.tensor(3, 2), axis=0, dtype=dt.int32)
    yield s(s.tensor())


@bad_samples(CumMax, CumMin)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2)
    yield "C2", s(s.tensor(2, 3), dtype=dt.float32)
