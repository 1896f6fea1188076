"""Taylor series of powers with a computed exponent, angles, and special functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import constant_scalar
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import jet
from pirkit.dialect.rules.taylor.series import (
    Coefficient,
    Series,
    broadcast_series,
    integrated,
    power,
    product,
    scaled,
    squared,
    terms,
    times,
)


def composed(b: Builder, local_derivatives: Sequence[Coefficient], x: Series) -> Series:
    """Coefficients 1.. of ``f(x)``, from derivative m of ``f`` over ``m!`` for m = 1, 2...

    Horner's scheme in the series of ``x`` without its value: right wherever the slopes are.
    """
    away: Series = [None, *x]
    found: Series = [None] * len(away)
    for derivative in reversed(local_derivatives):
        found = [derivative, *found[1:]]
        found = product(b, away, found, lambda p, q: p * q)
    return found[1:]


# --- x ** y --------------------------------------------------------------------------------------


@jet("pd_op.elementwise_pow")
def _(c: OpCall, x: Series, y: Series) -> Series:
    """``exp(y log x)``; where the base is zero, the exponent counts as constant."""
    of_base = _of_base(c, x)
    if all(v is None for v in y):
        return broadcast_series(c, of_base)
    b = c.b
    base = c.x if c.x.dtype is c.out.dtype else b.cast(c.x, c.out.dtype)
    is_zero = b.equal(base, b.zeros_like(base))
    base = b.where(is_zero, b.ones_like(base), base)
    inverse = power(b, [base, *x], -1)
    logarithm: Series = [b.log(base)]
    logarithm += [integrated(b, inverse, [base, *x], k) for k in range(1, len(x) + 1)]
    exponent = product(b, logarithm, [c.y, *y], lambda p, q: p * q)
    z: Series = [c.out]
    for k in range(1, len(exponent)):
        z.append(integrated(b, z, exponent, k))
    if all(v is None for v in x):
        return broadcast_series(c, z[1:])
    zero = b.zeros_like(c.out)
    pairs = [[zero if v is None else v for v in pair] for pair in zip(of_base, z[1:], strict=True)]
    return broadcast_series(c, [b.where(is_zero, *pair) for pair in pairs])


def _of_base(c: OpCall, x: Series) -> Series:
    """With a constant exponent, also where the base is zero or negative."""
    b, number = c.b, constant_scalar(c.y.ssa)
    if isinstance(number, int | float):
        return power(b, [c.x, *x], number, c.out)[1:]
    factor: Value = b.ones_like(c.y)
    local_derivatives: Series = []
    for m in range(1, b.algebra.degree + 1):
        factor = factor * (c.y - (m - 1)) * (1 / m)
        falling: Value = factor * b.elementwise_pow(c.x, c.y - m)
        gone = b.equal(b.expand_like(factor, falling), b.zeros_like(falling))
        local_derivatives.append(b.where(gone, b.zeros_like(falling), falling))
    return composed(b, local_derivatives, x)


# --- angles --------------------------------------------------------------------------------------


@jet("pd_op.atan2")
def _(c: OpCall, x: Series, y: Series) -> Series:
    """``(x^2 + y^2) z' = x' y - x y'``; zero at the origin."""
    b = c.b
    p: Series = [c.x, *x]
    q: Series = [c.y, *y]
    pairs = zip(squared(b, p), squared(b, q), strict=True)
    radius = [b.total(pair) for pair in pairs]
    first = radius[0]
    assert first is not None
    is_origin = b.equal(first, b.zeros_like(first))
    inverse = b.where(is_origin, b.zeros_like(first), 1 / b.where(is_origin, 1.0, first))
    z: Series = [c.out]
    for k in range(1, len(p)):
        rest = [integrated(b, q, p, k), scaled(integrated(b, p, q, k), -1)]
        known = terms(b, [*z, None], radius, k, inner=True)
        rest += [scaled(v, -factor * i / b.algebra.degrees[k]) for v, factor, i, _ in known]
        z.append(times(b.total(rest), inverse))
    return broadcast_series(c, z[1:])


# --- special functions ---------------------------------------------------------------------------


def _gamma(least: Callable[[OpCall], int]) -> Callable[[OpCall, Series], Series]:
    """Functions whose derivative m is the polygamma function of order ``least + m``."""

    def rule(c: OpCall, x: Series) -> Series:
        b, first = c.b, least(c)
        local_derivatives: Series = []
        for m in range(1, b.algebra.degree + 1):
            n = first + m
            derivative: Value = b.polygamma(c.x, n=n) if n else b.digamma(c.x)
            local_derivatives.append(derivative * (1 / math.factorial(m)))
        return composed(b, local_derivatives, x)

    return rule


jet("pd_op.lgamma", "pd_op.gammaln")(_gamma(lambda c: -1))
jet("pd_op.digamma")(_gamma(lambda c: 0))
jet("pd_op.polygamma")(_gamma(lambda c: c.n))


