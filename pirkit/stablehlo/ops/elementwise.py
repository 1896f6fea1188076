"""Arithmetic, comparison, logic and conversion, element by element."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.nodes import Dense
from pirkit.stablehlo.ops.integers import as_float, as_unsigned, divided, integer_of, remainder_of
from pirkit.stablehlo.rules import rule

_UNARY: Final = {
    # operation: op
    "exponential": "exp", "exponential_minus_one": "expm1", "log": "log",
    "log_plus_one": "log1p", "logistic": "sigmoid", "sqrt": "sqrt",
    "sine": "sin", "cosine": "cos", "tan": "tan", "tanh": "tanh", "floor": "floor",
    "ceil": "ceil", "round_nearest_even": "round", "is_finite": "isfinite",
    "not": "bitwise_not", "chlo.acos": "acos", "chlo.acosh": "acosh", "chlo.asin": "asin",
    "chlo.asinh": "asinh", "chlo.atan": "atan", "chlo.atanh": "atanh", "chlo.cosh": "cosh",
    "chlo.sinh": "sinh", "chlo.tan": "tan", "chlo.erf": "erf", "chlo.erf_inv": "erfinv",
    "chlo.digamma": "digamma", "chlo.lgamma": "lgamma", "chlo.is_inf": "isinf",
    "chlo.square": "square", "custom_call:mhlo.erf": "erf", "custom_call:mhlo.tan": "tan",
    "chlo.conj": "conj",
}  # fmt: skip

_BINARY: Final = {
    # operation: (op, op of booleans, whether the result depends on the order of numbers)
    "add": ("add", "logical_or", False), "subtract": ("subtract", "logical_xor", False),
    "multiply": ("multiply", "logical_and", False), "and": ("bitwise_and", "logical_and", False),
    "or": ("bitwise_or", "logical_or", False), "xor": ("bitwise_xor", "logical_xor", False),
    "maximum": ("maximum", "logical_or", True), "minimum": ("minimum", "logical_and", True),
    "atan2": ("atan2", "", False), "chlo.next_after": ("nextafter", "", False),
}  # fmt: skip

BINARY: Final = {f"stablehlo.{name}": ops for name, ops in _BINARY.items()}
"""The same by full names, for those who recognize regions."""

_COMPARED: Final = {
    "EQ": "equal", "NE": "not_equal", "LT": "less_than", "LE": "less_equal", "GT": "greater_than",
    "GE": "greater_equal",
}  # fmt: skip


def _unary(op: str, b: HloBuilder, x: Value, result_accuracy: Any = None) -> Value:
    if op in ("floor", "ceil", "round") and not x.dtype.is_float:
        return x
    return b.apply("logical_not" if x.dtype is dt.bool_ else op, x)


def _binary(name: str, b: HloBuilder, x: Value, y: Value) -> Value:
    op, of_booleans, in_order = _BINARY[name]
    if x.dtype is dt.bool_:
        return b.apply(of_booleans, x, y)
    if in_order and b.ins[0].is_unsigned:
        less = b.less_than(b.ordered(x, b.ins[0]), b.ordered(y, b.ins[0]))
        return b.where(less, y, x) if op == "maximum" else b.where(less, x, y)
    if in_order and x.dtype.is_complex:
        raise b.unsupported(f"of {x.dtype} has no rule")
    return b.apply(op, x, y)


for _name, _op in _UNARY.items():
    rule(_name)(partial(_unary, _op))
for _name in _BINARY:
    rule(_name)(partial(_binary, _name))


@rule("constant")
def _(b: HloBuilder, value: Dense) -> Value:
    array = value.array
    if array.ndim == len(value.type.shape):
        return b.array(array)
    return b.expanded(b.array(array), value.type.sizes)


@rule("negate")
def _(b: HloBuilder, x: Value) -> Value:
    if x.dtype.is_float:
        return b.scaled(x, -1.0)
    return b.apply("multiply", x, b.filled(-1 if x.dtype is not dt.uint8 else 255, x.dtype))


@rule("abs")
def _(b: HloBuilder, x: Value) -> Value:
    return x if b.ins[0].element.startswith("ui") else b.apply("abs", x)


@rule("sign")
def _(b: HloBuilder, x: Value) -> Value:
    """The sign of NaN is NaN, and that of a zero the zero itself."""
    if b.ins[0].element.startswith("ui"):
        return b.cast(b.apply("not_equal", x, b.filled(0, x.dtype)), x.dtype)
    found = b.apply("sign", x)
    return b.where(b.equal(x, b.const(0.0, x.dtype)), x, found) if x.dtype.is_float else found


@rule("rsqrt")
def _(b: HloBuilder, x: Value, result_accuracy: Any = None) -> Value:
    return b.rsqrt(x) if x.dtype.is_float else b.divide(b.filled(1.0, x.dtype), b.sqrt(x))


@rule("cbrt")
def _(b: HloBuilder, x: Value, result_accuracy: Any = None) -> Value:
    """``|x| ** (1 / 3)`` and one step of Newton's method, which makes it exact for cubes."""
    wide = b.wide(x)
    size = b.abs(wide)
    root = b.power(size, 1 / 3)
    safe = b.where(b.greater_than(root, b.const(0.0, wide.dtype)), root, 1.0)
    better = b.subtract(root, (root * safe * safe - size) / (safe * safe * 3.0))
    finite = b.where(b.isfinite(wide), better, size)
    return b.cast(b.copysign(finite, wide), x.dtype)


