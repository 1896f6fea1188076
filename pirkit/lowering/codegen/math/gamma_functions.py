"""The logarithm of the gamma function and its derivative, on vectors of float32 and float64.

A polynomial covers an interval of length one, recurrences lead to it from below 9.5 and 10,
Stirling's series is used from there on, and reflection below zero (NIST DLMF 5.5 and 5.11).
Float32 is computed in float64. Between two poles on the negative axis, errors are relative to the
terms of the reflection, which cancel at the zeros there.
"""

from __future__ import annotations

import math
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Builder, Value
from pirkit.lowering.codegen.math import vecmath
from pirkit.lowering.codegen.math.inverse_functions import widened
from pirkit.runtime.special_functions import DIGAMMA_SERIES, LGAMMA_SERIES

_STEPS: Final = 7
_DIGAMMA_STEPS: Final = 8
_ROOT: Final = (1.4616321449683622, 9.549995429965697e-17)
"""The positive zero of digamma as a sum of two floats."""


def _series(b: Builder, coefficients: tuple[float, ...], x: Value) -> Value:
    result = b.like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        result = b.muladd(result, x, c)
    return result


def _half_turn(b: Builder, a: Value) -> tuple[Value, Value, Value]:
    """f = a - round(a), and the sine and cosine of half the angle pi f: the sine of pi a is twice
    their product, up to its sign.
    """
    f = b.sub(a, b.unary("rint", a))
    r = b.mul(f, math.pi / 2)
    z = b.mul(r, r)
    sine = b.fma(b.mul(r, z), vecmath.polynomial(b, "sin", z), r)
    cosine = b.fma(z, b.fma(z, vecmath.polynomial(b, "cos", z), -0.5), 1.0)
    return f, sine, cosine


def _lgamma(b: Builder, x: Value) -> Value:
    a = b.unary("fabs", x)
    tiny, below = b.compare("olt", a, 0.5), b.compare("olt", a, 1.5)
    large = b.compare("ogt", a, 9.5)
    # The gamma function of 2 + t, times or divided by a product, is that of a (of x below 1/2).
    one = b.like(a, 1.0)
    t, product = b.sub(a, 2.0), one
    for _ in range(_STEPS):
        above, lower = b.compare("ogt", t, 0.5), b.add(t, 1.0)
        product = b.select(above, b.mul(product, lower), product)
        t = b.select(above, b.sub(t, 1.0), t)
    t = b.select(tiny, x, b.select(below, b.sub(a, 1.0), t))
    product = b.select(tiny, b.mul(a, b.add(x, 1.0)), b.select(below, a, product))
    logarithm = vecmath.log(b, b.select(large, a, product))
    signed = b.select(below, b.neg(logarithm), logarithm)
    near = b.fma(t, vecmath.polynomial(b, "lgamma", t), signed)
    inverse = b.div(one, a)
    rest = b.mul(_series(b, LGAMMA_SERIES, b.mul(inverse, inverse)), inverse)
    rest = b.add(rest, 0.5 * math.log(2 * math.pi) - 0.5)
    far = b.fma(b.sub(a, 0.5), b.sub(logarithm, 1.0), rest)
    value = b.select(large, far, near)

    def reflected() -> list[Value]:
        # gamma(-a) gamma(a) = -pi / (a sin(pi a)). An infinite value belongs to -infinity, or to a
        # number so large that it is an integer.
        _, sine, cosine = _half_turn(b, a)
        under = b.mul(a, b.unary("fabs", b.mul(b.add(sine, sine), cosine)))
        other = b.sub(vecmath.log(b, b.div(b.like(a, math.pi), under)), value)
        return [b.select(b.compare("oeq", value, math.inf), value, other)]

    negative = b.compare("ole", x, -0.5)
    other = b.branch(vecmath.any_lane(b, negative), reflected, [value])[0]
    return b.select(negative, other, value)


def _digamma(b: Builder, x: Value) -> Value:
    a, negative = b.unary("fabs", x), b.compare("olt", x, 0.0)
    p = b.select(negative, b.add(a, 1.0), x)
    below, large = b.compare("olt", p, 1.0), b.compare("oge", p, 10.0)
    # The sum of the reciprocals 1 / r of the recurrence as one quotient.
    r, over, under = p, b.like(p, 0.0), b.like(p, 1.0)
    for _ in range(_DIGAMMA_STEPS):
        above, lower = b.compare("oge", r, 2.0), b.sub(r, 1.0)
        over = b.select(above, b.fma(over, lower, under), over)
        under = b.select(above, b.mul(under, lower), under)
        r = b.select(above, lower, r)
    over = b.select(large, b.like(p, 1.0), b.select(below, b.like(p, -1.0), over))
    quotient = b.div(over, b.select(b.op("or", large, below), p, under))
    high, low = _ROOT
    t = b.sub(b.sub(r, b.select(below, b.like(p, high - 1.0), b.like(p, high))), low)
    near = b.fma(t, vecmath.polynomial(b, "digamma", t), quotient)
    square = b.mul(quotient, quotient)
    rest = b.fma(square, _series(b, DIGAMMA_SERIES, square), b.mul(quotient, 0.5))
    value = b.select(large, b.sub(vecmath.log(b, p), rest), near)

    def reflected() -> list[Value]:
        f, sine, cosine = _half_turn(b, a)
        over = b.mul(b.sub(cosine, sine), b.add(cosine, sine))
        cotangent = b.div(over, b.mul(b.add(sine, sine), cosine))
        other = b.fma(cotangent, math.pi, value)
        return [b.select(b.compare("oeq", f, 0.0), b.like(x, math.nan), other)]

    other = b.branch(vecmath.any_lane(b, negative), reflected, [value])[0]
    return b.select(negative, other, value)


lgamma: Final = widened(_lgamma)
digamma: Final = widened(_digamma)
