"""Unsigned integers of the bits of signed ones: order, quotients, and floats, for readers."""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.runtime import dtype as dt


def ordered(b: Builder, x: Value) -> Value:
    """Signed numbers in the order of the unsigned ones that ``x`` stands for, and back."""
    lowest = -(1 << (8 * x.dtype.itemsize - 1))
    return b.bitwise_xor(x, b.const(lowest, x.dtype))


def quotient(b: Builder, x: Value, y: Value) -> Value:
    """The quotient of unsigned numbers, by that of half of the dividend (Hacker's Delight, 9-3)."""
    one, zero = b.const(1, x.dtype), b.const(0, x.dtype)
    left, right = ordered(b, x), ordered(b, y)
    is_small = b.greater_than(y, zero)
    divisor = b.where(is_small, y, one)
    half = b.bitwise_right_shift(x, one, is_arithmetic=False)
    estimate = b.bitwise_left_shift(b.floor_divide(half, divisor), one)
    rest = b.subtract(x, b.multiply(estimate, divisor))
    more = b.greater_equal(ordered(b, rest), right)
    exact = b.add(estimate, b.cast(more, x.dtype))
    return b.where(is_small, exact, b.cast(b.greater_equal(left, right), x.dtype))


def float_of(b: Builder, x: Value) -> Value:
    """The number of 64 bits as a float64: both halves, rounded once."""
    high = b.bitwise_right_shift(x, b.const(32, dt.int64), is_arithmetic=False)
    low = b.bitwise_and(x, b.const(0xFFFFFFFF, dt.int64))
    return b.cast(high, dt.float64) * float(1 << 32) + b.cast(low, dt.float64)


def word_of(b: Builder, x: Value) -> Value:
    """A float as 64 bits: what 63 bits do not hold is counted from 2 ** 63."""
    wide, half = b.cast(x, dt.float64), float(1 << 63)
    is_large = b.greater_equal(wide, b.const(half, dt.float64))
    inside = b.cast(b.where(is_large, wide - half, wide), dt.int64)
    return b.where(is_large, ordered(b, inside), inside)
