"""Pooling: windows are gathered along each dimension, and reduced.

All positions outside of the image are the index of one element that is appended to the image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.ops.nn.fractional_pool import fractional_windows
from pirkit.dialect.ops.nn.pool import LOWEST, Windows, are_empty, out_sizes, pool_slides, spans
from pirkit.dialect.rules.movement.movement import END, part
from pirkit.dialect.rules.movement.size_ops import (
    REFUSED,
    Size,
    as_list,
    in_shape,
    product,
    sizes_of,
    zeros,
)
from pirkit.dialect.rules.reduction.reduction import count
from pirkit.dialect.rules.sequence.signal import frames
from pirkit.dialect.windows import CHANNELS_LAST, Slide
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import np
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
    if 0 in lengths:
        return NotImplemented
    if c.global_pooling or (c.adaptive and set(sizes) == {1}):
        return b.cast(_entire(b, x, axes, largest), c.x.dtype)
    is_dynamic = UNKNOWN in lengths
    if is_dynamic and (c.adaptive or c.ceil_mode or _pads_by_size(c, largest)):
        return NotImplemented
    moves = pool_slides(lengths, sizes, c.strides, c.paddings, c.padding_algorithm, False, "C4")
    if is_dynamic:
        if any(max(m.before, m.after) >= m.size for m in moves):  # a window may be in the padding
            return NotImplemented
        return b.cast(_open(c, x, axes, moves), c.x.dtype)
    positions = out_sizes(moves, lengths, c.adaptive, c.ceil_mode, "C5")
    every = [spans(*each, c.adaptive) for each in zip(moves, lengths, positions, strict=True)]
    if largest:
        out = _greatest(b, x, axes, every)
    else:
        out = _average(b, x, axes, every, inside=c.exclusive or c.adaptive)
    return b.cast(out, c.x.dtype)


def _pads_by_size(c: OpCall, largest: bool) -> bool:
    """True if how much is padded, where that counts, depends on the sizes of the image."""
    moves = set(c.strides) != {1}
    return c.padding_algorithm == "SAME" and (moves or not (largest or c.exclusive))


@decompose("pd_op.max_pool2d_with_index", "pd_op.max_pool3d_with_index")
def _(c: OpCall) -> tuple[Value, Value]:
    lengths = tuple(c.x.shape[2:])
    if UNKNOWN in lengths or 0 in lengths:
        return NotImplemented
    explicit = (c.kernel_size, c.strides, c.paddings, "EXPLICIT", c.global_pooling)
    moves = pool_slides(lengths, *explicit, "C3")
    one = (1,) * len(lengths)
    positions = (
        one if c.global_pooling else out_sizes(moves, lengths, c.adaptive, c.ceil_mode, "C4")
    )
    adaptive = c.adaptive and not c.global_pooling
    return _with_index(
        c, [spans(*each, adaptive) for each in zip(moves, lengths, positions, strict=True)]
    )


@decompose("pd_op.fractional_max_pool2d", "pd_op.fractional_max_pool3d")
def _(c: OpCall) -> tuple[Value, Value]:
    lengths = tuple(c.x.shape[2:])
    if UNKNOWN in lengths or 0 in lengths:
        return NotImplemented
    return _with_index(c, fractional_windows(lengths, c.output_size, c.kernel_size, c.random_u))


def _with_index(c: OpCall, every: Sequence[Windows]) -> tuple[Value, Value]:
    """The first maximum of each window, and its index in the image."""
    b, x = c.b, c.b.wide(c.x)
    axes, lengths = tuple(range(2, x.rank)), tuple(x.shape[2:])
    x = _windows(b, x, axes, every, -math.inf)
    largest = b("pd_op.max", x, axis=_within(axes), keepdim=True)
    places = _places(b, every, lengths)
    # The first element that is the greatest one; the last NaN of a window is that.
    none = b.const(int(np.iinfo(np.int32).max), dt.int32)
    score = b.where(b.equal(x, largest), places, none)
    if x.dtype.is_float:
        score = b.where(b.isnan(x), -1 - places, score)
    mask = b("pd_op.min", score, axis=_within(axes), keepdim=False)
    if x.dtype.is_float:
        mask = b.where(mask < 0, -1 - mask, mask)
    out = b.squeeze(largest, axis=_within(axes))
    outside = are_empty(every, lengths)
    if outside.any():
        held = b.reshape(b.cast(b.integers(outside.reshape(-1).tolist()), dt.bool_), outside.shape)
        mask = b.where(held, b.cast(b.const(-1, dt.int32), dt.int32), mask)
    return b.cast(_unless_empty(b, out, axes, every, lengths), c.x.dtype), mask


@vjp(
    "pd_op.max_pool2d_with_index", "pd_op.max_pool3d_with_index",
    "pd_op.fractional_max_pool2d", "pd_op.fractional_max_pool3d",
)  # fmt: skip
def _(c: OpCall, g: Value | None, _mask: None = None) -> Value | None:
    """The cotangent of a window goes to the element that its index names."""
    if g is None or 0 in c.x.shape:
        return None
    b, sizes = c.b, sizes_of(c.b, c.x)
    lines = [*sizes[:2], reduce(partial(product, b), sizes[2:])]
    places = in_shape(b, b.cast(c.mask, dt.int64), [*sizes[:2], -1])
    flat = in_shape(b, b.where(c.mask < 0, 0.0, g), [*sizes[:2], -1])  # no element is -1
    places = b.maximum(places, b.zeros_like(places))
    found = b.put_along_axis(
        zeros(b, lines, g.dtype), places, flat, axis=2, reduce="add", include_self=True
    )
    return b.reshape_like(found, c.x)


@decompose("pd_op.lp_pool2d")
def _(c: OpCall) -> Value:
    """Sums of powers; where a sum is zero its root is taken as constant."""
    b, x = c.b, c.x
    first = 1 if c.data_format in CHANNELS_LAST else 2
    axes = (first, first + 1)
    powers = x ** float(c.norm_type)
    if c.global_pooling:
        total = b.sum(powers, axes, keepdim=True)
    else:
        lengths = tuple([x.shape[a] for a in axes])
        if UNKNOWN in lengths or 0 in lengths:
            return NotImplemented
        explicit = (c.kernel_size, c.strides, c.paddings, c.padding_algorithm, False)
        moves = pool_slides(lengths, *explicit, "C4")
        positions = out_sizes(moves, lengths, c.adaptive, c.ceil_mode, "C5")
        every = [spans(*each, c.adaptive) for each in zip(moves, lengths, positions, strict=True)]
        total = b.sum(_windows(b, powers, axes, every, 0.0), _within(axes))
    is_zero = b.equal(total, b.zeros_like(total))
    root = b.where(is_zero, 1.0, total) ** (1.0 / float(c.norm_type))
    return b.where(is_zero, 0.0 if c.norm_type > 0 else math.inf, root)


@decompose("pd_op.unpool", "pd_op.unpool3d")
def _(c: OpCall) -> Value:
    """Elements are written into zeros at their flat indices; a negative index is refused."""
    b, x, spaces = c.b, c.x, c.x.rank - 2
    n, channels = sizes_of(b, x)[:2]
    size = c.output_size
    lengths: list[Size] = []
    if isinstance(size, Value):
        size = b.cast(size, dt.int64)
        first = -spaces if size.shape[0] == UNKNOWN else size.shape[0] - spaces
        ends = [first + i + 1 or END for i in range(spaces)]
        lengths += [part(b, size, (0,), (first + i,), (end,)) for i, end in enumerate(ends)]
    else:
        lengths += size[-spaces:]
    total: Size = 1
    for length in lengths:
        total = product(b, total, length)
    flat = in_shape(b, x, [n, channels, -1])
    places = b.cast(in_shape(b, c.indices, [n, channels, -1]), dt.int64)
    trailing = b.reshape(as_list(b, total), ())
    places = b.where(places < 0, trailing, places)
    out = zeros(b, [n, channels, total], x.dtype)
    out = b.put_along_axis(out, places, flat, axis=2, reduce="assign")
    return in_shape(b, out, [n, channels, *lengths])


def _places(b: Builder, every: Sequence[Windows], lengths: Sequence[int]) -> Value:
    """The index in the image of each element of each window, along the axes of `_windows`."""
    total, n = b.const(0, dt.int32), len(lengths)
    for axis, ((starts, ends), length) in enumerate(zip(every, lengths, strict=True)):
        width = int(np.max(ends - starts))
        at = np.clip(starts[:, None] + np.arange(width), 0, length - 1)
        at = at * math.prod(lengths[axis + 1 :])
        shape = (*at.shape, *(1,) * (2 * (n - axis - 1)))
        total = total + b.reshape(b.cast(b.integers(at.reshape(-1).tolist()), dt.int32), shape)
    return total


def _entire(b: Builder, x: Value, axes: Sequence[int], largest: bool) -> Value:
    if largest:
        return b("pd_op.max", x, axis=tuple(axes), keepdim=True)
    return b.sum(x, axes, keepdim=True) / count(b, x, axes)


def _greatest(b: Builder, x: Value, axes: Sequence[int], every: Sequence[Windows]) -> Value:
    lengths = [x.shape[a] for a in axes]
    x = _windows(b, x, axes, every, -math.inf)
    out = b("pd_op.max", x, axis=_within(axes), keepdim=False)
    return _unless_empty(b, out, axes, every, lengths)


def _within(axes: Sequence[int]) -> tuple[int, ...]:
    """The axes of the elements of windows; each follows the axis of the windows."""
    return tuple([axis + i + 1 for i, axis in enumerate(axes)])


def _unless_empty(
    b: Builder, x: Value, axes: Sequence[int], every: Sequence[Windows], lengths: Sequence[int]
) -> Value:
    """The maxima of windows, where those outside of the image have a value of their own."""
    outside = are_empty(every, lengths)
    if not outside.any():
        return x
    shape = (*outside.shape, *(1,) * (x.rank - axes[-1] - 1))
    mask = b.reshape(b.cast(b.integers(outside.reshape(-1).tolist()), dt.bool_), shape)
    return b.where(mask, LOWEST, x)


def _average(
    b: Builder, x: Value, axes: Sequence[int], every: Sequence[Windows], *, inside: bool
) -> Value:
    counts: np.ndarray[Any, Any] = np.ones((), np.int64)
    for axis, (starts, ends) in zip(axes, every, strict=True):
        if inside:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, x.shape[axis])
        counts = np.multiply.outer(counts, ends - starts)
    # Windows of several sizes are looked up: of two such axes, fewer if one is summed first.
    alone = [k for k, w in enumerate(every) if _moved(w, x.shape[axes[k]]) is None][:-1]
    for group in (*([k] for k in alone), [k for k in range(len(axes)) if k not in alone]):
        along = [axes[k] for k in group]
        x = b.sum(_windows(b, x, along, [every[k] for k in group], 0.0), _within(along))
    if (counts == counts.flat[0]).all():
        return x / int(counts.flat[0])
    shape = (*counts.shape, *(1,) * (x.rank - axes[-1] - 1))
    return x / b.reshape(b.cast(b.integers(counts.reshape(-1).tolist()), x.dtype), shape)


def _open(c: OpCall, x: Value, axes: Sequence[int], moves: Sequence[Slide]) -> Value:
    """Pooling of images with dynamic sizes.

    A maximum is that of whole windows, whose greatest elements share its cotangent.
    """
    b = c.b
    largest: bool = c.pooling_type == "max"
    for done, (axis, move) in enumerate(zip(axes, moves, strict=True)):
        axis += done * largest
        size = as_list(b, sizes_of(b, x)[axis])
        places, count = _starts(b, size, move)
        read = partial(_read, b, places=places, count=count, move=move)
        if largest:
            x = read(x, axis, -math.inf)
            continue
        within = zeros(b, [size], x.dtype) + 1.0
        if not c.exclusive:  # the padding counts, the same at the end as at the start
            within = b.pad(within, paddings=(0, move.before), pad_value=1.0)
        met = b.sum(read(within, 0, 0.0 if c.exclusive else 1.0, trailing=0.0), (1,))
        x = b.sum(read(x, axis, 0.0), (axis + 1,))
        x = x / b.reshape(met, (-1, *(1,) * (x.rank - axis - 1)))
    if largest:
        return b("pd_op.max", x, axis=_within(axes), keepdim=False)
    return x


def _starts(b: Builder, size: Value, move: Slide) -> tuple[Value, Value]:
    """What each window reads along a padded dimension, one after the other; how many there are."""
    room = size + b.integers((move.before + move.after - move.extent,))
    count = b.floor_divide(room, b.integers((move.stride,))) + b.integers((1,))
    count = b.where(count < 1, b.integers((REFUSED,)), count)
    starts = b.arange(start=0, end=b.reshape(count, ()), step=1, dtype=dt.int64)
    starts = b.unsqueeze(b.scale(starts, scale=move.stride), axis=(1,))
    inner = b.unsqueeze(b.arange(start=0, end=move.size, step=1, dtype=dt.int64), axis=(0,))
    return b.reshape(starts + inner, (-1,)), count


def _read(
    b: Builder,
    x: Value,
    axis: int,
    fill: float,
    *,
    places: Value,
    count: Value,
    move: Slide,
    trailing: float | None = None,
) -> Value:
    """The elements of each window in a new dimension after ``axis``; ``fill`` for missing ones."""
    rest = move.after + move.stride + move.extent
    for front, back, value in (
        (move.before, 0, fill),
        (0, rest, fill if trailing is None else trailing),
    ):
        room = [n for a in range(x.rank) for n in ((front, back) if a == axis else (0, 0))]
        x = b.pad(x, paddings=tuple(room), pad_value=value) if any(room) else x
    sizes = sizes_of(b, x)
    taken = b.gather(x, places, axis=axis)
    return in_shape(b, taken, [*sizes[:axis], count, move.size, *sizes[axis + 1 :]])


def _windows(
    b: Builder, x: Value, axes: Sequence[int], every: Sequence[Windows], fill: float
) -> Value:
    """The elements of each window in a new dimension after each axis; ``fill`` outside."""
    moved = [_moved(windows, x.shape[axis]) for axis, windows in zip(axes, every, strict=True)]
    for axis, move in zip(axes, moved, strict=True):
        x = x if move is None else _room(b, x, axis, move.before, move.after, fill)
    for done, (axis, move, windows) in enumerate(zip(axes, moved, every, strict=True)):
        if move is None:
            x = _gathered(b, x, axis + done, windows, fill)
        else:
            x = frames(b, x, axis + done, move.size, move.stride)
    return x


def _moved(windows: Windows, length: int) -> Slide | None:
    """The windows as one that moves; None for those of several sizes or steps."""
    starts, ends = windows
    hops, size = set(np.diff(starts).tolist()), int(np.max(ends - starts))
    # a window that ends beyond the image may have the full width: it covers no further element;
    # windows of an adaptive pooling into a larger image may all start at one element
    if len(hops) > 1 or 0 in hops or not ((ends - starts == size) | (ends >= length)).all():
        return None
    return Slide(size, max(hops, default=size), 1, -int(starts[0]), int(starts[-1]) + size - length)


def _room(b: Builder, x: Value, axis: int, before: int, after: int, fill: float) -> Value:
    """``x`` with ``fill`` around it along an axis; less of it where a number is below 0."""
    if before < 0 or after < 0:
        start, end = max(-before, 0), after if after < 0 else END
        x = part(b, x, (axis,), (start,), (end,))
    both = max(before, 0), max(after, 0)
    room = [n for a in range(x.rank) for n in (both if a == axis else (0, 0))]
    return b.pad(x, paddings=tuple(room), pad_value=fill) if any(room) else x


def _gathered(b: Builder, x: Value, axis: int, windows: Windows, fill: float) -> Value:
    """Windows of several sizes or steps: the indices of their elements are a constant."""
    starts, ends = windows
    length = x.shape[axis]
    width = int(np.max(ends - starts))
    at = starts[:, None] + np.arange(width)
    is_inside = (at >= 0) & (at < np.minimum(ends, length)[:, None])
    if not is_inside.all():
        x = _room(b, x, axis, 0, 1, fill)
    places: list[int] = np.where(is_inside, at, length).reshape(-1).tolist()
    sizes = sizes_of(b, x)
    taken = b.gather(x, b.integers(places), axis=axis)
    return in_shape(b, taken, [*sizes[:axis], len(starts), width, *sizes[axis + 1 :]])
