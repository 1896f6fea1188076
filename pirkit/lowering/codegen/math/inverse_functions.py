"""Inverse and hyperbolic functions, and the tangent, on vectors of float32 and float64.

As in `vecmath.py`, special values are exact and there are no branches except for huge angles.
Inverse hyperbolic functions of float32 are computed in float64, since the sums in their logarithms
cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Builder, Value
from pirkit.lowering.codegen.math import vecmath

Function = Callable[[Builder, Value], Value]

_PI: Final = {
    "float": (3.1415927410125732, -8.742277657347586e-08),
    "double": (math.pi, 1.2246467991473532e-16),
}
"""pi as a sum of two floats."""
_HUGE: Final = 2.0**28
"""From here on x**2 + 1 and x**2 - 1 round to x**2 in float64."""


def _polynomial_tail(b: Builder, name: str, x: Value, z: Value) -> Value:
    """f(x) - x = x z p(z), for a fitted polynomial p."""
    return b.mul(b.mul(x, z), vecmath.polynomial(b, name, z))


def _pi_multiple_minus(b: Builder, multiple: float, x: Value, tail: Value) -> Value:
    """``multiple * pi - (x + tail)``, for a sum of at most half of that."""
    high, low = (multiple * p for p in _PI[x.type.elem])
    return b.sub(b.sub(b.like(x, high), x), b.sub(tail, low))


def _polar_angle(b: Builder, numerator: Value, denominator: Value) -> Value:
    """atan(numerator / denominator) in 0 .. pi / 2, for operands >= 0."""
    # The quotient of smaller by larger is at most 1; the other half is pi / 2 minus it.
    steep = b.compare("ogt", numerator, denominator)
    t = b.div(b.select(steep, denominator, numerator), b.select(steep, numerator, denominator))
    tail = _polynomial_tail(b, "atan", t, b.mul(t, t))
    return b.select(steep, _pi_multiple_minus(b, 0.5, t, tail), b.add(t, tail))


def atan(b: Builder, x: Value) -> Value:
    """The arc tangent."""
    return b.binary("copysign", _polar_angle(b, b.unary("fabs", x), b.like(x, 1.0)), x)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in -pi .. pi."""
    numerator, denominator = b.unary("fabs", y), b.unary("fabs", x)
    angle = _polar_angle(b, numerator, denominator)
    # 0 / 0 and inf / inf are NaN, but have an angle: 0 and pi / 4.
    equal = b.compare("oeq", numerator, denominator)
    diagonal = b.select(b.compare("oeq", numerator, 0.0), b.like(x, 0.0), b.like(x, math.pi / 4))
    angle = b.select(equal, diagonal, angle)
    left = b.compare("olt", b.binary("copysign", b.like(x, 1.0), x), 0.0)
    angle = b.select(left, _pi_multiple_minus(b, 1.0, angle, b.like(x, 0.0)), angle)
    return b.binary("copysign", angle, y)


