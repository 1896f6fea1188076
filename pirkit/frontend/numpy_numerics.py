"""Interpolation, differences, and functions of elements and positions of traced values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, cast

import numpy
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pirkit.diag.limits import check
from pirkit.dialect.build import Builder
from pirkit.frontend.numpy_rules import FUNCTIONS, composed, elementwise, function
from pirkit.frontend.numpy_ufuncs import dtype_of, refused, size_of
from pirkit.runtime import dtype as dt

Array = Any
"""A traced value; it has the operators of numpy's arrays."""
np: Final[Any] = numpy
"""numpy, whose functions are recorded here; to type checkers they would give arrays."""


# --- elements ---


@elementwise("signbit")
def _signbit(x: Array) -> Any:
    return np.copysign(1, x) < 0 if x.dtype.is_float else x < 0  # -0 and NaN have a sign, too


# The next functions select by `where`, not by `abs` and `maximum`: they would inherit the
# derivatives that these have at 0 and at equal operands, which are conventions.


@elementwise("fmod")
def _fmod(x: Array, y: Array) -> Any:
    """The remainder of the absolute values, with the sign of ``x``."""
    if not x.dtype.is_float:  # the least integer has no absolute value
        found: Any = np.remainder(x, y)
        return np.where((found != 0) & ((found < 0) != (x < 0)), found - y, found)
    is_negative = np.signbit(x)
    rest = np.remainder(np.where(is_negative, -x, x), np.where(np.signbit(y), -y, y))
    return np.where(is_negative, -rest, rest)


@elementwise("cbrt")
def _cbrt(x: Array) -> Any:
    is_negative = np.signbit(x)
    root = np.where(is_negative, -x, x) ** (1 / 3)
    return np.where(is_negative, -root, root)


@elementwise("heaviside")
def _heaviside(x: Array, y: Array) -> Any:
    return np.where(x == 0, y, np.where(np.isnan(x), x, x > 0))


