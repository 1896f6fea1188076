"""Special functions: their derivatives, and those scaled by an exponential."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp

DERIVED: Final[dict[str, Callable[[OpCall, Value], Value]]] = {
    "erfinv": lambda c, g: g * c.b.exp(c.out * c.out) * (math.sqrt(math.pi) / 2),
    "lgamma": lambda c, g: g * c.b.digamma(c.x),
    "gammaln": lambda c, g: g * c.b.digamma(c.x),
    "digamma": lambda c, g: g * c.b.polygamma(c.x, n=1),
    "polygamma": lambda c, g: g * c.b.polygamma(c.x, n=c.n + 1),
    "i0": lambda c, g: g * c.b.i1(c.x),
    "i1": lambda c, g: g * _derivative_of_i1(c),
    "i0e": lambda c, g: g * (c.b.i1e(c.x) - c.b.sign(c.x) * c.out),
    "i1e": lambda c, g: g * _derivative_of_i1e(c),
}
"""Op -> cotangent of its operand. The logarithm of the gamma function is closed by `polygamma`, the
Bessel functions by each other."""

for _name, _rule in DERIVED.items():
    vjp(f"pd_op.{_name}")(_rule)

NEAR: Final = 4.0
"""The square of what counts as near 0."""
TERMS: Final = 18


def _derivative_of_i1(c: OpCall) -> Value:
    """``i0 - i1 / x``, of which both overflow where the difference does: the exponential alone
    overflows before, its root does not.
    """
    b, x = c.b, c.x
    root = b.exp(b.abs(x) * 0.5)
    found = (b.i0e(x) - _over(b, b.i1e(x), x)) * root * root
    return b.where(b.isinf(x), b.abs(x), found)


def _derivative_of_i1e(c: OpCall) -> Value:
    b, x = c.b, c.x
    return b.i0e(x) - b.sign(x) * c.out - _over(b, c.out, x)


def _over(b: Builder, i1e: Value, x: Value) -> Value:
    """``i1e(x) / x``; near 0, where derivatives of a quotient cancel, by its series."""
    square = x * x
    is_near = square < NEAR
    one = b.ones_like(x)
    quarter = b.where(is_near, square, one) * 0.25
    series = b.like(_coefficient(TERMS - 1), x)
    for k in reversed(range(TERMS - 1)):
        series = series * quarter + _coefficient(k)
    series = series * b.exp(-b.abs(x))
    return b.where(is_near, series, i1e / b.where(is_near, one, x))


def _coefficient(k: int) -> float:
    return 0.5 / (math.factorial(k) * math.factorial(k + 1))


@vjp("pd_op.gammaincc")
def _(c: OpCall, g: Value) -> tuple[None, Value]:
    """Less ``y ** (x - 1) * exp(-y) / gamma(x)``."""
    b, x, y = c.b, c.x, c.y
    zero = b.zeros_like(c.out)
    is_smooth = b.logical_and(b.greater_than(x, zero), b.greater_than(y, zero))
    x, y = (b.where(is_smooth, v, b.ones_like(zero)) for v in (x, y))
    density = b.exp((x - 1) * b.log(y) - y - b.lgamma(x))
    return None, b.sum_to(b.where(is_smooth, -(g * density), zero), c.y)


@decompose("pd_op.i0")
def _(c: OpCall) -> Value:
    return _unscaled(c, c.b.i0e(c.b.wide(c.x)), c.b.abs(c.x))


@decompose("pd_op.i1")
def _(c: OpCall) -> Value:
    return _unscaled(c, c.b.i1e(c.b.wide(c.x)), c.x)


def _unscaled(c: OpCall, scaled: Value, infinite: Value) -> Value:
    """``infinite`` is the value of an infinity. The exponential alone overflows before the product
    does, its root does not.
    """
    b = c.b
    root = b.exp(b.abs(b.wide(c.x)) * 0.5)
    found = b.cast(scaled * root * root, c.x.dtype)
    return b.where(b.isinf(c.x), infinite, found)


@decompose("pd_op.logit")
def _(c: OpCall) -> Value:
    """Outside of the bounds it is constant; without bounds it is not defined outside of 0 and 1."""
    b, x = c.b, c.b.wide(c.x)
    if c.eps:
        low = x.dtype.np.type(c.eps)
        x = b.clip(x, min=float(low), max=float(1 - low))
    return b.cast(b.log(x / (1 - x)), c.x.dtype)
