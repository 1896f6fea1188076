"""Unsigned integers as signed ones of the same bits, integer division, shifts, bits of floats."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.dialect.unsigned_words import float_of, quotient, word_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.nodes import Tensor
from pirkit.stablehlo.rules import rule

_MANTISSA: Final = {dt.float16: 10, dt.bfloat16: 7, dt.float32: 23, dt.float64: 52}
"""Bits of the fraction that a float stores."""
_WORDS: Final = {1: dt.int8, 2: dt.int16, 4: dt.int32, 8: dt.int64}


# --- unsigned numbers ---


def as_unsigned(b: HloBuilder, x: Value) -> Value:
    """The unsigned number for which ``x`` stands, as int64; for 64 bits, ``x`` itself."""
    if x.dtype is dt.int64:
        return x
    return b.bitwise_and(b.cast(x, dt.int64), b.const((1 << 8 * x.dtype.itemsize) - 1, dt.int64))


def as_float(b: HloBuilder, x: Value) -> Value:
    """The unsigned number for which ``x`` stands, as float64, rounded once."""
    wide = as_unsigned(b, x)
    if x.dtype is not dt.int64:
        return b.cast(wide, dt.float64)
    return float_of(b, wide)


def integer_of(b: HloBuilder, x: Value, to: Tensor) -> Value:
    """A float as an integer, towards zero; as in XLA, NaN is 0 and what is beyond saturates.

    Unsigned numbers are the signed ones of the same bits.
    """
    is_unsigned = to.is_unsigned or to.dtype is dt.uint8
    bits = 8 * to.dtype.itemsize
    end = 1 << (bits if is_unsigned else bits - 1)
    first, x = 0 if is_unsigned else -end, b.wide(x)
    below = np.nextafter(x.dtype.np.type(end), x.dtype.np.type(0))
    zero, least, most = (b.const(float(n), x.dtype) for n in (0, first, below))
    x = b.where(b.isnan(x), zero, x)
    found = _whole(b, b.maximum(b.minimum(x, most), least), to)
    if int(below) == end - 1:
        return found
    last = b.const(-1 if to.is_unsigned else end - 1, found.dtype, found.shape)
    return b.where(b.greater_equal(x, b.const(float(end), x.dtype)), last, found)


def _whole(b: HloBuilder, x: Value, to: Tensor) -> Value:
    """A float that the integer type holds, towards zero."""
    if not to.is_unsigned:
        return b.cast(x, to.dtype)
    return word_of(b, x) if to.element == "ui64" else b.cast(b.cast(x, dt.int64), to.dtype)


def divided(b: HloBuilder, x: Value, y: Value, type_: Tensor) -> Value:
    """The quotient of integers, towards zero; all bits are set where XLA divides by zero."""
    if not b.number_of(y):
        none = b.equal(y, b.const(0, y.dtype))
        found = _divided(b, x, b.where(none, b.const(1, y.dtype, y.shape), y), type_)
        bits = 255 if y.dtype is dt.uint8 else -1
        return b.where(none, b.const(bits, y.dtype, y.shape), found)
    return _divided(b, x, y, type_)


def _divided(b: HloBuilder, x: Value, y: Value, type_: Tensor) -> Value:
    if x.dtype not in (dt.int32, dt.int64):
        wide = [as_unsigned(b, v) if type_.is_unsigned else b.cast(v, dt.int32) for v in (x, y)]
        return b.cast(_towards_zero(b, *wide), x.dtype)
    return quotient(b, x, y) if type_.is_unsigned else _towards_zero(b, x, y)


def _towards_zero(b: HloBuilder, x: Value, y: Value) -> Value:
    """The floor of the quotient, plus 1 where it is negative and not exact."""
    floored = b.floor_divide(x, y)
    rest = b.subtract(x, b.multiply(floored, y))
    zero = b.const(0, x.dtype)
    below = b.logical_and(b.less_than(floored, zero), b.not_equal(rest, zero))
    return b.add(floored, b.cast(below, x.dtype))


def remainder_of(b: HloBuilder, x: Value, y: Value, type_: Tensor) -> Value:
    """The remainder of the division towards zero; it has the sign of the dividend."""
    if x.dtype.is_float:
        wide, by = b.wide(x), b.wide(y)
        size = b.remainder(b.abs(wide), b.abs(by))
        return b.cast(b.copysign(size, wide), x.dtype)
    return b.apply("subtract", x, b.apply("multiply", divided(b, x, y, type_), y))


# --- shifts and counts of bits ---


def _shift(op: str, arithmetic: bool) -> Any:
    def emit(b: HloBuilder, x: Value, y: Value) -> Value:
        keeps_sign = arithmetic and not b.ins[0].element.startswith("ui")
        return b(f"pd_op.{op}", x, y, is_arithmetic=keeps_sign)

    return emit


rule("shift_left")(_shift("bitwise_left_shift", True))
rule("shift_right_arithmetic")(_shift("bitwise_right_shift", True))
rule("shift_right_logical")(_shift("bitwise_right_shift", False))


def _down(b: HloBuilder, x: Value, by: int) -> Value:
    return b.bitwise_right_shift(x, b.const(by, x.dtype), is_arithmetic=False)


def _ones(b: HloBuilder, x: Value) -> Value:
    """The number of set bits, by sums of pairs, fours and bytes (Hacker's Delight, 5-1)."""
    bits = 8 * x.dtype.itemsize

    def repeated(byte: int) -> Value:
        word = int.from_bytes(bytes([byte]) * x.dtype.itemsize, "little", signed=True)
        return b.array(np.array(word, x.dtype.np))

    pairs = b.subtract(x, b.bitwise_and(_down(b, x, 1), repeated(0x55)))
    fours = b.add(b.bitwise_and(pairs, repeated(0x33)),
                  b.bitwise_and(_down(b, pairs, 2), repeated(0x33)))  # fmt: skip
    octets = b.bitwise_and(b.add(fours, _down(b, fours, 4)), repeated(0x0F))
    for by in (8, 16, 32):
        if by < bits:
            octets = b.add(octets, _down(b, octets, by))
    return b.bitwise_and(octets, b.const(127, x.dtype))


def _widened(b: HloBuilder, x: Value) -> tuple[Value, int]:
    """``x`` zero-extended to at least 32 bits, and the number of bits that were added."""
    if x.dtype.itemsize >= 4:
        return x, 0
    bits = 8 * x.dtype.itemsize
    wide = b.bitwise_and(b.cast(x, dt.int32), b.const((1 << bits) - 1, dt.int32))
    return wide, 32 - bits


@rule("popcnt")
def _(b: HloBuilder, x: Value) -> Value:
    return b.cast(_ones(b, _widened(b, x)[0]), x.dtype)


@rule("count_leading_zeros")
def _(b: HloBuilder, x: Value) -> Value:
    """The highest set bit is copied to all lower ones; the bits that are not set are counted."""
    word, new = _widened(b, x)
    bits = 8 * word.dtype.itemsize
    by = 1
    while by < bits:
        word = b.bitwise_or(word, _down(b, word, by))
        by *= 2
    zeros = b.subtract(b.const(bits - new, word.dtype), _ones(b, word))
    return b.cast(zeros, x.dtype)


# --- floats and their bits ---


@rule("bitcast_convert")
def _(b: HloBuilder, x: Value) -> Value:
    """The same bits as another type of the same width, by exact arithmetic."""
    source, to = b.ins[0], b.outs[0]
    if source.dtype.itemsize != to.dtype.itemsize or source.sizes != to.sizes:
        raise b.unsupported("to a type of another width has no rule")
    if source.dtype is to.dtype:
        return x
    if source.dtype.is_integer and to.dtype.is_integer:
        return b.cast(x, to.dtype)
    if to.dtype in _MANTISSA and source.dtype.is_integer:
        return float_of_bits(b, x, to.dtype)
    if source.dtype in _MANTISSA and to.dtype.is_integer:
        return bits_of_float(b, x)
    raise b.unsupported(f"from {source} to {to} has no rule")


def _scales(dtype: DType) -> tuple[Any, int, int]:
    """For each stored exponent the value of the last bit; the widths of fraction and exponent."""
    fraction = _MANTISSA[dtype]
    width = 8 * dtype.itemsize - 1 - fraction
    held = dt.float64 if dtype is dt.float64 else dt.float32
    lowest = 2 - (1 << (width - 1)) - fraction
    stored = np.maximum(np.arange(1 << width), 1) - 1
    return np.ldexp(held.np.type(1), (lowest + stored).astype(np.int32)), fraction, width


def float_of_bits(b: HloBuilder, x: Value, dtype: DType) -> Value:
    """The float whose bits are ``x``."""
    powers, fraction, width = _scales(dtype)
    word = _WORDS[8] if dtype is dt.float64 else dt.int32
    bits = b.cast(x, word)
    exponent = b.bitwise_and(_down(b, bits, fraction), b.const((1 << width) - 1, word))
    rest = b.bitwise_and(bits, b.const((1 << fraction) - 1, word))
    zero = b.const(0, word)
    is_last = b.equal(exponent, b.const((1 << width) - 1, word))
    first = b.where(b.greater_than(exponent, zero), b.const(1 << fraction, word), zero)
    at = b.reshape(b.where(is_last, zero, exponent), (-1,))
    scale = b.reshape(b.gather(b.array(powers, "powers"), at, axis=0), x.shape)
    size = b.multiply(b.cast(b.add(rest, first), scale.dtype), scale)
    special = b.where(b.equal(rest, zero), b.const(float("inf"), scale.dtype),
                      b.const(float("nan"), scale.dtype))  # fmt: skip
    size = b.where(is_last, special, size)
    return b.cast(b.where(b.less_than(x, b.const(0, x.dtype)), b.scaled(size, -1.0), size), dtype)


def bits_of_float(b: HloBuilder, x: Value) -> Value:
    """The bits of a float as a signed integer; all NaN give those of the default quiet NaN."""
    dtype = x.dtype
    powers, fraction, width = _scales(dtype)
    held = dt.float64 if dtype is dt.float64 else dt.float32
    word = _WORDS[8] if dtype is dt.float64 else dt.int32
    top = (1 << width) - 1
    wide = b.cast(x, held)
    size = b.abs(wide)
    # The least number of each exponent from 1 on: the exponent of a number is found by search.
    bounds = b.array(powers[1:top] * held.np.type(1 << fraction), "bounds")
    flat = b.reshape(size, (-1,))
    exponent = b.cast(b.searchsorted(bounds, flat, right=True), word)
    finite = b.where(b.isfinite(flat), flat, 0.0)
    clamped = b.minimum(exponent, b.const(top - 1, word))
    scale = b.gather(b.array(powers, "powers"), clamped, axis=0)
    digits = b.cast(b.divide(finite, scale), word)
    zero = b.const(0, word)
    first = b.where(b.greater_than(clamped, zero), b.const(1 << fraction, word), zero)
    whole = b.bitwise_left_shift(clamped, b.const(fraction, word))
    found = b.add(whole, b.subtract(digits, first))
    special = b.where(b.isnan(flat), b.const((top << fraction) + (1 << (fraction - 1)), word),
                      b.const(top << fraction, word))  # fmt: skip
    found = b.where(b.isfinite(flat), found, special)
    # A comparison with 0 does not see the sign of -0; `copysign` does.
    turned = b.less_than(b.copysign(b.const(1.0, held, flat.shape), b.reshape(wide, (-1,))),
                         b.const(0.0, held))  # fmt: skip
    lowest = b.const(-(1 << (8 * word.itemsize - 1)) if dtype.itemsize >= 4 else 1 << 15, word)
    signed = b.where(turned, b.bitwise_or(found, lowest), found)
    return b.cast(b.reshape(signed, x.shape), _WORDS[dtype.itemsize])