@elementwise("hypot")
def _hypot(x: Array, y: Array) -> Any:
    """The root of ``x**2 + y**2``, scaled by a power of two so that no square overflows."""
    most = x.dtype.limits.maxexp
    large = np.maximum(np.abs(x), np.abs(y))
    down, up = 2.0 ** -(most * 5 // 8), 2.0 ** (most * 11 // 16)
    limit = 2.0 ** (most // 2 - 4)
    scale = np.where(large > limit, down, np.where(large < 1 / limit, up, 1)).astype(x.dtype.np)
    one, other = x * scale, y * scale
    squares = one * one + other * other
    # At (0, 0) the root of 1 has a finite derivative; the last `where` does not take it.
    root = np.sqrt(np.where(large == 0, 1, squares)) / scale
    is_infinite = np.isinf(x) | np.isinf(y)
    return np.where(is_infinite, np.inf, np.where(large == 0, large, root))


def _log_of_sum(x: Array, y: Array, tail: Callable[[Array], Any]) -> Any:
    """The larger operand plus ``tail`` of smaller minus larger; equal infinities differ by 0."""
    is_first = x >= y
    large, small = np.where(is_first, x, y), np.where(is_first, y, x)
    return large + tail(np.where(np.isinf(x) & (x == y), 0, small - large))


@elementwise("logaddexp")
def _logaddexp(x: Array, y: Array) -> Any:
    """The logarithm of ``exp(x) + exp(y)``."""
    return _log_of_sum(x, y, lambda gap: np.log1p(np.exp(gap)))


@elementwise("logaddexp2")
def _logaddexp2(x: Array, y: Array) -> Any:
    return _log_of_sum(x, y, lambda gap: np.log1p(np.exp2(gap)) / np.log(2))


@composed("sinc")
def _sinc(x: Array) -> Any:
    """By the series near 0, where the quotient loses the digits of its derivatives."""
    x = (x if x.dtype.is_float or x.dtype.is_complex else x.astype("float64")) * np.pi
    is_near = np.abs(x) < 0.3
    square, safe = x * x, np.where(is_near, 1.0, x)
    series: Any = 1.0
    for n in range(14, 0, -2):
        series = 1 - square / (n * (n + 1)) * series
    return np.where(is_near, series, np.sin(safe) / safe)


@elementwise("modf")
def _modf(x: Array) -> tuple[Any, Any]:
    whole = np.trunc(x)
    return np.copysign(np.where(np.isinf(x), 0, x - whole), x), whole


@elementwise("ldexp")
def _ldexp(x: Array, exponent: Array) -> Any:
    """``x * 2**exponent`` by three factors that are finite, where ``2**exponent`` may overflow."""
    left: Any = np.clip(exponent, -2100, 2100)
    wide = x.astype("float64")
    for _ in range(3):
        part = np.clip(left, -700, 700)
        wide, left = wide * np.exp2(part.astype("float64")), left - part
    return wide


@composed("isin")
def _isin(element: Array, test_elements: Any, *, invert: bool = False) -> Any:
    found = np.any(element[..., None] == np.ravel(test_elements), axis=-1)
    return ~found if invert else found


@composed("unwrap")
def _unwrap(p: Array, discont: Any = None, axis: int = -1) -> Any:
    p = np.moveaxis(p, axis, -1)
    step: Any = np.diff(p)
    near: Any = np.remainder(step + np.pi, 2 * np.pi) - np.pi
    near = np.where((near == -np.pi) & (step > 0), np.pi, near)
    moved: Any = np.where(np.abs(step) < max(np.pi, discont or 0), 0.0, near - step)
    found = np.concatenate([p[..., :1], p[..., 1:] + np.cumsum(moved, axis=-1)], axis=-1)
    return np.moveaxis(found, -1, axis)


# --- tables and differences ---


@function("interp")
def _interp(
    b: Builder, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    if period is not None:
        raise refused("`interp` with a period", "extend the table, and take the remainder of `x`")
    xp = xp if hasattr(xp, "meta") else np.asarray(xp, np.float64)
    if not hasattr(fp, "meta"):
        fp = np.asarray(fp, np.complex128 if np.iscomplexobj(fp) else np.float64)
    if size_of(xp, 0) == 1:
        found: Any = fp[0]
    else:
        at: Any = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, xp.shape[0] - 2)
        take = FUNCTIONS["take"]  # `np.take` dispatches on the array, not on traced indices
        below, above, low, high = (take(b, v, at + n) for v in (xp, fp) for n in (0, 1))
        found = low + np.subtract(x, below) * ((high - low) / (above - below))
    found = np.where(np.less(x, xp[0]), fp[0] if left is None else left, found)
    return np.where(np.greater(x, xp[-1]), fp[-1] if right is None else right, found)


@function("digitize")
def _digitize(b: Builder, x: Any, bins: Any, right: bool = False) -> Any:
    bins, side = bins if hasattr(bins, "meta") else np.asarray(bins), "left" if right else "right"
    count = size_of(bins, 0)
    falls: Any = count > 1 and bins[0] > bins[-1]  # a traced value where the bins are traced
    if not hasattr(falls, "meta") and not falls:
        return np.searchsorted(bins, x, side=side)
    found: Any = np.searchsorted(np.where(falls, np.flip(bins), bins), x, side=side)
    return np.where(falls, count - found, found)


@composed("gradient")
def _gradient(f: Array, *spacing: Any, axis: Any = None, edge_order: int = 1) -> Any:
    if edge_order != 1 or any(np.ndim(s) for s in spacing):
        raise refused("`gradient` with places or edges of second order", "give one distance")
    axes = range(f.ndim) if axis is None else normalize_axis_tuple(axis, f.ndim)
    gaps = spacing if len(spacing) > 1 else (spacing or (1.0,)) * len(axes)
    found = [_slopes(f, n, gap) for n, gap in zip(axes, gaps, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slopes(f: Array, axis: int, gap: Any) -> Any:
    is_inexact = f.dtype.is_float or f.dtype.is_complex
    f = np.moveaxis(f if is_inexact else f.astype("float64"), axis, 0)
    inner = (f[2:] - f[:-2]) / 2
    found = np.concatenate([f[1:2] - f[:1], inner, f[-1:] - f[-2:-1]]) / gap
    return np.moveaxis(found, 0, axis)


@composed("ediff1d")
def _ediff1d(ary: Array) -> Any:
    return np.diff(np.ravel(ary))


@composed("vander")
def _vander(x: Array, N: int | None = None, increasing: bool = False) -> Any:
    count = size_of(x, 0) if N is None else N
    check("list_elements", count)
    wide = x if x.dtype is dt.bfloat16 else x.astype(np.promote_types(x.dtype.np, int))
    powers = [wide**n for n in range(count)]
    return np.stack(powers if increasing else powers[::-1], axis=1)


@function("correlate")
def _correlate(b: Builder, a: Any, v: Any, mode: Any = "valid") -> Any:
    return np.convolve(a, np.conj(np.flip(v)), mode=mode)


# --- positions ---


@composed("partition")
def _partition(a: Array, kth: Any, axis: Any = -1) -> Any:
    # A sorted array is partitioned at every `kth`.
    return np.sort(a, axis=axis)


@composed("argpartition")
def _argpartition(a: Array, kth: Any, axis: Any = -1) -> Any:
    return np.argsort(a, axis=axis)


@composed("delete")
def _delete(arr: Array, obj: Any, axis: int | None = None) -> Any:
    arr, axis = (np.ravel(arr), 0) if axis is None else (arr, normalize_axis_index(axis, arr.ndim))
    return np.take(arr, np.delete(np.arange(size_of(arr, axis)), _known(obj)), axis=axis)


@function("insert")
def _insert(b: Builder, arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    arr, axis = (np.ravel(arr), 0) if axis is None else (arr, normalize_axis_index(axis, arr.ndim))
    place: Any = _known(obj)
    kind = dtype_of(arr).np
    values = values.astype(kind) if hasattr(values, "meta") else np.asarray(values, kind)
    whole: Any = np.moveaxis(arr, axis, 0)
    if np.ndim(place):  # each value at its place
        rows: Any = np.broadcast_to(values, (len(place), *whole.shape[1:]))
    elif whole.ndim == 1:
        rows = np.reshape(values, (-1,))
    else:
        rows = np.broadcast_to(values, whole.shape[1:])[None]
    new = -1 - np.arange(size_of(rows, 0))
    # numpy itself inserts into the indices of rows; negative ones stand for the new rows.
    order = np.insert(np.arange(size_of(whole, 0)), place, new)
    order = np.where(order < 0, whole.shape[0] - 1 - order, order)
    return np.moveaxis(np.take(np.concatenate([whole, rows]), order, axis=0), 0, axis)


def _known(obj: Any) -> Any:
    """Positions that are known. Raises TraceError for traced ones."""
    if hasattr(obj, "meta"):
        raise refused("a traced place, which would decide the shape of the result",
                      "give numbers, or choose elements with `np.where`")  # fmt: skip
    return obj


@composed("unravel_index")
def _unravel_index(indices: Array, shape: Sequence[int]) -> tuple[Any, ...]:
    sizes = [prod(shape[i + 1 :]) for i in range(len(shape))]
    return tuple([indices // s % n for s, n in zip(sizes, shape, strict=True)])


@function("block")
def _block(b: Builder, arrays: Any) -> Any:
    depth, inner = 0, arrays
    while isinstance(inner, list):
        depth, inner = depth + 1, cast("list[Any]", inner)[0]

    def joined(part: Any, axis: int) -> Any:
        if not isinstance(part, list):
            missing = depth - np.ndim(part)
            return np.reshape(part, (1,) * missing + np.shape(part)) if missing > 0 else part
        inside = [joined(p, axis + 1) for p in cast("list[Any]", part)]
        return np.concatenate(inside, axis=axis)

    return joined(arrays, -depth)


# --- linear algebra ---


@composed("linalg.lstsq")
def _lstsq(a: Any, b: Any, rcond: float | None = None) -> tuple[Any, Any, Any, Any]:
    """Least squares by the pseudoinverse, with residuals as for an `a` of full rank.

    numpy leaves them out for a lower rank; here the shape of a result cannot depend on the rank.
    """
    found = np.linalg.pinv(a, rcond) @ b
    off = np.subtract(b, a @ found)
    residuals = np.sum(np.conj(off) * off, axis=0)
    several = np.atleast_1d(residuals) if a.shape[0] > a.shape[1] else np.zeros(0, a.dtype.np)
    return found, several, np.linalg.matrix_rank(a), np.linalg.svdvals(a)


@composed("linalg.cond")
def _cond(x: Any, p: Any = None) -> Any:
    values = np.linalg.svdvals(x)
    if p in (None, 2, -2):
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    norms: Any = [np.linalg.norm(m, p, axis=(-2, -1)) for m in (x, np.linalg.inv(x))]
    return norms[0] * norms[1]