@jet("pd_op.erfinv")
def _(c: OpCall, x: Series) -> Series:
    """``y' = s x'`` with ``s = exp(y^2) sqrt(pi) / 2``."""
    b = c.b
    full: Series = [c.x, *x]
    y: Series = [c.out]
    derivative: Series = [b.exp(c.out * c.out) * (math.sqrt(math.pi) / 2)]
    for k in range(1, len(full)):
        y.append(integrated(b, derivative, full, k))
        derivative.append(integrated(b, derivative, squared(b, y), k))
    return y[1:]


@jet("pd_op.gammaincc")
def _(c: OpCall, x: Series, y: Series) -> Series:
    """The slope to ``y`` is ``-exp((x - 1) log y - y - lgamma(x))``; none where it is no number."""
    if any(v is not None for v in x):
        raise UnsupportedError(
            f"`{c.definition.name}` has no derivative to its parameter `x`",
            code="PK0402",
            help="stop the gradient before it",
        )
    b, zero = c.b, c.b.zeros_like(c.out)
    is_smooth = b.logical_and(b.greater_than(c.x, zero), b.greater_than(c.y, zero))
    at, value = (b.where(is_smooth, v, b.ones_like(zero)) for v in (c.x, c.y))
    full: Series = [value, *y]
    inverse = power(b, full, -1)
    exponent: Series = [b.log(value) * (at - 1) - value - b.lgamma(at)]
    for k in range(1, len(full)):
        logarithm = integrated(b, inverse, full, k)
        exponent.append(b.total([times(logarithm, at - 1), scaled(full[k], -1)]))
    first = exponent[0]
    assert first is not None
    derivative: Series = [-b.exp(first)]
    for k in range(1, len(full)):
        derivative.append(integrated(b, derivative, exponent, k))
    found = broadcast_series(c, [integrated(b, derivative, full, k) for k in range(1, len(full))])
    return [None if v is None else b.where(is_smooth, v, zero) for v in found]


# --- choices and numbers that are hardly changed -------------------------------------------------


def _ordered(name: str) -> Callable[[OpCall, Series, Series], Series]:
    """The larger (smaller) one; in a tie `x`, beside NaN the other."""

    def rule(c: OpCall, x: Series, y: Series) -> Series:
        b = c.b
        wins = b.logical_or(b(f"pd_op.{name}", c.x, c.y), b.isnan(c.y))
        first = b.cast(wins, c.out.dtype)
        second = 1 - first
        return [b.total([times(p, first), times(q, second)]) for p, q in zip(x, y, strict=True)]

    return rule


jet("pd_op.fmax")(_ordered("greater_equal"))
jet("pd_op.fmin")(_ordered("less_equal"))


@jet("pd_op.copysign")
def _(c: OpCall, x: Series, _: Series) -> Series:
    b = c.b
    sign = b.sign(c.x) * b.copysign(b.ones_like(c.x), c.y)
    return broadcast_series(c, [times(v, sign) for v in x])


@jet("pd_op.nextafter")
def _(c: OpCall, x: Series, _: Series) -> Series:
    return broadcast_series(c, x)


@jet("pd_op.remainder")
def _(c: OpCall, x: Series, y: Series) -> Series:
    b = c.b
    with_value = None if all(v is None for v in y) else -b.round((c.x - c.out) / c.y)
    return broadcast_series(
        c, [b.total([p, times(q, with_value)]) for p, q in zip(x, y, strict=True)]
    )


@jet("pd_op.complex")
def _(c: OpCall, real: Series, imag: Series) -> Series:
    b = c.b

    def joined(p: Coefficient, q: Coefficient) -> Coefficient:
        if p is None and q is None:
            return None
        return b.complex(*[b.zeros_like(o) if v is None else v for v, o in
                           ((p, c.operand("real")), (q, c.operand("imag")))])  # fmt: skip

    return broadcast_series(c, [joined(p, q) for p, q in zip(real, imag, strict=True)])


def _same(c: OpCall, x: Series) -> Series:
    return x


@jet("pd_op.depend")
def _(c: OpCall, x: Series, dep: list[Series]) -> Series:
    return x


@jet("pir.checkpoint")
def _(c: OpCall, *values: Series) -> tuple[Series, ...]:
    return values[: c.outputs]


jet("pd_op.print", "pd_op.share_data", "pd_op.share_data_", "pd_op.memcpy_h2d", "pd_op.memcpy_d2h")(
    _same
)


@jet("pd_op.hardswish")
def _(c: OpCall, x: Series) -> Series:
    """From its derivatives: those of its factors are NaN at infinities."""
    b = c.b
    low, high = c.x <= -3, c.x >= 3
    slope = b.where(low, 0.0, b.where(high, b.ones_like(c.x), c.x * (1 / 3) + 0.5))
    curve = b.where(b.logical_or(low, high), 0.0, b.like(1 / 6, c.x))
    return composed(b, [slope, curve][: b.algebra.degree], x)
