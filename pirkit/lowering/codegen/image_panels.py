"""Copies what filters meet at some positions side by side: a row of the panel for each term.

Lines of positions follow each other without a gap. Vectors are written whole, the last of a line
first, so that what they write too much is overwritten by the next line, or by the next row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from pirkit.lowering.codegen.blocking import Blocked, Blocks
from pirkit.lowering.codegen.ir import I64, Builder, Type, Value
from pirkit.lowering.codegen.points import masked_load
from pirkit.lowering.codegen.primitives import element

_STRAIGHT = 6
"""Vectors of a line up to which their copies are written out."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Where the lines of a panel are, in tables of i64 with an entry for each.

    ``image`` and ``result`` are offsets in bytes; ``starts`` are by axis positions in the image,
    but for the last one: there, the number of the line's first position.
    """

    image: Value
    result: Value
    starts: tuple[Value, ...]
    count: Value

    @staticmethod
    def entry(b: Builder, table: Value, line: Value) -> Value:
        return b.emit(I64, f"load i64, {b.at(table, b.times(line, 8))}, align 8")


class Panel:
    """Fills the panel of a task for some channels."""

    def __init__(self, b: Builder, c: Blocked, cut: Blocks, panel: Value, zeros: Value) -> None:
        self.b, self.c, self.cut, self.panel, self.zeros = b, c, cut, panel, zeros
        self.size = c.dtype.itemsize
        self.vector = Type(element(c.dtype), cut.lanes)
        self.steps = [prod(c.lengths[k + 1 :]) * self.size for k in range(len(c.lengths))]
        self.row = row_bytes(c, cut)

    def fill(self, image: Value, channels: Value, lines: Lines) -> None:
        """Rows for ``channels`` from the address ``image`` on."""
        b, c = self.b, self.c

        def channel(d: Value, _: list[Value]) -> Sequence[Value]:
            base = b.at(image, b.times(d, prod(c.lengths) * self.size))
            self._taps(base, b.times(d, c.terms), [], lines)
            return []

        b.loop(0, channels, 1, [], channel)

    def _taps(self, base: Value, term: Value, offsets: list[Value], lines: Lines) -> None:
        """The loops over the elements of the filter."""
        b, axis = self.b, len(offsets)
        if axis == len(self.c.taps):
            self._line_vectors(base, b.at(self.panel, b.times(term, self.row)), offsets, lines)
            return
        taps = self.c.taps[axis]
        inner = prod([t.count for t in self.c.taps[axis + 1 :]])

        def tap(t: Value, _: list[Value]) -> Sequence[Value]:
            offset = b.plus(b.times(t, taps.shift), taps.offset)
            moved = b.at(base, b.times(offset, self.steps[axis]))
            self._taps(moved, b.plus(term, b.times(t, inner)), [*offsets, offset], lines)
            return []

        b.loop(0, taps.count, 1, [], tap)

    def _line_vectors(
        self, base: Value, goal: Value, offsets: list[Value], lines: Lines
    ) -> None:  # fmt: skip
        b, lanes = self.b, self.cut.lanes
        count = -(-self.cut.width // lanes)
        if count <= _STRAIGHT:
            for k in reversed(range(count)):
                self._one(base, goal, offsets, lines, Value(str(k * lanes), I64))
            return

        def one(k: Value, _: list[Value]) -> Sequence[Value]:
            last = b.emit(I64, f"sub i64 {(count - 1) * lanes}, {k.text}")
            self._one(base, goal, offsets, lines, last)
            return []

        b.loop(0, count * lanes, lanes, [], one)

    def _one(
        self, base: Value, goal: Value, offsets: list[Value], lines: Lines, first: Value
    ) -> None:  # fmt: skip
        """A vector of every line, from element ``first`` on."""
        b, size, move = self.b, self.size, self.c.move[-1]
        ahead = b.times(first, move * size)
        marks = None
        if self.cut.parts == 1:
            marks = self._marks(b.plus(offsets[-1], b.times(first, move)), first)

        def line(r: Value, _: list[Value]) -> Sequence[Value]:
            source = b.at(base, lines.entry(b, lines.image, r))
            inside: Value | None = None
            for axis, table in enumerate(lines.starts[:-1]):
                if not self._leaves(axis):
                    continue
                at = b.plus(lines.entry(b, table, r), offsets[axis])
                holds = b.compare("ult", at, self.c.lengths[axis])
                inside = holds if inside is None else b.op("and", inside, holds)
            if inside is not None:
                source = b.select(inside, source, self.zeros)
            found = marks
            if found is None:
                start = lines.entry(b, lines.starts[-1], r)
                position = b.plus(offsets[-1], b.times(b.plus(start, first), move))
                found = self._marks(position, None)
            value = self._read(b.at(source, ahead), found)
            place = b.at(goal, b.times(b.plus(b.times(r, self.cut.width), first), size))
            b.do(f"store {value}, {place}, align {size}")
            return []

        b.loop(0, lines.count, 1, [], line)

    def _leaves(self, axis: int) -> bool:
        """Whether there are positions whose taps are not all in the image."""
        low, high = self._reach(axis)
        return (
            low < 0
            or high + (self.c.positions[axis] - 1) * self.c.move[axis] >= (self.c.lengths[axis])
        )

    def _reach(self, axis: int) -> tuple[int, int]:
        taps = self.c.taps[axis]
        ends = (taps.offset, taps.offset + (taps.count - 1) * taps.shift)
        return min(ends), max(ends)

    def _marks(self, position: Value, first: Value | None) -> list[Value | None]:
        """Which elements of the image a read may touch, for each vector that is read."""
        b, lanes, move, length = self.b, self.cut.lanes, self.c.move[-1], self.c.lengths[-1]
        low, high = self._reach(-1)
        index = Type("i32" if self.size == 4 else "i64", lanes)
        if move > 2:
            return [self._bounded(position, index, move, length)]
        found: list[Value | None] = []
        for k in range(move):
            ahead = k * lanes
            if first is not None and first.text.isdigit():
                at = int(first.text) * move + ahead
                if at + low >= 0 and at + high + lanes <= length:
                    found.append(None)
                    continue
            found.append(self._bounded(b.plus(position, ahead), index, 1, length))
        return found

    def _bounded(self, position: Value, index: Type, move: int, length: int) -> Value:
        b = self.b
        start = position if index.elem == "i64" else b.cast("trunc", position, "i32")
        ramp = ", ".join(f"{index.elem} {k * move}" for k in range(index.lanes))
        places = b.op("add", b.splat(start, index.lanes), Value(f"<{ramp}>", index))
        return b.compare("ult", places, length)

    def _read(self, source: Value, marks: list[Value | None]) -> Value:
        b, vector, size, move, lanes = (
            self.b,
            self.vector,
            self.size,
            self.c.move[-1],
            self.cut.lanes,
        )
        if move > 2:
            (mask,) = marks
            assert mask is not None
            ramp = ", ".join(f"i64 {k * move * size}" for k in range(lanes))
            where = b.emit(
                Type("ptr", lanes), f"getelementptr i8, {source}, <{lanes} x i64> <{ramp}>"
            )
            name = f"llvm.masked.gather.{vector.suffix}.v{lanes}p0"
            zero = f"{vector} zeroinitializer"
            return b.call(name, vector, where, f"i32 {size}", mask, zero)
        read: list[Value] = []
        for k, mask in enumerate(marks):
            where = b.at(source, k * lanes * size)
            if mask is None:
                read.append(b.emit(vector, f"load {vector}, {where}, align {size}"))
            else:
                read.append(masked_load(b, vector, where, size, mask))
        return read[0] if move == 1 else b.shuffle(read[0], read[1], range(0, 2 * lanes, 2))


def row_bytes(c: Blocked, cut: Blocks) -> int:
    """Bytes of a row of the panel: an odd number of vectors, which spreads rows over the cache."""
    return (cut.panel | 1) * cut.lanes * c.dtype.itemsize


def zero_bytes(c: Blocked, cut: Blocks) -> int:
    """Bytes of zeros that stand for a line outside of the image."""
    return (-(-cut.width // cut.lanes) * cut.lanes * c.move[-1] + cut.lanes) * c.dtype.itemsize
