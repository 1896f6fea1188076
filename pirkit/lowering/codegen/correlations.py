"""Writes the first function of a correlation (see `correlating.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from pirkit.lowering.codegen.correlating import Correlation, Cut, Distances
from pirkit.lowering.codegen.ir import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.pack import transposed
from pirkit.lowering.codegen.points import argument, masked_load, split_index, tail_mask
from pirkit.lowering.codegen.primitives import element
from pirkit.lowering.codegen.registers import Side, accumulate
from pirkit.lowering.codegen.scratch import LINE

_STRAIGHT = 8
"""Vectors of a row up to which its copy is written out."""


@dataclass(frozen=True, slots=True)
class _Held:
    """Some rows of windows of some planes, from the first ones on: where they are, how many."""

    plane: Value
    row: Value
    window: Value
    planes: Value
    rows: Value
    along: Value


@dataclass(frozen=True, slots=True)
class _Images:
    """The images of a task, and what to ask memory for meanwhile (see `_ahead`)."""

    first: Value
    count: Value
    ahead: tuple[Value, Value]


class Correlating:
    """Emits the sums of the parts.

    Operands are images, filters, the distances in bytes of images, their channels, filters, their
    channels, and where the sums of all tasks go. Distances that are ``known`` are no operand.
    """

    def __init__(
        self, b: Builder, c: Correlation, cut: Cut, known: Distances | None = None
    ) -> None:  # fmt: skip
        self.b, self.c, self.cut, self.known = b, c, cut, known
        self.size = c.dtype.itemsize
        self.vector = Type(element(c.dtype), cut.lanes)
        self.wide = cut.lanes * self.size
        # an odd number of lines, which spreads images over the sets of the cache
        lines = -(-(cut.planes * cut.copied * cut.width * self.size) // LINE)
        self.image_bytes = (lines | 1) * LINE
        self.panel_bytes = cut.planes * cut.lines * c.length * self.wide
        self.panels = cut.tall * self.image_bytes + 2 * LINE
        # a turned square reaches beyond the last panel
        self.scratch = self.panels + (cut.broad + 1) * self.panel_bytes + cut.lanes * self.wide
        self.scratch = -(-self.scratch // LINE) * LINE

    def emit(self) -> None:
        b, c, cut = self.b, self.c, self.cut
        image, filters, *table, sums = (argument(b, k) for k in range(3 + (not self.known)))
        self.far = (
            [Value(str(d), I64) for d in self.known]
            if self.known
            else [b.emit(I64, f"load i64, {b.at(table[0], 8 * k)}, align 8") for k in range(4)]
        )
        region = cut.sums(c) * self.size

        def task(number: Value, _: list[Value]) -> Sequence[Value]:
            part, group, tall, broad = split_index(
                b, number, [cut.parts, c.groups, cut.talls(c), cut.broads(c)]
            )
            into = b.at(sums, b.times(number, region))
            self._clear(into, region)
            first = b.times(tall, cut.tall)
            images = b.at(image, self._mul(first, self.far[0]))
            channel = b.times(group, c.depth)
            images = b.at(images, self._mul(channel, self.far[1]))
            count = self._least(cut.tall, c.images, first)
            begin = b.times(part, cut.share(c))
            most = Value(str(prod(cut.held(c))), I64)
            end = b.binary("smin", b.plus(begin, cut.share(c)), most)
            lane = b.times(broad, cut.broad * cut.lanes)

            def some(block: Value, _: list[Value]) -> Sequence[Value]:
                held = self._held(block)
                self._turn(filters, group, lane, held)
                first = self._mul(b.plus(b.times(group, c.each), lane), self.far[2])
                ahead = self._ahead(images, b.at(filters, first), held)
                self._outer(_Images(images, count, ahead), held, into, [])
                return []

            b.loop(begin, end, 1, [], some)
            return []

        b.over_blocks(task)

    def _held(self, block: Value) -> _Held:
        b, c, cut = self.b, self.c, self.cut
        plane, row, piece = split_index(b, block, cut.held(c))
        plane, row = b.times(plane, cut.planes), b.times(row, cut.lines)
        first = b.times(piece, c.length)
        planes = self._least(cut.planes, c.planes, plane)
        rows = self._least(cut.lines, c.windows[-2], row)
        return _Held(plane, row, first, planes, rows, self._least(c.length, c.windows[-1], first))

    def _mul(self, index: Value, distance: Value) -> Value:
        if index.text == "0":
            return index
        if self.known:
            return self.b.times(index, int(distance.text))
        return self.b.emit(I64, f"mul {index}, {distance.text}")

    def _least(self, most: int, total: int, first: Value) -> Value:
        if total % most == 0:
            return Value(str(most), I64)
        left = self.b.emit(I64, f"sub i64 {total}, {first.text}")
        return self.b.binary("smin", left, Value(str(most), I64))

    def _clear(self, where: Value, count: int) -> None:
        def clear(k: Value, _: list[Value]) -> Sequence[Value]:
            place = self.b.at(where, k)
            self.b.do(f"store {self.vector} zeroinitializer, {place}, align {self.size}")
            return []

        self.b.loop(0, count, self.wide, [], clear)

    def _panel(self, vector: Value) -> Value:
        base = self.b.at(Value("%scratch", PTR), self.panels)
        return self.b.at(base, self.b.times(vector, self.panel_bytes))

    def _turn(self, filters: Value, group: Value, lane: Value, held: _Held) -> None:
        """The windows of some filters side by side: `[vectors, planes, windows, lanes]`."""
        b, c, cut = self.b, self.c, self.cut
        row = c.windows[-1] * self.size

        def vector(v: Value, _: list[Value]) -> Sequence[Value]:
            starts: list[Value] = []
            for k in range(cut.lanes):
                at = b.plus(b.plus(lane, b.times(v, cut.lanes)), k)
                at = b.binary("smin", at, Value(str(c.each - 1), I64))
                at = b.plus(b.times(group, c.each), at)
                starts.append(b.at(filters, self._mul(at, self.far[2])))

            def plane(p: Value, _: list[Value]) -> Sequence[Value]:
                planes = [c.depth, c.planes // c.depth]
                channel, rest = split_index(b, b.plus(held.plane, p), planes)
                moved = b.plus(self._mul(channel, self.far[3]), b.times(rest, c.windows[-2] * row))
                moved = b.plus(moved, b.times(held.row, row))
                moved = b.plus(moved, b.times(held.window, self.size))
                into = b.at(self._panel(v), b.times(p, cut.lines * c.length * self.wide))
                # rows follow each other without a gap, unless they are cut
                count = b.times(held.rows, c.length) if c.pieces == 1 else held.along

                def square(x: Value, _: list[Value]) -> Sequence[Value]:
                    offset = b.plus(moved, b.times(x, self.size))
                    mask = tail_mask(b, cut.lanes, b.emit(I64, f"sub {count}, {x.text}"))
                    found = [
                        masked_load(b, self.vector, b.at(s, offset), self.size, mask)
                        for s in starts
                    ]
                    first = b.at(into, b.times(x, self.wide))
                    for k, value in enumerate(transposed(b, found)):
                        place = b.at(first, k * self.wide)
                        b.do(f"store {value}, {place}, align {self.size}")
                    return []

                b.loop(0, count, cut.lanes, [], square)
                return []

            b.loop(0, held.planes, 1, [], plane)
            return []

        b.loop(0, cut.broad, 1, [], vector)

    def _outer(self, images: _Images, held: _Held, into: Value, at: list[Value]) -> None:
        """The loops over the positions along all axes but the last one."""
        b, c, cut = self.b, self.c, self.cut
        is_last = len(at) == len(c.positions) - 2
        bytes_ = prod(c.positions[len(at) + 1 : -1]) * cut.sums(c) // c.outer * self.size
        if is_last and cut.shares:
            self._copy(images, held, at, Value("0", I64))

        def position(t: Value, _: list[Value]) -> Sequence[Value]:
            further = b.at(into, b.times(t, bytes_))
            moved = b.times(t, c.move[-2])
            if not is_last:
                self._outer(images, held, further, [*at, t])
            elif cut.shares:
                self._tiles(images, held, further, b.times(moved, cut.width * self.size), t)
            else:
                self._copy(images, held, at, moved)
                self._tiles(images, held, further, Value("0", I64), t)
            return []

        b.loop(0, c.positions[len(at)], 1, [], position)

    def _copy(self, images: _Images, held: _Held, at: list[Value], moved: Value) -> None:
        """What positions ``at`` meet, those of rows from ``moved`` on: `[images, planes, rows]`."""
        b, c, cut = self.b, self.c, self.cut
        step = 1 if cut.shares else c.spread[-2]
        rows = held.rows
        if cut.shares:
            rows = b.plus(b.times(rows, c.spread[-2]), cut.copied - cut.lines * c.spread[-2])
        top = b.plus(b.plus(b.times(held.row, c.spread[-2]), moved), -c.before[-2])

        def image(k: Value, _: list[Value]) -> Sequence[Value]:
            base = b.at(images.first, self._mul(k, self.far[0]))
            goal = b.at(Value("%scratch", PTR), b.times(k, self.image_bytes))

            def plane(p: Value, _: list[Value]) -> Sequence[Value]:
                source, inside = self._plane(base, b.plus(held.plane, p), at)
                here = b.at(goal, b.times(p, cut.copied * cut.width * self.size))

                def row(j: Value, _: list[Value]) -> Sequence[Value]:
                    self._row(source, inside, here, (b.plus(top, b.times(j, step)), j), held.window)
                    return []

                b.loop(0, rows, 1, [], row)
                return []

            b.loop(0, held.planes, 1, [], plane)
            return []

        b.loop(0, images.count, 1, [], image)

    def _plane(self, base: Value, number: Value, at: list[Value]) -> tuple[Value, Value]:
        """Where a plane of the image begins that positions meet, and whether there is one."""
        b, c = self.b, self.c
        channel, *window = split_index(b, number, [c.depth, *c.windows[:-2]])
        source = b.at(base, self._mul(channel, self.far[1]))
        inside = Value("true", Type("i1"))
        for axis, (t, w) in enumerate(zip(at, window, strict=True)):
            place = b.plus(b.times(t, c.move[axis]), b.times(w, c.spread[axis]))
            place = b.plus(place, -c.before[axis])
            source = b.at(source, b.times(place, prod(c.lengths[axis + 1 :]) * self.size))
            holds = b.compare("ult", place, c.lengths[axis])
            inside = holds if inside.text == "true" else b.op("and", inside, holds)
        return source, inside

    def _row(
        self, plane: Value, inside: Value, goal: Value, rows: tuple[Value, Value], window: Value
    ) -> None:  # fmt: skip
        """Copy one of the ``rows`` of a plane to another one; what is outside is zeros."""
        b, c, cut = self.b, self.c, self.cut
        source = b.at(plane, b.times(rows[0], c.lengths[-1] * self.size))
        holds = b.compare("ult", rows[0], c.lengths[-2])
        holds = holds if inside.text == "true" else b.op("and", inside, holds)
        there = b.at(goal, b.times(rows[1], cut.width * self.size))
        skipped = b.times(window, c.spread[-1])

        def part(x: Value, _: list[Value]) -> Sequence[Value]:
            first = b.plus(b.plus(x, skipped), -c.before[-1])
            on = self._bounded(first)
            on = b.select(holds, on, b.const(on.type, False))
            where = b.at(source, b.times(first, self.size))
            value = masked_load(b, self.vector, where, self.size, on)
            b.do(f"store {value}, {b.at(there, b.times(x, self.size))}, align {self.size}")
            return []

        if cut.width > _STRAIGHT * cut.lanes:
            b.loop(0, cut.width, cut.lanes, [], part)
            return
        for x in range(0, cut.width, cut.lanes):
            part(Value(str(x), I64), [])

    def _bounded(self, first: Value) -> Value:
        """The lanes that lie within a row of the image."""
        b = self.b
        index = Type("i32" if self.size == 4 else "i64", self.cut.lanes)
        start = first if index.elem == "i64" else b.cast("trunc", first, "i32")
        places = b.op("add", b.splat(start, index.lanes), b.iota(index))
        return b.compare("ult", places, self.c.lengths[-1])

    def _ahead(self, images: Value, filters: Value, held: _Held) -> tuple[Value, Value]:
        """Where what will be held next lies of the first image and of the first filter."""
        b, c, cut = self.b, self.c, self.cut
        is_whole = cut.lines == c.windows[-2]
        plane = b.plus(held.plane, cut.planes * is_whole)
        channel, rest = split_index(b, plane, [c.depth, c.planes // c.depth])
        row = b.plus(held.row, 0 if is_whole else cut.lines)
        window = b.plus(b.times(rest, c.windows[-2]), row)
        window = b.times(window, c.windows[-1] * self.size)
        skipped = 0 if is_whole else max(cut.copied - cut.lines * c.spread[-2], 0)
        met = b.plus(b.times(row, c.spread[-2]), skipped - c.before[-2])
        image = b.at(images, self._mul(channel, self.far[1]))
        filter_ = b.at(filters, self._mul(channel, self.far[3]))
        return b.at(image, b.times(met, c.lengths[-1] * self.size)), b.at(filter_, window)

    def _ask(self, ahead: tuple[Value, Value], tile: Value) -> None:
        """Ask memory for what falls to a tile of what is held next. Nothing has to be there."""
        b, c, cut = self.b, self.c, self.cut
        tiles = cut.tall // cut.some * c.positions[-2]
        starts: list[Value] = []
        for first, far, count in zip(
            ahead, (self.far[0], self.far[2]), (cut.tall, cut.broad * cut.lanes), strict=True
        ):
            each = -(-count // tiles)
            starts.append(b.at(first, self._mul(b.times(tile, each), far)))
            for _ in range(each - 1):
                starts.append(b.at(starts[-1], far))
        rows = min(cut.lines * c.spread[-2], c.lengths[-2]) * c.lengths[-1]
        length = max(rows, cut.lines * c.windows[-1]) * self.size

        def line(at: Value, _: list[Value]) -> Sequence[Value]:
            for start in starts:
                b.prefetch(b.at(start, at))
            return []

        b.loop(0, length, LINE, [], line)

    def _tiles(
        self, images: _Images, held: _Held, into: Value, start: Value, t: Value
    ) -> None:  # fmt: skip
        b, c, cut = self.b, self.c, self.cut
        broad_bytes = cut.broad * self.wide
        image_sums = cut.slices * cut.slice * broad_bytes
        stacks = b.emit(I64, f"udiv {b.plus(images.count, cut.some - 1)}, {cut.some}")
        shape = [(k, t) for k in range(cut.some) for t in range(cut.slice)]

        def tile(i: Value, s: Value, v: Value, vectors: int) -> None:
            moved = b.plus(
                b.times(i, cut.some * self.image_bytes),
                b.times(s, cut.slice * c.move[-1] * self.size),
            )
            row = cut.width * self.size
            factors = Side(
                b.at(b.at(Value("%scratch", PTR), start), moved),
                [k * self.image_bytes + t * c.move[-1] * self.size for k, t in shape],
                [
                    cut.copied * row,
                    row * (c.spread[-2] if cut.shares else 1),
                    c.spread[-1] * self.size,
                ],
            )
            panel = Side(
                self._panel(v),
                [k * self.panel_bytes for k in range(vectors)],
                [cut.lines * c.length * self.wide, c.length * self.wide, self.wide],
            )
            found = b.plus(b.times(i, cut.some * image_sums), b.times(v, self.wide))
            found = b.at(into, b.plus(found, b.times(s, cut.slice * broad_bytes)))
            sums = [
                b.at(found, k * image_sums + t * broad_bytes + n * self.wide)
                for k, t in shape
                for n in range(vectors)
            ]
            counts = [held.planes, held.rows, held.along]
            accumulate(b, c.dtype, cut.lanes, factors, panel, sums, counts)

        def down(v: Value, vectors: int) -> None:
            def stack(i: Value, _: list[Value]) -> Sequence[Value]:
                if vectors == cut.vectors:
                    self._ask(images.ahead, b.plus(b.times(t, cut.tall // cut.some), i))

                def along(s: Value, _: list[Value]) -> Sequence[Value]:
                    tile(i, s, v, vectors)
                    return []

                b.loop(0, cut.slices, 1, [], along)
                return []

            b.loop(0, stacks, 1, [], stack)

        def column(v: Value, _: list[Value]) -> Sequence[Value]:
            down(v, cut.vectors)
            return []

        whole = cut.broad // cut.vectors * cut.vectors
        b.loop(0, whole, cut.vectors, [], column)
        if cut.broad > whole:
            down(Value(str(whole), I64), cut.broad - whole)
