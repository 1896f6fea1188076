"""Activations as compositions, and their derivatives where those of the parts differ at a kink.

At a kink the derivative is that of one side, Paddle's in every form: relu 0, relu6 0 and 0, leaky
relu 1, elu and selu that of the exponential, hard swish 0 and 1, hard sigmoid 0 and 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.movement.size_ops import Size, in_shape, sizes_of

Rule = Callable[[OpCall, Value], Value]


def _softplus(c: OpCall, x: Value, beta: float, threshold: float) -> Value:
    """``log(1 + exp(beta x)) / beta``, linear above the threshold, at which it still curves."""
    b, scaled = c.b, x * beta
    above = scaled > threshold
    curved = b.log1p(b.exp(b.where(above, threshold, scaled))) * (1 / beta)
    return b.where(above, x, curved)


def _logsigmoid(c: OpCall, x: Value) -> Value:
    """``min(x, 0) - log(1 + exp(-|x|))``: no exponential can overflow.

    Both parts take the same side at zero, so that their kinks cancel at every order.
    """
    b, right = c.b, x >= 0
    size, low = b.where(right, x, -x), b.where(right, b.zeros_like(x), x)
    return low - b.log1p(b.exp(-size))


def _gelu(c: OpCall, x: Value) -> Value:
    if c.approximate:
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (c.b.tanh(inner) + 1)
    return x * 0.5 * (c.b.erf(x * math.sqrt(0.5)) + 1)


def _bent(c: OpCall, x: Value, alpha: float, scale: float = 1.0, width: float = 1.0) -> Value:
    """``scale * x`` above zero, ``scale * alpha * expm1(x / width)`` at zero and below."""
    b, above = c.b, x > 0
    low = b.where(above, 0.0, x)  # keeps the exponential finite
    return b.where(above, x, b.expm1(low * (1 / width)) * alpha) * scale


def _clipped(c: OpCall, x: Value, low: float, high: float) -> Value:
    """``x`` between the bounds, at which it stands still: NaN, which is not beyond one, passes."""
    b = c.b
    return b.where(x <= low, low, b.where(x >= high, high, x))


def _shrunk(c: OpCall, x: Value) -> Value:
    b, edge = c.b, c.threshold
    return b.where(b.abs(x) <= edge, 0.0, b.where(x > 0, x - edge, x + edge))


COMPOSED: Final[dict[str, Rule]] = {
    "silu": lambda c, x: x * c.b.sigmoid(x),
    "swish": lambda c, x: x * c.b.sigmoid(x),
    "gelu": _gelu,
    "mish": lambda c, x: x * c.b.tanh(_softplus(c, x, 1.0, getattr(c, "lambda"))),
    "softplus": lambda c, x: _softplus(c, x, c.beta, c.threshold),
    "softsign": lambda c, x: x / (c.b.abs(x) + 1),
    "tanh_shrink": lambda c, x: x - c.b.tanh(x),
    "stanh": lambda c, x: c.b.tanh(x * c.scale_a) * c.scale_b,
    "logsigmoid": _logsigmoid,
    "elu": lambda c, x: _bent(c, x, c.alpha),
    "celu": lambda c, x: _bent(c, x, c.alpha, width=c.alpha),
    "selu": lambda c, x: _bent(c, x, c.alpha, c.scale),
    "relu": lambda c, x: c.b.where(x <= 0, 0.0, x),
    "relu6": lambda c, x: _clipped(c, x, 0.0, 6.0),
    "leaky_relu": lambda c, x: c.b.where(x >= 0, x, x * c.negative_slope),
    "hardtanh": lambda c, x: _clipped(c, x, c.t_min, c.t_max),
    "hardsigmoid": lambda c, x: _clipped(c, x * c.slope + c.offset, 0.0, 1.0),
    "hardswish": lambda c, x: x * _clipped(c, x + 3, 0.0, 6.0) * (1 / 6),
    "softshrink": _shrunk,
    "hardshrink": lambda c, x: c.b.where(c.b.abs(x) <= c.threshold, 0.0, x),
    "thresholded_relu": lambda c, x: c.b.where(x <= c.threshold, c.value, x),
}
"""Op -> what it is made of. Half precision is computed in float32 and rounded once."""


def _in_float(rule: Rule) -> Callable[[OpCall], Any]:
    def composed(c: OpCall) -> Any:
        dtype = c.out.dtype
        return c.b.cast(rule(c, c.b.wide(c.b.cast(c.x, dtype))), dtype)

    return composed


for _name, _rule in COMPOSED.items():
    decompose(f"pd_op.{_name}")(_in_float(_rule))


def _zero_where(condition: Callable[[OpCall], Value]) -> Rule:
    """0 where the condition holds, whatever the cotangent is, else the cotangent: where ``x < 0``,
    the derivative of ``sqrt(relu(x))`` is 0 and not ``inf * 0``; at a NaN it is the cotangent.
    """
    return lambda c, g: c.b.where(condition(c), 0.0, g)


def _hardswish(c: OpCall, g: Value) -> Value:
    b, x = c.b, c.x
    inner = b.where(x >= 3, b.ones_like(x), x * (1 / 3) + 0.5)
    return b.where(x <= -3, 0.0, g * inner)


def _beyond(c: OpCall) -> Value:
    scaled = c.x * c.slope + c.offset
    return c.b.logical_or(scaled <= 0, scaled >= 1)


DERIVED: Final[dict[str, Rule]] = {
    "relu": _zero_where(lambda c: c.x <= 0),
    "relu6": _zero_where(lambda c: c.b.logical_or(c.x <= 0, c.x >= 6)),
    "leaky_relu": lambda c, g: c.b.where(c.x >= 0, g, g * c.negative_slope),
    "hardtanh": _zero_where(lambda c: c.b.logical_or(c.x <= c.t_min, c.x >= c.t_max)),
    "hardsigmoid": lambda c, g: c.b.where(_beyond(c), 0.0, g * c.slope),
    "hardswish": _hardswish,
    "logsigmoid": lambda c, g: g * (1 - c.b.sigmoid(c.x)),
}
"""Op -> cotangent of its operand, where the composition is not what one means at a kink."""

for _name, _rule in DERIVED.items():
    vjp(f"pd_op.{_name}")(_rule)


@vjp("pd_op.silu", "pd_op.swish")
def _(c: OpCall, g: Value) -> Value:
    """``s + x s (1 - s)``: finite for any finite ``x``."""
    b = c.b
    s = b.sigmoid(c.x)
    return g * (s + c.x * (s * (1 - s)))


@decompose("pd_op.swiglu")
def _(c: OpCall) -> Value:
    b, x, y = c.b, c.x, c.y
    if y is None:
        x, y = b.split_vec(b.split_with_num(x, num=2, axis=-1))
    wide = b.wide(x)
    return b.cast(wide * b.sigmoid(wide) * b.wide(y), x.dtype)


@decompose("pd_op.prelu")
def _(c: OpCall) -> Value:
    b, x, sizes = c.b, c.b.wide(c.x), sizes_of(c.b, c.x)
    shape: list[Size] = [1] * x.rank
    if c.mode == "element":
        shape = [1, *sizes[1:]]
    elif c.mode == "channel":
        channel = x.rank - 1 if c.data_format[-1] == "C" else 1
        shape[channel] = sizes[channel]
    slope = in_shape(b, b.wide(c.alpha), shape)
    return b.cast(b.where(x > 0, x, x * slope), c.x.dtype)


@decompose("pd_op.log_softmax")
def _(c: OpCall) -> Value:
    """The maximum is subtracted first, so that nothing overflows and small terms stay exact."""
    b, axis = c.b, (c.axis,)
    if not c.x.rank:
        return c.x - c.x  # 0, or NaN for what is no finite number
    if not c.x.shape[c.axis]:
        return b.zeros_like(c.x)
    x = b.wide(c.x)
    shifted = x - b("pd_op.max", x, axis=axis, keepdim=True)
    total = b.log(b.sum(b.exp(shifted), axis, keepdim=True))
    return b.cast(shifted - total, c.x.dtype)


@vjp("pd_op.log_softmax")
def _(c: OpCall, g: Value) -> Value:
    b, out = c.b, c.out
    if not out.rank:
        return b.zeros_like(out)
    return g - b.exp(out) * b.sum(g, (c.axis,), keepdim=True)
