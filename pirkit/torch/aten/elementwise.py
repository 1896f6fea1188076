"""Arithmetic, comparison and logic, element by element."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.torch.aten_builder import AtenBuilder, Kinds
from pirkit.torch.rules import RULES, rule

FLOATING: Final[Any] = Kinds.INT_TO_FLOAT

_UNARY: Final = {
    # overload: op, kind of torch's type promotion
    **{name: (name, FLOATING) for name in (
        "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos",
        "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sqrt", "rsqrt", "reciprocal",
        "sigmoid", "erf", "erfinv", "lgamma", "digamma", "i0",
    )},
    "special_i0e": ("i0e", FLOATING),
    "special_i1": ("i1", FLOATING),
    "special_i1e": ("i1e", FLOATING),
    **{name: (name, Kinds.DEFAULT) for name in ("floor", "ceil", "trunc", "square")},
    "relu": ("relu", Kinds.DEFAULT),
    "round": ("round", Kinds.DEFAULT),
}  # fmt: skip

_BINARY: Final = {
    # overload: op, kind of torch's type promotion
    "mul.Tensor": ("multiply", Kinds.DEFAULT),
    "mul.Scalar": ("multiply", Kinds.DEFAULT),
    "div.Tensor": ("divide", FLOATING),
    "div.Scalar": ("divide", FLOATING),
    "maximum.default": ("maximum", Kinds.DEFAULT),
    "minimum.default": ("minimum", Kinds.DEFAULT),
    "atan2.default": ("atan2", FLOATING),
    "copysign.Tensor": ("copysign", FLOATING),
    "copysign.Scalar": ("copysign", FLOATING),
    "remainder.Tensor": ("remainder", Kinds.DEFAULT),
    "remainder.Scalar": ("remainder", Kinds.DEFAULT),
    "remainder.Scalar_Tensor": ("remainder", Kinds.DEFAULT),
    "floor_divide.default": ("floor_divide", Kinds.DEFAULT),
    "heaviside.default": ("heaviside", Kinds.DEFAULT),
    "nextafter.default": ("nextafter", Kinds.NO_OPMATH),
    **{
        f"bitwise_{way}.{overload}": (f"bitwise_{way}", Kinds.DEFAULT)
        for way in ("and", "or", "xor")
        for overload in ("Tensor", "Scalar", "Scalar_Tensor")
    },
    **{
        f"{name}.{overload}": (f"bitwise_{way}_shift", Kinds.DEFAULT)
        for way in ("left", "right")
        for name, overload in (
            (f"bitwise_{way}_shift", "Tensor"), (f"bitwise_{way}_shift", "Tensor_Scalar"),
            (f"bitwise_{way}_shift", "Scalar_Tensor"), (f"__{way[0]}shift__", "Tensor"),
            (f"__{way[0]}shift__", "Scalar"),
        )
    },
    **{
        f"{short}.{overload}": (op, Kinds.ALWAYS_BOOL)
        for short, op in (
            ("eq", "equal"), ("ne", "not_equal"), ("lt", "less_than"), ("le", "less_equal"),
            ("gt", "greater_than"), ("ge", "greater_equal"),
        )
        for overload in ("Tensor", "Scalar")
    },
    "logical_and.default": ("logical_and", Kinds.ALWAYS_BOOL),
    "logical_or.default": ("logical_or", Kinds.ALWAYS_BOOL),
    "logical_xor.default": ("logical_xor", Kinds.ALWAYS_BOOL),
}  # fmt: skip

_PREDICATES: Final = ("isnan", "isinf", "isfinite")


def _unary(op: str, kind: Any, b: AtenBuilder, x: Value) -> Value:
    (given,), result = b.promoted(x, kind=kind)
    if op in ("floor", "ceil", "trunc", "round") and not given.dtype.is_float:
        return given
    return b.cast(b(f"pd_op.{op}", given), result)


def _binary(op: str, kind: Any, b: AtenBuilder, x: Any, y: Any) -> Value:
    (left, right), result = b.promoted(x, y, kind=kind)
    return b.cast(b.binary(f"pd_op.{op}", left, right), result)


def _ordered(wins: str, b: AtenBuilder, x: Any, y: Any) -> Value:
    """`maximum` or `minimum` (``wins``); equal operands share the gradient evenly, as in torch."""
    (left, right), result = b.promoted(x, y)
    if not left.dtype.is_float:
        return b.cast(b(f"pd_op.{wins}", left, right), result)
    best = b(f"pd_op.{wins}", left, right)
    same = b.equal(left, right)
    return b.cast(b.where(same, left * 0.5 + right * 0.5, best), result)


for _name, (_op, _kind) in _UNARY.items():
    rule(_name)(partial(_unary, _op, _kind))
for _name, (_op, _kind) in _BINARY.items():
    if _op not in ("maximum", "minimum"):
        rule(_name)(partial(_binary, _op, _kind))
for _name in ("maximum", "minimum"):
    rule(_name)(partial(_ordered, _name))


@rule("abs")
def _(b: AtenBuilder, x: Value) -> Value:
    """The gradient at NaN is zero, as in torch."""
    size = b.abs(x)
    if not x.dtype.is_float:
        return size
    seed = b("pd_op.assign", b.zeros_like(size))
    return b.custom(size, (x,), seed, (b.multiply(seed, _sign(b, x)),))


@rule("sign", "sgn")
def _sign(b: AtenBuilder, x: Value) -> Value:
    """The sign of NaN is zero, as in torch."""
    if x.dtype is dt.bool_:
        return x
    found = b.sign(x)
    if not x.dtype.is_float:
        return found
    return b("pd_op.where", b("pd_op.isnan", x), b.const(0.0, x.dtype), found)


def _predicate(op: str, b: AtenBuilder, x: Value) -> Value:
    if x.dtype.is_float or x.dtype.is_complex:
        return b(f"pd_op.{op}", x)
    return b.const(op == "isfinite", dt.bool_, x.shape)


for _name in _PREDICATES:
    rule(_name)(partial(_predicate, _name))


def _sum(sign: int, b: AtenBuilder, x: Any, y: Any, alpha: Any = 1) -> Value:
    """``x + alpha * y``, or with a negative sign ``x - alpha * y``."""
    (left, right), result = b.promoted(x, y)
    if left.dtype is dt.bool_:  # torch adds booleans by `or`, and refuses to subtract them
        return b.logical_or(left, right)
    if alpha != 1:
        right = b.binary("pd_op.multiply", right, b.typed(alpha, right.dtype))
    op = "pd_op.add" if sign > 0 else "pd_op.subtract"
    return b.cast(b.binary(op, left, right), result)


rule("add.Tensor", "add.Scalar")(partial(_sum, 1))
rule("sub.Tensor", "sub.Scalar")(partial(_sum, -1))


@rule("rsub.Scalar", "rsub.Tensor")
def _(b: AtenBuilder, x: Any, y: Any, alpha: Any = 1) -> Value:
    (left, right), result = b.promoted(x, y)
    scaled = left if alpha == 1 else b.binary("pd_op.multiply", left, b.typed(alpha, left.dtype))
    return b.cast(b.binary("pd_op.subtract", right, scaled), result)


@rule("neg")
def _(b: AtenBuilder, x: Value) -> Value:
    return b.binary("pd_op.multiply", x, b.const(-1, x.dtype))


@rule("div.Tensor_mode", "div.Scalar_mode")
def _(b: AtenBuilder, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    kind = FLOATING if rounding_mode is None else Kinds.DEFAULT
    (left, right), result = b.promoted(x, y, kind=kind)
    if rounding_mode is None:
        return b.cast(b.binary("pd_op.divide", left, right), result)
    if rounding_mode == "floor":
        return b.cast(b.floor_divide(left, right), result)
    if left.dtype.is_float:
        return b.cast(b.trunc(b.binary("pd_op.divide", left, right)), result)
    floored = b.floor_divide(left, right)  # towards zero: one more where the quotient is negative
    rest = b.subtract(left, b.multiply(floored, right))
    zero = b.const(0, left.dtype)
    is_below = b.logical_and(b.less_than(floored, zero), b.not_equal(rest, zero))
    return b.cast(b.add(floored, b.cast(is_below, left.dtype)), result)


@rule("fmod.Tensor", "fmod.Scalar")
def _(b: AtenBuilder, x: Any, y: Any) -> Value:
    """The remainder with the sign of the dividend, as in C; its derivative by that is 1, also at 0.

    So the dividend's absolute value is a `where`: the derivative of `abs` at 0 is 0.
    """
    (left, right), result = b.promoted(x, y)
    is_negative = b.less_than(left, b.const(0, left.dtype))
    size = b.where(is_negative, b.scaled(left, -1), left)
    rest = b.remainder(size, b.abs(right))
    return b.cast(b.where(is_negative, b.scaled(rest, -1), rest), result)


def _x_log(log: str, b: AtenBuilder, x: Any, y: Any) -> Value:
    """``x`` times the logarithm of ``y``; zero where ``x`` is zero, unless ``y`` is NaN.

    The derivative by ``x`` there is the logarithm if it is finite, as in torch, else zero.
    """
    (x, y), result = b.promoted(x, y, kind=FLOATING)
    zero, one = b.const(0.0, x.dtype), b.const(1.0, x.dtype)
    has_log = b.isfinite(b(f"pd_op.{log}", y))
    undefined = b.logical_and(b.equal(x, zero), b.logical_not(b.logical_or(has_log, b.isnan(y))))
    return b.cast(b.multiply(x, b(f"pd_op.{log}", b.where(undefined, one, y))), result)


rule("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other")(partial(_x_log, "log"))
rule("special_xlog1py", "special_xlog1py.other_scalar", "special_xlog1py.self_scalar")(
    partial(_x_log, "log1p")
)


@rule("pow.Tensor_Tensor", "pow.Scalar")
def _power(b: AtenBuilder, x: Any, y: Any) -> Value:
    (left, right), result = b.promoted(x, y)
    found = b.elementwise_pow(left, right)
    if not left.dtype.is_float and not left.dtype.is_complex:  # 0 to a negative power is 0
        refused = b.logical_and(
            b.equal(left, b.zeros_like(left)), b.less_than(right, b.zeros_like(right))
        )
        found = b.where(refused, b.zeros_like(found), found)
    return b.cast(found, result)


@rule("pow.Tensor_Scalar")
def _(b: AtenBuilder, x: Value, exponent: Any) -> Value:
    if isinstance(exponent, Value):
        return _power(b, x, exponent)
    (base, _), result = b.promoted(x, exponent)
    if base.dtype.is_float and exponent == 0.5:
        return b.cast(b.sqrt(base), result)
    if base.dtype.is_float and exponent in (-0.5, -1, -2):
        root = {-0.5: b.rsqrt, -1: b.reciprocal, -2: b.reciprocal}[exponent](base)
        return b.cast(b.multiply(root, root) if exponent == -2 else root, result)
    if exponent == 3:
        return b.cast(b.multiply(b.multiply(base, base), base), result)
    return b.cast(b.power(base, exponent), result)


@rule("logical_not")
def _(b: AtenBuilder, x: Value) -> Value:
    return b.logical_not(b.cast(x, dt.bool_))


@rule("bitwise_not")
def _(b: AtenBuilder, x: Value) -> Value:
    return b.logical_not(x) if x.dtype is dt.bool_ else b.bitwise_not(x)


@rule("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _(b: AtenBuilder, condition: Value, x: Any, y: Any) -> Value:
    held = b.cast(condition, dt.bool_)
    return b("pd_op.where", held, b.typed(x, b.dtype), b.typed(y, b.dtype))


@rule("masked_fill.Scalar", "masked_fill.Tensor")
def _(b: AtenBuilder, x: Value, mask: Value, value: Any) -> Value:
    return b("pd_op.where", mask, b.typed(value, x.dtype), x)


@rule("clamp", "clamp.Tensor", "clamp_min", "clamp_min.Tensor")
def _(b: AtenBuilder, x: Value, low: Any = None, high: Any = None) -> Value:
    """The gradient passes to ``x`` inside of the bounds and at them, as in torch; not for NaN.

    A bound that is a tensor gets it where ``x`` is beyond it. Where the lower bound is not below
    the upper one, the lower one gets none, and the upper one gets it wherever it is the smaller.
    """
    x = b.cast(x, b.dtype)
    bounds = [None if v is None else b.typed(v, b.dtype) for v in (low, high)]
    found, inside = x, None
    for bound, extreme, holds in zip(
        bounds, (b.maximum, b.minimum), (b.greater_equal, b.less_equal), strict=True
    ):
        if bound is not None:
            found = extreme(found, bound)
            holds = holds(x, bound)
            inside = holds if inside is None else b.logical_and(inside, holds)
    least, most = bounds
    found = b.stopped(found)
    if isinstance(low, Value) and least is not None:
        counts = b.less_than(x, least)
        counts = counts if most is None else b.logical_and(counts, b.less_than(least, most))
        found = b("pd_op.where", counts, least, found)
    if isinstance(high, Value) and most is not None:
        counts = b.greater_than(x, most)
        counts = counts if least is None else b.logical_or(counts, b.less_than(most, least))
        found = b("pd_op.where", counts, most, found)
    return found if inside is None else b("pd_op.where", inside, x, found)


@rule("clamp_max", "clamp_max.Tensor")
def _(b: AtenBuilder, x: Value, high: Any) -> Value:
    return RULES["aten.clamp.default"](b, x, None, high)


@rule("fmax", "fmin")
def _(b: AtenBuilder, x: Value, y: Value) -> Value:
    """Of equal elements the first one gets the gradient, as in torch."""
    (x, y), result = b.promoted(x, y)
    wins = b.greater_equal if "fmax" in str(b.node.target) else b.less_equal
    first = b.logical_or(wins(x, y), b.not_equal(y, y))
    return b.cast(b("pd_op.where", first, x, y), result)


@rule("round.decimals")
def _(b: AtenBuilder, x: Value, decimals: int = 0) -> Value:
    return b.round(x, decimals=decimals) if x.dtype.is_float else x


@rule("exp2")
def _(b: AtenBuilder, x: Value) -> Value:
    (x,), result = b.promoted(x, kind=FLOATING)
    return b.cast(b.exp(x * math.log(2.0)), result)


@rule("hypot")
def _(b: AtenBuilder, x: Value, y: Value) -> Value:
    """Scaled by the larger operand, so that squares are finite; the gradient at zero is zero."""
    (x, y), result = b.promoted(x, y)
    most = b.stopped(b.maximum(b.abs(x), b.abs(y)))
    zero, one = b.const(0.0, x.dtype), b.const(1.0, x.dtype)
    is_zero = b.equal(most, zero)
    is_end = b.logical_or(is_zero, b.equal(most, b.const(math.inf, x.dtype)))
    scale = b.where(is_end, one, most)
    parts = [b.divide(leg, scale) for leg in (x, y)]
    total = b.add(*[b.multiply(p, p) for p in parts])
    root = b.sqrt(b.where(is_zero, one, total))
    return b.cast(b.where(is_zero, zero, b.multiply(root, scale)), result)


@rule("polygamma")
def _(b: AtenBuilder, n: int, x: Value) -> Any:
    if not x.dtype.is_float:
        return NotImplemented
    return b.digamma(x) if n == 0 else b.polygamma(x, n=n)


@rule("signbit")
def _(b: AtenBuilder, x: Value) -> Any:
    if not x.dtype.is_float:
        zero = b.const(0, x.dtype)
        return b.less_than(x, zero) if x.dtype is not dt.bool_ else b.const(False, x.dtype, x.shape)
    sign = b.copysign(b.ones_like(x), x)
    return b.less_than(sign, b.const(0.0, x.dtype))


@rule("addcmul")
def _(b: AtenBuilder, x: Value, y: Value, z: Value, value: Any = 1) -> Value:
    (x, y, z), result = b.promoted(x, y, z)
    product = b.multiply(y, z)
    if value != 1:
        product = b.binary("pd_op.multiply", product, b.typed(value, product.dtype))
    return b.cast(b.add(x, product), result)


@rule("prims.fma")
def _(b: AtenBuilder, x: Any, y: Any, z: Any) -> Value:
    (x, y, z), result = b.promoted(x, y, z)
    return b.cast(b.add(b.multiply(x, y), z), result)


@rule("addcdiv")
def _(b: AtenBuilder, x: Value, y: Value, z: Value, value: Any = 1) -> Value:
    (x, y, z), result = b.promoted(x, y, z)
    quotient = b.divide(y, z)
    if value != 1:
        quotient = b.binary("pd_op.multiply", quotient, b.typed(value, quotient.dtype))
    return b.cast(b.add(x, quotient), result)


@rule("lerp.Scalar", "lerp.Tensor")
def _(b: AtenBuilder, x: Value, y: Value, weight: Any) -> Value:
    return b.add(x, b.multiply(b.typed(weight, x.dtype), b.subtract(y, x)))