def _arc(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Whether |x| > 1/2, and a sum of two floats: asin |x|, or half of acos |x| if it is."""
    a = b.unary("fabs", x)
    above = b.compare("ogt", a, 0.5)
    half = b.mul(b.sub(b.like(a, 1.0), a), 0.5)
    z = b.select(above, half, b.mul(a, a))
    root = b.select(above, b.unary("sqrt", half), a)
    return above, root, _polynomial_tail(b, "asin", root, z)


def asin(b: Builder, x: Value) -> Value:
    """The arc sine."""
    above, root, tail = _arc(b, x)
    high, low = _PI[x.type.elem]
    # Subtract from pi / 4 first: its terms are not larger than the result.
    eighth = b.like(x, high / 4)
    past = b.sub(eighth, b.add(root, root))
    large = b.add(eighth, b.sub(past, b.sub(b.add(tail, tail), low / 2)))
    return b.binary("copysign", b.select(above, large, b.add(root, tail)), x)


def acos(b: Builder, x: Value) -> Value:
    """The arc cosine."""
    above, root, tail = _arc(b, x)
    twice, rest = b.add(root, root), b.add(tail, tail)
    outer = b.select(
        b.compare("olt", x, 0.0), _pi_multiple_minus(b, 1.0, twice, rest), b.add(twice, rest)
    )
    return b.select(above, outer, _pi_multiple_minus(b, 0.5, x, b.binary("copysign", tail, x)))


def tan(b: Builder, x: Value) -> Value:
    """The tangent; -1 / tan r in odd quadrants, with one correction of the quotient."""
    quadrant, r, residual = vecmath.reduce_to_quadrant(b, x)
    z = b.mul(r, r)
    tail = b.fma(z, residual, b.add(_polynomial_tail(b, "tan", r, z), residual))
    t = b.add(r, tail)
    y = b.div(b.like(t, -1.0), t)
    error = b.fma(y, b.sub(tail, b.sub(t, r)), b.fma(y, t, 1.0))
    odd = b.compare("ne", b.op("and", quadrant, 1), 0)
    y = b.select(odd, b.fma(y, error, y), t)
    return vecmath.with_libm_for_huge(b, x, "tan", b.select(b.compare("oeq", x, 0.0), x, y))


def sinh(b: Builder, x: Value) -> Value:
    """The hyperbolic sine: a series below 1, else (e**x - e**-x) / 2."""
    a = b.unary("fabs", x)
    half, residual = vecmath.half_exp(b, a)
    large = b.add(half, b.sub(residual, b.div(b.like(half, 0.25), half)))
    small = b.add(a, _polynomial_tail(b, "sinh", a, b.mul(a, a)))
    return b.binary("copysign", b.select(b.compare("olt", a, 1.0), small, large), x)


def cosh(b: Builder, x: Value) -> Value:
    """The hyperbolic cosine."""
    half, residual = vecmath.half_exp(b, b.unary("fabs", x))
    return b.add(half, b.add(residual, b.div(b.like(half, 0.25), half)))


def widened(function: Function) -> Function:
    """A function whose float32 form is computed in float64."""

    def emit(b: Builder, x: Value) -> Value:
        if x.type.elem == "double":
            return function(b, x)
        return b.cast("fptrunc", function(b, b.cast("fpext", x, "double")), "float")

    return emit


def _asinh(b: Builder, x: Value) -> Value:
    a = b.unary("fabs", x)
    huge = b.compare("ogt", a, _HUGE)
    square = b.mul(a, a)
    # asinh x = log1p(x + x**2 / (1 + sqrt(x**2 + 1))): no cancellation near 0.
    more = b.div(square, b.add(b.unary("sqrt", b.add(square, 1.0)), 1.0))
    u = b.select(huge, b.sub(a, 1.0), b.add(a, more))
    return b.binary("copysign", _log1p_of(b, u, huge), x)


def _acosh(b: Builder, x: Value) -> Value:
    huge = b.compare("ogt", x, _HUGE)
    t = b.sub(x, 1.0)
    u = b.select(huge, t, b.add(t, b.unary("sqrt", b.fma(t, t, b.add(t, t)))))
    return b.select(b.compare("olt", x, 1.0), b.like(x, math.nan), _log1p_of(b, u, huge))


def _log1p_of(b: Builder, u: Value, huge: Value) -> Value:
    """log(1 + u), or log(2 + 2 u) for huge arguments."""
    y = vecmath.log1p(b, u)
    return b.add(y, b.select(huge, b.like(y, math.log(2)), b.like(y, 0.0)))


def _atanh(b: Builder, x: Value) -> Value:
    a = b.unary("fabs", x)
    # atanh x = log1p(2 x / (1 - x)) / 2.
    u = b.div(b.add(a, a), b.sub(b.like(a, 1.0), a))
    return b.binary("copysign", b.mul(vecmath.log1p(b, u), 0.5), x)


asinh: Final = widened(_asinh)
acosh: Final = widened(_acosh)
atanh: Final = widened(_atanh)
