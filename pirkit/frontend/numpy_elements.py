"""Elements of traced values chosen, converted and filled, as numpy does."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pirkit.dialect.build import Builder, Value
from pirkit.frontend.numpy_rules import FUNCTIONS, function, together, typed, value_of
from pirkit.frontend.numpy_shapes import broadcast_to
from pirkit.frontend.numpy_ufuncs import apply_ufunc, fits, held, is_number, operand, refused
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type


@function("where")
def _where(b: Builder, condition: Any, x: Any, y: Any) -> Value:
    held = operand(b, condition, dt.bool_)
    left, right = together(b, x, y)
    shapes = [v.shape for v in (held, left, right)]
    if not any(UNKNOWN in s for s in shapes):
        shape = np.broadcast_shapes(*shapes)
        held, left, right = (broadcast_to(b, v, shape) for v in (held, left, right))
    return b("pd_op.where", held, left, right)


@function("clip")
def _clip(
    b: Builder, x: Any, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None
) -> Value:
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    found = value_of(b, x)
    # A bound beyond the element type clips nothing.
    if is_number(low) and low < 0 and not fits(low, found.dtype):
        low = None
    if is_number(high) and high > 0 and not fits(high, found.dtype):
        high = None
    if low is not None:
        found = apply_ufunc(b, np.maximum, (found, low))
    return found if high is None else apply_ufunc(b, np.minimum, (found, high))


@function("round", "around")
def _round(b: Builder, x: Any, decimals: int = 0) -> Value:
    x = value_of(b, x)
    if x.dtype.is_integer and decimals >= 0:
        return x
    if x.dtype.is_integer:  # as numpy, in float64
        ten = 10.0**-decimals
        return b.cast(b.scaled(b.round(apply_ufunc(b, np.divide, (x, ten))), ten), x.dtype)
    if not x.dtype.is_float:
        raise refused(f"`round` of a {x.meta} to {decimals} decimals", "cast it with `astype`")
    return b.round(x, decimals=decimals)


@function("real")
def _real(b: Builder, x: Any) -> Value:
    x = value_of(b, x)
    return b.real(x) if x.dtype.is_complex else x


@function("imag")
def _imag(b: Builder, x: Any) -> Value:
    x = value_of(b, x)
    return b.imag(x) if x.dtype.is_complex else b.zeros_like(x)


@function("conj")
def conj(b: Builder, x: Any) -> Value:
    """The complex conjugate."""
    return apply_ufunc(b, np.conjugate, (value_of(b, x),))


@function("astype")
def _astype(b: Builder, x: Any, dtype: DTypeLike, copy: bool = True) -> Value:
    return b.cast(value_of(b, x), element_type(dtype))


@function("copy")
def _copy(b: Builder, x: Any) -> Value:
    return value_of(b, x)


@function("full_like")
def full_like(
    b: Builder, x: Any, fill_value: Any, dtype: DTypeLike | None = None, *, shape: Any = None
) -> Value:
    """A value of the shape of ``x``, or of ``shape``, filled with a number or a value."""
    x = typed(b, value_of(b, x), dtype)
    if shape is not None:
        return _full(b, shape, fill_value, x.dtype.np)
    if is_number(fill_value):
        return b.like(held(fill_value, x.dtype), x)
    return broadcast_to(b, operand(b, fill_value, x.dtype), x.shape)


@function("zeros_like", "empty_like")
def _zeros_like(b: Builder, x: Any, dtype: DTypeLike | None = None, *, shape: Any = None) -> Value:
    return full_like(b, x, 0, dtype, shape=shape)


@function("ones_like")
def _ones_like(b: Builder, x: Any, dtype: DTypeLike | None = None, *, shape: Any = None) -> Value:
    return full_like(b, x, 1, dtype, shape=shape)


@function("asarray", "array")
def _asarray(b: Builder, x: Any, dtype: DTypeLike | None = None, copy: bool = False) -> Value:
    if isinstance(x, list | tuple):  # nested lists of values and numbers
        parts = [_asarray(b, v) for v in cast("list[Any]", x)]
        return typed(b, FUNCTIONS["stack"](b, parts), dtype)
    return typed(b, value_of(b, x), dtype)


@function("full")
def _full(b: Builder, shape: Any, fill_value: Any, dtype: DTypeLike | None = None) -> Value:
    return broadcast_to(b, typed(b, value_of(b, fill_value), dtype), shape)


@function("linspace")
def _linspace(
    b: Builder,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
) -> Value:
    first, last = [b.cast(v, _inexact(v.dtype)) for v in together(b, start, stop)]
    parts, shape = max(num - endpoint, 1), (num, *(1,) * first.rank)
    places = b.reshape(b.value(np.arange(num).astype(first.dtype.np)), shape)
    step = (last - first) * (1 / parts) if first.dtype.is_complex else (last - first) / parts
    found = apply_ufunc(b, np.add, (first, apply_ufunc(b, np.multiply, (step, places))))
    if endpoint and num > 1:  # the last one is exact
        is_last = b.reshape(b.value(np.arange(num) == num - 1), shape)
        found = FUNCTIONS["where"](b, is_last, last, found)
    if dtype is not None and element_type(dtype).is_integer:
        found = apply_ufunc(b, np.floor, (found,))
    return typed(b, found, dtype)


def _inexact(dtype: DType) -> DType:
    return dtype if dtype.is_float or dtype.is_complex else dt.float64
