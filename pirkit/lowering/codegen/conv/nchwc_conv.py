"""Direct convolution over blocked channels: a vector register holds the same position of a block.

An image has the shape ``[N, C/b, H, W, b]`` (NCHWc in Liu et al., USENIX ATC 2019, and MLAS). A
register tile is some positions of a row by some blocks of filters; it stays in registers for all
taps of a range of channels, so nothing is copied and no lane is idle, however small the image is.
Rows of the filter beyond the image are skipped by the bounds of a loop, columns by tiles of their
own at both ends of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec.structs import replace

from pirkit.lowering.codegen.conv.nchwc_blocking import NchwcBlocking, NchwcConv, NchwcFrame, Part
from pirkit.lowering.codegen.conv.nchwc_tile import NchwcTile
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I1, Builder, Value
from pirkit.lowering.codegen.ir.loop_ir import (
    Buffer,
    Count,
    Invoke,
    Iteration,
    Loop,
    Nest,
    Node,
    Number,
    Window,
)
from pirkit.lowering.codegen.ir.plain_loops import task_nest
from pirkit.lowering.codegen.ir.routine import Functions, PrefetchRoutine, Values
from pirkit.runtime.native.target import Target

_AXES = _IMAGE, _GROUP, _FILTER, _ROW, _COLUMN, _CHANNEL = range(6)
"""Axes: images, groups, blocks of filters of a group, positions; then blocks of channels."""


def nchwc_nest(c: NchwcConv, cut: NchwcBlocking, target: Target) -> Nest:
    """The loops: a block of the function is some rows by some filters, the tasks of threads."""
    e = NchwcFrame(c, cut, target)
    blocks, group = e.summed_blocks, c.filter_blocks // c.groups
    body: tuple[Node, ...] = tuple(_tiles(e))
    filters = list(c.operand_bytes).index("w") if not c.pool else 0
    if e.filter_bytes * c.filter_blocks > target.l2_bytes // 2:
        ahead = _prefetch(e)
        numbers = Iteration("k", e.parts), Iteration("y")
        body = (Invoke(ahead, (filters,), numbers), *body)
    body = (Loop("y", (_ROW,), 0, Count("h", c.positions[0], cut.rows), 1, body),)
    body = (Loop("k", (_CHANNEL,), 0, blocks, cut.channels, body),)
    # The last filters overlap the ones before, rather than being fewer.
    back = group % cut.filters > 0
    tasks = (
        Loop("n", (_IMAGE,), 0, c.n, 1, ()),
        Loop("h", (_ROW,), 0, c.positions[0], cut.rows, ()),
        Loop("g", (_GROUP,), 0, c.groups, 1, ()),
        Loop("f", (_FILTER,), 0, group, cut.filters, (), moved_back=back),
    )
    outer = c.n, c.groups, group, *c.positions
    return task_nest(outer, (blocks,), tuple(_buffers(e)), tasks, body)


def _buffers(e: NchwcFrame) -> Iterator[Buffer]:
    """The operands; the image begins at the first tap, which may lie in the padding."""
    c, (block, row, column, _) = e.c, e.image
    group = c.filter_blocks // c.groups

    def of_filters(stride: int) -> dict[int, int]:
        return {_GROUP: group * stride, _FILTER: stride}

    pixels = of_filters(e.plane)
    pixels |= {_IMAGE: c.filter_blocks * e.plane, _ROW: c.positions[1] * c.block, _COLUMN: c.block}
    images = c.groups * c.blocks * block
    strides: dict[str, Mapping[int, int]] = {
        "x": {_IMAGE: images, _GROUP: c.blocks * block, _FILTER: block * c.depthwise,
              _ROW: c.strides[0] * row, _COLUMN: c.strides[1] * column, _CHANNEL: block},
        "w": of_filters(e.filter_bytes) | {_CHANNEL: e.filter_bytes // e.summed_blocks},
        **dict.fromkeys("qso", of_filters(c.block * c.wide.itemsize)),
        **{name: {axis: n * e.dtype_of(name).itemsize for axis, n in pixels.items()}
           for name in "ry"},
    }  # fmt: skip
    for name, nbytes in c.operand_bytes.items():
        found = strides.get(name, {})
        steps = tuple([found.get(axis, 0) for axis in _AXES])
        offset = -c.before[0] * row - c.before[1] * column if name == "x" else 0
        yield Buffer(e.dtype_of(name), steps, nbytes, offset)


def _tiles(e: NchwcFrame) -> Iterator[Node]:
    """The tiles of a row of the result, equal ones in one loop."""
    c, blocks = e.c, Count("k", e.summed_blocks, e.cut.channels)
    numbers: list[Number] = [blocks, *_rows_inside(c), *[Iteration("k", e.parts)] * (e.parts > 1)]
    widths = split_evenly(c.positions[1], e.cut.positions)
    tiles = [NchwcTile(e, w, tuple(_parts(c, sum(widths[:k]), w))) for k, w in enumerate(widths)]
    x = 0
    for tile, run in groupby(tiles):
        end = x + tile.width * len(list(run))
        call = Invoke(tile, tuple(range(len(c.operand_bytes))), tuple(numbers))
        yield Loop("x", (_COLUMN,), x, end, tile.width, (call,))
        x = end


def _rows_inside(c: NchwcConv) -> list[Number]:
    """The first row of the filter that meets the image, and how many do."""
    (length, _), (taps, _), (step, _), (before, _) = c.lengths, c.sizes, c.dilations, c.before
    rows = Window(_ROW, taps, c.strides[0], step, before, length)
    highest = (c.positions[0] - 1) * c.strides[0] - before + (taps - 1) * step
    inside = before <= 0 and highest < length
    return [rows if before > 0 else 0, taps if inside else replace(rows, counts=True)]


def _parts(c: NchwcConv, x: int, width: int) -> Sequence[Part]:
    """Columns of the filter with the positions of a tile that meet the image there."""
    held: list[Part] = []
    for tap in range(c.sizes[1]):
        at = [(x + p) * c.strides[1] - c.before[1] + tap * c.dilations[1] for p in range(width)]
        inside = [p for p, place in enumerate(at) if 0 <= place < c.lengths[1]]
        if not inside:
            continue
        span = (inside[0], inside[-1] + 1)
        if held and (held[-1].first, held[-1].end) == span:
            held[-1] = replace(held[-1], taps=held[-1].taps + 1)
        else:
            held.append(Part(tap, 1, *span))
    # The widest one first: it begins the sums.
    return sorted(held, key=lambda p: p.first - p.end)


def split_evenly(extent: int, most: int) -> list[int]:
    """Widths of at most ``most`` that cover an extent, as equal as possible, larger ones first."""
    count = -(-extent // most)
    small, left = divmod(extent, count)
    return [small + 1] * left + [small] * (count - left)


class PrefetchFilters(PrefetchRoutine, frozen=True):
    """Each row prefetches its ``share`` of the filters that are multiplied next.

    They begin ``further`` bytes on, after the last of ``parts`` ranges of channels ``behind``;
    ``starts`` are those of blocks. Numbers are the range of channels and the row.
    """

    starts: tuple[int, ...]
    share: int
    further: int
    behind: int
    parts: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"prefetch part {numbers[1]} of the next filters of {buffers[0]}"

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        channels, row = numbers
        last = b.compare("eq", channels, 2) if self.parts > 1 else Value("true", I1)
        distances = [b.plus(Value("0", row.type), n) for n in (self.behind, self.further)]
        filters = b.at(addresses[0], b.select(last, *distances))
        starts = [b.at(filters, start) for start in self.starts]

        def line(at: Value, _: list[Value]) -> Sequence[Value]:
            for start in starts:
                b.prefetch(b.at(b.at(start, b.times(row, self.share)), at))
            return []

        b.loop(0, self.share, LINE, [], line)


def _prefetch(e: NchwcFrame) -> PrefetchFilters:
    """The prefetch of filters for ranges of channels, and after them for the next filters."""
    c, cut = e.c, e.cut
    piece = e.filter_bytes // e.summed_blocks
    rows, part = min(cut.rows, c.positions[0]), piece * min(cut.channels, e.summed_blocks)
    return PrefetchFilters(
        starts=tuple([f * e.filter_bytes for f in range(cut.filters)]),
        share=-(-part // (rows * LINE)) * LINE,
        further=cut.channels * piece,
        behind=cut.filters * e.filter_bytes - (e.parts - 1) * cut.channels * piece,
        parts=e.parts,
    )
