"""Repeating and rearranging, in terms of `reshape`, `transpose`, `expand` and `gather`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, jet, vjp
from pirkit.dialect.ops.movement.coalesce import padded_sizes
from pirkit.dialect.rules.movement.movement import arange, part, refused
from pirkit.dialect.rules.movement.size_ops import (
    Size,
    as_list,
    grown,
    in_shape,
    product,
    shrunk,
    sizes_of,
)
from pirkit.dialect.types import meta_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, VecMeta


@decompose("pd_op.expand_as")
def _(c: OpCall) -> Value:
    b, x, y = c.b, c.x, c.y
    if y is not None:
        return b.expand_like(x, y)
    return b.expand(x, shape=tuple(c.target_shape))


@decompose("pd_op.tile")
def _(c: OpCall) -> Value:
    """Each dimension gets one of repetitions in front of it, and takes it in."""
    b, x, times = c.b, c.x, c.repeat_times
    if isinstance(times, Value):
        if UNKNOWN in times.shape:
            return NotImplemented
        times = [
            part(b, b.cast(times, dt.int64), (0,), (i,), (i + 1,)) for i in range(times.shape[0])
        ]
    rank = max(x.rank, len(times))
    times: list[Size] = [1] * (rank - len(times)) + [*times]
    sizes: list[Size] = [1] * (rank - x.rank) + sizes_of(b, x)
    if not rank:
        return x
    split: list[Size] = [d for size in sizes for d in (1, size)]
    interleaved = [d for pair in zip(times, sizes, strict=True) for d in pair]
    rows = in_shape(b, x, split)
    if all(isinstance(t, int) for t in times):
        wide = b.expand(rows, shape=tuple(d if isinstance(d, int) else -1 for d in interleaved))
    else:
        wide = b.expand(rows, shape=b.concat([as_list(b, d) for d in interleaved], axis=0))
    joined = [product(b, d, t) for t, d in zip(times, sizes, strict=True)]
    return in_shape(b, wide, joined)


@decompose("pd_op.repeat_interleave")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    axis: int = c.axis % x.rank
    sizes = sizes_of(b, x)
    rows = b.unsqueeze(x, axis=(axis + 1,))
    wide = b.expand(rows, shape=(*[-1] * (axis + 1), c.repeats, *[-1] * (x.rank - 1 - axis)))
    sizes[axis] = grown(b, sizes[axis], c.repeats)
    return in_shape(b, wide, sizes)


@decompose("pd_op.repeat_interleave_with_tensor_index")
def _(c: OpCall) -> Value:
    """The source of a place is how many running sums of the repeats it has reached."""
    b, x = c.b, c.x
    axis: int = c.axis % x.rank
    source = arange(b, x, axis)
    repeats = b.cast(c.repeats, dt.int64)
    repeats = b.expand_like(repeats + refused(b, repeats < 0), source)
    ends = b.cumsum(repeats, axis=0)
    ends = ends + refused(b, ends < 0)  # the sum leaves int64
    total = b.sum(repeats, (0,))
    if c.output_size > 0:
        total = total + refused(b, b.not_equal(total, b.like(c.output_size, total)))
    places = b.arange(start=0, end=total, step=1, dtype=dt.int64)
    return b.gather(x, b.searchsorted(ends, places, right=True), axis=axis)


@decompose("pd_op.meshgrid")
def _(c: OpCall) -> tuple[list[Value]]:
    b, inputs = c.b, c.inputs
    count = len(inputs)
    rows = [
        b.reshape(x, tuple(-1 if j == i else 1 for j in range(count))) for i, x in enumerate(inputs)
    ]
    return (_broadcast(c, rows),)


@decompose("pd_op.broadcast_tensors")
def _(c: OpCall) -> tuple[list[Value]]:
    return (_broadcast(c, c.operand("input")),)


@decompose("pd_op.coalesce_tensor")
def _(c: OpCall) -> tuple[list[Value], Value]:
    b, given = c.b, c.operand("input")
    shapes = [x.shape for x in given]
    if any(UNKNOWN in shape for shape in shapes):
        return NotImplemented
    layout = (c.use_align, c.align_size, c.size_of_dtype)
    sizes = padded_sizes(shapes, given[0].dtype, *layout)
    outs = list(given)
    if not c.copy_data:
        value = c.constant if c.set_constant else 0.0
        outs = [b("pd_op.full_like", x, value=value) for x in given]
        fused = b.full(shape=(sum(sizes),), value=value, dtype=given[0].dtype)
        return outs, fused
    parts: list[Value] = []
    for x, shape, size in zip(given, shapes, sizes, strict=True):
        row = b.reshape(x, (-1,)) if prod(shape) else b.reshape(x, (0,))
        room = size - prod(shape)
        parts.append(b.pad(row, paddings=(0, room), pad_value=0.0) if room > 0 else row)
    return outs, b.concat(parts, axis=0)


def _broadcast(c: OpCall, values: Sequence[Value]) -> list[Value]:
    b = c.b
    shape = cast(VecMeta, meta_of(c.op.results[0].type)).items[0].shape
    if UNKNOWN not in shape:
        return [x if x.shape == shape else b.expand(x, shape=shape) for x in values]
    common = b.cast(b.zeros_like(values[0]), dt.bool_)
    for x in values[1:]:
        common = b.logical_or(common, b.cast(b.zeros_like(x), dt.bool_))
    return [b.expand_like(x, common) for x in values]


# --- channels ------------------------------------------------------------------------------------


def channels_first(b: Builder, x: Value, data_format: str) -> Value:
    """An image with its channels in front of its rows."""
    return x if data_format == "NCHW" else b.transpose(x, perm=(0, 3, 1, 2))


def channels_back(b: Builder, x: Value, data_format: str) -> Value:
    """The inverse of `channels_first`."""
    return x if data_format == "NCHW" else b.transpose(x, perm=(0, 2, 3, 1))


@decompose("pd_op.pixel_shuffle")
def _(c: OpCall) -> Value:
    b, by = c.b, c.upscale_factor
    x = channels_first(b, c.x, c.data_format)
    n, channels, h, w = sizes_of(b, x)
    channels_out = shrunk(b, channels, by * by)
    x = b.transpose(in_shape(b, x, [n, channels_out, by, by, h, w]), perm=(0, 1, 4, 2, 5, 3))
    x = in_shape(b, x, [n, channels_out, grown(b, h, by), grown(b, w, by)])
    return channels_back(b, x, c.data_format)


@decompose("pd_op.pixel_unshuffle")
def _(c: OpCall) -> Value:
    b, by = c.b, c.downscale_factor
    x = channels_first(b, c.x, c.data_format)
    n, channels, h, w = sizes_of(b, x)
    h, w = shrunk(b, h, by), shrunk(b, w, by)
    x = b.transpose(in_shape(b, x, [n, channels, h, by, w, by]), perm=(0, 1, 3, 5, 2, 4))
    x = in_shape(b, x, [n, grown(b, channels, by * by), h, w])
    return channels_back(b, x, c.data_format)


@decompose("pd_op.channel_shuffle")
def _(c: OpCall) -> Value:
    b = c.b
    x = channels_first(b, c.x, c.data_format)
    n, channels, h, w = sizes_of(b, x)
    inner = shrunk(b, channels, c.groups)
    x = b.transpose(in_shape(b, x, [n, c.groups, inner, h, w]), perm=(0, 2, 1, 3, 4))
    return channels_back(b, in_shape(b, x, [n, channels, h, w]), c.data_format)


@decompose("pd_op.maxout")
def _(c: OpCall) -> Value:
    grouped, axis = _grouped(c, c.x)
    return c.b("pd_op.max", grouped, axis=(axis,), keepdim=False)


def _grouped(c: OpCall, x: Value) -> tuple[Value, int]:
    """The channels of a `maxout` with the groups as an axis of their own, and that axis."""
    axis: int = c.axis % x.rank
    sizes = sizes_of(c.b, x)
    grouped = [*sizes[:axis], shrunk(c.b, sizes[axis], c.groups), c.groups, *sizes[axis + 1 :]]
    return in_shape(c.b, x, grouped), axis + 1


def _is_first(c: OpCall) -> tuple[Value, int]:
    """Where the first of the greatest in each group is: Paddle differentiates that one."""
    b, (grouped, axis) = c.b, _grouped(c, c.x)
    first = b.argmax(grouped, axis=axis, keepdims=True)
    at = b.reshape(arange(b, grouped, axis), (-1, *[1] * (grouped.rank - 1 - axis)))
    return b.equal(at, first), axis


@vjp("pd_op.maxout")
def _(c: OpCall, g: Value) -> Value:
    is_first, axis = _is_first(c)
    return in_shape(
        c.b, c.b.where(is_first, c.b.unsqueeze(g, axis=(axis,)), 0.0), sizes_of(c.b, c.x)
    )


@jet("pd_op.maxout")
def _(c: OpCall, x: list[Value | None]) -> list[Value | None]:
    b, (is_first, axis) = c.b, _is_first(c)
    return [v and b.sum(b.where(is_first, _grouped(c, v)[0], 0.0), (axis,)) for v in x]
