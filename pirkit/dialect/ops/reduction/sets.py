"""Distinct elements, counts and search."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

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
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axis, numel, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import MAX_ARRAY_BYTES, UNKNOWN, TensorMeta

KIND = "sort"

_SORTABLE = (dt.float32, dt.float64, dt.int32, dt.int64)
_COUNTERS = (dt.int32, dt.int64)


@op
class Unique:
    """The distinct elements (or slices along `axis`) in ascending order.

    On demand also `indices`, where each stands first in `x`; `inverse`, for each element of `x`
    the number of its equal in `out`; and `counts`, how often each occurs. `inverse` is empty if it
    is not asked for.

    C1: `axis` names at most one dimension of `x`.
    C2: `dtype` is int32 or int64.
    """

    name = "pd_op.unique"
    signature = (
        "x ; return_index: bool = False, return_inverse: bool = False, "
        "return_counts: bool = False, axis: i32[] = [], dtype: dtype = int64, "
        "is_sorted: bool = False -> out, indices?, inverse, counts?"
    )
    dtypes = _SORTABLE


@op
class UniqueConsecutive:
    """The first of each run of equal elements (or slices along `axis`).

    On demand also `index`, the run that each element belongs to, and `counts`, the lengths of runs.

    C1: `axis` names at most one dimension of `x`.
    C2: `dtype` is int32 or int64.
    """

    name = "pd_op.unique_consecutive"
    signature = (
        "x ; return_inverse: bool = False, return_counts: bool = False, axis: i32[] = [], "
        "dtype: dtype = float32 -> out, index?, counts?"
    )
    dtypes = _SORTABLE


def _distinct(x: TensorMeta, axis: tuple[int, ...], dtype: DType) -> tuple[TensorMeta, int]:
    """Meta of the distinct elements, and among how many they are."""
    require(len(axis) <= 1, "C1", f"axis {list(axis)} names several dimensions")
    require(dtype in _COUNTERS, "C2", f"dtype {dtype} cannot count positions")
    if not axis:
        return x.with_shape((UNKNOWN,)), numel(x.shape)
    at = normalize_axis(axis[0], x.rank)
    shape = (*x.shape[:at], UNKNOWN, *x.shape[at + 1 :])
    return x.with_shape(shape if x.rank else (UNKNOWN,)), x.shape[at] if x.rank else 1


@infer_meta(Unique)
def _(
    x: TensorMeta,
    *,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    axis: tuple[int, ...],
    dtype: DType,
    **_: object,
) -> tuple[TensorMeta | None, ...]:
    out, count = _distinct(x, axis, dtype)
    each = TensorMeta((UNKNOWN,), dtype)
    inverse = TensorMeta((count if return_inverse else 0,), dtype)
    return out, each if return_index else None, inverse, each if return_counts else None


@paddle_meta(Unique)
def _(x: TensorMeta, **attributes: Any) -> tuple[TensorMeta | None, ...]:
    """Paddle's programs promise float32 elements; and `inverse` too, unless `axis` is given."""
    out, indices, inverse, counts = infer_meta.of(Unique)(x, **attributes)
    if not (attributes["return_inverse"] and attributes["axis"]):
        inverse = inverse.with_dtype(dt.float32)
    return out.with_dtype(dt.float32), indices, inverse, counts


@infer_meta(UniqueConsecutive)
def _(
    x: TensorMeta, *, return_inverse: bool, return_counts: bool, axis: tuple[int, ...], dtype: DType
) -> tuple[TensorMeta | None, ...]:
    out, count = _distinct(x, axis, dtype)
    index = TensorMeta((count,), dtype) if return_inverse else None
    return out, index, TensorMeta((UNKNOWN,), dtype) if return_counts else None


@paddle_meta(UniqueConsecutive)
def _(x: TensorMeta, **attributes: Any) -> tuple[TensorMeta | None, ...]:
    found = infer_meta.of(UniqueConsecutive)(x, **attributes)
    return tuple(m and (m if i == 0 else m.with_dtype(dt.float32)) for i, m in enumerate(found))


@reference(Unique)
def _(
    x: Array,
    *,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    axis: tuple[int, ...],
    dtype: DType,
    **_: object,
) -> tuple[Array | None, ...]:
    flat = x.reshape(1) if not x.ndim else x
    out, first, inverse, counts = np.unique(
        flat, True, True, True, axis=axis[0] if axis else None, equal_nan=False
    )
    inverse = inverse.reshape(-1) if return_inverse else np.zeros(0)
    return (
        out,
        first.astype(dtype.np) if return_index else None,
        inverse.astype(dtype.np),
        counts.astype(dtype.np) if return_counts else None,
    )


