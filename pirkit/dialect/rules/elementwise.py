"""Derivatives of elementwise primitives.

Where a family of functions is closed under differentiation (powers, exponentials, polynomials of
the result) the rule stays in it, so that repeated derivatives grow linearly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import vjp

Unary = Callable[[OpCall, Value], Value | None]

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
    "acosh": lambda c, g: g * (c.x * c.x - 1) ** -0.5,
    "atanh": lambda c, g: g * (1 - c.x * c.x) ** -1,
    "sigmoid": lambda c, g: g * (c.out * (1 - c.out)),
    "sqrt": lambda c, g: g * c.x**-0.5 * 0.5,
    "rsqrt": lambda c, g: g * c.x**-1.5 * -0.5,
    "reciprocal": lambda c, g: -(g * c.x**-2),
    "square": lambda c, g: g * c.x * 2,
    "erf": lambda c, g: g * c.b.exp(-(c.x * c.x)) * (2 / math.sqrt(math.pi)),
    "abs": lambda c, g: g * c.b.sign(c.x),
    "assign": lambda c, g: g,
    "sign": lambda c, g: None,
    "floor": lambda c, g: None,
    "ceil": lambda c, g: None,
    "round": lambda c, g: None,
    "trunc": lambda c, g: None,
}
"""Op -> cotangent of its operand, from its call and the cotangent of its result."""

for _name, _rule in UNARY.items():
    vjp(f"pd_op.{_name}")(_rule)


@vjp("pd_op.scale")
def _(c: OpCall, g: Value) -> Value:
    factor = c.scale
    return g * c.b.cast(factor, g.dtype) if isinstance(factor, Value) else g * factor


@vjp("pd_op.cast")
def _(c: OpCall, g: Value) -> Value:
    return c.b.cast(g, c.x.dtype)


@vjp("pd_op.pow")
def _(c: OpCall, g: Value) -> Value | None:
    y = c.y
    if isinstance(y, Value):
        return g * c.b("pd_op.elementwise_pow", c.x, y - 1) * y
    return None if y == 0 else g * c.x ** (y - 1) * y


@vjp("pd_op.add")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    return spread(c, g, g)


@vjp("pd_op.subtract")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    return spread(c, g, -g if c.wants("y") else None)


@vjp("pd_op.multiply")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    return spread(c, g * c.y if c.wants("x") else None, g * c.x if c.wants("y") else None)


@vjp("pd_op.divide")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    dx = g / c.y if c.wants("x") else None
    dy = -(g * c.out / c.y) if c.wants("y") else None
    return spread(c, dx, dy)


@vjp("pd_op.elementwise_pow")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    """Where a base is zero its logarithm is left out: ``0**y`` does not depend on ``y`` there."""
    b = c.b
    dx = g * c.y * b("pd_op.elementwise_pow", c.x, c.y - 1) if c.wants("x") else None
    dy = None
    if c.wants("y"):
        is_zero = c.b("pd_op.equal", c.x, b.zeros_like(c.x))
        logarithm = b.log(b.where(is_zero, b.ones_like(c.x), c.x))
        dy = g * c.out * logarithm
    return spread(c, dx, dy)


def spread(c: OpCall, dx: Value | None, dy: Value | None) -> tuple[Value | None, ...]:
    """Cotangents of the operands of a broadcasting op, summed over what was spread."""
    return (
        c.b.sum_to(dx, c.x) if dx is not None and c.wants("x") else None,
        c.b.sum_to(dy, c.y) if dy is not None and c.wants("y") else None,
    )


def _ordered(name: str) -> Callable[[OpCall, Value], tuple[Value | None, ...]]:
    """The larger (smaller) operand takes the cotangent; in a tie each takes half."""

    def rule(c: OpCall, g: Value) -> tuple[Value | None, ...]:
        b = c.b
        wins = b(f"pd_op.{name}", c.x, c.y)
        ties = b.cast(b.equal(c.x, c.y), g.dtype) * 0.5
        first = b.cast(wins, g.dtype) + ties
        return spread(c, g * first, g * (1 - first) if c.wants("y") else None)

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
