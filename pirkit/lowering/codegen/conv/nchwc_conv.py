"""Direct convolution over blocked channels: a vector register holds the same position of a block.

An image has the shape ``[N, C/b, H, W, b]`` (NCHWc in Liu et al., USENIX ATC 2019, and MLAS). A
register tile is some positions of a row by some blocks of filters; it stays in registers for all
taps of a range of channels, so nothing is copied and no lane is idle, however small the image is.
Rows of the filter beyond the image are skipped by the bounds of a loop, columns by tiles of their
own at both ends of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod

from pirkit.lowering.codegen.conv.nchwc_blocking import NchwcBlocking, NchwcConv
from pirkit.lowering.codegen.conv.nchwc_tile import Ends, Goal, NchwcFrame, NchwcTile, Part, Tile
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import argument, split_index
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Value
from pirkit.lowering.codegen.matmul.blocking import block_extent
from pirkit.runtime.native.target import Target


class NchwcEmitter(NchwcFrame):
    """Emits the convolution; a block of the function is a task: rows by a stack of filters."""

    def __init__(
        self, b: Builder, routines: Routines, c: NchwcConv, cut: NchwcBlocking, target: Target
    ) -> None:  # fmt: skip
        super().__init__(c, cut, target)
        self.b, self.routines = b, routines

    def emit(self) -> None:
        """The loop over tasks, and in each over ranges of channels, rows, and tiles of a row."""
        b, c, cut = self.b, self.c, self.cut
        operands = {name: argument(b, k) for k, name in enumerate(c.operand_bytes)}
        image, filters = operands["x"], operands.get("w", operands["x"])  # pools have no filters
        bands = -(-c.positions[0] // cut.rows)
        stacks = -(-c.filter_blocks // cut.filters)
        blocks = self.summed_blocks
        piece = self.filter_bytes // blocks

        def task(number: Value, _: list[Value]) -> Sequence[Value]:
            which, band, stack = split_index(b, number, [c.n, bands, stacks])
            # The last stack overlaps the one before, rather than being smaller.
            first = b.times(stack, cut.filters)
            first = b.binary("smin", first, Value(str(c.filter_blocks - cut.filters), I64))
            source = b.at(image, b.times(which, c.groups * c.blocks * self.image[0]))
            if c.depthwise:
                source = b.at(source, b.times(first, self.image[0]))
            if c.groups > 1:
                group = b.emit(I64, f"udiv {first}, {c.filter_blocks // c.groups}")
                source = b.at(source, b.times(group, c.blocks * self.image[0]))
            weights = b.at(filters, b.times(first, self.filter_bytes))
            begin = b.times(band, cut.rows)
            rows = block_extent(b, cut.rows, c.positions[0], begin)
            goal = Goal(c, {k: v for k, v in operands.items() if k not in "xw"})
            goal = goal.of_filters(b, b.times(first, c.block))
            plane = b.plus(b.times(which, c.filter_blocks), first)
            goal = goal.moved(b, plane, prod(c.positions) * c.block)
            behind = b.at(weights, cut.filters * self.filter_bytes)

            def channels(k: Value, _: list[Value]) -> Sequence[Value]:
                count = block_extent(b, cut.channels, blocks, k)
                here = b.at(source, b.times(k, self.image[0]))
                there = b.at(weights, b.times(k, piece))
                further = b.plus(k, cut.channels)
                ends = Ends(b.compare("sgt", k, 0), b.compare("sge", further, blocks))
                following = b.select(ends.last, behind, b.at(weights, b.times(further, piece)))

                def row(j: Value, _: list[Value]) -> Sequence[Value]:
                    self._prefetch(following, piece * min(cut.channels, blocks), j)
                    self._row(b.plus(begin, j), here, there, goal, count, ends)
                    return []

                b.loop(0, rows, 1, [], row)
                return []

            b.loop(0, blocks, cut.channels, [], channels)
            return []

        b.block_loop(task)

    def _row(
        self, y: Value, image: Value, filters: Value, goal: Goal, blocks: Value, ends: Ends
    ) -> None:  # fmt: skip
        """All tiles of a row of the result."""
        b, c, cut = self.b, self.c, self.cut
        top = b.plus(b.times(y, c.strides[0]), -c.before[0])
        first, count = self._rows_inside(top)
        line = b.plus(top, b.times(first, c.dilations[0]))
        source = b.at(image, b.times(line, self.image[1]))
        taps = b.at(filters, b.times(first, self.filter_bytes // (self.summed_blocks * c.sizes[0])))
        row = goal.moved(b, y, c.positions[1] * c.block)
        widths = _split(c.positions[1], cut.positions)
        tiles = [(w, tuple(self._parts(sum(widths[:k]), w))) for k, w in enumerate(widths)]
        x = 0
        for (width, parts), run in groupby(tiles):
            end = x + width * len(list(run))

            def one(at: Value, _: list[Value]) -> Sequence[Value]:
                left = b.plus(b.times(at, c.strides[1]), -c.before[1])
                here = b.at(source, b.times(left, self.image[2]))
                tile = Tile(width, parts)  # noqa: B023  called now
                out = row.moved(b, at, c.block)
                self._tile(tile, here, taps, out, blocks, count, ends)
                return []

            b.loop(x, end, width, [], one)
            x = end

    def _prefetch(self, filters: Value, piece: int, row: Value) -> None:
        """Prefetch a row's share of the filters that are multiplied next."""
        b, cut = self.b, self.cut
        if self.filter_bytes * self.c.filter_blocks <= self.target.l2_bytes // 2:
            return
        rows = min(cut.rows, self.c.positions[0])
        share = -(-piece // (rows * LINE)) * LINE
        starts = [b.at(filters, f * self.filter_bytes) for f in range(cut.filters)]

        def line(at: Value, _: list[Value]) -> Sequence[Value]:
            for start in starts:
                b.prefetch(b.at(b.at(start, b.times(row, share)), at))
            return []

        b.loop(0, share, LINE, [], line)

    def _rows_inside(self, top: Value) -> tuple[Value, Value]:
        """The first row of the filter that meets the image, and how many do."""
        b, c = self.b, self.c
        height, size, step = c.lengths[0], c.sizes[0], c.dilations[0]
        zero = Value("0", I64)
        lowest = -c.before[0]
        highest = lowest + (c.positions[0] - 1) * c.strides[0] + (size - 1) * step
        first, end = zero, Value(str(size), I64)
        if lowest < 0:
            missing = b.binary("smax", b.emit(I64, f"sub i64 0, {top.text}"), zero)
            first = b.emit(I64, f"udiv {b.plus(missing, step - 1)}, {step}")
        if highest >= height:
            room = b.emit(I64, f"sub i64 {height - 1 + step}, {top.text}")
            end = b.binary("smin", b.emit(I64, f"udiv {room}, {step}"), end)
        count = b.emit(I64, f"sub {end}, {first.text}") if lowest < 0 or highest >= height else end
        return first, count

    def _parts(self, x: int, width: int) -> Iterator[Part]:
        """Columns of the filter with the positions of a tile that meet the image there."""
        c = self.c
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
        yield from sorted(held, key=lambda p: p.first - p.end)

    def _tile(
        self, t: Tile, image: Value, filters: Value, goal: Goal, blocks: Value, rows: Value,
        ends: Ends,
    ) -> None:  # fmt: skip
        """Call the function of a tile."""
        known = tuple([int(n.text) if n.text.isdigit() else None for n in (blocks, rows)])
        given = {"x": image, "w": filters, **goal.places}
        if self.in_parts:
            given |= {"later": ends.later, "last": ends.last}
        for name, value, number in zip("mn", (blocks, rows), known, strict=True):
            given |= {name: value} if number is None else {}
        parameters = ", ".join(f"{v.type} %{name}" for name, v in given.items())

        def write(inner: Builder) -> None:
            pairs = zip("mn", known, strict=True)
            counts = [Value(f"%{name}", I64) if n is None else n for name, n in pairs]
            NchwcTile(inner, self, t, counts).emit()

        name = self.routines.add((t, known), parameters, write)
        self.b.emit_void(f"call void @{name}({', '.join(map(str, given.values()))})")


def _split(extent: int, most: int) -> list[int]:
    """Widths of at most ``most`` that cover an extent, as equal as possible, larger ones first."""
    count = -(-extent // most)
    small, left = divmod(extent, count)
    return [small + 1] * left + [small] * (count - left)
