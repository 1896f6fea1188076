"""The inverse of the error function, on vectors of float32 and float64.

Float32 takes a polynomial in -log(1 - x**2) (Giles), float64 quotients of polynomials in x and in
the root of such a logarithm (Wichura). Few numbers are in the tails: lanes without them skip these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Builder, Value
from pirkit.lowering.codegen.math import vecmath
from pirkit.runtime.bessel import (
    ERFINV_CENTRE,
    ERFINV_TAIL,
    QUANTILE_CENTRE,
    QUANTILE_FAR_TAIL,
    QUANTILE_TAIL,
)

_CENTRAL: Final = 5.0
"""-log(1 - x**2) below which the first polynomial of float32 holds."""


def erfinv(b: Builder, x: Value) -> Value:
    """Infinite at 1 and -1, NaN beyond."""
    y = (_single if x.type.elem == "float" else _double)(b, x)
    is_end = b.compare("oeq", b.unary("fabs", x), 1.0)
    return b.select(is_end, b.binary("copysign", b.like(x, math.inf), x), y)


def _horner(b: Builder, coefficients: Sequence[float], x: Value) -> Value:
    result = b.like(x, coefficients[0])
    for c in coefficients[1:]:
        result = b.muladd(result, x, c)
    return result


def _where_any(b: Builder, mask: Value, made: Callable[[], Value], other: Value) -> Value:
    """``made()`` in the lanes of a mask; it is not computed where there are none."""
    found = b.branch(vecmath.any_lane(b, mask), lambda: [made()], [other])[0]
    return b.select(mask, found, other)


def _single(b: Builder, x: Value) -> Value:
    one = b.like(x, 1.0)
    w = b.neg(vecmath.log(b, b.mul(b.sub(one, x), b.add(one, x))))
    centre = _horner(b, ERFINV_CENTRE, b.sub(w, 2.5))

    def tail() -> Value:
        return _horner(b, ERFINV_TAIL, b.sub(b.unary("sqrt", w), 3.0))

    # 1 - x**2 of a NaN, or beyond 1, has no logarithm: neither is central.
    return b.mul(_where_any(b, b.compare("uge", w, _CENTRAL), tail, centre), x)


def _double(b: Builder, x: Value) -> Value:
    half = b.mul(x, 0.5)
    centre = b.mul(half, _quotient(b, QUANTILE_CENTRE, b.fma(half, b.neg(half), 0.180625)))
    size = b.unary("fabs", x)

    def tail() -> Value:
        rest = b.mul(b.sub(b.like(x, 1.0), size), 0.5)
        depth = b.unary("sqrt", b.neg(vecmath.log(b, rest)))
        near = _quotient(b, QUANTILE_TAIL, b.sub(depth, 1.6))

        def far() -> Value:
            return _quotient(b, QUANTILE_FAR_TAIL, b.sub(depth, 5.0))

        return b.binary("copysign", _where_any(b, b.compare("ugt", depth, 5.0), far, near), x)

    outer = b.compare("ugt", size, 0.85)
    return b.mul(_where_any(b, outer, tail, centre), math.sqrt(0.5))


def _quotient(b: Builder, polynomials: tuple[Sequence[float], Sequence[float]], x: Value) -> Value:
    above, below = polynomials
    return b.div(_horner(b, above, x), _horner(b, below, x))
