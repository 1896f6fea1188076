"""Floor division and remainders; integer division by 0 gives 0, as in numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Builder, Value
from pirkit.lowering.codegen.math import vecmath
from pirkit.runtime.dtype import DType

Typed = tuple[Value, DType]

_WHOLE: Final = {"float": 2.0**22, "double": 2.0**51}
"""Magnitude of quotients below which their rounding error is less than 1."""


def _fmod(b: Builder, x: Value, y: Value) -> Value:
    """The exact remainder of truncated division, with the sign of x."""
    a, c = b.unary("fabs", x), b.unary("fabs", y)
    count = b.div(a, c)
    rest = b.fma(b.neg(b.unary("trunc", count)), c, a)
    # If the quotient was rounded up to an integer, it is one too large.
    rest = b.select(b.compare("olt", rest, 0.0), b.add(rest, c), rest)
    rest = b.binary("copysign", b.select(b.compare("olt", a, c), a, rest), x)
    # Large quotients lose their last bits: the C library computes those lanes.
    large = b.op("and", b.compare("olt", a, math.inf), b.compare("ogt", c, 0.0))
    large = b.op("and", large, b.compare("oge", count, _WHOLE[x.type.elem]))
    return b.branch(
        vecmath.any_lane(b, large),
        lambda: [b.select(large, vecmath.libm(b, "fmod", x, y), rest)],
        [rest],
    )[0]


def _safe_quotient(b: Builder, x: Value, y: Value, signed: bool) -> tuple[Value, Value, Value]:
    """Quotient, remainder, and whether the divisor is 0, without the traps of x86.

    `idiv` traps for division by 0 and for the smallest integer divided by -1.
    """
    zero = b.compare("eq", y, 0)
    trap = b.op("or", zero, b.compare("eq", y, -1)) if signed else zero
    divisor = b.select(trap, b.like(y, 1), y)
    letter = "s" if signed else "u"
    quotient, remainder = b.op(letter + "div", x, divisor), b.op(letter + "rem", x, divisor)
    if signed:
        minus = b.op("sub", b.like(x, 0), x)
        quotient = b.select(b.compare("eq", y, -1), minus, quotient)
    return quotient, remainder, zero


def _floor_parts(b: Builder, args: Sequence[Typed]) -> tuple[Value, Value]:
    """The floor of an integer quotient, and the remainder with the sign of the divisor."""
    (x, kind), (y, _) = args
    signed = kind.kind == "int"
    quotient, rest, zero = _safe_quotient(b, x, y, signed)
    if signed:
        # Truncated and floor division differ if the signs do and the remainder is not 0.
        differ = b.compare("slt", b.op("xor", x, y), 0)
        below = b.op("and", b.compare("ne", rest, 0), differ)
        quotient = b.select(below, b.op("sub", quotient, 1), quotient)
        rest = b.select(below, b.op("add", rest, y), rest)
    return b.select(zero, b.like(x, 0), quotient), b.select(zero, b.like(x, 0), rest)


def remainder(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    """The remainder of `floor_divide`, with the sign of the divisor."""
    x, y = args[0][0], args[1][0]
    if not x.type.is_float:
        return _floor_parts(b, args)[1]
    rest = _fmod(b, x, y)
    differ = b.op("xor", b.compare("olt", rest, 0.0), b.compare("olt", y, 0.0))
    wrong = b.op("and", b.compare("one", rest, 0.0), differ)
    rest = b.select(wrong, b.add(rest, y), rest)
    return b.select(b.compare("oeq", rest, 0.0), b.binary("copysign", rest, y), rest)


def floor_divide(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    """The quotient rounded down, corrected as in numpy."""
    x, y = args[0][0], args[1][0]
    if not x.type.is_float:
        return _floor_parts(b, args)[0]
    rest, whole = _fmod(b, x, y), b.div(x, y)
    found = b.div(b.sub(x, rest), y)
    differ = b.op("xor", b.compare("olt", rest, 0.0), b.compare("olt", y, 0.0))
    below = b.op("and", b.compare("une", rest, 0.0), differ)
    found = b.select(below, b.sub(found, b.like(found, 1.0)), found)
    down = b.unary("floor", found)
    # (x - rest) / y is an integer up to rounding: take the nearest one.
    near = b.compare("ogt", b.sub(found, down), 0.5)
    down = b.select(near, b.add(down, b.like(down, 1.0)), down)
    down = b.select(b.compare("oeq", found, 0.0), b.binary("copysign", b.like(x, 0.0), whole), down)
    return b.select(b.compare("oeq", y, 0.0), whole, down)


def quotient(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    """Unsigned division of index arithmetic: x >= 0, y >= 1."""
    (x, _), (y, _) = args
    # Masked lanes may hold any value, but must not trap.
    return b.op("udiv", x, b.select(b.compare("eq", y, 0), b.like(y, 1), y))
