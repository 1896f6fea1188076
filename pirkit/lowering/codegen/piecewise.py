"""Elementary functions by looking polynomials up: for 16 float32 on CPUs with AVX-512.

One instruction takes a coefficient for each lane from a table of 32 in two registers, so a short
polynomial for each of 32 pieces costs less than a quotient or an exponential.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pirkit.lowering.codegen.ir import Builder, Type, Value, number
from pirkit.lowering.codegen.pieces import ERF, TANH

_SIXTEEN: Final = Type("float", 16)
_LOOK_UP: Final = "llvm.x86.avx512.vpermi2var.ps.512"
TANH_END: Final = 9.5
ERF_END: Final = 3.93
"""From there on they are 1."""
_EIGHTHS: Final = 1.5 * 2.0**20
"""Added to a number, it leaves it in eighths in the last bits."""


def serves(b: Builder, type_: Type) -> bool:
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
    lanes = ", ".join([f"float {number('float', n)}" for n in numbers])
    return Value(f"<{lanes}>", _SIXTEEN)