@reference(UniqueConsecutive)
def _(
    x: Array, *, return_inverse: bool, return_counts: bool, axis: tuple[int, ...], dtype: DType
) -> tuple[Array | None, ...]:
    at = axis[0] if axis and x.ndim else 0
    items = x if axis and x.ndim else x.reshape(-1)
    count = items.shape[at]
    rows = np.moveaxis(items, at, 0)
    rows = rows.reshape(count, math.prod(rows.shape[1:]))
    starts = np.ones(count, np.bool_)
    starts[1:] = np.any(rows[1:] != rows[:-1], axis=1)
    positions: Array = np.flatnonzero(starts)
    index = np.cumsum(starts) - 1
    lengths = np.diff(positions, append=count)
    return (
        np.take(items, positions, axis=at),
        index.astype(dtype.np) if return_inverse else None,
        lengths.astype(dtype.np) if return_counts else None,
    )


@samples(Unique)
def _(s: SampleMaker) -> Iterator[Sample]:
    values = s.array([[3, 1], [2, 1], [3, 1]])
    every = dict.fromkeys(("return_index", "return_inverse", "return_counts", "is_sorted"), True)
    yield s(values, **every)
    yield s(values, is_sorted=True)
    yield s(values, axis=(0,), dtype=dt.int32, **every)
    yield s(values, axis=(-1,), return_inverse=True, is_sorted=True)
    yield s(s.tensor(), return_counts=True, is_sorted=True)


@samples(UniqueConsecutive)
def _(s: SampleMaker) -> Iterator[Sample]:
    values = s.array([[3, 1], [3, 1], [2, 1]])
    yield s(values, return_inverse=True, return_counts=True, dtype=dt.int64)
    yield s(values, axis=(0,), return_inverse=True, return_counts=True, dtype=dt.int32)
    yield s(s.array([1, 1, 2, 1]), dtype=dt.int64)


@bad_samples(Unique)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(2,))
    yield "C1", s(s.tensor(2, 3), axis=(0, 1))
    yield "C2", s(s.tensor(2, 3), dtype=dt.float32)


@bad_samples(UniqueConsecutive)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(2,), dtype=dt.int64)
    yield "C2", s(s.tensor(2, 3))


@op
class Histogram:
    """How many elements fall into each of `bins` equal parts of [`min`, `max`].

    Where `min` equals `max` the elements give the bounds; with a NaN among them nothing is counted.
    As in Paddle the bounds of integers are truncated to integers. Weighted counts, and densities,
    are float32.

    C1: there is at least one bin.
    C2: `min` is at most `max`.
    C3: `weight` has the shape of `input`.
    C4: no element that gives a bound is infinite.
    """

    name = "pd_op.histogram"
    signature = (
        "input, weight? ; bins: i64 = 100, min: f32 = 0.0, max: f32 = 0.0, "
        "density: bool = False -> out"
    )
    dtypes = _SORTABLE


@infer_meta(Histogram)
def _(
    input: TensorMeta,
    weight: TensorMeta | None,
    *,
    bins: int,
    min: float,
    max: float,
    density: bool,
) -> TensorMeta:
    require(bins >= 1, "C1", f"{bins} bins")
    require(min <= max, "C2", f"the range begins at {min} and ends at {max}")
    fits = weight is None or (
        weight.rank == input.rank and all(map(same_dim, weight.shape, input.shape))
    )
    require(fits, "C3", "weight and input differ in shape")
    return TensorMeta((bins,), dt.float32 if density or weight is not None else dt.int64)


def bounds(dtype: DType, low: float, high: float) -> tuple[float, float]:
    """The bounds of a histogram of elements of a type."""
    is_finite = math.isfinite(low) and math.isfinite(high)
    return (math.trunc(low), math.trunc(high)) if dtype.is_integer and is_finite else (low, high)


@reference(Histogram)
def _(
    input: Array, weight: Array | None, *, bins: int, min: float, max: float, density: bool
) -> Array:
    flat, (low, high) = input.reshape(-1), bounds(dt.of_array(input), min, max)
    if dt.of_array(input).is_float and input.dtype.itemsize < 4:
        flat = flat.astype(np.float32)  # half precision may not tell the limits apart
    if low == high and flat.size:
        low, high = float(flat.min()), float(flat.max())
        is_finite = not (math.isinf(low) or math.isinf(high))
        require(is_finite, "C4", f"the elements lie in [{low}, {high}]")
    if low == high:
        low, high = low - 1, high + 1
    counted = np.float64 if density or weight is not None else np.int64
    inside = (flat >= low) & (flat <= high)
    place = ((flat[inside] - low) * bins / (high - low)).astype(np.int64)
    weights = None if weight is None else weight.reshape(-1)[inside]
    found = np.bincount(np.minimum(place, bins - 1), weights, bins).astype(counted)
    if density:
        found = found / (found.sum() * (high - low) / bins)
    return found.astype(np.float32) if counted is np.float64 else found


@samples(Histogram)
def _(s: SampleMaker) -> Iterator[Sample]:
    values = s.array([[1, 2, 2], [3, 7, 4]])
    yield s(values, None, bins=4)
    yield s(values, None, bins=4, min=1.0, max=3.0)
    yield s(values, None, bins=3, max=6.0, density=True)
    yield s(s.array([1, 1]), None, bins=4)


