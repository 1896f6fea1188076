"""Numbers of 8 bits with scales and zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from pirkit.dialect.build import Value
from pirkit.onnx.element_types import element_type
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.ops.matmul import centered
from pirkit.onnx.ops.windows import convolution
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType


def _along(b: NodeBuilder, v: Value, x: Value, axis: int, block: int) -> Value:
    """A scale or zero point in the shape that spreads over ``x``: of all, an axis, or blocks."""
    if v.rank == 0 or v.shape == (1,):
        return b.reshape(v, ())
    place = b.axis(axis, x.rank)
    if block:
        shape = b.static(x)
        spread = b.expanded(b.unsqueezed(v, (place + 1,)),
                            (*v.shape[: place + 1], block, *v.shape[place + 1 :]))  # fmt: skip
        merged = (*v.shape[:place], v.shape[place] * block, *v.shape[place + 1 :])
        return b.cut(b.reshape(spread, merged), place, 0, shape[place])
    return b.reshape(v, (v.shape[0], *[1] * (x.rank - 1 - place)))


def quantized(
    b: NodeBuilder, x: Value, scale: Value, zero: Value | None, dtype: DType, axis: int = 1,
    block: int = 0,
) -> Value:  # fmt: skip
    """``x / scale`` rounded to even, plus the zero point, within the bounds of the type."""
    if not dtype.is_integer:
        raise b.unsupported(f"to {dtype} has no rule")
    wide = b.cast(x, dt.float32)
    found = b.round(b.divide(wide, _along(b, b.cast(scale, dt.float32), x, axis, block)))
    if zero is not None:
        found = b.add(found, _along(b, b.cast(zero, dt.float32), x, axis, block))
    bounds = np.iinfo(dtype.np)
    low, high = b.scalar(float(bounds.min), found), b.scalar(float(bounds.max), found)
    return b.cast(b.minimum(b.maximum(found, low), high), dtype)


@rule("QuantizeLinear")
def _(
    b: NodeBuilder, x: Value, scale: Value, zero: Value | None = None, axis: int = 1,
    block_size: int = 0, output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Value:  # fmt: skip
    kind = element_type(output_dtype) if output_dtype else dt.uint8 if zero is None else zero.dtype
    return quantized(b, x, scale, zero, kind, axis, block_size)


@rule("DequantizeLinear")
def _(
    b: NodeBuilder, x: Value, scale: Value, zero: Value | None = None, axis: int = 1,
    block_size: int = 0, output_dtype: int = 0,
) -> Value:  # fmt: skip
    wide = b.cast(x, dt.float32)
    if zero is not None:
        wide = b.subtract(wide, _along(b, b.cast(zero, dt.float32), x, axis, block_size))
    found = b.multiply(wide, _along(b, b.cast(scale, dt.float32), x, axis, block_size))
    return b.cast(found, element_type(output_dtype) if output_dtype else scale.dtype)


@rule("DynamicQuantizeLinear")
def _(b: NodeBuilder, x: Value) -> Any:
    axes = tuple(range(x.rank))
    zero = b.scalar(0.0, x)
    high = b.maximum(b("pd_op.max", x, axis=axes, keepdim=False), zero)
    low = b.minimum(b("pd_op.min", x, axis=axes, keepdim=False), zero)
    scale = b.divide(b.subtract(high, low), b.scalar(255.0, x))
    scale = b.where(b.equal(scale, zero), b.ones_like(scale), scale)
    start = b.round(b.divide(b.subtract(zero, low), scale))
    point = b.minimum(b.maximum(start, zero), b.scalar(255.0, x))
    rounded = b.add(b.round(b.divide(x, scale)), point)
    bounded = b.minimum(b.maximum(rounded, zero), b.scalar(255.0, x))
    return b.cast(bounded, dt.uint8), scale, b.cast(point, dt.uint8)


@rule("QLinearMatMul")
def _(
    b: NodeBuilder, x: Value, x_scale: Value, x_zero: Value, y: Value, y_scale: Value,
    y_zero: Value, scale: Value, zero: Value,
) -> Value:  # fmt: skip
    left, right = centered(b, x, x_zero, rows=True), centered(b, y, y_zero)
    product = b.matmul(b.cast(left, dt.float64), b.cast(right, dt.float64))
    factors = [b.cast(v, dt.float32) for v in (x_scale, y_scale)]
    if factors[0].rank == 1 and factors[0].shape != (1,):
        factors[0] = b.unsqueezed(factors[0], (1,))
    scaled = b.multiply(b.cast(product, dt.float32), b.multiply(*factors))
    return quantized(b, scaled, scale, zero, zero.dtype, axis=-2)


@rule("QLinearConv")
def _(
    b: NodeBuilder, x: Value, x_scale: Value, x_zero: Value, weight: Value, w_scale: Value,
    w_zero: Value, scale: Value, zero: Value, bias: Value | None = None, **how: Any,
) -> Value:  # fmt: skip
    spread = (-1, *[1] * (weight.rank - 1))
    point = b.reshape(w_zero, spread) if w_zero.rank == 1 else w_zero
    sums = convolution(b, centered(b, x, x_zero), centered(b, weight, point), **how)
    along = (-1, *[1] * (x.rank - 2))
    if bias is not None:
        sums = b.add(sums, b.reshape(b.cast(bias, dt.float32), along))
    factor = b.multiply(x_scale, b.reshape(w_scale, along) if w_scale.rank == 1 else w_scale)
    return quantized(b, b.multiply(sums, factor), scale, zero, zero.dtype)
