"""Reads at computed indices, in terms of `gather` and related ops; selection."""

from __future__ import annotations

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.movement.movement import add_at, arange, counted, from_start, part
from pirkit.dialect.rules.movement.size_ops import in_shape, sizes_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@decompose("pd_op.index_select")
def _(c: OpCall) -> Value:
    return c.b.gather(c.x, c.index, axis=c.axis)


@decompose("pd_op.index_sample")
def _(c: OpCall) -> Value:
    return c.b.take_along_axis(c.x, from_start(c.b, c.index), axis=1)


@decompose("pd_op.embedding")
def _(c: OpCall) -> Value:
    """A row for each index; no derivative flows into the rows of `padding_idx`."""
    b, x, weight = c.b, c.x, c.weight
    index = x if x.dtype in (dt.int32, dt.int64) else b.cast(x, dt.int64)
    places = from_start(b, index)
    out = b.gather(weight, places if x.rank < 2 else b.reshape(places, (-1,)), axis=0)
    if x.rank > 1:
        shape = (*x.shape, weight.shape[1])
        if shape.count(UNKNOWN) > 1:
            width = part(b, b.shape_of(weight), (0,), (1,), (2,))
            out = b.reshape(out, b.concat([b.shape_of(x), width], axis=0))
        else:
            out = b.reshape(out, shape)
    if c.padding_idx == -1:
        return out
    is_padding = b.equal(index, b.const(c.padding_idx, index.dtype))
    return b.where(b.unsqueeze(is_padding, axis=(-1,)), b.const(0.0, out.dtype), out)


@decompose("pd_op.embedding_with_scaled_gradient")
def _(c: OpCall) -> Value:
    return c.b.embedding(c.x, c.weight, padding_idx=c.padding_idx)


@vjp("pd_op.embedding_with_scaled_gradient")
def _(c: OpCall, g: Value) -> tuple[None, Value]:
    """Each row of the gradient is divided before the rows of one index are added."""
    b, weight = c.b, c.weight
    index = b.reshape(c.x if c.x.dtype in (dt.int32, dt.int64) else b.cast(c.x, dt.int64), (-1,))
    ones = b.ones_like(b.cast(index, dt.float32))
    counts = add_at(b, ones, b.cast(weight[:, 0], dt.float32), 0, index)
    rate = 1.0 / b.gather(counts, index, axis=0)
    if c.padding_idx != -1:
        is_padding = b.equal(index, b.const(c.padding_idx, index.dtype))
        rate = b.where(is_padding, b.zeros_like(rate), rate)
    rows = b.reshape(g, (-1, weight.shape[1]))
    return None, add_at(b, rows * b.cast(b.unsqueeze(rate, axis=(-1,)), g.dtype), weight, 0, index)


@decompose("pd_op.one_hot")
def _(c: OpCall) -> Value:
    """Each number is read among all classes first, which refuses those of none."""
    b, x, count = c.b, c.x, c.num_classes
    index = x if x.dtype in (dt.int32, dt.int64) else b.cast(x, dt.int64)
    classes = b.arange(start=0, end=count, step=1, dtype=index.dtype)
    found = counted(b, from_start(b, index), classes)
    is_class = b.equal(b.unsqueeze(found, axis=(-1,)), classes)
    return b.cast(is_class, dt.float32)


@decompose("pd_op.masked_fill")
def _(c: OpCall) -> Value:
    """Value, mask and x broadcast; a value with one element does so whatever its rank."""
    b, x, mask = c.b, c.x, c.mask
    value = b.cast(c.value, x.dtype)
    rank = max(x.rank, mask.rank)
    if value.rank > rank:
        value = in_shape(b, value, sizes_of(b, value)[value.rank - rank :])
    return b.where(mask, value, x)


@decompose("pd_op.masked_select")
def _(c: OpCall) -> Value:
    b, x, mask = c.b, c.x, c.mask
    if x.shape != mask.shape or UNKNOWN in x.shape:
        mask = b.logical_and(mask, b.cast(b.ones_like(x), dt.bool_))
        x = b.where(mask, x, b.const(0, x.dtype))
    if x.rank == 0:
        x, mask = b.reshape(x, (1,)), b.reshape(mask, (1,))
    return b.gather_nd(x, b.nonzero(mask))


@decompose("pd_op.multiplex")
def _(c: OpCall) -> Value:
    """Row ``i`` comes from the input whose number is in ``index[i]``."""
    b, inputs = c.b, c.inputs
    stacked = b.stack(inputs, axis=0)
    which = from_start(b, b.cast(b.reshape(c.index, (-1,)), dt.int64))
    return b.gather_nd(stacked, b.stack([which, arange(b, which, 0)], axis=1))
