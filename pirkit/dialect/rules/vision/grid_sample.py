"""Interpolated reads of images: at the positions of a grid, and in the bins of boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product as combinations
from typing import Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement.movement import OUTSIDE, part, refused
from pirkit.dialect.rules.movement.size_ops import Size, as_list, in_shape, product, sizes_of
from pirkit.dialect.windows import slides
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN

_INT32: Final = 2**31 - 1


def _number(b: Builder, size: Size, like: Value) -> Value:
    """A size as a number of the element type of ``like``."""
    if isinstance(size, int):
        return b.value(float(size), like)
    return b.reshape(b.cast(size, like.dtype), ())


def read_between(
    b: Builder,
    rows: Value,
    first: Value | None,
    places: Sequence[Value],
    lengths: Sequence[Size],
    weight: Value | None = None,
    *,
    in_range: bool = False,
    nearest: bool = False,
) -> Value:
    """Multilinear interpolation, with zeros around, or the elements at whole positions.

    ``rows [K, C]`` are the elements of all images. ``places`` has an array of positions ``[P]`` for
    each spatial dimension, ``first [P]`` the row at which the image of each position begins, which
    is ``in_range`` if no data decide it.
    Returns ``[P, C]``, times ``weight [P]``.
    """
    total: Value | None = None
    # A vector of int32 has as many lanes as one of floats. Where the data say which image a
    # position belongs to, a wrong one may be any int64.
    is_short = in_range and UNKNOWN not in rows.shape and rows.shape[0] <= _INT32
    kind = dt.int32 if is_short else dt.int64
    first = first if first is None else b.cast(first, kind)
    sides = [
        _neighbours(b, p, length, kind)[: 1 if nearest else 2]
        for p, length in zip(places, lengths, strict=True)
    ]
    for corner in combinations(*sides):
        share, index = weight, None
        for (portion, at), length in zip(corner, lengths, strict=True):
            share = portion if share is None else share * portion
            index = at if index is None else index * _like(b, length, index) + at
        assert index is not None
        assert share is not None
        found = b.gather(rows, index if first is None else index + first, axis=0)
        found = found * b.unsqueeze(share, axis=(1,))
        total = found if total is None else total + found
    assert total is not None
    return total


def _neighbours(
    b: Builder, place: Value, length: Size, kind: dt.DType
) -> list[tuple[Value, Value]]:
    """The two elements around positions along one dimension: their shares, and which they are.

    All corners read these values, so that a sweep over them finds each condition once.
    """
    low, last = b.floor(place), _number(b, length, place) - 1.0
    away = place - low
    found: list[tuple[Value, Value]] = []
    for at, share in ((low, 1.0 - away), (low + 1.0, away)):
        inside = b.logical_and(at >= 0.0, at <= last)
        part = b.where(inside, share, 0.0)
        found.append((part, b.cast(b.where(inside, at, 0.0), kind)))
    return found


def _like(b: Builder, size: Size, index: Value) -> Value:
    """A size as a factor of indices."""
    if isinstance(size, int):
        return b.const(size, index.dtype)
    return b.cast(as_list(b, size), index.dtype)


def _rows(b: Builder, x: Value, sizes: Sequence[Size]) -> Value:
    """``x [N, C, ...]`` as ``[N * ..., C]``."""
    last = (0, *range(2, x.rank), 1)
    return in_shape(b, b.transpose(x, perm=last), [-1, sizes[1]])


def _all(b: Builder, sizes: Sequence[Size]) -> Size:
    """The product of some sizes."""
    found: Size = 1
    for size in sizes:
        found = product(b, found, size)
    return found


@decompose("pd_op.grid_sample")
def _(c: OpCall) -> Value:
    """Each position of the grid is moved into the image, and the image is interpolated there."""
    b = c.b
    x, grid = b.wide(c.x), b.wide(c.grid)
    sizes, shape = sizes_of(b, x), sizes_of(b, grid)
    lengths, n = sizes[2:], x.rank - 2
    flat = in_shape(b, grid, [-1, n])
    places = [
        _place(b, flat[:, n - 1 - i], length, c.padding_mode, c.align_corners)
        for i, length in enumerate(lengths)
    ]
    if c.mode == "nearest":
        places = [b.round(p) for p in places]
    points = _all(b, shape[1:-1])
    along = _arange(b, product(b, sizes[0], points))
    image = b.floor_divide(along, _like(b, points, along))
    first = image * _like(b, _all(b, lengths), image)
    nearest = c.mode == "nearest"
    found = read_between(
        b, _rows(b, x, sizes), first, places, lengths, in_range=True, nearest=nearest
    )
    found = in_shape(b, found, [*shape[:-1], sizes[1]])
    back = b.transpose(found, perm=(0, n + 1, *range(1, n + 1)))
    return b.cast(back, c.x.dtype)


def _place(b: Builder, at: Value, size: Size, padding_mode: str, align_corners: bool) -> Value:
    """Positions in units of elements. Unless the padding is zeros, they are moved into the image.

    On the border itself the derivative is 1, as that of `clip`.
    """
    length = _number(b, size, at)
    last = length - 1.0
    at = (at + 1.0) * 0.5 * last if align_corners else (at + 1.0) * 0.5 * length - 0.5
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        edge = 0.0 if align_corners else 0.5
        period = (last if align_corners else length) * 2.0
        away = at + edge
        away = b.where(away < 0.0, -away, away)
        entire = b.where(period > 0.0, period, 1.0)
        away = b.where(period > 0.0, away - b.floor(away / entire) * period, 0.0)
        at = b.where(away > period - away, period - away, away) - edge
    return b.where(at < 0.0, 0.0, b.where(at > last, last, at))


@decompose("pd_op.affine_grid")
def _(c: OpCall) -> Value:
    """Homogeneous coordinates of all positions, times the matrices."""
    b, maps = c.b, c.operand("input")
    n = c.result_meta("output").shape[-1]
    shape, lengths = c.output_shape, list[Size]()
    if isinstance(shape, Value):
        shape = b.cast(shape, dt.int64)
        lengths += [part(b, shape, (0,), (i + 2,), (i + 3,)) for i in range(n)]
    else:
        lengths += shape[2:]
    axes: list[Value] = []
    for i, length in enumerate(lengths):
        size = _number(b, length, maps)
        gaps = size - 1.0
        steps = b.cast(_arange(b, length), maps.dtype) - gaps * 0.5
        across = b.maximum(gaps if c.align_corners else size, b.value(1.0, size))
        axes.append(_broadcast(b, in_shape(b, steps * 2.0 / across, _along(i, length, n)), lengths))
    places = b.stack([*reversed(axes), b.ones_like(axes[0])], axis=1)
    moved = b.matmul(places, maps, transpose_y=True)
    return in_shape(b, moved, [sizes_of(b, maps)[0], *lengths, n])


def _along(axis: int, length: Size, n: int) -> list[Size]:
    """Sizes of ``n`` dimensions, all 1 but for one."""
    return [length if i == axis else 1 for i in range(n)]


@decompose("pd_op.roi_align")
def _(c: OpCall) -> Value:
    """Each bin is the mean of a grid of points; boxes with fewer points than others skip some."""
    b = c.b
    x, boxes = b.wide(c.x), b.wide(c.boxes)
    sizes, count = sizes_of(b, x), sizes_of(b, boxes)[0]
    edges = boxes * c.spatial_scale - (0.5 if c.aligned else 0.0)
    ways = [(edges[:, 1], edges[:, 3], c.pooled_height), (edges[:, 0], edges[:, 2], c.pooled_width)]
    grids = [_points(c, low, high, bins, count) for low, high, bins in ways]
    (ys, y_weight, y_points), (xs, x_weight, x_points) = grids
    lengths = sizes[2:]
    down = [count, product(b, c.pooled_height, y_points), 1]
    across = [count, 1, product(b, c.pooled_width, x_points)]
    both = [count, down[1], across[2]]
    places: list[Value] = []
    inside: Value | None = None
    for at, length, own in ((ys, lengths[0], down), (xs, lengths[1], across)):
        last = _number(b, length, at) - 1.0
        near = b.logical_and(at >= -1.0, at <= last + 1.0)
        at = b.minimum(b.maximum(at, b.value(0.0, at)), last)
        places.append(_broadcast(b, in_shape(b, at, own), both))
        near = _broadcast(b, in_shape(b, near, own), both)
        inside = near if inside is None else b.logical_and(inside, near)
    weight = in_shape(b, y_weight, down) * in_shape(b, x_weight, across)
    assert inside is not None
    weight = b.where(b.reshape(inside, (-1,)), b.reshape(weight, (-1,)), 0.0)
    image = _broadcast(b, in_shape(b, images(c, count), [count, 1, 1]), both)
    first = image * as_list(b, product(b, *lengths))
    found = read_between(b, _rows(b, x, sizes), first, places, lengths, weight)
    split: list[Size] = [count, c.pooled_height, y_points, c.pooled_width, x_points, sizes[1]]
    out = b.sum(in_shape(b, found, split), (2, 4))
    return b.cast(b.transpose(out, perm=(0, 3, 1, 2)), c.x.dtype)


def _points(
    c: OpCall, low: Value, high: Value, bins: int, count: Size
) -> tuple[Value, Value, Size]:
    """Positions ``[R, bins, points]`` along one dimension, their weights, and their number."""
    b = c.b
    size = high - low if c.aligned else b.maximum(high - low, b.value(1.0, low))
    step = b.reshape(size * (1.0 / bins), (-1, 1, 1))
    points: Size = c.sampling_ratio
    own = b.value(float(c.sampling_ratio), step)
    if c.sampling_ratio <= 0:  # as many as a bin is long, for each box
        own = b.ceil(step)
        most = b.concat([b.reshape(own, (-1,)), b.const(1.0, own.dtype, (1,))], axis=0)
        points = b.cast(b.max(most, axis=(0,), keepdim=True), dt.int64)
    nth = b.cast(_arange(b, points), step.dtype)
    start = b.reshape(low, (-1, 1, 1))
    bin_ = b.reshape(b.cast(_arange(b, bins), step.dtype), (1, bins, 1))
    some = b.maximum(own, b.value(1.0, own))
    at = start + bin_ * step + (nth + 0.5) * step / some
    weight = b.where(nth < own, 1.0 / some * b.ones_like(at), 0.0 * b.ones_like(at))
    return at, weight, points


def images(c: OpCall, count: Size) -> Value:
    """The image of each box; none, which lookups refuse, if the boxes are not those counted."""
    b = c.b
    if c.boxes_num is None:
        return b.zeros_like(_arange(b, count))
    counts, total = b.cast(c.boxes_num, dt.int64), as_list(b, count)
    ends = b.cumsum(counts, axis=0, flatten=False, exclusive=False, reverse=False)
    other = b.not_equal(b.sum(counts, (0,)), total)
    wrong = b.logical_or(other, b.any(b.less_than(counts, b.zeros_like(counts))))
    is_some = isinstance(count, int) and count > 0  # else there may be no lookup that refuses
    place = _arange(b, count if is_some else total + refused(b, wrong))
    past = b.cast(b.greater_equal(b.unsqueeze(place, axis=(1,)), ends), dt.int64)
    image = b.sum(past, (1,))
    return image + b.cast(wrong, dt.int64) * OUTSIDE if is_some else image


def _arange(b: Builder, size: Size) -> Value:
    end = size if isinstance(size, int) else b.reshape(size, ())
    return b.arange(start=0, end=end, step=1, dtype=dt.int64)


def _broadcast(b: Builder, x: Value, sizes: Sequence[Size]) -> Value:
    """``x`` expanded to the sizes, and flattened."""
    if all(isinstance(s, int) for s in sizes):
        wide = b.expand(x, shape=tuple(sizes))
    else:
        wide = b.expand(x, shape=b.concat([as_list(b, s) for s in sizes], axis=0))
    return b.reshape(wide, (-1,))


@decompose("pd_op.deformable_conv")
def _(c: OpCall) -> Value:
    """The windows are gathered at the positions shifted by the offsets, and multiplied."""
    b = c.b
    x, offset, filter = b.wide(c.x), b.wide(c.offset), b.wide(c.filter)
    parts, groups = c.deformable_groups, c.groups
    lengths, kernel, out = x.shape[2:], filter.shape[2:], c.offset.shape[2:]
    if UNKNOWN in (*x.shape, *offset.shape, *filter.shape):
        return NotImplemented
    batch, channels = x.shape[:2]
    moves = slides(lengths, kernel, c.strides, c.paddings, "EXPLICIT", c.dilations, "C2")
    points = math.prod((*kernel, *out))
    shifts = b.reshape(offset, (batch * parts, math.prod(kernel), 2, math.prod(out)))
    places: list[Value] = []
    for i, move in enumerate(moves):
        fixed = [
            (row, column)[i] * move.dilation - move.before + (top, left)[i] * move.stride
            for row, column, top, left in combinations(*map(range, (*kernel, *out)))
        ]
        home = b.reshape(b.cast(b.integers(fixed), x.dtype), (math.prod(kernel), math.prod(out)))
        places.append(b.reshape(shifts[:, :, i, :] + home, (-1,)))
    images = b.reshape(x, (batch * parts, channels // parts, *lengths))
    rows = _rows(b, images, images.shape)
    size = math.prod(lengths)
    starts = [i * size for i in range(batch * parts) for _ in range(points)]
    weight = None if c.mask is None else b.reshape(b.wide(c.mask), (-1,))
    firsts = b.integers(starts)
    found = read_between(b, rows, firsts, places, lengths, weight, in_range=True)
    windows = b.reshape(found, (batch, parts, math.prod(kernel), math.prod(out), channels // parts))
    windows = b.transpose(windows, perm=(0, 1, 4, 2, 3))
    terms = filter.shape[1] * math.prod(kernel)
    columns = b.reshape(windows, (batch, groups, terms, math.prod(out)))
    weights = b.reshape(filter, (groups, filter.shape[0] // groups, terms))
    product_ = b.matmul(weights, columns)
    return b.cast(b.reshape(product_, (batch, filter.shape[0], *out)), c.x.dtype)
