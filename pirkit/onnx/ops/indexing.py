"""Gathers: elements at given indices."""

from __future__ import annotations

import numpy as np

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


def positive(b: NodeBuilder, index: Value, x: Value, axis: int) -> Value:
    """Indices along an axis, with negative ones counted from the front; constants are folded."""
    size = x.shape[axis]
    found = b.evaluated(index.ssa)
    if found is not None:
        known = np.asarray(found, np.int64)
        if known.size == 0 or known.min() >= 0:
            return index
        if size != UNKNOWN:
            return b.array(np.where(known < 0, known + size, known).astype(index.dtype.np))
    below = b.less_than(index, b.scalar(0, index))
    length = b.scalar(size, index)
    if size == UNKNOWN:
        length = b.reshape(b.cast(b.cut(b.shape64(x), 0, axis, axis + 1), index.dtype), ())
    return b.where(below, b.add(index, length), index)


@rule("Gather")
def _(b: NodeBuilder, x: Value, indices: Value, axis: int = 0) -> Value:
    place = b.axis(axis, x.rank)
    known = b.evaluated(indices.ssa)
    if known is not None and known.ndim == 0:
        number = int(known)
        if number < 0:
            number += b.static(x)[place]
        return b.at(x, place, number)
    indices = positive(b, indices, x, place)
    if indices.rank == 1:
        return b.gather(x, indices, axis=place)
    shape = indices.shape
    if shape.count(UNKNOWN) > 1:
        found = b.gather_nd(b.moved(x, place, 0), b.unsqueezed(indices, (indices.rank,)))
        rest = [d for d in range(found.rank) if d >= indices.rank]
        order = [*rest[:place], *range(indices.rank), *rest[place:]]
        return b.permute(found, order)
    flat = b.reshape(indices, (-1 if UNKNOWN in shape else int(np.prod(shape)),))
    found = b.gather(x, flat, axis=place)
    unknown = [n for n in (*x.shape[:place], *shape, *x.shape[place + 1 :]) if n == UNKNOWN]
    if len(unknown) > 1:
        b.static(x)
    return b.reshape(found, (*x.shape[:place], *shape, *x.shape[place + 1 :]))


@rule("GatherElements")
def _(b: NodeBuilder, x: Value, indices: Value, axis: int = 0) -> Value:
    place = b.axis(axis, x.rank)
    index = positive(b, indices, x, place)
    for d, (size, wanted) in enumerate(zip(x.shape, index.shape, strict=True)):
        if d != place and UNKNOWN in (size, wanted):
            end = b.cut(b.shape64(index), 0, d, d + 1)
            x = b("pd_op.slice", x, starts=(0,), ends=end, axes=(d,))
        elif d != place and wanted < size:
            x = b.cut(x, d, 0, wanted)
    return b.take_along_axis(x, index, axis=place)


@rule("GatherND")
def _(b: NodeBuilder, x: Value, indices: Value, batch_dims: int = 0) -> Value:
    if batch_dims:
        shape, lead = b.static(indices), b.static(x)[:batch_dims]
        grids = np.indices((*lead, *shape[batch_dims:-1]))[:batch_dims]
        rows = [b.unsqueezed(b.array(g.astype(indices.dtype.np)), (g.ndim,)) for g in grids]
        indices = b.concat([*rows, indices], indices.rank - 1)
    count = indices.shape[-1]
    if count == UNKNOWN:
        b.static(indices)
    sizes = x.shape[:count]
    if UNKNOWN in sizes:
        bounds = b.cast(b.cut(b.shape64(x), 0, 0, count), indices.dtype)
    else:
        bounds = b.array(np.asarray(sizes, indices.dtype.np))
    below = b.less_than(indices, b.scalar(0, indices))
    return b.gather_nd(x, b.where(below, b.add(indices, bounds), indices))


@rule("OneHot")
def _(b: NodeBuilder, indices: Value, depth: Value, values: Value, axis: int = -1) -> Value:
    (count,) = b.integers_of(depth, "depth") or [0]
    place = b.axis(axis, indices.rank + 1)
    index = b.cast(indices, dt.int64)
    index = b.where(b.less_than(index, b.scalar(0, index)), index + count, index)
    classes = b.arange(start=0, end=count, step=1, dtype=dt.int64)
    spread = b.reshape(classes, (count, *[1] * (indices.rank - place)))
    hit = b.equal(b.unsqueezed(index, (place,)), spread)
    return b("pd_op.where", hit, b.at(values, 0, 1), b.at(values, 0, 0))


@rule("NonZero")
def _(b: NodeBuilder, x: Value) -> Value:
    return b.permute(b.nonzero(x), (1, 0))


@rule("ArrayFeatureExtractor")
def _(b: NodeBuilder, x: Value, index: Value) -> Value:
    return b.gather(x, b.reshape(index, (-1,)), axis=x.rank - 1)
