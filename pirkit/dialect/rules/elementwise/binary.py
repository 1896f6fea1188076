"""Functions of two tensors other than sums and products, and comparisons with a tolerance."""

from __future__ import annotations

from collections.abc import Callable

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.promotion import promote
from pirkit.dialect.rules.elementwise.elementwise import unbroadcast
from pirkit.runtime import dtype as dt

Pair = tuple[Value | None, ...]


@vjp("pd_op.atan2")
def _(c: OpCall, g: Value) -> Pair:
    """At the origin it is zero. Squares of half precision are taken in float32."""
    b, x, y = c.b, c.b.wide(c.x), c.b.wide(c.y)
    square = x * x + y * y
    is_origin = b.equal(square, b.zeros_like(square))
    by = b.where(is_origin, 0.0, b.wide(g) / b.where(is_origin, 1.0, square))
    dx = b.sum_to(b.cast(by * y, g.dtype), c.x) if c.wants("x") else None
    return dx, b.sum_to(b.cast(-(by * x), g.dtype), c.y) if c.wants("y") else None


@vjp("pd_op.remainder")
def _(c: OpCall, g: Value) -> Pair:
    """``x - n y``, where the integer ``n`` is constant."""
    b = c.b
    times = b.round((c.x - c.out) / c.y) if c.wants("y") else None
    return unbroadcast(c, g, None if times is None else -(g * times))


def _ordered(name: str) -> Callable[[OpCall, Value], Pair]:
    """The larger (smaller) operand takes the cotangent, in a tie `x`; NaN takes nothing."""

    def rule(c: OpCall, g: Value) -> Pair:
        b = c.b
        wins = b.logical_or(b(f"pd_op.{name}", c.x, c.y), b.isnan(c.y))
        dx = b.where(wins, g, 0.0) if c.wants("x") else None
        dy = b.where(wins, 0.0, g) if c.wants("y") else None
        return unbroadcast(c, dx, dy)

    return rule


vjp("pd_op.fmax")(_ordered("greater_equal"))
vjp("pd_op.fmin")(_ordered("less_equal"))


@vjp("pd_op.copysign")
def _(c: OpCall, g: Value) -> Pair:
    b = c.b
    dx = g * b.sign(c.x) * b.copysign(b.ones_like(c.x), c.y) if c.wants("x") else None
    return unbroadcast(c, dx, None)


@vjp("pd_op.nextafter")
def _(c: OpCall, g: Value) -> Pair:
    """That of ``x``, next to which it lies."""
    return unbroadcast(c, g, None)


@decompose("pd_op.heaviside")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    zero = b.zeros_like(x)
    return b.where(b.equal(x, zero), c.y, b.cast(b.greater_than(x, zero), x.dtype))


@decompose("pd_op.isclose")
def _(c: OpCall) -> Value:
    common = promote(c.x.meta, c.y.meta, "C2")
    wide = common if common in (dt.float32, dt.complex64, dt.complex128) else dt.float64
    return _are_close(c, c.b.cast(c.x, wide), c.b.cast(c.y, wide))


@decompose("pd_op.allclose")
def _(c: OpCall) -> Value:
    b = c.b
    close = _are_close(c, b.cast(c.x, dt.float64), b.cast(c.y, dt.float64))
    return b.all(close, axis=(), keepdim=False)


def _are_close(c: OpCall, x: Value, y: Value) -> Value:
    """Equal, or not further apart than the tolerance; infinities are close to themselves alone."""
    b, size = c.b, c.b.abs(y)
    rtol, atol = (_number(b, v, size) for v in (c.rtol, c.atol))
    near = b.less_equal(b.abs(x - y), atol + rtol * size)
    close = b.logical_or(b.logical_and(near, b.isfinite(y)), b.equal(x, y))
    if c.equal_nan:
        close = b.logical_or(close, b.logical_and(b.isnan(x), b.isnan(y)))
    return close


def _number(b: Builder, given: Value | float, like: Value) -> Value:
    if not isinstance(given, Value):
        return b.const(given, like.dtype)
    return b.cast(b.reshape(given, ()), like.dtype)
