"""Complex numbers and their parts.

The cotangent of a complex number is that of its real part plus ``i`` times that of its imaginary
part, as in Paddle: the direction of steepest ascent.
"""

from __future__ import annotations

import math

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp


@vjp("pd_op.real")
def _(c: OpCall, g: Value) -> Value:
    return c.b.complex(g, c.b.zeros_like(g)) if c.x.dtype.is_complex else g


@vjp("pd_op.imag")
def _(c: OpCall, g: Value) -> Value | None:
    return c.b.complex(c.b.zeros_like(g), g) if c.x.dtype.is_complex else None


@vjp("pd_op.conj")
def _(c: OpCall, g: Value) -> Value:
    return c.b.conj(g) if g.dtype.is_complex else g


@vjp("pd_op.complex")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    b, real, imag = c.b, c.operand("real"), c.operand("imag")
    dreal = b.sum_to(b.real(g), real) if c.wants("real") else None
    return dreal, b.sum_to(b.imag(g), imag) if c.wants("imag") else None


@vjp("pd_op.as_complex")
def _(c: OpCall, g: Value) -> Value:
    return c.b.as_real(g)


@vjp("pd_op.as_real")
def _(c: OpCall, g: Value) -> Value:
    return c.b.as_complex(g)


@decompose("pd_op.angle")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    if x.dtype.is_complex:
        return b.atan2(b.imag(x), b.real(x))
    return b.where(x < 0, b.like(math.pi, x), b.where(x >= 0, b.zeros_like(x), x))


@vjp("pd_op.angle")
def _(c: OpCall, g: Value) -> Value | None:
    """At zero it is zero."""
    b, x = c.b, c.x
    if not x.dtype.is_complex:
        return None
    real, imag = b.real(x), b.imag(x)
    square = real * real + imag * imag
    is_zero = b.equal(square, b.zeros_like(square))
    by = b.where(is_zero, b.zeros_like(g), g / b.where(is_zero, b.ones_like(square), square))
    return b.complex(-(by * imag), by * real)
