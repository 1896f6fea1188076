"""Arithmetic, comparison, logic and conversion, element by element."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.dialect.unsigned_words import float_of, quotient
from pirkit.onnx.element_types import TO_ONNX, element_type
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt

_UNARY: Final = {
    # operator: op
    "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan",
    "Atanh": "atanh", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Log": "log",
    "Reciprocal": "reciprocal", "Sigmoid": "sigmoid", "Sin": "sin", "Sinh": "sinh",
    "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh", "Softsign": "softsign",
    "Abs": "abs", "Sign": "sign", "BitwiseNot": "bitwise_not", "IsNaN": "isnan",
    "Not": "logical_not",
}  # fmt: skip

_ROUNDED: Final = {"Ceil": "ceil", "Floor": "floor", "Round": "round"}

_BINARY: Final = {
    # operator: op
    "Add": "add", "Sub": "subtract", "Mul": "multiply",
    "Equal": "equal", "Greater": "greater_than", "GreaterOrEqual": "greater_equal",
    "Less": "less_than", "LessOrEqual": "less_equal",
    "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
}  # fmt: skip

_VARIADIC: Final = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


def _unary(op: str, b: NodeBuilder, x: Value) -> Value:
    return b(f"pd_op.{op}", x)


def _binary(op: str, b: NodeBuilder, x: Value, y: Value) -> Value:
    return b.binary(f"pd_op.{op}", x, y)


def _variadic(op: str, b: NodeBuilder, *values: Value) -> Value:
    found = values[0]
    for value in values[1:]:
        found = b(f"pd_op.{op}", found, value)
    return found


for _name, _op in _UNARY.items():
    rule(_name)(partial(_unary, _op))
for _name, _op in _ROUNDED.items():
    rule(_name)(partial(_unary, _op))
for _name, _op in _BINARY.items():
    rule(_name)(partial(_binary, _op))
for _name, _op in _VARIADIC.items():
    rule(_name)(partial(_variadic, _op))


@rule("Identity")
def _(b: NodeBuilder, x: Any) -> Any:
    return x


@rule("Neg")
def _(b: NodeBuilder, x: Value) -> Value:
    return b.binary("pd_op.multiply", x, b.const(-1, x.dtype))


@rule("Mean")
def _(b: NodeBuilder, *values: Value) -> Value:
    return _variadic("add", b, *values) * (1 / len(values))


def _truncated(b: NodeBuilder, x: Value, y: Value) -> Value:
    """The integer quotient rounded towards zero: floor + 1 where it is negative and not exact."""
    floored = b.floor_divide(x, y)
    rest = b.subtract(x, b.multiply(floored, y))
    zero = b.scalar(0, x)
    below = b.logical_and(b.less_than(floored, zero), b.not_equal(rest, zero))
    return b.add(floored, b.cast(below, x.dtype))


@rule("Div")
def _(b: NodeBuilder, x: Value, y: Value) -> Value:
    if x.dtype.is_float:
        return b.binary("pd_op.divide", x, y)
    if b.words:
        return quotient(b, x, y)
    return b.floor_divide(x, y) if x.dtype is dt.uint8 else _truncated(b, x, y)


@rule("Mod")
def _(b: NodeBuilder, x: Value, y: Value, fmod: int = 0) -> Value:
    """With ``fmod`` the result has the sign of the dividend, else that of the divisor."""
    if b.words:
        return b.subtract(x, b.multiply(quotient(b, x, y), y))
    if not fmod or x.dtype is dt.uint8:
        return b.remainder(x, y)
    size = b.remainder(b.abs(x), b.abs(y))
    zero = b.scalar(0, x)
    return b.where(b.less_than(x, zero), b.multiply(size, b.scalar(-1, x)), size)


@rule("Pow")
def _(b: NodeBuilder, x: Value, y: Value) -> Value:
    if b.words:
        if not x.dtype.is_float:
            raise b.unsupported("of a base of uint64 has no rule")
        y = float_of(b, y)
    exponent = b.evaluated(y.ssa)
    if exponent is not None and exponent.size == 1 and x.dtype.is_float and y.rank <= x.rank:
        number = float(exponent.item())
        if number in (1.0, 2.0):
            return b.power(x, int(number))
        if number == 0.5:
            return b.sqrt(x)
        if number == 3.0:
            return b.multiply(b.multiply(x, x), x)
    if x.dtype is y.dtype:
        return b.elementwise_pow(x, y)
    wide = dt.float64 if dt.float64 in (x.dtype, y.dtype) or not x.dtype.is_float else dt.float32
    return b.cast(b.elementwise_pow(b.cast(x, wide), b.cast(y, wide)), x.dtype)


@rule("Clip")
def _(b: NodeBuilder, x: Value, low: Any = None, high: Any = None, min: float | None = None,
      max: float | None = None) -> Value:  # fmt: skip
    low = b.scalar(min, x) if low is None and min is not None else low
    high = b.scalar(max, x) if high is None and max is not None else high
    found = x if low is None else b.maximum(x, low)
    return found if high is None else b.minimum(found, high)


@rule("Where")
def _(b: NodeBuilder, condition: Value, x: Value, y: Value) -> Value:
    return b("pd_op.where", condition, x, y)


@rule("IsInf")
def _(b: NodeBuilder, x: Value, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    found = b.isinf(x)
    if not detect_negative:
        found = b.logical_and(found, b.greater_than(x, b.scalar(0, x)))
    if not detect_positive:
        found = b.logical_and(found, b.less_than(x, b.scalar(0, x)))
    return found


@rule("Cast")
def cast_to(b: NodeBuilder, x: Value, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """A conversion, also of an integer product to float32 as one op (see `integer_sums`).

    ``saturate`` applies to float8: out of range gives the largest number, else infinity or NaN.
    """
    dtype = element_type(to)
    sums = b.sums.get(x.ssa) if dtype is dt.float32 else None
    if sums is not None:
        return sums(b.const(1.0, dtype))
    if dtype is dt.BY_NAME["float8_e8m0fnu"] and round_mode != "up":
        raise b.unsupported(f"rounding {round_mode} has no rule")
    return b.cast(x, dtype, bool(saturate))


@rule("CastLike")
def _(b: NodeBuilder, x: Value, like: Value, saturate: int = 1, round_mode: str = "up") -> Value:
    return cast_to(b, x, TO_ONNX[like.dtype], saturate, round_mode)


@rule("BitShift")
def _(b: NodeBuilder, x: Value, y: Value, direction: str) -> Value:
    if direction == "LEFT":
        return b.bitwise_left_shift(x, y)
    return b.bitwise_right_shift(x, y, is_arithmetic=not b.words)
