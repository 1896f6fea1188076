"""Statistics of traced values, as numpy defines them: averages, quantiles, covariances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pirkit.frontend.numpy_rules import composed, value_of
from pirkit.frontend.numpy_ufuncs import refused, size_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.tensor.methods import Axis

Array = Any
"""A traced value; it has the operators of numpy's arrays."""
np: Final[Any] = numpy
"""numpy, whose functions are recorded here; to type checkers they would give arrays."""


@composed("average")
def _average(
    a: Array, axis: Axis = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    if weights is None:
        found, total = np.mean(a, axis=axis, keepdims=keepdims), float(a.size)
        return (found, np.full_like(found, total / max(found.size, 1))) if returned else found
    if np.ndim(weights) == 1 and a.ndim > 1:
        if not isinstance(axis, int | numpy.integer):
            raise refused("`average` with a vector of weights", "give the `axis` that they are of")
        behind = a.ndim - 1 - normalize_axis_index(axis, a.ndim)
        weights = np.reshape(weights, (-1, *(1,) * behind))
    wide: Any = np.multiply(weights, np.ones_like(a * 1.0))
    total: Any = np.sum(wide, axis=axis, keepdims=keepdims)
    found = np.sum(a * wide, axis=axis, keepdims=keepdims) / total
    return (found, total) if returned else found


def _flat_over(a: Array, axis: Any) -> tuple[Array, tuple[int, ...]]:
    """``a`` with the axes to reduce as one last axis; and the shape of a result with keepdims."""
    axes = normalize_axis_tuple(range(a.ndim) if axis is None else axis, a.ndim)
    kept = [i for i in range(a.ndim) if i not in axes]
    shape = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
    moved = np.transpose(a, (*kept, *sorted(axes)))
    if len(axes) == 1:
        return moved, shape
    return np.reshape(moved, (*[a.shape[i] for i in kept], -1)), shape


def _at_each(find: Callable[[Array, float], Any]) -> Callable[..., Any]:
    """numpy's function of any axes and several ``q``, made of ``find``.

    ``find`` takes an array that is sorted along its last axis, and one number.
    """

    def rule(a: Array, q: Any, axis: Any = None, *, keepdims: bool = False, **options: Any) -> Any:
        if options or hasattr(q, "meta"):
            raise refused("quantiles by another method, or at traced places",
                          "take numbers for `q`, and linear interpolation")  # fmt: skip
        if a.dtype.is_complex:
            raise refused(f"quantiles of a {a.meta}", "take those of `a.real` and of `a.imag`")
        a = a if a.dtype.is_float else a.astype("float64")
        rows, shape = _flat_over(a, axis)
        ordered = np.sort(rows, axis=-1)
        wanted = [find(ordered, float(each)) for each in np.ravel(q)]
        made = [np.reshape(w, shape) if keepdims else w for w in wanted]
        if not np.ndim(q):
            return made[0]
        return np.reshape(np.stack(cast(Any, made)), (*np.shape(q), *made[0].shape))

    return rule


def _between(low: Array, high: Array, part: Any) -> Any:
    """The number at a part of the way from ``low`` to ``high``; at one half it is the mean.

    Equal ends are taken as they are: the difference of infinite ones would be NaN. From an
    infinite ``low`` the way is measured from its other end, as numpy does in the second half.
    """
    middle, gap = (low + high) / 2, high - low
    found = np.where(np.isinf(low), high - gap * (1 - part), low + gap * part)
    found = np.where(part == 0.5, middle, found)
    return np.where((part == 0) | (low == high), low, found)


def _linear(ordered: Array, q: float) -> Any:
    """Quantiles by linear interpolation; NaN is sorted to the end, and gives NaN."""
    place = q * (size_of(ordered, -1) - 1)
    low = int(place)
    one, other = ordered[..., low], ordered[..., min(low + 1, ordered.shape[-1] - 1)]
    last = ordered[..., -1]
    return np.where(np.isnan(last), last, _between(one, other, place - low))


def _linear_of_numbers(ordered: Array, q: float) -> Any:
    """Quantiles of the elements that are not NaN, which is sorted to the end."""
    count: Any = np.sum(~np.isnan(ordered), axis=-1, keepdims=True)
    place: Any = np.maximum(count - 1, 0) * q
    low: Any = np.floor(place).astype("int64")
    high = np.minimum(low + 1, np.maximum(count - 1, 0))
    one, other = (np.take_along_axis(ordered, at, axis=-1) for at in (low, high))
    return _between(one, other, (place - low).astype(ordered.dtype.np))[..., 0]


_quantile = composed("quantile")(_at_each(_linear))
_nanquantile = composed("nanquantile")(_at_each(_linear_of_numbers))


@composed("median")
def _median(a: Array, axis: Any = None, keepdims: bool = False) -> Any:
    return _quantile(a, 0.5, axis, keepdims=keepdims)


@composed("nanmedian")
def _nanmedian(a: Array, axis: Any = None, keepdims: bool = False) -> Any:
    return _nanquantile(a, 0.5, axis, keepdims=keepdims)


@composed("percentile")
def _percentile(a: Array, q: Any, axis: Any = None, **options: Any) -> Any:
    return _quantile(a, np.divide(q, 100), axis, **options)


@composed("nanpercentile")
def _nanpercentile(a: Array, q: Any, axis: Any = None, **options: Any) -> Any:
    return _nanquantile(a, np.divide(q, 100), axis, **options)


@composed("nanmean")
def _nanmean(a: Array, axis: Axis = None, keepdims: bool = False) -> Any:
    if not (a.dtype.is_float or a.dtype.is_complex):
        return np.mean(a, axis=axis, keepdims=keepdims)
    count: Any = np.sum(~np.isnan(a), axis=axis, keepdims=keepdims)
    return np.nansum(a, axis=axis, keepdims=keepdims) / count.astype(a.dtype.np)


@composed("nanvar")
def _nanvar(a: Array, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Any:
    if not (a.dtype.is_float or a.dtype.is_complex):
        return np.var(a, axis=axis, ddof=ddof, keepdims=keepdims)
    count: Any = np.sum(~np.isnan(a), axis=axis, keepdims=keepdims)
    off = np.where(np.isnan(a), 0, a - np.nanmean(a, axis=axis, keepdims=True))
    squares = np.real(off * np.conj(off))
    found: Any = np.sum(squares, axis=axis, keepdims=keepdims)
    return np.where(count > ddof, found / (count - ddof).astype(found.dtype.np), np.nan)


@composed("nanstd")
def _nanstd(a: Array, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Any:
    return np.sqrt(_nanvar(a, axis, ddof, keepdims))


@composed("cov")
def _cov(
    m: Array, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None
) -> Any:
    rows = [v[None] if v.ndim < 2 else v if rowvar else v.T for v in ([m] if y is None else [m, y])]
    x = rows[0] if y is None else np.concatenate(rows, axis=0)
    if x.dtype is not dt.bfloat16:
        x = x.astype(np.result_type(x.dtype.np, np.float64))
    x = x - np.mean(x, axis=1, keepdims=True)
    less = (0 if bias else 1) if ddof is None else ddof
    return np.squeeze(x @ np.conj(x.T) / max(size_of(x, 1) - less, 0))


@composed("corrcoef")
def _corrcoef(x: Array, y: Any = None, rowvar: bool = True) -> Any:
    found: Any = _cov(x, y, rowvar)
    if not found.ndim:
        return found / found
    deviation = np.sqrt(np.diag(found))
    return np.clip(found / deviation[:, None] / deviation, -1, 1)


@composed("histogram")
def _histogram(
    a: Array, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Any, Any]:
    """Bins of equal width are found by a division, as numpy does, others by bisection."""
    a = np.ravel(a)
    edges = bins if hasattr(bins, "shape") else np.array(bins)
    if is_even := isinstance(bins, int | numpy.integer):
        low, high = (np.min(a), np.max(a)) if range is None else range
        empty = low == high
        low, high = np.where(empty, low - 0.5, low), np.where(empty, high + 0.5, high)
        kind = a.dtype if a.dtype.is_float else dt.float64
        edges = np.linspace(low, high, bins + 1).astype(kind.np)
        if not hasattr(edges, "meta") and (edges[1:] <= edges[:-1]).any():
            what = f"`histogram`: {kind} has no {bins + 1} numbers from {low} to {high}"
            raise refused(what, "widen the `range`, take fewer `bins`, or use float64")
    count = edges.shape[0] - 1
    if is_even:
        steps = (a - edges[0]) / (edges[-1] - edges[0]) * count
        at: Any = np.clip(steps.astype("int64"), 0, count - 1)  # casts of NaN are clipped too
        # The division rounds: an element at an edge may belong to the bin before or behind.
        held = value_of(a.b, edges)
        before = a < held[at]
        behind = (a >= held[at + 1]) & (at < count - 1)
        at = at - before + behind
    else:
        at = np.clip(np.searchsorted(edges, a, side="right") - 1, 0, count - 1)
    # Elements outside of the range are counted in one more bin, which is dropped.
    at = np.where((a >= edges[0]) & (a <= edges[-1]), at, count)
    found: Any = _sums_by_place(at, count + 1, weights)[:count]
    return (found / np.diff(edges).astype("float64") / np.sum(found) if density else found), edges


def _sums_by_place(at: Array, size: int, weights: Any) -> Any:
    """How often each place is named, or the sum of its weights; floats are added in float64."""
    b = at.b
    one = b.const(1, dt.int64, at.shape)
    each = one if weights is None else value_of(b, np.ravel(weights))
    kind = each.dtype
    narrow = kind in (dt.float16, dt.bfloat16, dt.float32)
    whole = kind.is_integer or kind is dt.bool_
    wide = b.cast(each, dt.float64 if narrow else dt.int64 if whole else kind)
    zero = b.const(0, wide.dtype, (size,))
    found = b.put_along_axis(zero, at, wide, axis=0, reduce="add")
    return b.cast(found, kind) if narrow else found