@rule("round_nearest_afz")
def _(b: HloBuilder, x: Value) -> Value:
    """Halves are rounded away from zero."""
    size = b.abs(x)
    below = b.floor(size)
    up = b.greater_equal(b.subtract(size, below), b.const(0.5, x.dtype))
    return b.copysign(b.add(below, b.cast(up, x.dtype)), x)


@rule("divide")
def _(b: HloBuilder, x: Value, y: Value) -> Value:
    return divided(b, x, y, b.ins[0]) if x.dtype.is_integer else b.binary("pd_op.divide", x, y)


@rule("remainder")
def _(b: HloBuilder, x: Value, y: Value) -> Value:
    """The remainder has the sign of the dividend."""
    return remainder_of(b, x, y, b.ins[0])


@rule("power")
def _(b: HloBuilder, x: Value, y: Value) -> Value:
    number = b.number_of(y)
    if x.dtype.is_float and number in (1.0, 2.0, 3.0, 0.5):
        return b.sqrt(x) if number == 0.5 else b.power(x, int(number or 0))
    return b.apply("elementwise_pow", x, y)


@rule("compare")
def _(
    b: HloBuilder, x: Value, y: Value, comparison_direction: str, compare_type: str = ""
) -> Value:
    """TOTALORDER is computed with all NaN equal and largest, and both zeros equal.

    That suffices for jax, which gives all NaN the same bits, and zeros the same sign, before.
    """
    if compare_type not in ("", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"):
        raise b.malformed(f"no elements are compared as `{compare_type}`")
    left, right = b.ordered(x, b.ins[0]), b.ordered(y, b.ins[0])
    op = _COMPARED[comparison_direction]
    if compare_type != "TOTALORDER" or not x.dtype.is_float:
        return b.apply(op, left, right)
    numbers = [b.isnan(v) for v in (x, y)]
    is_nan = b.logical_or(*numbers)
    ranks = [b.cast(v, dt.int32) for v in numbers]
    return b.where(is_nan, b.apply(op, *ranks), b.apply(op, left, right))


@rule("select")
def _(b: HloBuilder, condition: Value, x: Value, y: Value) -> Value:
    return b.where(condition, x, y)


@rule("clamp")
def _(b: HloBuilder, low: Value, x: Value, high: Value) -> Value:
    type_ = b.ins[1]
    if type_.is_unsigned:
        keys = [b.ordered(v, type_) for v in (low, x, high)]
        inside = b.minimum(b.maximum(keys[1], keys[0]), keys[2])
        return b.ordered(inside, type_)
    return b.apply("minimum", b.apply("maximum", x, low), high)


@rule("convert")
def _(b: HloBuilder, x: Value) -> Value:
    """A number as another element type."""
    source, to = b.ins[0], b.outs[0]
    if to.dtype is dt.bool_:
        return b.apply("not_equal", x, b.filled(0, x.dtype)) if x.dtype is not dt.bool_ else x
    if source.is_unsigned:
        if to.dtype.is_float or to.dtype.is_complex:
            return b.cast(as_float(b, x), to.dtype)
        return b.cast(as_unsigned(b, x), to.dtype)
    if x.dtype.is_complex and not to.dtype.is_complex:
        x = b.real(x)
    if x.dtype.is_float and to.dtype.is_integer:
        return integer_of(b, x, to)
    return b.cast(x, to.dtype)


@rule("reduce_precision")
def _(
    b: HloBuilder, x: Value, format: str = "", exponent_bits: int = 0, mantissa_bits: int = 0
) -> Value:
    """Rounding to the format of a narrower element type."""
    formats = {"e5m10": dt.float16, "e8m7": dt.bfloat16, "e8m23": dt.float32, "e11m52": dt.float64}
    name = format or f"e{exponent_bits}m{mantissa_bits}"
    if name not in formats:
        raise b.unsupported(f"to the format {name} has no rule")
    narrow = formats[name]  # of equal size, neither of float16 and bfloat16 holds the other
    return x if narrow.itemsize > x.dtype.itemsize else b.cast(b.cast(x, narrow), x.dtype)


@rule("complex")
def _(b: HloBuilder, x: Value, y: Value) -> Value:
    return b("pd_op.complex", x, y)


@rule("real")
def _(b: HloBuilder, x: Value) -> Value:
    return b("pd_op.real", x) if x.dtype.is_complex else x


@rule("imag")
def _(b: HloBuilder, x: Value) -> Value:
    return b("pd_op.imag", x) if x.dtype.is_complex else b.zeros_like(x)


@rule("chlo.erfc")
def _(b: HloBuilder, x: Value) -> Value:
    return b.subtract(b.const(1.0, x.dtype), b.erf(x))


@rule("chlo.polygamma")
def _(b: HloBuilder, n: Value, x: Value) -> Value:
    order = b.number_of(n)
    if order is None or order != int(order):
        raise b.unsupported("has an order that is not constant")
    return b.digamma(x) if order == 0 else b("pd_op.polygamma", x, n=int(order))
