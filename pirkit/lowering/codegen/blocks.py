"""Convolutions as products in blocks: two functions, one that turns the filter, one that computes.

The first is in `laying_out.py`. A task of the second is some lines of the result for some filters
of a group: for some channels at a time it fills a panel with what the filters meet and adds up the
products, and at last copies the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pirkit.lowering.codegen.blocking import Blocked, Blocks
from pirkit.lowering.codegen.image_panels import Lines, Panel, row_bytes, zero_bytes
from pirkit.lowering.codegen.ir import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.laying_out import tiles_of
from pirkit.lowering.codegen.points import Memory, argument, place, split_index, store, tail_mask
from pirkit.lowering.codegen.primitives import element
from pirkit.lowering.codegen.registers import Side, accumulate
from pirkit.lowering.codegen.row_panels import RowPanel, channel_bytes
from pirkit.lowering.codegen.scratch import LINE

_MOST = 8
"""Channels or filters at most that a tile asks memory for."""


def pieces(c: Blocked, cut: Blocks) -> int:
    """Tasks of the convolution."""
    return c.groups * -(-tiles_of(c, cut) // cut.tall) * prod(_heaps(c, cut))


class Convolving:
    """Emits the second function: operands are images, the filter laid out, and the result."""

    def __init__(self, b: Builder, c: Blocked, cut: Blocks) -> None:
        self.b, self.c, self.cut = b, c, cut
        self.size = c.dtype.itemsize
        self.row = row_bytes(c, cut)
        self.scratch = 0
        self.tables = [self._reserve(8 * cut.lines) for _ in range(2 + len(c.positions))]
        self.zeros = self._reserve(zero_bytes(c, cut))
        # the last vector of the last row may reach beyond
        channel = channel_bytes(c, cut) if cut.pitch else self.row * c.terms
        self.panel = self._reserve(channel * cut.deep + 2 * self.row)
        self.sums = self._reserve(self.row * cut.tall * cut.rows)

    def _reserve(self, count: int) -> int:
        start = self.scratch
        self.scratch += -(-count // LINE) * LINE
        return start

    def _own(self, offset: int) -> Value:
        return self.b.at(Value("%scratch", PTR), offset)

    def emit(self) -> None:
        b, c, cut = self.b, self.c, self.cut
        image, factors, result = (argument(b, k) for k in range(3))
        tiles = tiles_of(c, cut)
        images, heaps = _heaps(c, cut)
        stacks, total = -(-tiles // cut.tall), _total(c, cut) // images
        room = prod(c.room) * self.size
        self._clear(self._own(self.zeros), zero_bytes(c, cut))

        def task(number: Value, _: list[Value]) -> Sequence[Value]:
            group, stack, which, heap = split_index(b, number, [c.groups, stacks, images, heaps])
            within = b.times(heap, cut.lines)
            first_line = b.plus(b.times(which, total), within)
            lines = self._lines(first_line, self._least(cut.lines, total, within))
            first = b.times(stack, cut.tall)
            held = self._least(cut.tall, tiles, first)
            self._clear(self._own(self.sums), self.row * cut.tall * cut.rows)
            source = b.at(image, b.times(group, c.depth * prod(c.lengths) * self.size))
            at = b.plus(b.times(group, tiles), first)
            tile_bytes = cut.rows * c.depth * c.terms * self.size
            filters = b.times(first, cut.rows)
            count = self._least(cut.tall * cut.rows, c.each, filters)
            goal = b.at(result, b.times(b.plus(b.times(group, c.each), filters), room))
            self._products(source, b.at(factors, b.times(at, tile_bytes)), held, lines, goal)
            self._copy(goal, count, lines)
            return []

        b.over_blocks(task)

    def _least(self, most: int, total: int, first: Value) -> Value:
        """As many as are left after ``first`` of ``total``, but no more than ``most``."""
        if total % most == 0:
            return Value(str(most), I64)
        left = self.b.emit(I64, f"sub i64 {total}, {first.text}")
        return self.b.binary("smin", left, Value(str(most), I64))

    def _clear(self, where: Value, count: int) -> None:
        vector = Type(element(self.c.dtype), self.cut.lanes)
        wide = self.cut.lanes * self.size

        def clear(k: Value, _: list[Value]) -> Sequence[Value]:
            self.b.do(f"store {vector} zeroinitializer, {self.b.at(where, k)}, align {wide}")
            return []

        self.b.loop(0, -(-count // wide) * wide, wide, [], clear)

    def _lines(self, first: Value, count: Value) -> Lines:
        """Write the tables of a task."""
        b, c, cut, size = self.b, self.c, self.cut, self.size
        image, result, *starts = (self._own(t) for t in self.tables)
        steps = [prod(c.lengths[k + 1 :]) * size for k in range(len(c.lengths))]
        places = [prod(c.room[k + 1 :]) * size for k in range(len(c.room))]
        images = c.groups * c.depth * prod(c.lengths) * size
        results = c.groups * c.each * prod(c.room) * size

        def line(r: Value, _: list[Value]) -> Sequence[Value]:
            at = split_index(b, b.plus(first, r), [c.n, *c.positions[:-1], cut.parts])
            at[-1] = b.times(at[-1], cut.width)
            moved = [b.times(q, m) for q, m in zip(at[1:], c.move, strict=True)]
            fallen = [
                b.plus(b.times(q, s), f) for q, s, f in zip(at[1:], c.spread, c.begin, strict=True)
            ]
            sources = place(b, Value("null", PTR), [images, *steps], [at[0], *moved])
            goals = place(b, Value("null", PTR), [results, *places], [at[0], *fallen])
            for table, value in ((image, sources), (result, goals)):
                number = b.emit(I64, f"ptrtoint {value} to i64")
                b.do(f"store {number}, {b.at(table, b.times(r, 8))}, align 8")
            for table, value in zip(starts, [*moved[:-1], at[-1]], strict=True):
                b.do(f"store {value}, {b.at(table, b.times(r, 8))}, align 8")
            return []

        b.loop(0, count, 1, [], line)
        return Lines(image, result, tuple(starts), count)

    def _products(
        self, images: Value, factors: Value, tiles: Value, lines: Lines, goal: Value
    ) -> None:  # fmt: skip
        b, c, cut, size = self.b, self.c, self.cut, self.size
        panel = self._own(self.panel)
        filler = (RowPanel if cut.pitch else Panel)(b, c, cut, panel, self._own(self.zeros))
        # whole tiles that hold something, and the vectors that are left after all whole tiles
        wide = cut.vectors * cut.lanes
        whole = cut.panel // cut.vectors
        used = b.times(lines.count, cut.pitch or cut.width)
        used = b.plus(used, cut.width - cut.pitch if cut.pitch else 0)
        needed = b.emit(I64, f"udiv {b.plus(used, wide - 1)}, {wide}")
        needed = b.binary("smin", needed, Value(str(whole), I64))
        left = cut.panel - whole * cut.vectors
        reach = (1 if cut.plain else cut.rows) * c.terms * size

        def channels(d: Value, _: list[Value]) -> Sequence[Value]:
            some = self._least(cut.deep, c.depth, d)
            filler.fill(b.at(images, b.times(d, prod(c.lengths) * size)), some, lines)
            begin = b.at(factors, b.times(d, reach))
            ahead = self._ahead(images, d, lines)
            last = b.compare("sge", b.plus(d, cut.deep), c.depth)

            def tile(i: Value, column: Value, count: int) -> None:
                at = b.times(column, cut.lanes * size)
                sums = b.at(b.at(self._own(self.sums), b.times(i, cut.rows * self.row)), at)
                apart, term = (c.depth * c.terms, 1) if cut.plain else (1, cut.rows)
                factors = Side(
                    b.at(begin, b.times(i, cut.rows * c.depth * c.terms * size)),
                    [row * apart * size for row in range(cut.rows)],
                    filler.factor_steps(term * size),
                )
                vectors = [k * cut.lanes * size for k in range(count)]
                found = [b.at(sums, r * self.row + k) for r in range(cut.rows) for k in vectors]
                met = filler.side(at, vectors)
                accumulate(b, c.dtype, cut.lanes, factors, met, found, filler.counts(some))

            def columns(v: Value, _: list[Value]) -> Sequence[Value]:
                def down(i: Value, _: list[Value]) -> Sequence[Value]:
                    self._ask(ahead, i, v, max(whole, 1))

                    def ask() -> Sequence[Value]:
                        self._ask_for_result(goal, lines, i, v, max(whole, 1))
                        return []

                    if prod(c.spread) == 1:
                        b.branch(last, ask)
                    tile(i, b.times(v, cut.vectors), cut.vectors)
                    return []

                b.loop(0, tiles, 1, [], down)
                return []

            b.loop(0, needed, 1, [], columns)
            if left:

                def rest() -> Sequence[Value]:
                    def down(i: Value, _: list[Value]) -> Sequence[Value]:
                        tile(i, Value(str(whole * cut.vectors), I64), left)
                        return []

                    b.loop(0, tiles, 1, [], down)
                    return []

                b.branch(b.compare("ugt", used, whole * wide), rest)
            return []

        if c.terms:
            b.loop(0, c.depth, cut.deep, [], channels)

    def _ahead(self, images: Value, d: Value, lines: Lines) -> Value:
        """Where that lies which the panel will be filled with next: channels, or lines behind."""
        b, c, cut = self.b, self.c, self.cut
        first = b.at(images, lines.entry(b, lines.image, Value("0", I64)))
        further = b.plus(d, cut.deep)
        channels = b.times(further, prod(c.lengths) * self.size)
        behind = Value(str(self._share(c.lengths, c.move)), I64)
        return b.at(first, b.select(b.compare("slt", further, c.depth), channels, behind))

    def _share(self, extents: tuple[int, ...], steps: tuple[int, ...]) -> int:
        """Bytes of an image, or of a result, from the first line of a panel to the next panel's."""
        rows = self.cut.lines * steps[-2] * extents[-1] // self.cut.parts
        return min(rows, prod(extents)) * self.size

    def _ask(self, ahead: Value, i: Value, column: Value, columns: int) -> None:
        """Ask memory for what falls to a tile of what the panel will be filled with next."""
        b, c, cut = self.b, self.c, self.cut
        piece = self._piece(self._share(c.lengths, c.move), columns)
        channel = prod(c.lengths) * self.size
        first = b.at(b.at(ahead, b.times(column, piece)), b.times(i, channel))
        each = min(-(-cut.deep // cut.tall), _MOST)
        end = Value(str(piece), I64)
        if cut.tall > cut.deep:
            end = b.select(b.compare("slt", i, cut.deep), end, Value("0", I64))
        self._ask_for([b.at(first, k * cut.tall * channel) for k in range(each)], end)

    def _ask_for_result(
        self, goal: Value, lines: Lines, i: Value, column: Value, columns: int
    ) -> None:  # fmt: skip
        """Ask memory for what falls to a tile of where the sums will be copied."""
        b, c, cut = self.b, self.c, self.cut
        piece = self._piece(self._share(c.room, c.spread), columns)
        room = prod(c.room) * self.size
        first = b.at(goal, lines.entry(b, lines.result, Value("0", I64)))
        first = b.at(first, b.plus(b.times(i, cut.rows * room), b.times(column, piece)))
        starts = [b.at(first, k * room) for k in range(min(cut.rows, _MOST))]
        self._ask_for(starts, Value(str(piece), I64))

    def _piece(self, share: int, columns: int) -> int:
        return -(-share // (columns * LINE)) * LINE

    def _ask_for(self, starts: Sequence[Value], end: Value) -> None:
        """Ask for the lines from some addresses on. Nothing has to be there."""

        def line(offset: Value, _: list[Value]) -> Sequence[Value]:
            for start in starts:
                self.b.prefetch(self.b.at(start, offset))
            return []

        self.b.loop(0, end, LINE, [], line)

    def _copy(self, goal: Value, count: Value, lines: Lines) -> None:
        """The sums of ``count`` filters to the result."""
        b, c, cut, size = self.b, self.c, self.cut, self.size
        vector = Type(element(c.dtype), cut.lanes)
        step = c.spread[-1] * size

        def filter_(e: Value, _: list[Value]) -> Sequence[Value]:
            sums = b.at(self._own(self.sums), b.times(e, self.row))
            goals = b.at(goal, b.times(e, prod(c.room) * size))

            def line(r: Value, _: list[Value]) -> Sequence[Value]:
                source = b.at(sums, b.times(r, (cut.pitch or cut.width) * size))
                target = b.at(goals, lines.entry(b, lines.result, r))
                left: Value | None = None
                if cut.parts * cut.width != c.positions[-1]:
                    start = lines.entry(b, lines.starts[-1], r)
                    left = b.emit(I64, f"sub i64 {c.positions[-1]}, {start.text}")

                def one(first: Value, mask: Value | None) -> None:
                    where = b.at(source, b.times(first, size))
                    value = b.emit(vector, f"load {vector}, {where}, align {size}")
                    _scatter(b, c, value, b.at(target, b.times(first, step)), mask)

                def along(first: Value, _: list[Value]) -> Sequence[Value]:
                    one(first, mask_at(first))
                    return []

                def mask_at(first: Value) -> Value | None:
                    if left is None:
                        return None
                    short = b.emit(I64, f"sub {left}, {first.text}")
                    return tail_mask(b, cut.lanes, b.binary("smax", short, Value("0", I64)))

                full = cut.width // cut.lanes * cut.lanes
                b.loop(0, full, cut.lanes, [], along)
                if cut.width > full:
                    first = Value(str(full), I64)
                    tail = tail_mask(b, cut.lanes, cut.width - full)
                    other = mask_at(first)
                    one(first, tail if other is None else b.op("and", tail, other))
                return []

            b.loop(0, lines.count, 1, [], line)
            return []

        b.loop(0, count, 1, [], filter_)


def _scatter(b: Builder, c: Blocked, value: Value, where: Value, mask: Value | None) -> None:
    """Write a vector to every element, every other one, or further apart."""
    lanes, size, spread = value.type.lanes, c.dtype.itemsize, c.spread[-1]
    if spread != 2:
        store(b, value, c.dtype, Memory(where, spread * size), mask)
        return
    off = b.const(value.type.mask, False)
    on = b.const(value.type.mask, True) if mask is None else mask
    for half in range(2):
        picks = [half * lanes // 2 + k // 2 for k in range(lanes)]
        marks = b.shuffle(on, off, [p + k % 2 * lanes for k, p in enumerate(picks)])
        memory = Memory(b.at(where, half * lanes * size), size)
        store(b, b.shuffle(value, value, picks), c.dtype, memory, marks)


def _heaps(c: Blocked, cut: Blocks) -> tuple[int, int]:
    """Pieces that no panel goes beyond, and panels of each."""
    images = c.n * prod(c.positions[:-2]) if cut.pitch else 1
    return images, -(-_total(c, cut) // images // cut.lines)


def _total(c: Blocked, cut: Blocks) -> int:
    """Lines of all images."""
    return c.n * prod(c.positions[:-1]) * cut.parts
