"""Order statistics in terms of indices: sorting gives the indices, a gather the values.

A place does not depend on the values smoothly, so the derivative is that of the reading, which is
right at any order.
"""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.movement.movement import arange, part
from pirkit.dialect.rules.reduction.reduction import axes_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@vjp("pd_op.cummax", "pd_op.cummin")
def _(c: OpCall, g: Value | None, _indices: None = None) -> Value | None:
    b, x = c.b, c.x
    if g is None or not x.rank:
        return g
    zeros = b.zeros_like(x)
    return b.put_along_axis(zeros, c.indices, g, axis=c.axis, reduce="add")


@decompose("pd_op.kthvalue")
def _(c: OpCall) -> tuple[Value, Value]:
    b, x = c.b, c.x
    if not x.rank:
        return x, b.const(0, dt.int64)
    axis = c.axis % x.rank
    order = b.argsort(x, axis=axis, stable=True)[1]
    if x.shape[axis] == UNKNOWN:  # unlike a slice, a gather raises where there are fewer elements
        return _read(c, b.gather(order, b.const(c.k - 1, dt.int64, (1,)), axis=axis), axis)
    return _read(c, part(b, order, (axis,), (c.k - 1,), (c.k,)), axis)


@decompose("pd_op.mode")
def _(c: OpCall) -> tuple[Value, Value]:
    """The end of the longest run of equal elements, the first of several, in order."""
    b, x = c.b, c.x
    if not x.rank:
        return x, b.const(0, dt.int64)
    axis = c.axis % x.rank
    ordered, order = b.argsort(x, axis=axis, stable=True)
    places = b.reshape(arange(b, x, axis), (-1, *[1] * (x.rank - 1 - axis)))
    follows = b.equal(ordered, b.roll(ordered, shifts=(1,), axis=(axis,)))
    zero = b.const(0, dt.int64)
    starts = b.where(b.logical_and(follows, b.greater_than(places, zero)), zero, places)
    run = places - b.cummax(starts, axis=axis)[0]
    last = b.argmax(run, axis=axis, keepdims=True)
    return _read(c, b.take_along_axis(order, last, axis=axis), axis)


def _read(c: OpCall, places: Value, axis: int) -> tuple[Value, Value]:
    b = c.b
    out = b.take_along_axis(c.x, places, axis=axis)
    if c.keepdim:
        return out, places
    return b.squeeze(out, axis=(axis,)), b.squeeze(places, axis=(axis,))


@decompose("pd_op.median", "pd_op.nanmedian")
def _(c: OpCall) -> tuple[Value, Value]:
    """The index of a median is -1 where all elements are skipped."""
    b, x = c.b, c.x
    skips = "nan" in c.definition.name
    axes = axes_of(x, c.axis)
    other_axes = [i for i in range(x.rank) if i not in axes]
    rows = b.transpose(x, perm=(*other_axes, *axes)) if x.rank else b.reshape(x, (1,))
    if len(axes) > 1:
        rows = b.flatten(rows, start_axis=len(other_axes), stop_axis=x.rank - 1)
    last = rows.rank - 1
    if rows.shape[last] == 0:
        return NotImplemented
    order = b.argsort(rows, axis=last, stable=True)[1]
    is_nan = b.cast(b.not_equal(rows, rows), dt.int64)
    size = b.sum(b.ones_like(is_nan), (last,), keepdim=True)
    missing = b.sum(is_nan, (last,), keepdim=True)
    count = size - missing if skips else size
    zero, one, two = (b.const(i, dt.int64) for i in (0, 1, 2))
    high = b.minimum(b.floor_divide(count, two), size - one)
    low = b.floor_divide(b.maximum(count - one, zero), two)
    at = b.take_along_axis(order, b.concat([low, high], axis=last), axis=last)
    pair = b.take_along_axis(rows, at, axis=last)
    value = part(b, pair, (last,), (0,), (1,))
    if c.mode == "avg":
        value = _between(b, value, part(b, pair, (last,), (1,), (2,)))
    is_gone = b.equal(count, zero) if skips else b.greater_than(missing, zero)
    if x.dtype.is_float:
        value = b.where(is_gone, b.const(float("nan"), x.dtype), value)
    places = b.where(b.equal(count, zero), b.const(-1, dt.int64), at) if skips else at
    if c.mode != "avg":
        places = part(b, places, (last,), (0,), (1,), (last,))
    value = b.squeeze(value, axis=(last,))
    if not c.keepdim:
        return value, places
    value = _with_ones(b, value, axes)
    return value, _with_ones(b, places, axes)


def _between(b: Builder, low: Value, high: Value) -> Value:
    """The mean of two values. That of integers is truncated, and exact if they are equal."""
    if low.dtype.is_float:
        return b.cast(b.wide(low) * 0.5 + b.wide(high) * 0.5, low.dtype)
    wide = (b.cast(low, dt.float64) + b.cast(high, dt.float64)) * 0.5
    return b.where(b.equal(low, high), low, b.cast(b.trunc(wide), low.dtype))


def _with_ones(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    return b.unsqueeze(x, axis=axes) if axes else x
