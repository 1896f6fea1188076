"""Masks of sequences, blocks of tensors, shifts along time, in terms of indices."""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.ops.sequence.sequence import shifted_channels
from pirkit.dialect.rules.movement.movement import END, part
from pirkit.dialect.rules.movement.size_ops import REFUSED, Size, in_shape, shrunk, sizes_of
from pirkit.dialect.windows import CHANNELS_LAST
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@decompose("pd_op.sequence_mask")
def _(c: OpCall) -> Value:
    b, x = c.b, c.b.cast(c.x, dt.int64)
    end = c.max_len
    if isinstance(end, Value) or end < 0:
        lengths = b.concat([b.reshape(x, (-1,)), b.integers((0,))], axis=0)
        most = b("pd_op.max", lengths, axis=(0,), keepdim=True)
        if isinstance(end, Value):
            given = b.reshape(b.cast(end, dt.int64), (1,))
            most = b.where(given < 0, most, given)
        end = b.reshape(most, ())
    places = b.arange(start=0, end=end, step=1, dtype=dt.int64)
    return b.cast(places < b.unsqueeze(x, axis=(-1,)), c.out_dtype)


@decompose("pd_op.crop")
def _(c: OpCall) -> Value:
    """A slice that reaches beyond the input ends there, so a `reshape` to the requested sizes
    follows, which refuses it.
    """
    b, x, shape, offsets = c.b, c.x, c.shape, c.offsets
    axes = tuple(range(x.rank))
    if not isinstance(shape, Value) and not isinstance(offsets, Value):
        ends = [END if n < 0 else s + n for n, s in zip(shape, offsets, strict=True)]
        taken = part(b, x, axes, offsets, ends)
        if UNKNOWN not in x.shape:
            return taken
        entire = zip(sizes_of(b, x), shape, offsets, strict=True)
        return in_shape(b, taken, [_at_end(b, d, s) if n < 0 else n for d, n, s in entire])
    begins = b.cast(offsets, dt.int64) if isinstance(offsets, Value) else b.integers(offsets)
    sizes = b.cast(shape, dt.int64) if isinstance(shape, Value) else b.integers(shape)
    ends = b.where(sizes < 0, b.shape_of(x), begins + sizes)
    wanted = b.where(b.minimum(begins, ends - begins) < 0, b.integers((REFUSED,)), ends - begins)
    return b.reshape(part(b, x, axes, begins, ends), wanted)


def _at_end(b: Builder, size: Size, start: int) -> Size:
    """How many elements there are from ``start`` on."""
    if isinstance(size, int) or not start:
        return size - start
    rest = size - b.integers((start,))
    return b.where(rest < 0, b.integers((REFUSED,)), rest)


@decompose("pd_op.temporal_shift")
def _(c: OpCall) -> Value:
    """Three groups of channels: from the frame before, from the one after, from the same."""
    b, frames = c.b, c.x
    last = c.data_format in CHANNELS_LAST
    channels = frames.shape[3 if last else 1]
    if channels == UNKNOWN:
        return NotImplemented
    if not channels:
        return frames
    n, *rest = sizes_of(b, frames)
    video = in_shape(b, frames, [shrunk(b, n, c.seg_num), c.seg_num, *rest])
    axis, end = 4 if last else 2, c.seg_num
    first, second = shifted_channels(channels, c.shift_ratio)
    groups: list[Value] = []
    for low, high, remaining, pads in (
        (0, first, (0, end - 1), (1, 0)),
        (first, second, (1, end), (0, 1)),
        (second, channels, (0, end), (0, 0)),
    ):
        if low == high:
            continue
        group = part(b, video, (1, axis), (remaining[0], low), (remaining[1], high))
        room = (0, 0, *pads, *(0,) * 6)
        groups.append(b.pad(group, paddings=room, pad_value=0.0) if any(pads) else group)
    out = b.concat(groups, axis=axis) if len(groups) > 1 else groups[0]
    return in_shape(b, out, [n, *rest])
