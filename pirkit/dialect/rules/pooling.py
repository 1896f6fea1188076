"""Pooling: windows are gathered along each dimension, and reduced.

Places outside of the image are the place of one element that is added behind its last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.ops.pool import Windows, out_sizes, pool_slides, spans
from pirkit.dialect.rules.reduction import count
from pirkit.dialect.windows import CHANNELS_LAST
from pirkit.runtime.meta import UNKNOWN


@decompose("pd_op.pool2d", "pd_op.pool3d")
def _(c: OpCall) -> Value:
    """The elements of a window that attain its maximum share the cotangent evenly."""
    b, x = c.b, c.b.wide(c.x)
    first = 1 if c.data_format in CHANNELS_LAST else 2
    axes = tuple(range(first, first + x.rank - 2))
    lengths = tuple([x.shape[a] for a in axes])
    largest = c.pooling_type == "max"
    sizes = c.kernel_size
    if isinstance(sizes, Value):
        return NotImplemented
    if c.global_pooling or (c.adaptive and set(sizes) == {1}):
        return b.cast(_whole(b, x, axes, largest), c.x.dtype)
    if UNKNOWN in lengths or 0 in lengths:
        return NotImplemented
    moves = pool_slides(lengths, sizes, c.strides, c.paddings, c.padding_algorithm, False, "C4")
    positions = out_sizes(moves, lengths, c.adaptive, c.ceil_mode, "C5")
    every = [spans(*each, c.adaptive) for each in zip(moves, lengths, positions, strict=True)]
    if largest:
        out = _greatest(b, x, axes, every)
    else:
        out = _average(b, x, axes, every, inside=c.exclusive or c.adaptive)
    return b.cast(out, c.x.dtype)


def _whole(b: Builder, x: Value, axes: Sequence[int], largest: bool) -> Value:
    if largest:
        return b("pd_op.max", x, axis=tuple(axes), keepdim=True)
    return b.sum(x, axes, keepdim=True) / count(b, x, axes)


def _greatest(b: Builder, x: Value, axes: Sequence[int], every: Sequence[Windows]) -> Value:
    for done, (axis, windows) in enumerate(zip(axes, every, strict=True)):
        x = _windows(b, x, axis + done, windows, -math.inf)
    within = tuple([axis + i + 1 for i, axis in enumerate(axes)])
    return b("pd_op.max", x, axis=within, keepdim=False)


def _average(
    b: Builder, x: Value, axes: Sequence[int], every: Sequence[Windows], *, inside: bool
) -> Value:
    for axis, (starts, ends) in zip(axes, every, strict=True):
        length = x.shape[axis]
        x = b.sum(_windows(b, x, axis, (starts, ends), 0.0), (axis + 1,))
        if inside:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, length)
        sizes: list[int] = (ends - starts).tolist()
        if len(set(sizes)) == 1:
            x = x / sizes[0]
            continue
        shape = (len(sizes), *(1,) * (x.rank - axis - 1))
        x = x / b.reshape(b.cast(b.integers(sizes), x.dtype), shape)
    return x


def _windows(b: Builder, x: Value, axis: int, windows: Windows, fill: float) -> Value:
    """The elements of each window in a new dimension behind ``axis``; ``fill`` for missing ones."""
    starts, ends = windows
    length = x.shape[axis]
    width = int(np.max(ends - starts))
    at = starts[:, None] + np.arange(width)
    is_inside = (at >= 0) & (at < np.minimum(ends, length)[:, None])
    if not is_inside.all():
        after = [n for a in range(x.rank) for n in (0, int(a == axis))]
        x = b.pad(x, paddings=tuple(after), pad_value=fill)
    places: list[int] = np.where(is_inside, at, length).reshape(-1).tolist()
    taken = b.gather(x, b.integers(places), axis=axis)
    known = [*taken.shape[:axis], len(starts), width, *taken.shape[axis + 1 :]]
    if known.count(UNKNOWN) < 2:
        return b.reshape(taken, known)
    sizes = b.shape_of(taken)
    parts = [b.integers((len(starts), width))]
    if axis:
        parts.insert(0, b.gather(sizes, b.integers(range(axis)), axis=0))
    if axis + 1 < x.rank:
        parts.append(b.gather(sizes, b.integers(range(axis + 1, x.rank)), axis=0))
    return b.reshape(taken, b.concat(b.combine(parts), axis=0))
