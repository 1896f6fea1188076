"""Activation functions, softmax and Hardmax."""

from __future__ import annotations

import math

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt


@rule("Relu")
def _(b: NodeBuilder, x: Value) -> Value:
    found = b.relu(x) if x.dtype.is_float else b.maximum(x, b.scalar(0, x))
    if (product := b.products.get(x.ssa)) is not None:
        sums, scale = product  # scales are positive, so a later scale commutes with Relu

        def positive(scale: Value) -> Value:
            return b.relu(sums(scale))

        b.products[found.ssa] = positive, scale
    return found


@rule("LeakyRelu")
def _(b: NodeBuilder, x: Value, alpha: float = 0.01) -> Value:
    return b.leaky_relu(x, negative_slope=alpha)


@rule("PRelu")
def _(b: NodeBuilder, x: Value, slope: Value) -> Value:
    return b.where(b.less_than(x, b.scalar(0, x)), b.multiply(x, slope), x)


@rule("Elu")
def _(b: NodeBuilder, x: Value, alpha: float = 1.0) -> Value:
    return b.elu(x, alpha=alpha)


@rule("Celu")
def _(b: NodeBuilder, x: Value, alpha: float = 1.0) -> Value:
    return b.celu(x, alpha=alpha)


@rule("Selu")
def _(
    b: NodeBuilder, x: Value, alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> Value:  # fmt: skip
    below = b.expm1(x) * (alpha * gamma)
    return b.where(b.less_equal(x, b.scalar(0, x)), below, x * gamma)


@rule("HardSigmoid")
def _(b: NodeBuilder, x: Value, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return b.hardsigmoid(x, slope=alpha, offset=beta)


@rule("HardSwish")
def _(b: NodeBuilder, x: Value) -> Value:
    return b.hardswish(x)


@rule("Softplus")
def _(b: NodeBuilder, x: Value) -> Value:
    return b.softplus(x)


@rule("Mish")
def _(b: NodeBuilder, x: Value) -> Value:
    return b.mish(x, **{"lambda": 20.0})


@rule("Swish")
def _(b: NodeBuilder, x: Value, alpha: float = 1.0) -> Value:
    return b.silu(x) if alpha == 1.0 else b.multiply(x, b.sigmoid(x * alpha))


@rule("Gelu")
def _(b: NodeBuilder, x: Value, approximate: str = "none") -> Value:
    return b.gelu(x, approximate=approximate == "tanh")


@rule("ThresholdedRelu")
def _(b: NodeBuilder, x: Value, alpha: float = 1.0) -> Value:
    return b.where(b.greater_than(x, b.scalar(alpha, x)), x, b.zeros_like(x))


@rule("Shrink")
def _(b: NodeBuilder, x: Value, bias: float = 0.0, lambd: float = 0.5) -> Value:
    dtype, x = x.dtype, x if x.dtype.is_float else b.cast(x, dt.float64)
    zero = b.zeros_like(x)
    below = b.where(b.less_than(x, b.scalar(-lambd, x)), b.add(x, b.scalar(bias, x)), zero)
    above = b.greater_than(x, b.scalar(lambd, x))
    return b.cast(b.where(above, b.subtract(x, b.scalar(bias, x)), below), dtype)


def _softmax(name: str) -> None:
    @rule(name)
    def _(b: NodeBuilder, x: Value, axis: int | None = None) -> Value:
        """Before operator set 13 all dimensions from ``axis`` on are normalized together."""
        place = b.axis((-1 if b.opset >= 13 else 1) if axis is None else axis, x.rank)
        op = {"Softmax": b.softmax, "LogSoftmax": b.log_softmax}[name]
        if b.opset >= 13 or place == x.rank - 1:
            return op(x, axis=place)
        shape = b.static(x)
        rows = b.reshape(x, (math.prod(shape[:place]), math.prod(shape[place:])))
        return b.reshape(op(rows, axis=-1), shape)


_softmax("Softmax")
_softmax("LogSoftmax")


@rule("Hardmax")
def _(b: NodeBuilder, x: Value, axis: int | None = None) -> Value:
    place = b.axis((-1 if b.opset >= 13 else 1) if axis is None else axis, x.rank)
    if b.opset < 13 and place != x.rank - 1:
        raise b.unsupported("of several dimensions has no rule")
    best = b.argmax(x, axis=place, keepdims=True)
    count = b.static(x)[place]
    places = b.arange(start=0, end=count, step=1, dtype=best.dtype)
    spread = b.reshape(places, (count, *[1] * (x.rank - 1 - place)))
    return b.cast(b.equal(best, spread), x.dtype)
