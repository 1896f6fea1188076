"""Counting and grouping equal elements, and parts of index ranges."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.ops.reduction.sets import bounds
from pirkit.dialect.rules.movement.movement import END, arange, part, refused
from pirkit.runtime import dtype as dt


@decompose("pd_op.histogram")
def _(c: OpCall) -> Value:
    """Elements out of range are counted 0 times."""
    b, bins, dtype = c.b, c.bins, c.out.dtype
    x = b.reshape(c.input, (-1,))
    x = b.wide(x) if x.dtype.is_float else b.cast(x, dt.float64)
    low, high = _range(c, x)
    inside = b.logical_and(b.greater_equal(x, low), b.less_equal(x, high))
    along = (x - low) * b.const(bins, x.dtype) / (high - low)
    place = b.cast(b.where(inside, along, b.zeros_like(along)), dt.int64)
    place = b.minimum(place, b.const(bins - 1, dt.int64))
    numbers = dt.int64 if dtype is dt.int64 else dt.float64
    times = b.cast(inside, numbers)
    if c.weight is not None:
        times = b.where(inside, b.cast(b.reshape(c.weight, (-1,)), numbers), b.zeros_like(times))
    found = _added(b, (bins,), place, times)
    if c.density:
        width = b.cast(high - low, numbers) / bins
        found = found / (b.sum(found, (0,)) * width)
    return b.cast(found, dtype)


def _range(c: OpCall, x: Value) -> tuple[Value, Value]:
    """The bounds of a histogram; where they meet, one more to either side."""
    b = c.b
    least, most = bounds(c.input.dtype, c.min, c.max)
    low, high = b.const(least, x.dtype), b.const(most, x.dtype)
    if least == most and x.meta.numel != 0:
        low, high = (b(f"pd_op.{f}", x, axis=(0,), keepdim=False) for f in ("min", "max"))
    meet = b.cast(b.equal(low, high), x.dtype)
    return low - meet, high + meet


def _added(b: Builder, shape: Any, places: Value, values: Value) -> Value:
    """Zeros of a shape of one dimension, with values added at places."""
    zeros = b.expand(b.const(0, values.dtype), shape=shape)
    return b.scatter_nd_add(zeros, b.unsqueeze(places, axis=(1,)), values)


@decompose("pd_op.bincount")
def _(c: OpCall) -> Value:
    """A negative element is sent out of range, where it is refused."""
    b, x = c.b, c.b.cast(c.x, dt.int64)
    least = c.minlength
    if isinstance(least, Value):
        least = b.reshape(b.cast(least, dt.int64), (1,))
    else:
        least = b.integers((least,))
    zero = b.const(0, dt.int64)
    ends = b.concat([x + b.const(1, dt.int64), least], axis=0)
    size = b("pd_op.max", ends, axis=(0,), keepdim=True)
    places = b.where(b.less_than(x, zero), size, x)
    weights = b.ones_like(x) if c.weights is None else b.cast(c.weights, c.out.dtype)
    return _added(b, size, places, weights)


@decompose("pd_op.unique_consecutive")
def _(c: OpCall) -> tuple[Value | None, ...]:
    """A run starts at the first element, and where one differs from the one before."""
    b, x, axis = c.b, c.x, 0
    if c.axis and x.rank:
        axis = c.axis[0] % x.rank
    else:
        x = b.reshape(x, (-1,))
    others = tuple(i for i in range(x.rank) if i != axis)
    differs = b.not_equal(x, b.roll(x, shifts=(1,), axis=(axis,)))
    differs = b.any(differs, axis=others, keepdim=False) if others else differs
    places = arange(b, x, axis)
    starts = b.logical_or(differs, b.equal(places, b.zeros_like(places)))
    first = b.reshape(b.nonzero(starts), (-1,))
    run = b.cumsum(b.cast(starts, dt.int64), axis=0) - b.const(1, dt.int64)
    end = b.concat([part(b, first, (0,), (1,), (END,)), b.shape_of(places)], axis=0)
    counts = part(b, end, (0,), (0,), b.shape_of(first)) - first
    out = b.gather(x, first, axis=axis)
    index = b.cast(run, c.dtype) if c.return_inverse else None
    return out, index, b.cast(counts, c.dtype) if c.return_counts else None


@decompose("pd_op.shard_index")
def _(c: OpCall) -> Value:
    """An index outside of the shards is refused."""
    b, dtype, x = c.b, c.input.dtype, c.b.cast(c.input, dt.int64)
    x = x + refused(b, b.logical_or(x < 0, x >= c.index_num))
    size = b.const(max(1, -(-c.index_num // c.nshards)), dt.int64)
    is_here = b.equal(b.floor_divide(x, size), b.const(c.shard_id, dt.int64))
    other = b.const(c.ignore_value, dt.int64)
    return b.cast(b.where(is_here, b.remainder(x, size), other), dtype)
