"""The hierarchical sigmoid: each node on the path to a class has weights and makes a decision."""

from __future__ import annotations

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.ops.nn.hsigmoid_loss import depth
from pirkit.dialect.rules.movement.movement import refused
from pirkit.dialect.rules.movement.size_ops import in_shape, sizes_of


@decompose("pd_op.hsigmoid_loss")
def _(c: OpCall) -> tuple[Value, Value, Value]:
    b, x = c.b, c.x
    path, code = (c.path, c.code) if c.path is not None else _way(c)
    inside = path >= 0
    zero = b.zeros_like(path)
    node = in_shape(b, b.where(inside, path, zero), [-1])
    count, length = sizes_of(b, path)
    rows = in_shape(b, b.gather(c.w, node, axis=0), [count, length, sizes_of(b, x)[1]])
    own = b.sum(b.unsqueeze(x, axis=(1,)) * rows, (2,))
    if c.bias is not None:
        own = own + in_shape(b, b.gather(in_shape(b, c.bias, [-1]), node, axis=0), [count, length])
    own = b.where(own > 40.0, 40.0, b.where(own < -40.0, -40.0, own))
    cut = b.where(inside, own, b.zeros_like(own))
    chosen = b.logical_and(inside, b.equal(code, zero + 1))
    out = b.log1p(b.exp(cut))
    cost = out - b.where(chosen, cut, b.zeros_like(cut))
    return b.sum(cost, (1,), keepdim=True), out, b.assign(c.w)


def _way(c: OpCall) -> tuple[Value, Value]:
    """Nodes and decisions in a complete tree, from the node above the leaf to the root."""
    b = c.b
    bits = b.unsqueeze(b.integers([*range(depth(c.num_classes))]), axis=(0,))
    label = in_shape(b, c.label, [-1, 1])
    label = label + refused(b, b.logical_or(label < 0, label >= c.num_classes))
    number = label + c.num_classes
    node = b.bitwise_right_shift(number, bits + 1) - 1
    odd = b.bitwise_and(b.bitwise_right_shift(number, bits), b.integers((1,)))
    return node, odd
