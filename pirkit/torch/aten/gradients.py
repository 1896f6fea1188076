"""Backward ops of ATen, where torch's own derivatives are in the graph."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Value
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule


@rule("threshold_backward")
def _(b: AtenBuilder, gradient: Value, x: Value, threshold: Any) -> Value:
    passes = b.greater_than(x, b.const(threshold, x.dtype))
    return b("pd_op.where", passes, gradient, b.const(0, gradient.dtype))


@rule("tanh_backward")
def _(b: AtenBuilder, gradient: Value, y: Value) -> Value:
    return b.multiply(gradient, b.subtract(b.const(1.0, y.dtype), b.multiply(y, y)))


@rule("sigmoid_backward")
def _(b: AtenBuilder, gradient: Value, y: Value) -> Value:
    one = b.const(1.0, y.dtype)
    return b.multiply(gradient, b.multiply(y, b.subtract(one, y)))


@rule("_softmax_backward_data")
def _(b: AtenBuilder, gradient: Value, y: Value, dim: int, dtype: Any) -> Value:
    weighted = b.multiply(gradient, y)
    total = b.sum(weighted, (dim % max(y.rank, 1),) if y.rank else (), keepdim=True)
    return b.subtract(weighted, b.multiply(y, total))
