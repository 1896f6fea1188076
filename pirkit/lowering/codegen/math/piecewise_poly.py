"""Elementary functions by looking polynomials up: for 16 float32 on CPUs with AVX-512.

One instruction takes a coefficient for each lane from a table of 32 in two registers, so a short
polynomial for each of 32 pieces costs less than a quotient or an exponential.
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
"""From there on they are 1."""
_QUARTERS: Final = 1.5 * 2.0**21
_EIGHTHS: Final = 1.5 * 2.0**20
_SIXTEENTHS: Final = 1.5 * 2.0**19
"""Added to a number, they leave it in such parts in the last bits."""
_LOG2E: Final = 1.4426950408889634
_LN2: Final = (0.693359375, -2.12194440e-4)
"""As a sum; what the first number, times sixteenths, takes away is exact."""


def has_tables(b: Builder, type_: Type) -> bool:
    """Whether there are tables for vectors of a type."""
    return b.scalef and type_ == _SIXTEEN


def tanh(b: Builder, x: Value) -> Value:
    """The hyperbolic tangent from 0 to `TANH_END`.

    The pieces get longer from octave to octave of x + 1; each begins where its polynomial has 0.
    """
    bits = b.bits(b.add(x, 1.0), "i32")
    begin = b.sub(b.bits(b.op("and", bits, -1 << 20), "float"), 1.0)
    return _polynomial(b, _coefficients(b, TANH, b.op("lshr", bits, 20)), b.sub(x, begin))


def erf(b: Builder, x: Value) -> Value:
    """The error function from 0 to `ERF_END`: pieces around the eighths.

    The first polynomial, whose constant is 0, is that of erf x - x, for more exact a slope than a
    float32. The constants of the others are beyond any distance from an eighth.
    """
    rounded = b.add(x, _EIGHTHS)
    distance = b.sub(x, b.sub(rounded, _EIGHTHS))
    constant, *rest = _coefficients(b, ERF, b.bits(rounded, "i32"))
    constant = b.select(b.compare("ogt", distance, constant), distance, constant)
    return _polynomial(b, [constant, *rest], distance)


def tanh_of_cubic(b: Builder, x: Value) -> Value:
    """tanh(sqrt(2 / pi) (x + 0.044715 x**3)) from 0 to `COMPOSITE_END`."""
    return _odd_around_quarters(b, TANH_OF_CUBIC, x)


def erf_of_root(b: Builder, x: Value) -> Value:
    """erf(x / sqrt(2)) from 0 to `COMPOSITE_END`."""
    return _odd_around_quarters(b, ERF_OF_ROOT, x)


def _odd_around_quarters(b: Builder, table: Sequence[Sequence[float]], x: Value) -> Value:
    rounded = b.add(x, _QUARTERS)
    distance = b.sub(x, b.sub(rounded, _QUARTERS))
    return _polynomial(b, _coefficients(b, table, b.bits(rounded, "i32")), distance)


def exp(b: Builder, x: Value) -> tuple[Value, Value]:
    """y and n with e**x = y 2**floor(n), for x that are in range: 2**(k/16) times e**r."""
    root, _, rest, n = _exp_parts(b, x)
    return b.fma(root, rest, root), n


def exact_exp(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """The same with y as a sum of two, where what rounding 2**(k/16) lost counts too."""
    root, index, rest, n = _exp_parts(b, x)
    residual = b.call(_LOOK_UP_16, _SIXTEEN, _vector(ROOTS_RESIDUAL), index)
    return root, b.fma(root, rest, residual), n


def _exp_parts(b: Builder, x: Value) -> tuple[Value, Value, Value, Value]:
    """2**(k/16), in the last bits k, e**r - 1, and n."""
    sixteenths = b.fma(x, _LOG2E, _SIXTEENTHS)
    n = b.sub(sixteenths, _SIXTEENTHS)
    r = b.fma(n, -_LN2[1], b.fma(n, -_LN2[0], x))
    index = b.bits(sixteenths, "i32")
    root = b.call(_LOOK_UP_16, _SIXTEEN, _vector(ROOTS_OF_TWO), index)
    second, third = EXP
    return root, index, b.fma(b.mul(r, r), b.fma(r, b.like(r, third), b.like(r, second)), r), n


def _coefficients(b: Builder, table: Sequence[Sequence[float]], index: Value) -> list[Value]:
    """Those of the piece whose number is in the last five bits of an index."""
    return [
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
