"""Writes the two functions of a correlation (see `correlating.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pirkit.lowering.codegen.correlating import Correlation, Cut, Distances
from pirkit.lowering.codegen.ir import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.pack import transposed
from pirkit.lowering.codegen.points import (
    Memory,
    argument,
    masked_load,
    split_index,
    store,
    tail_mask,
)
from pirkit.lowering.codegen.primitives import element
from pirkit.lowering.codegen.registers import Side, accumulate

_LINE = 64


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
        lines = -(-(cut.held * cut.width * self.size) // _LINE)
        self.image_bytes = (lines | 1) * _LINE
        self.panel_bytes = cut.held * c.length * self.wide
        self.panels = cut.tall * self.image_bytes + 2 * _LINE
        # a turned square reaches beyond the last panel
        self.scratch = self.panels + (cut.broad + 1) * self.panel_bytes + cut.lanes * self.wide
        self.scratch = -(-self.scratch // _LINE) * _LINE

    def emit(self) -> None:
        b, c, cut = self.b, self.c, self.cut
        image, filters, *table, sums = (argument(b, k) for k in range(3 + (not self.known)))
        self.far = (
            [Value(str(d), I64) for d in self.known]
            if self.known
            else [b.emit(I64, f"load i64, {b.at(table[0], 8 * k)}, align 8") for k in range(4)]
        )
        region = cut.sums(c) * self.size
        self.along = Value(str(c.length), I64)

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
            end = b.binary("smin", b.plus(begin, cut.share(c)), Value(str(c.rows), I64))
            lane = b.times(broad, cut.broad * cut.lanes)

            def rows(row: Value, _: list[Value]) -> Sequence[Value]:
                left = b.emit(I64, f"sub {end}, {row.text}")
                held = b.binary("smin", left, Value(str(cut.held), I64))
                self.along = self._along(row)
                self._turn(filters, group, lane, row, held)
                self._outer(images, count, row, held, into, [])
                return []

            b.loop(begin, end, cut.held, [], rows)
            return []

        b.over_blocks(task)

    def _along(self, row: Value) -> Value:
        """Windows of a row; where rows are cut only one is held, and the last may be shorter."""
        b, c = self.b, self.c
        if c.pieces == 1:
            return Value(str(c.length), I64)
        (_, piece) = split_index(b, row, [c.rows // c.pieces, c.pieces])
        left = b.emit(I64, f"sub i64 {c.windows[-1]}, {b.times(piece, c.length).text}")
        return b.binary("smin", left, Value(str(c.length), I64))

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

    def _turn(self, filters: Value, group: Value, lane: Value, row: Value, held: Value) -> None:
        """The windows of some filters side by side: `[vectors, rows, windows, lanes]`."""
        b, c, cut = self.b, self.c, self.cut
        length = c.length

        def vector(v: Value, _: list[Value]) -> Sequence[Value]:
            starts: list[Value] = []
            for k in range(cut.lanes):
                at = b.plus(b.plus(lane, b.times(v, cut.lanes)), k)
                at = b.binary("smin", at, Value(str(c.each - 1), I64))
                at = b.plus(b.times(group, c.each), at)
                starts.append(b.at(filters, self._mul(at, self.far[2])))

            def line(u: Value, _: list[Value]) -> Sequence[Value]:
                lines = c.rows // c.depth // c.pieces
                channel, rest, piece = split_index(b, b.plus(row, u), [c.depth, lines, c.pieces])
                moved = b.plus(
                    self._mul(channel, self.far[3]), b.times(rest, c.windows[-1] * self.size)
                )
                moved = b.plus(moved, b.times(piece, length * self.size))
                into = b.at(self._panel(v), b.times(u, length * self.wide))

                def square(x: Value, _: list[Value]) -> Sequence[Value]:
                    offset = b.plus(moved, b.times(x, self.size))
                    mask = tail_mask(b, cut.lanes, b.emit(I64, f"sub {self.along}, {x.text}"))
                    found = [
                        masked_load(b, self.vector, b.at(s, offset), self.size, mask)
                        for s in starts
                    ]
                    first = b.at(into, b.times(x, self.wide))
                    for k, value in enumerate(transposed(b, found)):
                        place = b.at(first, k * self.wide)
                        b.do(f"store {value}, {place}, align {self.size}")
                    return []

                b.loop(0, length, cut.lanes, [], square)
                return []

            b.loop(0, held, 1, [], line)
            return []

        b.loop(0, cut.broad, 1, [], vector)

    def _outer(
        self, images: Value, count: Value, row: Value, held: Value, into: Value, at: list[Value]
    ) -> None:  # fmt: skip
        """The loops over the positions along all axes but the last one."""
        b, c, cut = self.b, self.c, self.cut
        if len(at) < len(c.positions) - 1:
            inner = prod(c.positions[len(at) + 1 : -1])
            bytes_ = inner * cut.sums(c) // c.outer * self.size

            def position(t: Value, _: list[Value]) -> Sequence[Value]:
                further = b.at(into, b.times(t, bytes_))
                self._outer(images, count, row, held, further, [*at, t])
                return []

            b.loop(0, c.positions[len(at)], 1, [], position)
            return
        self._copy(images, count, row, held, at)
        self._tiles(count, held, into)

    def _copy(
        self, images: Value, count: Value, row: Value, held: Value, at: list[Value]
    ) -> None:  # fmt: skip
        """What positions ``at`` of some rows of windows meet: `[images, rows, width]`."""
        b, c, cut = self.b, self.c, self.cut
        steps = [prod(c.lengths[k + 1 :]) * self.size for k in range(len(c.lengths))]

        def line(u: Value, _: list[Value]) -> Sequence[Value]:
            windows = [c.depth, *c.windows[:-1], c.pieces]
            channel, *window, piece = split_index(b, b.plus(row, u), windows)
            skipped = b.times(piece, c.length * c.spread[-1])
            source = b.at(images, self._mul(channel, self.far[1]))
            inside = Value("true", Type("i1"))
            for axis, (t, w) in enumerate(zip(at, window, strict=True)):
                place = b.plus(b.times(t, c.move[axis]), b.times(w, c.spread[axis]))
                place = b.plus(place, -c.before[axis])
                source = b.at(source, b.times(place, steps[axis]))
                holds = b.compare("ult", place, c.lengths[axis])
                inside = holds if inside.text == "true" else b.op("and", inside, holds)
            goal = b.at(Value("%scratch", PTR), b.times(u, cut.width * self.size))

            def copied(is_inside: bool) -> None:
                def part(x: Value, _: list[Value]) -> Sequence[Value]:
                    first = b.plus(b.plus(x, skipped), -c.before[-1])
                    mask = self._bounded(first)

                    def one(k: Value, _: list[Value]) -> Sequence[Value]:
                        value = Value("zeroinitializer", self.vector)
                        if is_inside:
                            start = b.at(source, self._mul(k, self.far[0]))
                            where = b.at(start, b.times(first, self.size))
                            value = masked_load(b, self.vector, where, self.size, mask)
                        place = b.at(
                            b.at(goal, b.times(k, self.image_bytes)), b.times(x, self.size)
                        )
                        b.do(f"store {value}, {place}, align {self.size}")
                        return []

                    b.loop(0, count, 1, [], one)
                    return []

                b.loop(0, cut.width, cut.lanes, [], part)

            def found() -> Sequence[Value]:
                copied(True)
                return []

            def missed() -> Sequence[Value]:
                copied(False)
                return []

            b.branch(inside, found)
            if inside.text != "true":
                b.branch(b.op("xor", inside, True), missed)
            return []

        b.loop(0, held, 1, [], line)

    def _bounded(self, first: Value) -> Value:
        """The lanes that lie within a row of the image."""
        b = self.b
        index = Type("i32" if self.size == 4 else "i64", self.cut.lanes)
        start = first if index.elem == "i64" else b.cast("trunc", first, "i32")
        places = b.op("add", b.splat(start, index.lanes), b.iota(index))
        return b.compare("ult", places, self.c.lengths[-1])

    def _tiles(self, count: Value, held: Value, into: Value) -> None:
        b, c, cut = self.b, self.c, self.cut
        broad_bytes = cut.broad * self.wide
        image_sums = cut.slices * cut.slice * broad_bytes
        stacks = b.emit(I64, f"udiv {b.plus(count, cut.some - 1)}, {cut.some}")
        shape = [(k, t) for k in range(cut.some) for t in range(cut.slice)]

        def tile(i: Value, s: Value, v: Value, vectors: int) -> None:
            moved = b.plus(
                b.times(i, cut.some * self.image_bytes),
                b.times(s, cut.slice * c.move[-1] * self.size),
            )
            factors = Side(
                b.at(Value("%scratch", PTR), moved),
                [k * self.image_bytes + t * c.move[-1] * self.size for k, t in shape],
                [cut.width * self.size, c.spread[-1] * self.size],
            )
            panel = Side(
                self._panel(v),
                [k * self.panel_bytes for k in range(vectors)],
                [c.length * self.wide, self.wide],
            )
            found = b.plus(b.times(i, cut.some * image_sums), b.times(v, self.wide))
            found = b.at(into, b.plus(found, b.times(s, cut.slice * broad_bytes)))
            sums = [
                b.at(found, k * image_sums + t * broad_bytes + n * self.wide)
                for k, t in shape
                for n in range(vectors)
            ]
            counts = [held, self.along]
            accumulate(b, c.dtype, cut.lanes, factors, panel, sums, counts)

        def down(v: Value, vectors: int) -> None:
            def stack(i: Value, _: list[Value]) -> Sequence[Value]:
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


def emit_adding(b: Builder, c: Correlation, cut: Cut) -> None:
    """Operands are the sums of all tasks, and the result. A block is an image for some filters."""
    size = c.dtype.itemsize
    vector = Type(element(c.dtype), cut.lanes)
    sums, result = argument(b, 0), argument(b, 1)
    region, places = cut.sums(c) * size, prod(c.positions)
    line = cut.broad * cut.lanes * size
    per_image = cut.slices * cut.slice * line

    def image(number: Value, _: list[Value]) -> Sequence[Value]:
        group, broad, which = split_index(b, number, [c.groups, cut.broads(c), c.images])
        tall = b.emit(I64, f"udiv {which}, {cut.tall}")
        within = b.emit(I64, f"urem {which}, {cut.tall}")
        task = b.plus(b.times(b.plus(b.times(group, cut.talls(c)), tall), cut.broads(c)), broad)
        base = b.at(b.at(sums, b.times(task, region)), b.times(within, per_image))
        first = b.times(broad, cut.broad * cut.lanes)
        goal = b.plus(b.times(which, c.groups * c.each), b.plus(b.times(group, c.each), first))
        goals = b.at(result, b.times(goal, places * size))

        def vectors(v: Value, _: list[Value]) -> Sequence[Value]:
            lane = b.times(v, cut.lanes)
            left = b.emit(I64, f"sub i64 {c.each}, {b.plus(first, lane).text}")
            mask = tail_mask(b, cut.lanes, b.binary("smax", left, Value("0", I64)))
            into = b.at(goals, b.times(lane, places * size))

            def outer(o: Value, _: list[Value]) -> Sequence[Value]:
                def position(t: Value, _: list[Value]) -> Sequence[Value]:
                    source = b.plus(b.times(o, cut.tall * per_image), b.times(t, line))
                    here = b.at(base, b.plus(source, b.times(lane, size)))
                    total = b.emit(vector, f"load {vector}, {here}, align {size}")

                    def add(part: Value, carried: list[Value]) -> Sequence[Value]:
                        where = b.at(here, b.times(part, cut.pieces(c) * region))
                        other = b.emit(vector, f"load {vector}, {where}, align {size}")
                        return [b.add(carried[0], other)]

                    [total] = b.loop(1, cut.parts, 1, [total], add)
                    at = b.plus(b.times(o, c.positions[-1]), t)
                    memory = Memory(b.at(into, b.times(at, size)), places * size)
                    store(b, total, c.dtype, memory, mask)
                    return []

                b.loop(0, c.positions[-1], 1, [], position)
                return []

            b.loop(0, c.outer, 1, [], outer)
            return []

        b.loop(0, cut.broad, 1, [], vectors)
        return []

    b.over_blocks(image)
