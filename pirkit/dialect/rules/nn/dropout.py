"""Dropout: its derivative reads the mask that the forward drew, and draws nothing itself."""

from __future__ import annotations

from collections.abc import Sequence

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.random.random import shape_of, uniform
from pirkit.runtime import dtype as dt


@decompose("pd_op.dropout")
def _(c: OpCall) -> tuple[Value, Value]:
    """Elements whose random number is at least ``p`` survive: one draw, as in the kernel."""
    b, p, x = c.b, c.p, c.b.wide(c.x)
    upscale = c.mode == "upscale_in_train"
    if c.is_test:
        if not upscale:
            x = x * _masked(b, p, x) if isinstance(p, Value) else b.scaled(x, 1 - p)
        return b.cast(x, c.x.dtype), b.cast(b.ones_like(c.x), dt.uint8)
    mask_bits = drawn_above(b, p, shape_of(b, x), c.seed)
    if upscale:
        x = _upscaled(b, p, x)
    out = b.where(mask_bits, x, b.zeros_like(x))
    return b.cast(out, c.x.dtype), b.cast(mask_bits, dt.uint8)


def drawn_above(b: Builder, p: float | Value, shape: Sequence[int] | Value, seed: int = 0) -> Value:
    """True for the share ``1 - p`` of the elements of a shape: one draw."""
    drawn = uniform(b, shape, seed)
    return drawn >= (b.cast(p, dt.float64) if isinstance(p, Value) else p)


def _upscaled(b: Builder, p: float | Value, x: Value) -> Value:
    if not isinstance(p, Value):
        return b.scaled(x, 1 / (1 - p)) if p < 1 else x
    share = 1 - b.cast(p, dt.float64)
    factor = b.where(b.equal(share, b.zeros_like(share)), 1.0, 1 / share)
    return x * b.cast(factor, x.dtype)


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
            else (wide * _masked(b, p, wide) if isinstance(p, Value) else b.scaled(wide, 1 - p))
        )
    else:
        found = wide * b.cast(c.mask, wide.dtype)
        if upscale and isinstance(p, Value):
            share = _masked(b, p, wide)
            found = found / b.where(b.equal(share, b.zeros_like(share)), 1.0, share)
        elif upscale and p < 1:
            found = b.scaled(found, 1 / (1 - p))
    return b.cast(found, g.dtype), None


def _masked(b: Builder, p: Value, like: Value) -> Value:
    """The share of elements that stays, as a scalar of the element type of ``like``."""
    return 1 - b.cast(p, like.dtype)
