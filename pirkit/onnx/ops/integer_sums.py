"""Matmuls and convolutions of 8-bit integers, for quantized operators.

`DequantizeLinear` before and `QuantizeLinear` after an operator of floats mean what `QLinearConv`
and `QLinearMatMul` are as one operator (Jacob et al., CVPR 2018), and ONNX Runtime computes the
former as the latter. So the builder remembers the integers from which `DequantizeLinear` computes a
tensor (`b.quantized`), and a product of two such tensors is computed on the integers: it is exact,
and uses the CPU's instructions for bytes.

These instructions multiply unsigned by signed bytes. So signed activations are stored as unsigned
ones plus 128, and that and the zero point are corrected by offsets: (x + 128) w = x w + 128 sum(w).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.dialect.ops.nn.quantized_conv import MAX_TERMS
from pirkit.onnx.node_builder import Array, NodeBuilder
from pirkit.onnx.ops.convolution import around, convolution, even_padding
from pirkit.runtime import dtype as dt

Sums = Callable[[Value], Value]
"""A function that emits a product. It takes one scale, or one for each output channel, and gives
float32: each sum of integers, rounded to float32, times its scale."""
EXACT_TERMS: Final = 2**24 // 255**2
"""The number of products of two bytes whose sum float32 holds exactly."""
_MIDDLE: Final = 128
"""What is added to a signed byte to get the unsigned one that stands for it."""


@dataclass(frozen=True)
class Integers:
    """A quantized tensor: it stands for ``(values - zero) * scale``.

    ``zero`` and ``scale`` are one number, or one for each index of ``axis``; without a ``scale``
    the tensor stands for integers.
    """

    values: Value
    zero: Value | None = None
    scale: Value | None = None
    axis: int = 0

    def number(self, b: NodeBuilder) -> int | None:
        """The zero point, if it is one known number."""
        if self.zero is None:
            return 0
        found = b.evaluated(self.zero.ssa)
        return int(found.item()) if found is not None and found.size == 1 else None

    def centered(self, b: NodeBuilder) -> Array | None:
        """``values - zero`` as int32, if both are constant."""
        found = b.evaluated(self.values.ssa)
        point: Any = np.zeros(1) if self.zero is None else b.evaluated(self.zero.ssa)
        if found is None or point is None:
            return None
        spread = [1] * found.ndim
        spread[self.axis] = -1
        return found.astype(np.int32) - point.astype(np.int32).reshape(spread)


def centered(b: NodeBuilder, x: Value, zero: Value | None, *, rows: bool = False) -> Value:
    """``x - zero`` of bytes as float32, which is exact.

    With ``rows`` a vector of zero points is one for each row of a matrix, else for each column.
    """
    wide = b.cast(x, dt.float32)
    if zero is None:
        return wide
    point = b.cast(zero, dt.float32)
    if rows and point.rank == 1 and point.shape != (1,):
        point = b.unsqueezed(point, (1,))
    return b.subtract(wide, point)


def product_of_scaled(
    b: NodeBuilder, x: Value, y: Value, bias: Value | None,
    sums_of: Callable[..., Sums | None], axis: int,
) -> Value | None:  # fmt: skip
    """A product of two dequantized tensors, computed on their integers; None if that is impossible.

    ``sums_of`` is `convolution_sums` or `matmul_sums`. ``x`` has one scale; ``y`` has one, or one
    for each index of ``axis``, which becomes the output channel.
    """
    left, right = b.quantized.get(x.ssa), b.quantized.get(y.ssa)
    if left is None or right is None or left.scale is None or right.scale is None:
        return None
    several = right.scale.meta.numel > 1 and right.axis % y.rank != axis % y.rank
    if several or left.scale.meta.numel != 1 or x.dtype is not dt.float32:
        return None
    scale = b.multiply(b.reshape(left.scale, (1,)), b.reshape(right.scale, (-1,)))
    added, rest = _integer_bias(b, bias, scale)
    sums = sums_of(b, left, right, added)
    if sums is None:
        return None
    out = sums(scale)
    if rest is None:
        b.products[out.ssa] = sums, scale
        return out
    return b.add(out, b.reshape(rest, (-1, *[1] * (out.rank - 2))) if axis == 0 else rest)


def _integer_bias(
    b: NodeBuilder, bias: Value | None, scale: Value
) -> tuple[Value | None, Value | None]:  # fmt: skip
    """The bias as integers, if it is quantized with the scale of the product, else as floats."""
    if bias is None:
        return None, None
    held = b.quantized.get(bias.ssa)
    if held is None or held.scale is None or held.values.dtype is not dt.int32:
        return None, bias
    own, whole = b.evaluated(held.scale.ssa), b.evaluated(scale.ssa)
    same = own is not None and whole is not None and np.allclose(own.ravel(), whole, 1e-6, 0)
    return (held.values, None) if same and held.number(b) == 0 else (None, bias)


def convolution_sums(
    b: NodeBuilder, x: Integers, w: Integers, bias: Value | None = None, *, group: int = 1,
    **how: Any,
) -> Sums | None:  # fmt: skip
    """What emits a convolution of integers; None if the filters are not constant.

    Convolutions with groups, whose sums have few terms, and those whose sums may exceed 32 bits are
    computed in floats. ``bias`` is of integers, ``how`` the attributes of `Conv`.
    """
    held, image = w.centered(b), x.values
    if held is None or image.rank not in (3, 4):
        return None
    terms, filters = prod(held.shape[1:]), held.shape[0]
    zero = x.number(b)
    flat = image.rank == 3
    parts = _signed_parts(held)
    if group > 1 or terms * len(parts) > MAX_TERMS or not parts:
        wide = dt.float32 if terms <= EXACT_TERMS else dt.float64

        def by_floats(scale: Value) -> Value:
            inner = b.cast(centered(b, image, x.zero), wide)
            factors = b.cast(b.array(held.astype(np.int16)), wide)
            found = convolution(b, inner, factors, None, group=group, **how)
            along = (-1, *[1] * (image.rank - 2))
            if bias is not None:
                found = b.add(found, b.reshape(b.cast(bias, wide), along))
            return b.multiply(b.cast(found, dt.float32), b.reshape(scale, along))

        return by_floats

    def sums(scale: Value) -> Value:
        steps = list(how.get("strides") or [1] * (image.rank - 2))
        spread = list(how.get("dilations") or [1] * (image.rank - 2))
        padding = around(b, image, held.shape[2:], steps, spread, how.get("pads"),
                         how.get("auto_pad", "NOTSET"))  # fmt: skip
        data, more = unsigned(b, image)
        data = b.concat([data] * len(parts), 1)
        filter = b.array(np.concatenate(parts, 1))
        if flat:  # an image of one row
            data, filter = b.unsqueezed(data, (2,)), b.unsqueezed(filter, (2,))
            steps, spread, padding = [1, *steps], [1, *spread], [(0, 0), *padding]
        around_zero = zero is not None and zero + more == 0
        if around_zero or not any(n for pair in padding for n in pair):
            data, even = even_padding(b, data, padding)
        else:
            sides = (0, 0, 0, 0, *(n for pair in padding for n in pair))
            value = zero + more if zero is not None else _point(b, x, more)
            data, even = b("pd_op.pad", data, pad_value=value, paddings=sides), (0, 0)
        added = _offsets(b, x, more, held.sum((1, *range(2, held.ndim))), bias)
        found = b("pir.quantized_conv2d", data, filter, _each(b, scale, filters), added,
                  strides=tuple(steps), paddings=even, dilations=tuple(spread))  # fmt: skip
        return b.squeezed(found, (2,)) if flat else found

    return sums


def matmul_sums(
    b: NodeBuilder, x: Integers, y: Integers, bias: Value | None = None, *,
    transposed: bool = False,
) -> Sums | None:  # fmt: skip
    """What emits a matmul of bytes by a constant matrix (with ``transposed`` by its transpose).

    None if ``y`` is not constant, ``x`` has several zero points, or the sums may exceed 32 bits.
    """
    held = y.centered(b)
    if held is None or held.ndim != 2 or x.values.rank < 2:
        return None
    held = held.T if transposed else held
    parts = _signed_parts(held)
    single = x.zero is None or x.zero.meta.numel == 1
    fits = parts and len(held) * len(parts) <= MAX_TERMS
    if not fits or not single or x.values.dtype not in (dt.int8, dt.uint8):
        return None

    def sums(scale: Value) -> Value:
        data, more = unsigned(b, x.values)
        added = _offsets(b, x, more, held.sum(0), bias)
        data = b.concat([data] * len(parts), data.rank - 1)
        weights = b.array(np.concatenate(parts))
        one = b("pd_op.full", shape=(1,), value=1.0, dtype=dt.float32)
        columns = held.shape[1]
        return b("pir.quantized_matmul", data, weights, _each(b, scale, columns), one, added,
                 columns=columns)  # fmt: skip

    return sums


def unsigned(b: NodeBuilder, x: Value) -> tuple[Value, int]:
    """A tensor of bytes as unsigned ones, and the number that was added to them: 0 or 128."""
    if x.dtype is dt.uint8:
        return x, 0
    found = b.unsigned.get(x.ssa)
    if found is None:
        found = b.cast(b.add(b.cast(x, dt.int32), b.const(_MIDDLE, dt.int32)), dt.uint8)
        b.unsigned[x.ssa] = found
    return found, _MIDDLE


def signed(b: NodeBuilder, x: Value) -> Value:
    """The signed bytes for which unsigned ones stand: 128 less."""
    found = b.cast(b.subtract(b.cast(x, dt.int32), b.const(_MIDDLE, dt.int32)), dt.int8)
    b.unsigned[found.ssa] = x
    return found


def _signed_parts(held: Array) -> list[Array]:
    """One or two tensors of signed bytes whose sum is ``held``; none if two are not enough.

    A weight less its zero point may need 9 bits.
    """
    half = held >> 1
    for parts in ([held], [half, held - half]):
        if held.size and all(p.min() >= -128 and p.max() <= 127 for p in parts):
            return [np.ascontiguousarray(p, np.int8) for p in parts]
    return []


def _each(b: NodeBuilder, scale: Value, count: int) -> Value:
    """One scale for each of ``count`` output channels."""
    return b.expanded(b.reshape(scale, (-1,)), (count,))


def _point(b: NodeBuilder, x: Integers, more: int) -> Value:
    """The zero point plus ``more`` as int32, for one that is known only at run time."""
    assert x.zero is not None
    point = b.cast(b.reshape(x.zero, (1,)), dt.int32)
    return b.add(point, b.const(more, dt.int32)) if more else point


def _offsets(
    b: NodeBuilder, x: Integers, more: int, factors: Array, bias: Value | None
) -> Value | None:  # fmt: skip
    """The offsets of the sums: ``bias - (zero + more) * factors``; None if all are 0.

    ``factors`` are the sums of the weights of each output channel.
    """
    zero = x.number(b)
    known = None if bias is None else b.evaluated(bias.ssa)
    if zero is not None and (bias is None or known is not None):
        added = -(zero + more) * factors.astype(np.int64)
        added = added if known is None else added + known
        return b.array(added.astype(np.int32)) if added.any() else None
    if zero is None:
        less = b.multiply(b.array(factors.astype(np.int32)), _point(b, x, more))
    else:
        less = b.array(((zero + more) * factors).astype(np.int32))
    return b.subtract(b.cast(bias, dt.int32) if bias is not None else b.const(0, dt.int32), less)
