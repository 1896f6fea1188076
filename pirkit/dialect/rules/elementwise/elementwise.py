"""Derivatives of elementwise primitives.

Where a family of functions is closed under differentiation (powers, exponentials, polynomials of
the result) the rule stays in it, so that repeated derivatives grow linearly.

The cotangent of a complex number is that of its real part plus ``i`` times that of its imaginary
part, so that of an analytic function is multiplied by the conjugate of the derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, cast

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import constant_scalar
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp

Unary = Callable[[OpCall, Value], Value]
Rule = Callable[..., Any]

UNARY: Final[dict[str, Unary]] = {
    "exp": lambda c, g: g * c.out,
    "expm1": lambda c, g: g * (c.out + 1),
    "log": lambda c, g: g * c.x**-1,
    "log1p": lambda c, g: g * (c.x + 1) ** -1,
    "log2": lambda c, g: g * c.x**-1 * (1 / math.log(2)),
    "log10": lambda c, g: g * c.x**-1 * (1 / math.log(10)),
    "sin": lambda c, g: g * c.b.cos(c.x),
    "cos": lambda c, g: -(g * c.b.sin(c.x)),
    "tan": lambda c, g: g * (c.out * c.out + 1),
    "sinh": lambda c, g: g * c.b.cosh(c.x),
    "cosh": lambda c, g: g * c.b.sinh(c.x),
    "tanh": lambda c, g: g * (1 - c.out * c.out),
    "asin": lambda c, g: g * (1 - c.x * c.x) ** -0.5,
    "acos": lambda c, g: -(g * (1 - c.x * c.x) ** -0.5),
    "atan": lambda c, g: g * (c.x * c.x + 1) ** -1,
    "asinh": lambda c, g: g * (c.x * c.x + 1) ** -0.5,
    "acosh": lambda c, g: g * _slope_of_acosh(c.x),
    "atanh": lambda c, g: g * (1 - c.x * c.x) ** -1,
    "sigmoid": lambda c, g: g * (c.out * (1 - c.out)),
    "sqrt": lambda c, g: g * c.x**-0.5 * 0.5,
    "rsqrt": lambda c, g: g * c.x**-1.5 * -0.5,
    "reciprocal": lambda c, g: -(g * c.x**-2),
    "square": lambda c, g: g * c.x * 2,
    "erf": lambda c, g: g * c.b.exp(-(c.x * c.x)) * (2 / math.sqrt(math.pi)),
}
"""Analytic op -> cotangent of its operand, from its call and the cotangent of its result, both as
if the numbers were real."""


def _slope_of_acosh(x: Value) -> Value:
    """``1 / sqrt(x * x - 1)``; of a complex number the roots are taken one by one, as the root of
    the product has the other sign in the left half plane. (``x + 1`` would lose the sign of zero.)
    """
    if x.dtype.is_complex:
        return (x - 1) ** -0.5 * (x - -1) ** -0.5
    return (x * x - 1) ** -0.5


def analytic(rule: Rule) -> Rule:
    """The rule of an analytic function with one result for complex numbers, from that for real
    ones."""

    def conjugated(c: OpCall, g: Value) -> Any:
        if not g.dtype.is_complex:
            return rule(c, g)
        found = rule(c, c.b.conj(g))
        if isinstance(found, tuple):
            return tuple([v and c.b.conj(v) for v in cast("tuple[Any, ...]", found)])
        return found and c.b.conj(found)

    return conjugated


for _name, _rule in UNARY.items():
    vjp(f"pd_op.{_name}")(analytic(_rule))


def _logarithm(c: OpCall, x: Value, base: int) -> Value:
    """Parts of complex numbers are scaled one by one: a product with 0j makes NaN of infinity."""
    b, log, factor = c.b, c.b.log(x), 1 / math.log(base)
    if x.dtype.is_complex:
        return b.complex(b.real(log) * factor, b.imag(log) * factor)
    return log * factor


SIMPLE: Final[dict[str, Callable[[OpCall, Value], Value]]] = {
    "log2": lambda c, x: _logarithm(c, x, 2),
    "log10": lambda c, x: _logarithm(c, x, 10),
    "reciprocal": lambda c, x: 1 / x,
    "square": lambda c, x: x * x,
    "increment": lambda c, x: x + c.b.const(c.value, x.dtype),
}
"""Op -> itself in one or two primitives."""


def _rounded_once(rule: Callable[[OpCall, Value], Value]) -> Callable[[OpCall], Value]:
    return lambda c: c.b.cast(rule(c, c.b.wide(c.x)), c.out.dtype)


for _name, _rule in SIMPLE.items():
    decompose(f"pd_op.{_name}")(_rounded_once(_rule))


@vjp("pd_op.floor", "pd_op.ceil", "pd_op.round", "pd_op.trunc")
def _(c: OpCall, g: Value) -> None:
    return None


@vjp("pd_op.assign")
def _(c: OpCall, g: Value) -> Value:
    return g


@vjp("pd_op.abs")
def _(c: OpCall, g: Value) -> Value:
    """Along ``x``, which at zero has no direction."""
    return c.b.cast(g, c.x.dtype) * c.b.sign(c.x)


@vjp("pd_op.sign")
def _(c: OpCall, g: Value) -> Value | None:
    """The direction of a complex number moves across itself, the slower the longer the number."""
    b, out = c.b, c.out
    if not out.dtype.is_complex:
        return None
    size = b.abs(c.x)
    is_zero = b.equal(size, b.zeros_like(size))
    across = b.imag(g * b.conj(out)) / b.where(is_zero, 1.0, size)
    return out * b.complex(b.zeros_like(across), across)


@vjp("pd_op.scale")
def _(c: OpCall, g: Value) -> Value:
    factor = c.scale
    if isinstance(factor, Value):
        return g * conjugate(c.b, c.b.cast(factor, g.dtype))
    return g * (factor.conjugate() if isinstance(factor, complex) else factor)


@vjp("pd_op.cast")
def _(c: OpCall, g: Value) -> Value:
    return c.b.cast(g, c.x.dtype)


@vjp("pd_op.pow")
def _(c: OpCall, g: Value) -> Value | None:
    return None if c.y == 0 else g * conjugate(c.b, c.x ** (c.y - 1)) * c.y


@vjp("pd_op.add")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    return unbroadcast(c, g, g)


@vjp("pd_op.subtract")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    return unbroadcast(c, g, -g if c.wants("y") else None)


@vjp("pd_op.multiply")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    dx = g * conjugate(c.b, c.y) if c.wants("x") else None
    return unbroadcast(c, dx, g * conjugate(c.b, c.x) if c.wants("y") else None)


@vjp("pd_op.divide")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    b = c.b
    y = conjugate(b, c.y)
    dx = g / y if c.wants("x") else None
    return unbroadcast(c, dx, -(g * conjugate(b, c.out) / y) if c.wants("y") else None)


@vjp("pd_op.elementwise_pow")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    """Where a base is zero its logarithm is left out: ``0**y`` does not depend on ``y`` there."""
    b = c.b
    dx = dy = None
    if c.wants("x"):
        dx = g * conjugate(b, c.y * b("pd_op.elementwise_pow", c.x, _one_less(c)))
    if c.wants("y"):
        x = b.cast(c.x, c.out.dtype)
        is_zero = b.equal(x, b.zeros_like(x))
        logarithm = b.log(b.where(is_zero, b.ones_like(x), x))
        dy = g * conjugate(b, c.out * logarithm)
    return unbroadcast(c, dx, dy)


def _one_less(c: OpCall) -> Value:
    """The exponent less one, but for ``0 ** 0``, whose slope is zero at every order."""
    b, x, y = c.b, c.x, c.y
    number = None if c.wants("y") else constant_scalar(y.ssa)
    if number:
        return b.const(number - 1, y.dtype, y.shape)
    is_flat = b.logical_and(b.equal(x, b.zeros_like(x)), b.equal(y, b.zeros_like(y)))
    return y - 1 + b.cast(is_flat, y.dtype)


def unbroadcast(c: OpCall, dx: Value | None, dy: Value | None) -> tuple[Value | None, ...]:
    """Cotangents of the operands of a broadcasting op, summed over what was spread.

    Where the op promotes they come back in the types of the operands.
    """
    return (
        c.b.sum_to(c.b.cast(dx, c.x.dtype), c.x) if dx is not None and c.wants("x") else None,
        c.b.sum_to(c.b.cast(dy, c.y.dtype), c.y) if dy is not None and c.wants("y") else None,
    )


def conjugate(b: Builder, x: Value) -> Value:
    """The conjugate of a complex value; a real one as it is."""
    return b.conj(x) if x.dtype.is_complex else x


def _ordered(name: str) -> Callable[[OpCall, Value], tuple[Value | None, ...]]:
    """The operand that loses gets 0, whatever the cotangent is: a product with 0 may be NaN. In a
    tie each takes half; beside a NaN both take the cotangent, as in torch.
    """

    def rule(c: OpCall, g: Value) -> tuple[Value | None, ...]:
        b = c.b
        shared = b.where(b.equal(c.x, c.y), g * 0.5, g)
        dx = b.where(b(f"pd_op.{name}", c.y, c.x), 0.0, shared) if c.wants("x") else None
        dy = b.where(b(f"pd_op.{name}", c.x, c.y), 0.0, shared) if c.wants("y") else None
        return unbroadcast(c, dx, dy)

    return rule


vjp("pd_op.maximum")(_ordered("greater_than"))
vjp("pd_op.minimum")(_ordered("less_than"))


@vjp("pd_op.where")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    b = c.b
    zero = b.zeros_like(g)
    dx = b.sum_to(b.where(c.condition, g, zero), c.x) if c.wants("x") else None
    dy = b.sum_to(b.where(c.condition, zero, g), c.y) if c.wants("y") else None
    return None, dx, dy


@decompose("pd_op.trunc_divide")
def _(c: OpCall) -> Value:
    """Integers divide exactly: the floor, and one more where it lies below a negative quotient."""
    b, x, y = c.b, c.x, c.y
    if c.out.dtype.is_float:
        return b.cast(b.trunc(b.wide(x) / b.wide(y)), c.out.dtype)
    signs_differ = b.not_equal(x < 0, y < 0)
    is_below = b.logical_and(b.not_equal(b.remainder(x, y), b.const(0, c.out.dtype)), signs_differ)
    return b.floor_divide(x, y) + b.cast(is_below, c.out.dtype)
