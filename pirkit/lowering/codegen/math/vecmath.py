"""Elementary functions on vectors of float32 and float64, as LLVM instructions.

All of them handle NaN, infinities, signed zeros and subnormal numbers exactly, and have no branches
except for huge arguments of sine and cosine. The polynomials are our own (`vecmath_tables.py`); the
errors, measured over every float32, are in docs/native.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import I1, Builder, Type, Value, constant_value
from pirkit.lowering.codegen.math import double_power, piecewise_poly
from pirkit.lowering.codegen.math.vecmath_tables import DOUBLE, SINGLE

_LOG2E: Final = 1.4426950408889634
_INF: Final = math.inf
# ln 2 and pi / 2 as sums of floats whose multiples FMA subtracts without error (Cody and Waite).
_LN2: Final = {
    "float": (0.693359375, -2.12194440e-4),
    "double": (0.693145751953125, 1.42860682030941723212e-6),
}
_PI_2: Final = {
    "float": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
}
_EXP_RANGE: Final = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
"""Arguments beyond which the result is 0 or infinite."""
_HALF_EXP_END: Final = {"float": 90.0, "double": 711.0}
_MANTISSA: Final = {"float": 23, "double": 52}
_BIAS: Final = {"float": 127, "double": 1023}
_SQRT_HALF: Final = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}
_MAX_ROOTS: Final = 8
"""Exponents y with |2 y| up to this are computed by multiplications and square roots."""
_TRIG_LIMIT: Final = {"float": 2.0**18, "double": 2.0**20}
"""Magnitude up to which the argument reduction is exact."""


def polynomial(b: Builder, name: str, x: Value) -> Value:
    """The fitted polynomial of a name, by Horner's rule."""
    table = SINGLE if x.type.elem == "float" else DOUBLE
    *rest, last = table[name]
    result = b.like(x, last)
    for coefficient in reversed(rest):
        result = b.muladd(result, x, coefficient)
    return result


def clamp(b: Builder, x: Value, low: float, high: float) -> Value:
    """x clamped to an interval; NaN stays NaN."""
    return clamp_min(b, clamp_max(b, x, high), low)


def clamp_max(b: Builder, x: Value, high: float) -> Value:
    """The smaller of x and a constant; NaN stays NaN."""
    return b.select(b.compare("ogt", x, high), b.like(x, high), x)


def clamp_min(b: Builder, x: Value, low: float) -> Value:
    """The larger of x and a constant; NaN stays NaN."""
    return b.select(b.compare("olt", x, low), b.like(x, low), x)


def power_of_two(b: Builder, n: Value, elem: str) -> Value:
    """2**n for integers n in the exponent range of normal numbers."""
    shifted = b.op("shl", b.op("add", n, _BIAS[elem]), _MANTISSA[elem])
    return b.bits(shifted, elem)


def scale(b: Builder, x: Value, n: Value) -> Value:
    """x * 2**n for an integral float n, rounded once, even if 2**n itself overflows or underflows.

    With AVX-512 a fractional n is rounded down.
    """
    if b.scalef and x.type.lanes * x.type.bits == 512:
        suffix, mask = ("ps", "i16 -1") if x.type.elem == "float" else ("pd", "i8 -1")
        return b.call(f"llvm.x86.avx512.mask.scalef.{suffix}.512", x.type, x, n, x, mask, "i32 4")
    whole = b.cast("fptosi", n, x.type.integer.elem)
    # Two factors of about the square root of 2**n each are in range.
    half = b.op("ashr", whole, 1)
    rest = b.op("sub", whole, half)
    x = b.mul(x, power_of_two(b, half, x.type.elem))
    return b.mul(x, power_of_two(b, rest, x.type.elem))


