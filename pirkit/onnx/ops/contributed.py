"""Quantized operators of the domain ``com.microsoft``, which ONNX Runtime's quantizer writes.

Each computes an operator of ONNX between `DequantizeLinear` and `QuantizeLinear`. Every tensor is
followed by its scale and zero point among the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.ops.quantization import dequantized, quantized
from pirkit.onnx.rules import CONTRIBUTED, RULES

_ONE: Final = {
    "QLinearSigmoid": "Sigmoid", "QLinearLeakyRelu": "LeakyRelu", "QLinearAveragePool":
    "AveragePool", "QLinearGlobalAveragePool": "GlobalAveragePool",
    "QLinearReduceMean": "ReduceMean",
}  # fmt: skip
"""Operators of one tensor: `(x, scale, zero, scale of the result, its zero)`."""
_TWO: Final = {"QLinearAdd": "Add", "QLinearMul": "Mul"}
"""Operators of two tensors, with inputs in the same order."""


def _on_floats(name: str) -> Callable[..., Value]:
    def emit(b: NodeBuilder, *operands: Value, **how: Any) -> Value:
        if how.pop("channels_last", 0):
            raise b.unsupported("with channels last has no rule")
        *given, scale, zero = operands
        if len(given) % 3:
            raise b.unsupported(f"of {len(operands)} operands has no rule")
        floats = [_float(b, given[k : k + 3]) for k in range(0, len(given), 3)]
        return quantized(b, RULES[name](b, *floats, **how), scale, zero)

    return emit


def _float(b: NodeBuilder, given: Sequence[Value]) -> Value:
    return dequantized(b, given[0], given[1], given[2])


def _of_first(b: NodeBuilder, scale: Value, zero: Value, *parts: Value, axis: int) -> Value:
    """`QLinearConcat`, whose first inputs are the scale and zero point of the result."""
    floats = [_float(b, parts[k : k + 3]) for k in range(0, len(parts), 3)]
    return quantized(b, RULES["Concat"](b, *floats, axis=axis), scale, zero)


def _gemm(
    b: NodeBuilder, x: Value, x_scale: Value, x_zero: Value, y: Value, y_scale: Value,
    y_zero: Value, c: Value | None = None, scale: Value | None = None, zero: Value | None = None,
    alpha: float = 1.0, **how: Any,
) -> Value:  # fmt: skip
    """`QGemm`. The scale of its bias is the product of those of its operands.

    Without ``scale`` the result is float32.
    """
    left = dequantized(b, x, x_scale, x_zero)
    right = dequantized(b, y, y_scale, y_zero, axis=0 if how.get("transB") else 1)
    bias = None
    if c is not None:
        whole = b.multiply(b.reshape(x_scale, (1,)), b.reshape(y_scale, (-1,)))
        bias = dequantized(b, c, whole, axis=0)
    found = RULES["Gemm"](b, left, right, bias, alpha=alpha, **how)
    return found if scale is None else quantized(b, found, scale, zero)


CONTRIBUTED.update({name: _on_floats(plain) for name, plain in {**_ONE, **_TWO}.items()})
CONTRIBUTED.update({"QLinearConcat": _of_first, "QGemm": _gemm})
