"""Frames of signals, in terms of reading and adding at places."""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.sizes import Size, as_list, in_shape, sizes_of
from pirkit.runtime import dtype as dt


def _places(b: Builder, count: Size, length: Size, hop: int) -> Value:
    """Where the elements of frames stand in the signal, a row for each frame."""
    frames, elements = (
        b.arange(start=0, end=n if isinstance(n, int) else b.reshape(n, ()), step=1, dtype=dt.int64)
        for n in (count, length)
    )
    return b.unsqueeze(frames * hop, axis=(1,)) + b.unsqueeze(elements, axis=(0,))


@decompose("pd_op.frame")
def _(c: OpCall) -> Value:
    b, x, length, hop = c.b, c.x, c.frame_length, c.hop_length
    sizes = sizes_of(b, x)
    axis: int = c.axis
    size = sizes[axis]
    if isinstance(size, int):
        count: Size = 1 + (size - length) // hop
    else:
        count = b.floor_divide(size - b.integers((length,)), b.integers((hop,)))
        count = count + b.integers((1,))
    places = _places(b, count, length, hop)
    if axis == 0:
        return in_shape(
            b, b.gather(x, b.reshape(places, (-1,)), axis=0), [count, length, *sizes[1:]]
        )
    places = b.reshape(b.transpose(places, perm=(1, 0)), (-1,))
    return in_shape(b, b.gather(x, places, axis=x.rank - 1), [*sizes[:-1], length, count])


@decompose("pd_op.overlap_add")
def _(c: OpCall) -> Value:
    b, x, hop = c.b, c.x, c.hop_length
    last = (x.rank - 1, x.rank - 2, *range(x.rank - 2))
    frames = x if c.axis == 0 else b.transpose(x, perm=last)
    count, length, *rest = sizes_of(b, frames)
    if isinstance(count, int) and isinstance(length, int):
        size: Size = (count - 1) * hop + length
    else:
        steps = as_list(b, count) - b.integers((1,))
        size = steps * hop + as_list(b, length)
    shape = b.concat([as_list(b, d) for d in (size, *rest)], axis=0)
    known = [d for d in (size, *rest) if isinstance(d, int)]
    shape = known if len(known) == frames.rank - 1 else shape
    zeros = b.expand(b.const(0, x.dtype), shape=shape)
    places = b.reshape(_places(b, count, length, hop), (-1, 1))
    out = b.scatter_nd_add(zeros, places, b.flatten(frames, start_axis=0, stop_axis=1))
    return out if c.axis == 0 else b.transpose(out, perm=(*range(1, out.rank), 0))
