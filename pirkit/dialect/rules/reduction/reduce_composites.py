"""Reductions, selections and constants that are one step away from primitives."""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement.movement import arange
from pirkit.dialect.rules.movement.size_ops import as_list, sizes_of
from pirkit.dialect.rules.reduction.reduction import axes_of, count
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import np
from pirkit.runtime.meta import UNKNOWN


@decompose("pd_op.add_n")
def _(c: OpCall) -> Value:
    """Halves are summed in float32 and rounded once."""
    b, inputs = c.b, c.inputs
    total = b.total([b.wide(x) for x in inputs])
    return b.cast(total, inputs[0].dtype) if total is not None else NotImplemented


@decompose("pd_op.mean_all")
def _(c: OpCall) -> Value:
    return c.b.mean(c.x, axis=(), keepdim=False)


@decompose("pd_op.squared_l2_norm")
def _(c: OpCall) -> Value:
    b, x = c.b, c.b.wide(c.x)
    total = b.sum(x * x, range(x.rank))
    return b.cast(b.reshape(total, (1,)), c.x.dtype)


@decompose("pd_op.lerp")
def _(c: OpCall) -> Value:
    b = c.b
    x, y, weight = (b.wide(v) for v in (c.x, c.y, c.weight))
    return b.cast(x + weight * (y - x), c.x.dtype)


@decompose("pd_op.clip")
def _(c: OpCall) -> Value:
    """At a bound the derivative is 1; NaN passes."""
    b, x = c.b, c.x
    low, high = _bound(b, c.min, x), _bound(b, c.max, x)
    above = b.where(b.less_than(x, low), low, x)
    return b.where(b.greater_than(above, high), high, above)


def _bound(b: Builder, bound: Value | float, x: Value) -> Value:
    if isinstance(bound, Value):
        return b.cast(b.reshape(bound, ()) if bound.rank else bound, x.dtype)
    if x.dtype.is_integer:
        limits = np.iinfo(x.dtype.np)
        bound = int(min(max(bound, int(limits.min)), int(limits.max)))
    return b.const(bound, x.dtype)


@decompose("pd_op.any")
def _(c: OpCall) -> Value:
    return _how_many(c, c.b.cast(c.x, dt.bool_), "pd_op.greater_than")


@decompose("pd_op.all")
def _(c: OpCall) -> Value:
    return _how_many(c, c.b.logical_not(c.b.cast(c.x, dt.bool_)), "pd_op.equal")


def _how_many(c: OpCall, holds: Value, compare: str) -> Value:
    b = c.b
    count = b.sum(b.cast(holds, dt.int64), axes_of(c.x, c.axis), keepdim=c.keepdim)
    return b(compare, count, b.const(0, dt.int64))


@decompose("pd_op.equal_all")
def _(c: OpCall) -> Value:
    b, x, y = c.b, c.x, c.y
    sizes = list(zip(x.shape, y.shape, strict=False))
    if x.rank != y.rank or any(UNKNOWN not in pair and pair[0] != pair[1] for pair in sizes):
        return b.const(False, dt.bool_)
    if UNKNOWN not in (*x.shape, *y.shape):
        return b.all(b.equal(x, y), axis=(), keepdim=False)
    same = b.all(b.equal(b.shape_of(x), b.shape_of(y)), axis=(), keepdim=False)
    x, y = (b.reshape(v, (-1,)) for v in (x, y))
    beyond = b.const(0, y.dtype, (1,))  # is read where y is the shorter one
    places = b.minimum(arange(b, x, 0), as_list(b, sizes_of(b, y)[0]))
    read = b.gather(b.concat([y, beyond], axis=0), places, axis=0)
    return b.logical_and(same, b.all(b.equal(x, read), axis=(), keepdim=False))


@decompose("pd_op.numel")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    if UNKNOWN not in x.shape:
        return b.const(x.meta.numel, dt.int64)
    return b.prod(b.shape_of(x), axis=(), keepdim=False, reduce_all=True)


@decompose("pd_op.eye")
def _(c: OpCall) -> Value:
    b, rows, columns = c.b, c.num_rows, c.num_columns
    row, column = (
        b.arange(start=0, end=n, step=1, dtype=dt.int64)
        for n in (rows, rows if isinstance(columns, int) and columns == -1 else columns)
    )
    is_diagonal = b.equal(b.unsqueeze(row, axis=(1,)), b.unsqueeze(column, axis=(0,)))
    return b.cast(is_diagonal, c.dtype)


@decompose("pd_op.fill_diagonal")
def _(c: OpCall) -> Value:
    """Of a matrix every (columns + 1)-th element, but none that `offset` moves to another row."""
    b, x, offset = c.b, c.x, c.b.const(c.offset, dt.int64)
    places = [
        b.reshape(arange(b, x, i), tuple(-1 if j == i else 1 for j in range(x.rank)))
        for i in range(x.rank)
    ]
    if x.rank > 2:
        filled = b.equal(places[0], places[-1] - offset)
        for other in places[1:-1]:
            filled = b.logical_and(filled, b.equal(places[0], other))
    else:
        row, zero = places[0], b.const(0, dt.int64)
        column = places[1] - offset
        columns = as_list(b, sizes_of(b, x)[1])
        inside = b.logical_and(b.greater_equal(column, zero), b.less_than(column, columns))
        along = b.remainder(row * columns + column, columns + b.integers((1,)))
        filled = b.logical_and(inside, b.equal(along, zero))
        if not c.wrap:
            filled = b.logical_and(filled, b.less_than(row, columns))
    return b.where(filled, b.const(c.value, x.dtype), x)


@decompose("pd_op.var", "pd_op.std")
def _(c: OpCall) -> Value:
    b, x = c.b, c.b.wide(c.x)
    axes = axes_of(x, c.axis)
    distance = x - b.mean(x, axis=axes, keepdim=True)
    total = b.sum(distance * distance, axes, keepdim=c.keepdim)
    number = count(b, x, axes)
    if isinstance(number, Value):
        divisor = b.maximum(number - c.correction, b.const(0.0, x.dtype))
    else:
        divisor = b.const(max(number - c.correction, 0.0), x.dtype)
    found = total / divisor
    if c.definition.name == "pd_op.std":  # of equal elements it has the slope 0, as norms have
        is_zero = b.equal(found, b.zeros_like(found))
        found = b.where(is_zero, 0.0, b.sqrt(b.where(is_zero, b.ones_like(found), found)))
    return b.cast(found, c.x.dtype)


@decompose("pd_op.nansum")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    some = b.where(b.isnan(x), b.zeros_like(x), x) if x.dtype.is_float else x
    return b("pd_op.sum", some, axis=tuple(c.axis), dtype=c.dtype, keepdim=c.keepdim)