def _exp_parts(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """n, r and the rounding error of r, with x = n ln 2 + r."""
    high, low = _LN2[x.type.elem]
    n = b.unary("rint", b.mul(x, _LOG2E))
    exact = b.fma(n, -high, x)
    r = b.fma(n, -low, exact)
    return n, r, b.fma(n, -low, b.sub(exact, r))


def _exp(b: Builder, x: Value) -> Value:
    """e**x for x in `_EXP_RANGE`."""
    if piecewise_poly.has_tables(b, x.type):
        return scale(b, *piecewise_poly.exp(b, x))
    n, r, _ = _exp_parts(b, x)
    rest = b.fma(b.mul(r, r), polynomial(b, "exp", r), r)
    return scale(b, b.add(rest, 1.0), n)


def _exact_parts(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """e**x as a sum of two floats times 2**n: within 0.25 ULP of the sum."""
    if piecewise_poly.has_tables(b, x.type):
        return piecewise_poly.exact_exp(b, x)
    n, r, residual = _exp_parts(b, x)
    first = b.add(r, 1.0)
    residual = b.add(residual, b.sub(r, b.sub(first, 1.0)))
    return first, b.fma(b.mul(r, r), polynomial(b, "exp", r), residual), n


def _exact_exp(b: Builder, x: Value) -> Value:
    """e**x within 0.75 ULP."""
    first, rest, n = _exact_parts(b, x)
    return scale(b, b.add(first, rest), n)


def half_exp(b: Builder, x: Value) -> tuple[Value, Value]:
    """e**x / 2 for x >= 0 and its rounding error, even if e**x overflows."""
    first, rest, n = _exact_parts(b, clamp_max(b, x, _HALF_EXP_END[x.type.elem]))
    whole, n = b.add(first, rest), b.sub(n, 1.0)
    return scale(b, whole, n), scale(b, b.sub(rest, b.sub(whole, first)), n)


def exp(b: Builder, x: Value) -> Value:
    """e**x; 0 or infinity beyond `_EXP_RANGE`."""
    return _exp(b, clamp(b, x, *_EXP_RANGE[x.type.elem]))


def expm1(b: Builder, x: Value) -> Value:
    """e**x - 1, accurate near 0: 2 (t (e**r - 1) + (t - 1/2)) with t = 2**(n - 1)."""
    low = -30.0 if x.type.elem == "float" else -50.0
    n, r, residual = _exp_parts(b, clamp(b, x, low, _EXP_RANGE[x.type.elem][1]))
    rest = b.fma(b.mul(r, r), polynomial(b, "expm1", r), residual)
    # `fptosi` of NaN is undefined: any exponent will do, since r is NaN.
    number = b.select(b.compare("ord", n, n), n, b.like(n, 0))
    whole = b.cast("fptosi", number, x.type.integer.elem)
    t = power_of_two(b, b.op("sub", whole, 1), x.type.elem)
    base = b.sub(t, 0.5)
    first = b.fma(t, r, base)
    residual = b.fma(t, r, b.sub(base, first))
    y = b.mul(b.add(first, b.fma(t, rest, residual)), 2.0)
    return b.select(b.compare("oeq", x, 0.0), x, y)


def _log_parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """The integer n and m in sqrt(1/2) .. sqrt(2) with x = m 2**n, for normal x."""
    integer = x.type.integer
    bits = b.bits(x, integer.elem)
    # Subtracting the bits of sqrt(1/2) moves the boundary between exponents there.
    n = b.op("ashr", b.op("sub", bits, _SQRT_HALF[x.type.elem]), _MANTISSA[x.type.elem])
    m = b.bits(b.op("sub", bits, b.op("shl", n, _MANTISSA[x.type.elem])), x.type.elem)
    return n, m


def _log_sum(b: Builder, n: Value, f: Value) -> Value:
    """n ln 2 + log(1 + f)."""
    high, low = _LN2[f.type.elem]
    z = b.mul(f, f)
    y = b.mul(b.mul(f, z), polynomial(b, "log", f))
    y = b.fma(z, -0.5, b.fma(n, low, y))
    return b.fma(n, high, b.add(f, y))


def log_special_cases(b: Builder, x: Value, u: Value, result: Value) -> Value:
    """The logarithm of u (x or 1 + x) with its results at 0, infinity, negative numbers and NaN."""
    result = b.select(b.compare("olt", x, _INF), result, x)
    result = b.select(b.compare("oeq", u, 0.0), b.like(x, -_INF), result)
    return b.select(b.compare("olt", u, 0.0), b.like(x, math.nan), result)


def log(b: Builder, x: Value) -> Value:
    """The natural logarithm."""
    return log_special_cases(b, x, x, _log_sum(b, *split_exponent(b, x)))


def split_exponent(b: Builder, x: Value) -> tuple[Value, Value]:
    """n and f with x = (1 + f) 2**n, for subnormal x too."""
    elem = x.type.elem
    shift = _MANTISSA[elem] + 2
    subnormal = b.compare("olt", x, 2.0 ** (1 - _BIAS[elem]))
    n, m = _log_parts(b, b.select(subnormal, b.mul(x, 2.0**shift), x))
    exponent = b.cast("sitofp", n, elem)
    return b.select(subnormal, b.sub(exponent, float(shift)), exponent), b.sub(m, 1.0)


def log1p(b: Builder, x: Value) -> Value:
    """log(1 + x), accurate near 0: the rounding error of 1 + x is added to the mantissa."""
    elem = x.type.elem
    u = b.add(x, 1.0)
    residual = b.sub(x, b.sub(u, 1.0))
    n, m = _log_parts(b, u)
    # 2**-n is clamped to normal numbers: for larger n the rounding error does not matter.
    least = b.like(n, 1 - _BIAS[elem])
    down = power_of_two(b, b.binary("smax", b.op("sub", b.like(n, 0), n), least), elem)
    y = _log_sum(b, b.cast("sitofp", n, elem), b.fma(residual, down, b.sub(m, 1.0)))
    return b.select(b.compare("oeq", x, 0.0), x, log_special_cases(b, x, u, y))


def sigmoid(b: Builder, x: Value) -> Value:
    """1 / (1 + e**-x), accurate in the tail too; one Newton step corrects both roundings."""
    # With e = e**-|x| the result is e / (1 + e) or 1 / (1 + e): no overflow.
    e = _exact_exp(b, clamp_min(b, b.neg(b.unary("fabs", x)), _EXP_RANGE[x.type.elem][0]))
    above = b.select(b.compare("olt", x, 0.0), e, b.like(x, 1.0))
    below = b.add(e, 1.0)
    residual = b.sub(e, b.sub(below, 1.0))
    inverse = b.div(b.like(x, 1.0), below)
    y = b.mul(above, inverse)
    error = b.sub(b.fma(b.neg(y), below, above), b.mul(y, residual))
    return b.fma(error, inverse, y)


def tanh(b: Builder, x: Value) -> Value:
    """The hyperbolic tangent: by tables, or a polynomial near 0 and 1 - 2 / (e**2x + 1)."""
    if piecewise_poly.has_tables(b, x.type):
        return _odd_table_function(b, x, piecewise_poly.tanh, piecewise_poly.TANH_END)
    a = clamp_max(b, b.unary("fabs", x), 10.0 if x.type.elem == "float" else 20.0)
    z = b.mul(a, a)
    small = b.fma(b.mul(a, z), polynomial(b, "tanh", z), a)
    two = b.like(a, 2.0)
    large = b.sub(b.like(a, 1.0), b.div(two, b.add(_exp(b, b.mul(a, 2.0)), 1.0)))
    return b.binary("copysign", b.select(b.compare("olt", a, 0.625), small, large), x)


def erf(b: Builder, x: Value) -> Value:
    """The error function: a polynomial below 1, else 1 - e**p with p fitted to log erfc."""
    if piecewise_poly.has_tables(b, x.type):
        return _odd_table_function(b, x, piecewise_poly.erf, piecewise_poly.ERF_END)
    a = clamp_max(b, b.unary("fabs", x), 4.0 if x.type.elem == "float" else 6.0)
    small = b.fma(a, polynomial(b, "erf", b.mul(a, a)), a)
    large = b.sub(b.like(a, 1.0), _exp(b, polynomial(b, "erfc", b.sub(a, 1.0))))
    return b.binary("copysign", b.select(b.compare("olt", a, 1.0), small, large), x)


def _odd_table_function(
    b: Builder, x: Value, curve: Callable[[Builder, Value], Value], end: float
) -> Value:  # fmt: skip
    """An odd function with a table from 0 to ``end``, beyond which it is 1."""
    size = clamp_max(b, b.unary("fabs", x), end)
    return b.binary("copysign", curve(b, size), x)


def tanh_of_cubic(b: Builder, x: Value) -> Value:
    """tanh of the cubic in `gelu` (`piecewise_poly_match.py`)."""
    if piecewise_poly.has_tables(b, x.type):
        return _odd_table_function(b, x, piecewise_poly.tanh_of_cubic, piecewise_poly.COMPOSITE_END)
    slope = math.sqrt(2 / math.pi)
    return tanh(b, b.mul(x, b.fma(b.mul(x, x), 0.044715 * slope, slope)))


def tanh_of_softplus(b: Builder, x: Value) -> Value:
    """tanh(log(1 + e**x)) in `mish`: with n = e (e + 2) of e = e**x it is n / (n + 2)."""
    e = _exp(b, clamp(b, x, _EXP_RANGE[x.type.elem][0], 20.0))
    n = b.mul(e, b.add(e, 2.0))
    return b.div(n, b.add(n, 2.0))


def erf_of_root(b: Builder, x: Value) -> Value:
    """erf(x / sqrt 2) in `gelu` (`piecewise_poly_match.py`)."""
    if piecewise_poly.has_tables(b, x.type):
        return _odd_table_function(b, x, piecewise_poly.erf_of_root, piecewise_poly.COMPOSITE_END)
    return erf(b, b.mul(x, math.sqrt(0.5)))


def reduce_to_quadrant(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """The integer n (its last bits), r and the rounding error of r, with x = n pi / 2 + r.

    For |x| up to `_TRIG_LIMIT`, where all products but the last ones are exact.
    """
    high, middle, low = _PI_2[x.type.elem]
    # Adding 1.5 * 2**mantissa rounds to an integer and leaves it in the last bits.
    whole = 1.5 * 2.0 ** _MANTISSA[x.type.elem]
    shifted = b.fma(x, 2 / math.pi, whole)
    n = b.sub(shifted, whole)
    first = b.fma(n, -high, x)
    second = b.mul(n, middle)
    third = b.fma(n, low, b.fma(n, middle, b.neg(second)))
    r = b.sub(first, second)
    residual = b.sub(b.sub(b.sub(first, r), second), third)
    return b.bits(shifted, x.type.integer.elem), r, residual


def _trig(b: Builder, x: Value, shift: int, name: str) -> Value:
    """The sine of x + shift * pi / 2."""
    elem = x.type.elem
    quadrant, r, residual = reduce_to_quadrant(b, x)
    quadrant = b.op("add", quadrant, shift)
    z = b.fma(r, r, b.mul(b.add(r, r), residual))
    sine = b.add(r, b.fma(b.mul(r, z), polynomial(b, "sin", z), residual))
    cosine = b.fma(z, b.fma(z, polynomial(b, "cos", z), -0.5), 1.0)
    odd = b.compare("ne", b.op("and", quadrant, 1), 0)
    # Bit 1 of the quadrant is the sign: move it to the sign bit.
    top = x.type.bits - 2
    sign = b.op("and", b.op("shl", quadrant, top), 2 << top)
    y = b.bits(b.select(odd, cosine, sine), x.type.integer.elem)
    y = b.bits(b.op("xor", y, sign), elem)
    if shift == 0:
        y = b.select(b.compare("oeq", x, 0.0), x, y)
    return with_libm_for_huge(b, x, name, y)


def with_libm_for_huge(b: Builder, x: Value, name: str, y: Value) -> Value:
    """``y``, but from the C library in lanes beyond the range of `reduce_to_quadrant`."""
    huge = b.compare("ogt", b.unary("fabs", x), _TRIG_LIMIT[x.type.elem])
    return b.branch(any_lane(b, huge), lambda: [b.select(huge, libm(b, name, x), y)], [y])[0]


def sin(b: Builder, x: Value) -> Value:
    """The sine."""
    return _trig(b, x, 0, "sin")


def cos(b: Builder, x: Value) -> Value:
    """The cosine."""
    return _trig(b, x, 1, "cos")


def rsqrt(b: Builder, x: Value) -> Value:
    """1 / sqrt(x)."""
    return b.div(b.like(x, 1.0), b.unary("sqrt", x))


def power(b: Builder, x: Value, y: Value) -> Value:
    """x**y as the C library defines it; float32 is computed in float64."""
    if double_power.has_tables(b, x.type):
        return _double_power(b, x, y)
    if x.type.elem == "double":
        return libm(b, "pow", x, y)
    exponent = constant_value(y)
    if exponent is not None and 2 * exponent in range(-_MAX_ROOTS, _MAX_ROOTS + 1):
        return _power_of_roots(b, x, int(2 * exponent))
    one, size = b.like(x, 1.0), b.unary("fabs", x)
    wide = exp(b, b.mul(b.cast("fpext", y, "double"), log(b, b.cast("fpext", size, "double"))))
    p = b.cast("fptrunc", wide, "float")
    # The sign of a negative base raised to an odd integer.
    whole = b.compare("oeq", b.unary("trunc", y), y)
    half = b.mul(y, 0.5)
    odd = b.op("and", whole, b.compare("une", b.unary("trunc", half), half))
    p = b.select(odd, b.binary("copysign", p, x), p)
    below = b.op("and", b.compare("olt", x, 0.0), b.compare("ogt", x, -_INF))
    # A negative base with a fractional exponent has no real power.
    broken = b.compare("one", b.unary("trunc", y), y)
    p = b.select(b.op("and", below, broken), b.like(x, math.nan), p)
    # 1 to any power is 1, and so is -1 to an infinite one.
    endless = b.compare("oeq", b.unary("fabs", y), _INF)
    p = b.select(b.op("and", b.compare("oeq", size, 1.0), endless), one, p)
    plain = b.op("or", b.compare("oeq", x, 1.0), b.compare("oeq", y, 0.0))
    return b.select(plain, one, p)


def _double_power(b: Builder, x: Value, y: Value) -> Value:
    """x**y of float64 within 0.75 ULP (sampled)."""
    product, low, outside = double_power.exponent(b, x, y)
    n, near, residual = _exp_parts(b, product)
    low = b.add(residual, low)
    r = b.add(near, low)
    first = b.add(r, 1.0)
    residual = b.add(b.sub(low, b.sub(r, near)), b.sub(r, b.sub(first, 1.0)))
    found = scale(b, b.add(first, b.fma(b.mul(r, r), polynomial(b, "exp", r), residual)), n)

    def exact() -> list[Value]:
        return [b.select(outside, libm(b, "pow", x, y), found)]

    return b.branch(any_lane(b, outside), exact, [found])[0]


def _power_of_roots(b: Builder, x: Value, halves: int) -> Value:
    """x**(halves / 2) of float32, by multiplications and a square root in float64."""
    wide = b.cast("fpext", x, "double")
    if halves % 2:
        # -inf counts as +inf and -0.0 as +0.0; other negative numbers have no root.
        wide = b.add(b.select(b.compare("oeq", wide, -_INF), b.like(wide, _INF), wide), 0.0)
    power = b.unary("sqrt", wide) if halves % 2 else b.like(wide, 1.0)
    square, left = wide, abs(halves) // 2
    while left:
        power = b.mul(power, square) if left & 1 else power
        square, left = b.mul(square, square), left >> 1
    if halves < 0:
        power = b.div(b.like(wide, 1.0), power)
    return b.cast("fptrunc", power, "float")


def any_lane(b: Builder, mask: Value) -> Value:
    """Whether a mask is true in some lane, as a scalar i1."""
    if mask.type.lanes == 1:
        return mask
    return b.call(f"llvm.vector.reduce.or.{mask.type.suffix}", I1, mask)


def libm(b: Builder, name: str, *args: Value) -> Value:
    """A function of the C library, called lane by lane."""
    type_ = args[0].type
    scalar = Type(type_.elem)
    symbol = name + ("f" if type_.elem == "float" else "")
    if type_.lanes == 1:
        return b.call(symbol, scalar, *args)
    result = Value("poison", type_)
    for lane in range(type_.lanes):
        item = b.call(symbol, scalar, *(b.extract(arg, lane) for arg in args))
        result = b.emit(type_, f"insertelement {result}, {item}, i64 {lane}")
    return result
