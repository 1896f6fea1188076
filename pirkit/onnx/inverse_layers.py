"""Writes convolutions, pooling, normalization and resizing as nodes of ONNX.

ONNX knows images with channels first only. See `inverse` for what a writer is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pirkit.analysis.effects import keeps_statistics
from pirkit.dialect.operation import PirOp
from pirkit.onnx.element_types import TO_ONNX
from pirkit.onnx.write_model import GraphWriter, meta, writes
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


def _is_first(w: GraphWriter, op: PirOp) -> None:
    """Refuse an op whose channels are not the second dimension."""
    if not str(op.attribute("data_format")).startswith("NC"):
        raise w.unsupported(op, "has channels last")


def _pads(w: GraphWriter, op: PirOp, rank: int) -> list[int]:
    """The padding before each spatial dimension, then that after each (ONNX's ``pads``)."""
    if op.attribute("padding_algorithm") not in ("EXPLICIT", ""):
        raise w.unsupported(op, "has a padding by algorithm")
    return _sides(w.numbers(op, "paddings"), rank)


def _sides(held: list[int], rank: int) -> list[int]:
    """Paddle gives one number for a dimension, or a pair if both sides differ."""
    return held * 2 if len(held) == rank else [*held[::2], *held[1::2]]


@writes("conv2d", "depthwise_conv2d", "conv3d")
def _(w: GraphWriter, op: PirOp) -> Any:
    _is_first(w, op)
    rank = len(meta(op.operands[0]).shape) - 2
    return w.node("Conv", w(op.operands[0]), w(op.operands[1]), pads=_pads(w, op, rank),
                  strides=w.numbers(op, "strides"), dilations=w.numbers(op, "dilations"),
                  group=op.attribute("groups"))  # fmt: skip


@writes("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def _(w: GraphWriter, op: PirOp) -> Any:
    _is_first(w, op)
    rank = len(meta(op.operands[0]).shape) - 2
    extra = w.numbers(op, "output_padding") or [0] * rank
    return w.node("ConvTranspose", w(op.operands[0]), w(op.operands[1]),
                  pads=_pads(w, op, rank), strides=w.numbers(op, "strides"),
                  dilations=w.numbers(op, "dilations"), group=op.attribute("groups"),
                  output_padding=extra)  # fmt: skip


@writes("pool2d")
def _(w: GraphWriter, op: PirOp) -> Any:
    _is_first(w, op)
    kind, x = op.attribute("pooling_type"), w(op.operands[0])
    size = w.numbers(op, "kernel_size")
    if op.attribute("global_pooling") or (op.attribute("adaptive") and size == [1, 1]):
        return w.node("GlobalMaxPool" if kind == "max" else "GlobalAveragePool", x)
    if op.attribute("adaptive"):
        raise w.unsupported(op, "is adaptive")
    held: dict[str, Any] = {} if kind == "max" else {
        "count_include_pad": int(not op.attribute("exclusive"))}  # fmt: skip
    pads, strides = _pads(w, op, 2), w.numbers(op, "strides")
    if op.attribute("ceil_mode"):
        _require_elements(w, op, size, strides, pads)
    return w.node("MaxPool" if kind == "max" else "AveragePool", x, kernel_shape=size,
                  pads=pads, strides=strides, ceil_mode=int(op.attribute("ceil_mode")),
                  **held)  # fmt: skip


def _filled(w: GraphWriter, op: PirOp, sizes: Sequence[int], number: float) -> str:
    """The name of a constant for a scale or a bias that is left out."""
    if UNKNOWN in sizes:
        raise w.unsupported(op, "has no scale or no bias, and sizes that are not known")
    return w.constant(np.full(sizes, number, meta(op.operands[0]).dtype.np))


def _require_elements(
    w: GraphWriter, op: PirOp, sizes: list[int], strides: list[int], pads: list[int]
) -> None:
    """Refuse windows that begin beyond the image: by ``ceil_mode`` Paddle has them, not ONNX."""
    shapes = zip(meta(op.operands[0]).shape[2:], meta(op.results[0]).shape[2:], strict=True)
    for k, (length, count) in enumerate(shapes):
        if pads[2 + k] + strides[k] <= sizes[k]:
            continue  # the last window begins within the image, whatever its size
        if UNKNOWN in (length, count) or (count - 1) * strides[k] >= length + pads[k]:
            raise w.unsupported(op, "may have windows behind the image, which ONNX leaves out")


@writes("batch_norm", "batch_norm_")
def _(w: GraphWriter, op: PirOp) -> Any:
    if not keeps_statistics(op):
        raise w.unsupported(op, "is training")
    _is_first(w, op)
    x, mean, variance, scale, bias = op.operand_slots
    sizes = meta(mean).shape
    given = [w(v) or _filled(w, op, sizes, n) for v, n in ((scale, 1.0), (bias, 0.0))]
    out = w.node("BatchNormalization", w(x), *given, w(mean), w(variance),
                 epsilon=op.attribute("epsilon"))  # fmt: skip
    return out, w(mean), w(variance)


@writes("layer_norm")
def _(w: GraphWriter, op: PirOp) -> Any:
    x, scale, bias = op.operand_slots
    begin = op.attribute("begin_norm_axis")
    sizes = meta(x).shape[begin:]
    given = [_filled(w, op, sizes, 1.0) if scale is None else
             w.node("Reshape", w(scale), w.integers(sizes))]  # fmt: skip
    if bias is not None:
        given.append(w.node("Reshape", w(bias), w.integers(sizes)))
    return w.node("LayerNormalization", w(x), *given, axis=begin,
                  epsilon=op.attribute("epsilon"))  # fmt: skip


@writes("group_norm", "instance_norm")
def _(w: GraphWriter, op: PirOp) -> Any:
    x, scale, bias = op.operand_slots
    sizes = meta(x).shape[1:2]
    given = [w(v) or _filled(w, op, sizes, n) for v, n in ((scale, 1.0), (bias, 0.0))]
    if op.name == "pd_op.instance_norm":
        return w.node("InstanceNormalization", w(x), *given, epsilon=op.attribute("epsilon"))
    _is_first(w, op)
    return w.node("GroupNormalization", w(x), *given, num_groups=op.attribute("groups"),
                  epsilon=op.attribute("epsilon"))  # fmt: skip


@writes("pir.quantized_conv2d")
def _(w: GraphWriter, op: PirOp) -> Any:
    x, filter, scales, offsets = op.operand_slots
    sums = w.node("ConvInteger", w(x), w(filter), strides=w.numbers(op, "strides"),
                  dilations=w.numbers(op, "dilations"),
                  pads=_sides(w.numbers(op, "paddings"), 2))  # fmt: skip
    places = w.constant(np.array([1, 2]))
    if offsets is not None:
        sums = w.node("Add", sums, w.node("Unsqueeze", w(offsets), places))
    found = w.node("Cast", sums, to=TO_ONNX[dt.float32])
    spread = w.node("Unsqueeze", w(scales), places)
    return w.node("Mul", found, spread)


def _ratios(op: PirOp, factors: Sequence[float]) -> list[float]:
    """The distance in the image of adjacent elements of the result, for each spatial dimension."""
    if factors and not op.attribute("align_corners"):
        return [1 / f for f in factors]
    off = int(op.attribute("align_corners"))
    pairs = zip(meta(op.operands[0]).shape[2:], meta(op.results[0]).shape[2:], strict=True)
    return [(n - off) / max(m - off, 1) for n, m in pairs]


@writes("nearest_interp", "bilinear_interp", "bicubic_interp")
def _(w: GraphWriter, op: PirOp) -> Any:
    _is_first(w, op)
    if any(v is not None for v in op.operand_slots[1:]):
        raise w.unsupported(op, "has its sizes as an operand")
    mode = {"nearest": "nearest", "bilinear": "linear",
            "bicubic": "cubic"}[op.name[6:].removesuffix("_interp")]  # fmt: skip
    corners = "align_corners" if op.attribute("align_corners") else "half_pixel"
    if mode == "nearest" and corners == "half_pixel":
        corners = "asymmetric"
    elif op.attribute("align_mode") == 1 and corners == "half_pixel" and mode == "linear":
        corners = "asymmetric"
    factors, shape = [float(f) for f in op.attribute("scale")], meta(op.results[0]).shape
    rank = len(shape) - 2
    is_wide = mode != "nearest" and meta(op.results[0]).dtype is dt.float64
    if is_wide and not all(float(np.float32(r)) == r for r in _ratios(op, factors)):
        raise w.unsupported(op, "has places in float32, as in Paddle, which no Resize has")
    if factors and corners != "align_corners":  # coordinates follow the factors, not the sizes
        factors = [1.0, 1.0, *(factors if len(factors) == rank else factors * rank)]
        decided = w.constant(np.array(factors, np.float32)), ""
    elif UNKNOWN in shape:
        raise w.unsupported(op, "has sizes that are not known")
    else:
        decided = "", w.integers(shape)
    return w.node("Resize", w(op.operands[0]), "", *decided,
                  mode=mode, coordinate_transformation_mode=corners,
                  nearest_mode="floor" if corners == "asymmetric" else "round_prefer_ceil",
                  cubic_coeff_a=-0.75)  # fmt: skip
