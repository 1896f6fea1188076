"""Powers of 8 float64 with AVX-512: e**(y log x), with the logarithm as a sum of two floats.

    x = 2**k m, m near c, 1/c from a table    log x = (k ln 2 + log c) + log1p(r),  r = m/c - 1

`vpermi2pd` looks up 1/c and log c in tables of 16. The logarithm has a relative error of 2**-63: an
error of y log x, which is 708 at most, is that of the result. Lanes with a base that is not a
positive normal number, and those whose result may not be normal, are left to the C library.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import cache
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Builder, Type, Value, constant_text

EIGHT: Final = Type("double", 8)
_LOOK_UP: Final = "llvm.x86.avx512.vpermi2var.pd.512"
_SEGMENTS: Final = 16
_FIRST: Final = 0x3FF0000000000000 - 21 * (1 << 47)
"""The bits of the least m. 1 lies in the middle of a segment, for which 1/c is 1."""
_LEAST_NORMAL: Final = 1 << 52
_NORMALS: Final = 0x7FE0000000000000
_GRID: Final = 2.0**42
"""Numbers of this grid, up to 1024, are added without error."""
_LAST_TERM: Final = 13
_LIMIT: Final = 708.0
"""e to such powers is a normal number."""


@cache
def _tables() -> tuple[list[float], list[float], list[float], float, float]:
    """1/c and log c in two parts, for each segment; ln 2 in two parts."""

    def parts(exact: Decimal) -> tuple[float, float]:
        high = round(exact * Decimal(_GRID)) / _GRID
        return high, float(exact - Decimal(high))

    inverse, high, low = list[float](), list[float](), list[float]()
    with localcontext(prec=60):
        for segment in range(_SEGMENTS):
            ends = (_FIRST + (n << 48) for n in (segment, segment + 1))
            first, last = (struct.unpack("d", struct.pack("q", n))[0] for n in ends)
            inverse.append(1.0 if first < 1 < last else 2 / (first + last))
            found = parts(-Decimal(inverse[-1]).ln())
            high.append(found[0])
            low.append(found[1])
        return inverse, high, low, *parts(Decimal(2).ln())


def _look_up(b: Builder, segment: Value, table: Sequence[float]) -> Value:
    texts = [f"double {constant_text('double', x)}" for x in table]
    first, last = (Value(f"<{', '.join(part)}>", EIGHT) for part in (texts[:8], texts[8:]))
    return b.call(_LOOK_UP, EIGHT, first, segment, last)


def has_tables(b: Builder, type_: Type) -> bool:
    """Whether `logarithm` serves these vectors."""
    return b.scalef and type_ == EIGHT


def logarithm(b: Builder, x: Value) -> tuple[Value, Value]:
    """log x as a sum of two floats, for positive normal numbers."""
    inverse, c_high, c_low, ln2_high, ln2_low = _tables()
    bits = b.bits(x, "i64")
    above = b.op("sub", bits, _FIRST)
    segment = b.op("lshr", above, 48)  # the instruction takes the last four bits
    k = b.op("ashr", above, 52)
    m = b.bits(b.op("sub", bits, b.op("shl", k, 52)), "double")
    k = b.cast("sitofp", k, "double")
    # m/c - 1 as a sum of two floats.
    c = _look_up(b, segment, inverse)
    product = b.mul(m, c)
    rest, near = b.fma(m, c, b.neg(product)), b.sub(product, 1.0)
    r = b.add(near, rest)
    r_low = b.sub(rest, b.sub(r, near))
    # Each sum has a larger first term, so what it rounds is found by two subtractions.
    start = b.fma(k, ln2_high, _look_up(b, segment, c_high))
    high = b.add(start, r)
    low = b.add(b.sub(start, high), r)
    square = b.mul(r, r)
    error = b.fma(r, r, b.neg(square))
    half = b.mul(square, -0.5)
    total = b.add(high, half)
    low = b.add(low, b.add(b.sub(high, total), half))
    series = b.like(r, 1 / _LAST_TERM)
    for n in range(_LAST_TERM - 1, 2, -1):
        series = b.fma(series, r, (-1) ** (n + 1) / n)
    low = b.fma(b.mul(square, r), series, b.fma(error, -0.5, low))
    low = b.add(low, b.fma(k, ln2_low, _look_up(b, segment, c_low)))
    low = b.add(low, b.fma(b.neg(r), r_low, r_low))
    found = b.add(total, low)
    return found, b.add(b.sub(total, found), low)


def exponent(b: Builder, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """y log x as a sum of two floats, and the lanes where the base or it is out of range."""
    high, low = logarithm(b, x)
    product = b.mul(y, high)
    rest = b.fma(y, low, b.fma(y, high, b.neg(product)))
    place = b.op("sub", b.bits(x, "i64"), _LEAST_NORMAL)
    inside = b.op("and", b.compare("ult", place, _NORMALS),
                  b.compare("ole", b.unary("fabs", product), _LIMIT))  # fmt: skip
    return product, rest, b.op("xor", inside, True)