@bad_samples(Histogram)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3), None, bins=0)
    yield "C2", s(s.tensor(3), None, min=2.0, max=1.0)
    yield "C3", s(s.tensor(3), s.tensor(2))
    if s.dtype.is_float:
        yield "C4", s(s.array([1.0, math.inf]), None)


@op
class Bincount:
    """How often each of 0, 1, ... occurs in `x`, or the sum of its weights.

    The result has at least `minlength` elements. A negative element is an error at run time.

    C1: `x` is a list of integers.
    C2: `weights` has the shape of `x`, and is not complex.
    C3: `minlength` is not negative.
    """

    name = "pd_op.bincount"
    signature = "x, weights?, minlength: i32 = 0 -> out"
    dtypes = dt.INTS
    domain = (0.0, 5.0)


@infer_meta(Bincount)
def _(x: TensorMeta, weights: TensorMeta | None, *, minlength: int | None) -> TensorMeta:
    require(x.rank == 1 and x.dtype.is_integer, "C1", f"{x} is no list of integers")
    fits = weights is None or (weights.rank == 1 and same_dim(weights.shape[0], x.shape[0]))
    require(fits, "C2", "weights and x differ in shape")
    require(weights is None or not weights.dtype.is_complex, "C2", "weights are complex")
    require(minlength is None or minlength >= 0, "C3", f"minlength {minlength} is negative")
    if weights is None:
        return TensorMeta((UNKNOWN,), dt.int64)
    return TensorMeta((UNKNOWN,), dt.float32 if weights.dtype is dt.float32 else dt.float64)


@paddle_meta(Bincount)
def _(x: TensorMeta, weights: TensorMeta | None, **_: object) -> TensorMeta:
    """Paddle's programs keep the type of `weights`, and of `x` where there are none."""
    return TensorMeta((UNKNOWN,), (weights or x).dtype)


@reference(Bincount)
def _(x: Array, weights: Array | None, *, minlength: int) -> Array:
    if x.size and x.min() < 0:
        raise RuntimeFault("bincount: an element is negative")
    if x.size and int(x.max()) >= MAX_ARRAY_BYTES // 8:  # numpy would add 1, and wrap around
        raise RuntimeFault("bincount: an element is too large")
    found = np.bincount(x, weights, minlength)
    if weights is None:
        return found.astype(np.int64)
    return found.astype(weights.dtype if weights.dtype == np.float32 else np.float64)


@samples(Bincount)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(6), None)
    yield s(s.tensor(6), s.tensor(6, dtype=dt.float32), minlength=8)
    yield s(s.tensor(0), None, minlength=3)


@bad_samples(Bincount)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), None)
    yield "C2", s(s.tensor(3), s.tensor(4, dtype=dt.float32))
    yield "C3", s(s.tensor(3), None, minlength=-1)


@op
class SearchSorted:
    """Where each value would be inserted into an ascending sequence.

    That is before equal elements, or with `right` after them.

    C1: `sorted_sequence` is one sequence, or one for each row of `values`.
    C2: the dtypes are equal.
    """

    name = "pd_op.searchsorted"
    signature = "sorted_sequence, values ; out_int32: bool = False, right: bool = False -> out"
    dtypes = _SORTABLE


@infer_meta(SearchSorted)
def _(
    sorted_sequence: TensorMeta, values: TensorMeta, *, out_int32: bool, **_: object
) -> TensorMeta:
    lead = sorted_sequence.shape[:-1]
    fits = sorted_sequence.rank == 1 or (
        sorted_sequence.rank == values.rank > 1 and all(map(same_dim, lead, values.shape[:-1]))
    )
    require(fits, "C1", f"sequences {show(sorted_sequence.shape)} for {show(values.shape)}")
    same = sorted_sequence.dtype is values.dtype
    require(same, "C2", f"dtypes {sorted_sequence.dtype} and {values.dtype} differ")
    return values.with_dtype(dt.int32 if out_int32 else dt.int64)


@reference(SearchSorted)
def _(sorted_sequence: Array, values: Array, *, out_int32: bool, right: bool) -> Array:
    side = "right" if right else "left"
    target = np.int32 if out_int32 else np.int64
    if sorted_sequence.ndim == 1:
        return np.asarray(np.searchsorted(sorted_sequence, values, side)).astype(target)
    out = np.empty(values.shape, target)
    for row in np.ndindex(values.shape[:-1]):
        out[row] = np.searchsorted(sorted_sequence[row], values[row], side)
    return out


@samples(SearchSorted)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.array([1, 3, 5]), s.array([[3, 4], [0, 9]]))
    yield s(s.array([1, 3, 5]), s.array([[3, 4], [0, 9]]), right=True, out_int32=True)
    yield s(s.array([[1, 3, 5], [2, 4, 6]]), s.array([[3, 4], [0, 9]]))


@bad_samples(SearchSorted)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(3, 4))
    yield "C2", s(s.tensor(3), s.tensor(3, dtype=dt.float16))
