"""Scatters: writes at given indices."""

from __future__ import annotations

import numpy as np

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.ops.indexing import positive
from pirkit.onnx.rules import rule

_REDUCE = {"none": "assign", "add": "add", "mul": "multiply", "max": "amax", "min": "amin"}


@rule("ScatterElements", "Scatter")
def _(
    b: NodeBuilder, x: Value, indices: Value, updates: Value, axis: int = 0,
    reduction: str = "none",
) -> Value:  # fmt: skip
    place = b.axis(axis, x.rank)
    index = positive(b, indices, x, place)
    return b.put_along_axis(x, index, updates, axis=place, reduce=_REDUCE[reduction],
                            include_self=True)  # fmt: skip


@rule("ScatterND")
def _(b: NodeBuilder, x: Value, indices: Value, updates: Value, reduction: str = "none") -> Value:
    """A scatter along one axis of a matrix, whose rows are the indexed dimensions flattened."""
    shape, places = b.static(x), b.static(indices)
    depth = places[-1]
    count = int(np.prod(places[:-1]))
    rows, width = int(np.prod(shape[:depth])), int(np.prod(shape[depth:]))
    strides = [int(np.prod(shape[d + 1 : depth])) for d in range(depth)]
    sizes = b.array(np.asarray(shape[:depth], indices.dtype.np))
    below = b.less_than(indices, b.scalar(0, indices))
    index = b.where(below, b.add(indices, sizes), indices)
    scaled = b.multiply(index, b.array(np.asarray(strides, indices.dtype.np)))
    flat = b.reshape(b.sum(scaled, (indices.rank - 1,)), (count, 1))
    found = b.put_along_axis(
        b.reshape(x, (rows, width)), b.expanded(flat, (count, width)),
        b.reshape(updates, (count, width)), axis=0, reduce=_REDUCE[reduction], include_self=True,
    )  # fmt: skip
    return b.reshape(found, shape)
