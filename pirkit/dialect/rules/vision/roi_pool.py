"""Pooling of boxes: masks select the elements of a bin."""

from __future__ import annotations

import math

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement.size_ops import sizes_of
from pirkit.dialect.rules.vision.grid_sample import images
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


def _rounded(b: Builder, x: Value) -> Value:
    """Halves away from zero."""
    return b.sign(x) * b.floor(b.abs(x) + 0.5)


def _inside(
    b: Builder, start: Value, size: Value, bins: int, length: int, *, entire: bool
) -> Value:
    """Whether element k of an image is in bin j of box i, ``[R, bins, length]``."""
    bin_ = b.cast(b.integers(range(bins)), size.dtype)
    start, size = (b.reshape(v, (-1, 1)) for v in (start, size))
    if entire:
        first, last = b.floor(size * bin_) + start, b.ceil(size * (bin_ + 1)) + start
    else:
        first, last = b.floor(size * bin_ + start), b.ceil(size * (bin_ + 1) + start)
    places = b.cast(b.integers(range(length)), size.dtype)
    first, last = b.unsqueeze(first, axis=(2,)), b.unsqueeze(last, axis=(2,))
    return b.logical_and(b.greater_equal(places, first), b.less_than(places, last))


@decompose("pd_op.roi_pool")
def _(c: OpCall) -> tuple[Value, Value]:
    """The first greatest of each row in a bin, and the first row with the greatest of those."""
    b, x = c.b, c.x
    height, width = x.shape[2:]
    if UNKNOWN in x.shape[1:] or 0 in x.shape[1:]:
        return NotImplemented
    edges = _rounded(b, b.cast(c.boxes, x.dtype) * c.spatial_scale)
    columns, rows = (
        _inside(b, edges[:, i], _length(b, edges, i) / bins, bins, length, entire=True)
        for i, bins, length in ((0, c.pooled_width, width), (1, c.pooled_height, height))
    )
    regions = b.gather(x, images(c, sizes_of(b, c.boxes)[0]), axis=0)
    low, least = (b.const(v, x.dtype) for v in (-math.inf, float(x.dtype.limits.min)))
    shown = b.where(b.greater_than(regions, least), regions, least)
    held = b.where(b.unsqueeze(columns, axis=(1, 2)), b.unsqueeze(shown, axis=(3,)), low)
    top, side = b.max(held, axis=(-1,)), _place(b, held, -1)
    held = b.where(b.unsqueeze(rows, axis=(1, 4)), b.unsqueeze(top, axis=(2,)), low)
    row = _place(b, held, 3)
    at = row * width + b.take_along_axis(side, row, axis=2)
    some = b.logical_and(
        b.unsqueeze(b.any(rows, axis=(2,)), axis=(2,)),
        b.unsqueeze(b.any(columns, axis=(2,)), axis=(1,)),
    )
    some = b.expand_like(b.unsqueeze(some, axis=(1,)), at)
    flat = b.flatten(regions, start_axis=2, stop_axis=3)
    places = b.flatten(at, start_axis=2, stop_axis=3)
    found = b.reshape_like(b.take_along_axis(flat, places, axis=-1), at)
    return b.where(some, found, b.zeros_like(found)), b.where(some, at, b.zeros_like(at) - 1)


def _length(b: Builder, edges: Value, i: int) -> Value:
    long = edges[:, i + 2] - edges[:, i] + 1
    return b.maximum(long, b.ones_like(long))


def _place(b: Builder, x: Value, axis: int) -> Value:
    return b.argmax(x, axis=axis, keepdims=False, flatten=False, dtype=dt.int64)


@decompose("pd_op.psroi_pool")
def _(c: OpCall) -> Value:
    """Sums over rows and columns of a bin, over their number."""
    b, x = c.b, c.x
    height, width = x.shape[2:]
    if UNKNOWN in x.shape[1:]:
        return NotImplemented
    corners = _rounded(b, b.cast(c.boxes, x.dtype))
    parts = (corners[:, :2], corners[:, 2:] + 1)
    low, high = (v * c.spatial_scale for v in parts)
    columns, rows = (
        b.cast(
            _inside(b, low[:, i], _at_least(b, high[:, i] - low[:, i]) / bins, bins, length,
                    entire=False),
            x.dtype,
        )
        for i, bins, length in ((0, c.pooled_width, width), (1, c.pooled_height, height))
    )  # fmt: skip
    split = (-1, c.output_channels, c.pooled_height, c.pooled_width, height, width)
    regions = b.gather(b.reshape(x, split), images(c, sizes_of(b, c.boxes)[0]), axis=0)
    across = b.unsqueeze(columns, axis=(1, 2, 4))
    total = b.sum(b.sum(regions * across, (5,)) * b.unsqueeze(rows, axis=(1, 3)), (4,))
    down, over = b.sum(rows, (2,)), b.sum(columns, (2,))
    area = b.unsqueeze(down, axis=(1, 3)) * b.unsqueeze(over, axis=(1, 2))
    return total / b.maximum(area, b.ones_like(area))


def _at_least(b: Builder, x: Value) -> Value:
    return b.maximum(x, b.value(0.1, x))
