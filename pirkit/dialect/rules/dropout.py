"""Dropout: its derivative reads the mask that was drawn, and draws nothing itself."""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.runtime import dtype as dt


@decompose("pd_op.dropout")
def _(c: OpCall) -> tuple[Value, Value]:
    """Training stays whole, so that decomposing a program does not change what it draws."""
    b, x = c.b, c.x
    if not c.is_test or isinstance(c.p, Value):
        return NotImplemented
    factor = 1.0 if c.mode == "upscale_in_train" else 1 - c.p
    out = b.cast(b.scaled(b.wide(x), factor), x.dtype)
    return out, b.cast(b.ones_like(x), dt.uint8)


@vjp("pd_op.dropout")
def _(c: OpCall, g: Value | None, _: Value | None) -> tuple[Value | None, None]:
    if g is None:
        return None, None
    b, p, upscale = c.b, c.p, c.mode == "upscale_in_train"
    wide = b.wide(g)
    if c.is_test:
        found = (
            wide
            if upscale
            else (wide * _kept(b, p, wide) if isinstance(p, Value) else b.scaled(wide, 1 - p))
        )
    else:
        found = wide * b.cast(c.mask, wide.dtype)
        if upscale and isinstance(p, Value):
            share = _kept(b, p, wide)
            found = found / b.where(b.equal(share, b.zeros_like(share)), 1.0, share)
        elif upscale and p < 1:
            found = b.scaled(found, 1 / (1 - p))
    return b.cast(found, g.dtype), None


def _kept(b: Builder, p: Value, like: Value) -> Value:
    """The share of elements that stays, as a scalar of the element type of ``like``."""
    return 1 - b.cast(p, like.dtype)
