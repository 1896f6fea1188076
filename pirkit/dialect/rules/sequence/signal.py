"""Derivatives of framing and overlap-add: each is the transpose of the other."""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import vjp
from pirkit.dialect.rules.movement.movement import add_at, arange
from pirkit.dialect.rules.movement.size_ops import in_shape, sizes_of
from pirkit.runtime.meta import UNKNOWN


@vjp("pd_op.frame")
def _(c: OpCall, g: Value) -> Value:
    b, x, axis = c.b, c.x, c.axis
    if x.shape[axis] == UNKNOWN:
        return _added_at_places(c, g)
    out = b.overlap_add(g, hop_length=c.hop_length, axis=axis)
    missed = (x.shape[axis] - c.frame_length) % c.hop_length  # the size of ``out`` may be unknown
    room = [0] * (2 * x.rank)
    room[1 if axis == 0 else -1] = missed
    return b.pad(out, paddings=tuple(room), pad_value=0.0) if missed else out


@vjp("pd_op.overlap_add")
def _(c: OpCall, g: Value) -> Value:
    b, hop, first = c.b, c.hop_length, c.axis == 0
    length = c.x.shape[1 if first else -2]
    if length != UNKNOWN:
        return b.frame(g, frame_length=length, hop_length=hop, axis=c.axis)
    rank = c.x.rank
    frame, element = (0, 1) if first else (rank - 1, rank - 2)
    starts = b.unsqueeze(arange(b, c.x, frame) * hop, axis=(element if first else 0,))
    places = starts + b.unsqueeze(arange(b, c.x, element), axis=(0 if first else 1,))
    found = b.gather(g, b.reshape(places, (-1,)), axis=min(frame, element))
    return in_shape(b, found, sizes_of(b, c.x))


def frames(b: Builder, x: Value, axis: int, length: int, hop: int) -> Value:
    """Windows along an axis of known size, with their elements in a new one after it."""
    size, rank = x.shape[axis], x.rank
    if size % length == 0 and hop == length:
        sizes = sizes_of(b, x)
        return in_shape(b, x, [*sizes[:axis], size // length, length, *sizes[axis + 1 :]])
    rest = [a for a in range(rank) if a != axis]
    x = b.transpose(x, perm=(*rest, axis)) if axis != rank - 1 else x
    x = b.frame(x, frame_length=length, hop_length=hop, axis=-1)
    return b.transpose(x, perm=(*range(axis), rank, rank - 1, *range(axis, rank - 1)))


def _added_at_places(c: OpCall, g: Value) -> Value:
    """The elements of frames are added where those of an axis of open size say they come from."""
    b, axis = c.b, c.axis % c.x.rank
    places = b.frame(
        arange(b, c.x, axis), frame_length=c.frame_length, hop_length=c.hop_length, axis=c.axis
    )
    g = b.flatten(g, start_axis=axis, stop_axis=axis + 1)
    return add_at(b, g, c.x, axis, b.reshape(places, (-1,)))
