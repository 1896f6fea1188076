"""Softmax and its relatives."""

from __future__ import annotations

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp


@decompose("pd_op.softmax")
def _(c: OpCall) -> Value:
    """The maximum is subtracted first, so that nothing overflows."""
    b, axis = c.b, (c.axis,)
    x = b.wide(c.x)
    if not c.x.rank:
        return b.cast(b.exp(x - x), c.x.dtype)
    if not c.x.shape[c.axis]:
        return b.ones_like(c.x)
    e = b.exp(x - b("pd_op.max", x, axis=axis, keepdim=True))
    return b.cast(e / b.sum(e, axis, keepdim=True), c.x.dtype)


@decompose("pd_op.fused_softmax_mask")
def _(c: OpCall) -> Value:
    b = c.b
    found = b.softmax(b.wide(c.x) + b.wide(c.mask), axis=-1)
    return b.cast(found, c.x.dtype)


@vjp("pd_op.softmax")
def _(c: OpCall, g: Value) -> Value:
    b, out = c.b, c.out
    if not out.rank:
        return b.zeros_like(out)
    weighted = g * out
    return weighted - out * b.sum(weighted, (c.axis,), keepdim=True)
