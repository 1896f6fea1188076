"""Convolution in Winograd's domain, over blocked channels.

A task transforms the tiles of some rows for all channels, so that each point of a
tile has a matrix of tiles by channels; multiplies it with the matrix of the filter at that point;
and transforms the sums of a stack of filters back, with bias, summand and activation (Lavin and
Gray, CVPR 2016). The register tile of the products is that of a convolution of 1x1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from msgspec.structs import replace

from pirkit.lowering.codegen.conv.nchwc_blocking import Part
from pirkit.lowering.codegen.conv.nchwc_conv import split_evenly
from pirkit.lowering.codegen.conv.nchwc_tile import NchwcTile
from pirkit.lowering.codegen.conv.winograd_blocking import (
    WinogradBlocking,
    WinogradConv,
    WinogradFrame,
)
from pirkit.lowering.codegen.conv.winograd_transforms import InputTransform, OutputTransform
from pirkit.lowering.codegen.ir.loop_ir import (
    Buffer,
    Invoke,
    Loop,
    Nest,
    Node,
    Number,
    OnChange,
    Window,
)
from pirkit.lowering.codegen.ir.plain_loops import task_nest
from pirkit.runtime.native.target import Target

_AXES = _IMAGE, _ROW, _FILTER, _CHANNEL, _COLUMN, _POINT, _TILE = range(7)
"""Axes: images, rows of tiles, blocks of filters; then blocks of channels, columns of tiles, points
of a tile, and the tiles of a task."""


def winograd_nest(c: WinogradConv, cut: WinogradBlocking, target: Target) -> Nest:
    """The loops: a block of the function is some rows of tiles by some filters."""
    e = WinogradFrame(c, cut, target)
    high, _ = c.counts
    buffers = tuple(_buffers(e))
    points, sums = len(c.operand_bytes), len(c.operand_bytes) + 1
    transform = Loop("c", (_CHANNEL,), 0, c.blocks, 1, tuple(_inputs(e, points)))
    at_point = Loop("p", (_POINT,), 0, c.points, 1, tuple(_products(e, points, sums)))
    back = Loop("b", (_FILTER,), 0, cut.filters, 1, tuple(_outputs(e, sums)))
    stack = Loop("k", (_FILTER,), 0, cut.task_filters, cut.filters, (at_point, back))
    # The last rows and filters overlap the ones before, rather than being fewer.
    tasks = (
        Loop("n", (_IMAGE,), 0, c.n, 1, ()),
        Loop("h", (_ROW,), 0, high, cut.rows, (), moved_back=high % cut.rows > 0),
        Loop("f", (_FILTER,), 0, c.filter_blocks, cut.task_filters, (),
             moved_back=c.filter_blocks % cut.task_filters > 0),
    )  # fmt: skip
    outer, inner = (c.n, high, c.filter_blocks), (c.blocks, c.counts[1], c.points, e.tiles)
    return task_nest(outer, inner, buffers, tasks, (OnChange(("n", "h"), (transform,)), stack))


def _buffers(e: WinogradFrame) -> Iterator[Buffer]:
    """The operands, the points of the image and the sums of a stack of filters."""
    c, size, pixel = e.c, e.c.dtype.itemsize, e.pixel
    row, plane = c.lengths[1] * pixel, c.lengths[0] * c.lengths[1] * pixel
    line, result = c.positions[1] * pixel, c.positions[0] * c.positions[1] * pixel
    filter_bytes = e.products.filter_bytes
    pixels = {_IMAGE: c.filter_blocks * result, _FILTER: result, _ROW: c.tile[0] * line,
              _COLUMN: c.tile[1] * pixel}  # fmt: skip
    strides: dict[str, Mapping[int, int]] = {
        "x": {_IMAGE: c.blocks * plane, _CHANNEL: plane, _ROW: c.tile[0] * row,
              _COLUMN: c.tile[1] * pixel},
        "w": {_FILTER: filter_bytes, _POINT: c.filter_blocks * filter_bytes},
        "s": {_FILTER: pixel},
        "r": pixels,
        "y": pixels,
    }  # fmt: skip
    for name, nbytes in c.operand_bytes.items():
        offset = -c.before[0] * row - c.before[1] * pixel if name == "x" else 0
        steps = tuple([strides[name].get(axis, 0) for axis in _AXES])
        yield Buffer(c.dtype, steps, nbytes, offset)
    tile = {_ROW: c.counts[1] * pixel, _COLUMN: pixel, _TILE: pixel}
    for kind, point, outside in (
        ({_CHANNEL: e.tiles * pixel}, e.point, ("n", "h", "f")),
        ({_FILTER: e.tiles * pixel}, e.sum_point, ("n", "h", "f", "k")),
    ):
        found = tile | kind | {_POINT: point}
        steps = tuple([found.get(axis, 0) for axis in _AXES])
        room = c.points * point + size * c.block
        yield Buffer(c.dtype, steps, room, space="scratch", outside=outside)


def _inputs(e: WinogradFrame, points: int) -> Iterator[Node]:
    """The transformation of the tiles of some rows, for a block of channels."""
    c = e.c
    rows = _rows(c, c.size[0], c.before[0], c.lengths[0])
    for start, end, (first, last) in _columns(c, c.size[1], c.before[1], c.lengths[1]):
        call = Invoke(InputTransform(e, first, last), (0, points), rows)
        body: Node = Loop("x", (_COLUMN,), start, end, 1, (call,))
        yield Loop("r", (_ROW,), 0, e.cut.rows, 1, (body,))


def _products(e: WinogradFrame, points: int, sums: int) -> Iterator[Node]:
    """The products of all tiles with a stack of filters, at a point."""
    at, step = 0, e.c.filter_blocks * e.products.filter_bytes
    widths = split_evenly(e.tiles, e.cut.positions)
    # The first tile prefetches the filters at the next point, if they leave the L2 cache between.
    ahead = step if step * e.c.points > e.target.l2_bytes // 2 else 0
    for (width, distance), run in groupby([(w, 0 if k else ahead) for k, w in enumerate(widths)]):
        end = at + width * len(list(run))
        tile = NchwcTile(e.products, width, (Part(0, 1, 0, width),), distance)
        call = Invoke(tile, (points, 1, sums), (e.c.blocks, 0, 1))
        yield Loop("t", (_TILE,), at, end, width, (call,))
        at = end


def _outputs(e: WinogradFrame, sums: int) -> Iterator[Node]:
    """The transformation of the sums of some rows, for a block of filters."""
    c, operands = e.c, range(2, len(e.c.operand_bytes))
    rows = _rows(c, c.tile[0], 0, c.positions[0])
    for start, end, (_, last) in _columns(c, c.tile[1], 0, c.positions[1]):
        call = Invoke(OutputTransform(e, last), (sums, *operands), rows[1:])
        body: Node = Loop("x", (_COLUMN,), start, end, 1, (call,))
        yield Loop("r", (_ROW,), 0, e.cut.rows, 1, (body,))


def _rows(c: WinogradConv, size: int, before: int, length: int) -> tuple[Number, ...]:
    """The first row of a tile that exists, and how many do."""
    first = Window(_ROW, size, c.tile[0], 1, before, length)
    inside = before <= 0 and (c.counts[0] - 1) * c.tile[0] - before + size <= length
    return first if before > 0 else 0, size if inside else replace(first, counts=True)


def _columns(
    c: WinogradConv, size: int, before: int, length: int
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Ranges of columns of tiles, each with the columns of a tile that exist in all of them."""
    at = 0

    def span(k: int) -> tuple[int, int]:
        begin = k * c.tile[1] - before
        first, last = max(0, -begin), min(size, length - begin)
        return (first, last) if first < last else (0, 0)

    for found, run in groupby(map(span, range(c.counts[1]))):
        end = at + len(list(run))
        yield at, end, found
        at = end
