"""Quantization and dequantization, and the operators `QLinearMatMul` and `QLinearConv`.

A quantized tensor stands for ``(x - zero point) * scale``. See `integer_sums` for products.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes

from pirkit.dialect.build import Value
from pirkit.onnx.element_types import element_type
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.ops.convolution import convolution
from pirkit.onnx.ops.integer_sums import Integers, centered, convolution_sums, matmul_sums, signed
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType


def _along(b: NodeBuilder, v: Value, x: Value, axis: int, block: int) -> Value:
    """A scale or zero point in a shape that broadcasts to ``x``: one, one per index of an axis,
    or one for each ``block`` elements along the axis."""
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


def _steps(b: NodeBuilder, x: Value, scale: Value, axis: int, block: int) -> Value:
    """``x / scale`` as float32; if ``x`` is a product of integers, by one op with both scales."""
    product = b.products.get(x.ssa)
    if product is None or scale.meta.numel != 1 or x.dtype is not dt.float32:
        wide = b.cast(x, dt.float32)
        return b.divide(wide, _along(b, b.cast(scale, dt.float32), x, axis, block))
    sums, own = product
    return sums(b.divide(own, b.reshape(b.cast(scale, dt.float32), (1,))))


def bounded(b: NodeBuilder, steps: Value, zero: Value | None, dtype: DType) -> Value:
    """``round(steps) + zero``, clamped to the bounds of an integer type; halves round to even."""
    found, more = b.round(steps), 0
    kept = dtype is dt.int8 and (zero is None or b.evaluated(zero.ssa) is not None)
    if kept:  # computed as unsigned bytes, which convolutions and matmuls read (`integer_sums`)
        dtype, more = dt.uint8, 128
    point = None if zero is None else b.evaluated(zero.ssa)
    if point is not None and point.size == 1:
        number = float(point.item()) + more
        found = b.add(found, b.scalar(number, found)) if number else found
    elif zero is not None:
        found = b.add(found, b.cast(zero, dt.float32))
        found = b.add(found, b.scalar(float(more), found)) if more else found
    elif more:
        found = b.add(found, b.scalar(float(more), found))
    bounds = ml_dtypes.iinfo(dtype.np)
    low, high = b.scalar(float(bounds.min), found), b.scalar(float(bounds.max), found)
    made = b.cast(b.minimum(b.maximum(found, low), high), dtype)
    return signed(b, made) if kept else made


@rule("QuantizeLinear")
def quantized(
    b: NodeBuilder, x: Value, scale: Value, zero: Value | None = None, axis: int = 1,
    block_size: int = 0, output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Value:  # fmt: skip
    """``round(x / scale) + zero``, clamped to the bounds of the type; halves round to even.

    Gives the integers themselves if ``x`` was dequantized with the same scale and zero point.
    """
    kind = element_type(output_dtype) if output_dtype else dt.uint8 if zero is None else zero.dtype
    if kind.is_float:
        steps = _steps(b, x, scale, axis, block_size)
        if zero is not None:
            steps = b.add(steps, _along(b, b.cast(zero, dt.float32), x, axis, block_size))
        return b.cast(steps, kind, bool(saturate))
    zero = zero if zero is None else b.cast(zero, dt.HELD_IN.get(zero.dtype, zero.dtype))
    held = b.quantized.get(x.ssa)
    if held is not None and held.values.dtype is kind and _same(b, held, scale, zero):
        return held.values
    point = None if zero is None else _along(b, zero, x, axis, block_size)
    return bounded(b, _steps(b, x, scale, axis, block_size), point, kind)


def _same(b: NodeBuilder, held: Integers, scale: Value, zero: Value | None) -> bool:
    """Whether integers have this scale and zero point, each being one known number."""
    other = Integers(held.values, zero, scale)
    point = held.number(b)
    if held.scale is None or point is None or point != other.number(b):
        return False
    own, new = b.evaluated(held.scale.ssa), b.evaluated(scale.ssa)
    return own is not None and new is not None and own.size == new.size == 1 and (
        own.item() == new.item()
    )  # fmt: skip


@rule("DequantizeLinear")
def dequantized(
    b: NodeBuilder, x: Value, scale: Value, zero: Value | None = None, axis: int = 1,
    block_size: int = 0, output_dtype: int = 0,
) -> Value:  # fmt: skip
    """``(x - zero) * scale``, from the unsigned bytes that stand for ``x`` if there are such."""
    held = Integers(x, zero, scale, axis)
    point, stand_in = held.number(b), b.unsigned.get(x.ssa)
    if stand_in is not None and point is not None:
        x, point = stand_in, point + 128
    wide = b.cast(x, dt.float32)
    if point is not None:
        wide = b.subtract(wide, b.const(float(point), dt.float32)) if point else wide
    elif zero is not None:
        wide = b.subtract(wide, _along(b, b.cast(zero, dt.float32), x, axis, block_size))
    factor = _along(b, b.cast(scale, dt.float32), x, axis, block_size)
    single = b.evaluated(scale.ssa) if scale.meta.numel == 1 and x.rank else None
    if single is not None:
        factor = b("pd_op.full", shape=(1,), value=float(single.item()), dtype=dt.float32)
    dtype = element_type(output_dtype) if output_dtype else scale.dtype
    found = b.cast(b.multiply(wide, factor), dtype)
    if not block_size:
        b.quantized[found.ssa] = held
    return found


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
    factors = [b.cast(v, dt.float32) for v in (x_scale, y_scale)]
    sums = matmul_sums(b, Integers(x, x_zero), Integers(y, y_zero, axis=1))
    if sums is not None and scale.meta.numel == 1 and x_scale.meta.numel == 1:
        factor = b.multiply(*(b.reshape(v, (-1,)) for v in factors))
        steps = sums(b.divide(factor, b.reshape(b.cast(scale, dt.float32), (1,))))
        return bounded(b, steps, _along(b, zero, steps, -2, 0), zero.dtype)
    left, right = centered(b, x, x_zero, rows=True), centered(b, y, y_zero)
    product = b.matmul(b.cast(left, dt.float64), b.cast(right, dt.float64))
    if factors[0].rank == 1 and factors[0].shape != (1,):
        factors[0] = b.unsqueezed(factors[0], (1,))
    scaled = b.multiply(b.cast(product, dt.float32), b.multiply(*factors))
    return quantized(b, scaled, scale, zero, axis=-2)


@rule("QLinearConv")
def _(
    b: NodeBuilder, x: Value, x_scale: Value, x_zero: Value, weight: Value, w_scale: Value,
    w_zero: Value, scale: Value, zero: Value, bias: Value | None = None, **how: Any,
) -> Value:  # fmt: skip
    how.pop("kernel_shape", None)
    sums = convolution_sums(b, Integers(x, x_zero), Integers(weight, w_zero), bias, **how)
    factor = b.multiply(b.reshape(x_scale, (1,)), b.reshape(w_scale, (-1,)))
    if sums is not None:
        return bounded(b, sums(b.divide(factor, b.reshape(scale, (1,)))), zero, zero.dtype)
    spread = (-1, *[1] * (weight.rank - 1))
    point = b.reshape(w_zero, spread) if w_zero.rank == 1 else w_zero
    found = convolution(b, centered(b, x, x_zero), centered(b, weight, point), **how)
    along = (-1, *[1] * (x.rank - 2))
    if bias is not None:
        found = b.add(found, b.reshape(b.cast(bias, dt.float32), along))
    return quantized(b, b.multiply(found, b.reshape(factor, along)), scale, zero)
