"""Elementary functions by piecewise polynomials, for 16 float32 with AVX-512.

`vpermi2ps` looks up a coefficient per lane in a table of 32 that fits two registers, so a short
polynomial for each of 32 segments costs less than a division or an exponential.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Builder, Type, Value, constant_text
from pirkit.lowering.codegen.math.piecewise_poly_tables import (
    ERF,
    ERF_OF_ROOT,
    EXP,
    ROOTS_OF_TWO,
    ROOTS_RESIDUAL,
    TANH,
    TANH_OF_CUBIC,
)

_SIXTEEN: Final = Type("float", 16)
_LOOK_UP: Final = "llvm.x86.avx512.vpermi2var.ps.512"
_LOOK_UP_16: Final = "llvm.x86.avx512.permvar.sf.512"
TANH_END: Final = 9.5
ERF_END: Final = 3.93
COMPOSITE_END: Final = 5.5
"""Arguments from which the functions round to 1."""
_QUARTERS: Final = 1.5 * 2.0**21
_EIGHTHS: Final = 1.5 * 2.0**20
_SIXTEENTHS: Final = 1.5 * 2.0**19
"""Added to a float, these constants round it to quarters, eighths or sixteenths and leave the
integer in its last bits.
"""
_LOG2E: Final = 1.4426950408889634
_LN2: Final = (0.693359375, -2.12194440e-4)
"""ln 2 as a sum; its first part times a multiple of 1/16 is exact."""


def has_tables(b: Builder, type_: Type) -> bool:
    """Whether a vector type has lookup tables."""
    return b.scalef and type_ == _SIXTEEN


def tanh(b: Builder, x: Value) -> Value:
    """The hyperbolic tangent in 0 .. `TANH_END`.

    Segments double in length with each octave of x + 1; the argument of a polynomial is the
    distance from the begin of its segment.
    """
    bits = b.bits(b.add(x, 1.0), "i32")
    # The exponent and three bits of the mantissa of x + 1: eight segments per octave.
    begin = b.sub(b.bits(b.op("and", bits, -1 << 20), "float"), 1.0)
    return _polynomial(b, _coefficients(b, TANH, b.op("lshr", bits, 20)), b.sub(x, begin))


def erf(b: Builder, x: Value) -> Value:
    """The error function in 0 .. `ERF_END`; segments are centered at multiples of 1/8.

    The first polynomial is that of erf x - x, whose slope needs more bits than float32; its
    constant is 0. The constants of the others exceed any distance, which tells the segments apart.
    """
    rounded = b.add(x, _EIGHTHS)
    distance = b.sub(x, b.sub(rounded, _EIGHTHS))
    constant, *rest = _coefficients(b, ERF, b.bits(rounded, "i32"))
    # In the first segment the constant becomes x itself: erf x = x + (erf x - x).
    constant = b.select(b.compare("ogt", distance, constant), distance, constant)
    return _polynomial(b, [constant, *rest], distance)


def tanh_of_cubic(b: Builder, x: Value) -> Value:
    """tanh(sqrt(2 / pi) (x + 0.044715 x**3)) in 0 .. `COMPOSITE_END`."""
    return _odd_around_quarters(b, TANH_OF_CUBIC, x)


def erf_of_root(b: Builder, x: Value) -> Value:
    """erf(x / sqrt(2)) in 0 .. `COMPOSITE_END`."""
    return _odd_around_quarters(b, ERF_OF_ROOT, x)


def _odd_around_quarters(b: Builder, table: Sequence[Sequence[float]], x: Value) -> Value:
    rounded = b.add(x, _QUARTERS)
    distance = b.sub(x, b.sub(rounded, _QUARTERS))
    return _polynomial(b, _coefficients(b, table, b.bits(rounded, "i32")), distance)


def exp(b: Builder, x: Value) -> tuple[Value, Value]:
    """y and n with e**x = y 2**floor(n), for x in range: y = 2**(k/16) e**r."""
    root, _, rest, n = _exp_parts(b, x)
    return b.fma(root, rest, root), n


def exact_exp(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """The same with y as a sum of two floats, including the rounding error of 2**(k/16)."""
    root, index, rest, n = _exp_parts(b, x)
    residual = b.call(_LOOK_UP_16, _SIXTEEN, _vector(ROOTS_RESIDUAL), index)
    return root, b.fma(root, rest, residual), n


def _exp_parts(b: Builder, x: Value) -> tuple[Value, Value, Value, Value]:
    """2**(k/16), an integer whose last bits are k, e**r - 1, and n."""
    sixteenths = b.fma(x, _LOG2E, _SIXTEENTHS)
    n = b.sub(sixteenths, _SIXTEENTHS)
    r = b.fma(n, -_LN2[1], b.fma(n, -_LN2[0], x))
    index = b.bits(sixteenths, "i32")
    root = b.call(_LOOK_UP_16, _SIXTEEN, _vector(ROOTS_OF_TWO), index)
    second, third = EXP
    return root, index, b.fma(b.mul(r, r), b.fma(r, b.like(r, third), b.like(r, second)), r), n


def _coefficients(b: Builder, table: Sequence[Sequence[float]], index: Value) -> list[Value]:
    """The coefficients of the segment whose number is in the last five bits of the index."""
    return [
        # The instruction uses the last five bits of each index lane and ignores the others.
        b.call(_LOOK_UP, _SIXTEEN, _vector(column[:16]), index, _vector(column[16:]))
        for column in table
    ]


def _polynomial(b: Builder, coefficients: Sequence[Value], x: Value) -> Value:
    *rest, result = coefficients
    for coefficient in reversed(rest):
        result = b.fma(result, x, coefficient)
    return result


def _vector(numbers: Sequence[float]) -> Value:
    lanes = ", ".join([f"float {constant_text('float', n)}" for n in numbers])
    return Value(f"<{lanes}>", _SIXTEEN)
