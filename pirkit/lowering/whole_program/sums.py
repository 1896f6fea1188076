"""Sums over all points: a vector for each element of a tile, whose lanes are added behind a block.

Points are shared out in parts whose number follows from the program alone, and the parts are added
in their order: the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pirkit.lowering.codegen.ir import I64, Builder, Value
from pirkit.lowering.codegen.points import Memory, load, store
from pirkit.lowering.whole_program.graph import Graph
from pirkit.lowering.whole_program.stages import Group, Sum
from pirkit.lowering.whole_program.tiling import even, in_tiles
from pirkit.lowering.whole_program.writer import Writer

TILE: Final = (4, 4)
"""Rows and columns of a product that are added up at once."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """``count`` vectors of points; ``more`` says that there is something to add to."""

    count: Value
    more: bool


class Sums:
    """Where the sums over some points are: numbers in the workspace, as many for each part."""

    def __init__(self, graph: Graph, group: Group, lanes: int) -> None:
        self.lanes = lanes
        self.first: dict[int, int] = {}
        """The place of the first number of each sum."""
        self.count = 0
        for each in group.sums:
            self.first[each.out] = self.count
            numel = graph.metas[each.out].numel
            self.count += -(-numel // lanes) * lanes

    def clear(self, w: Writer, start: Value) -> None:
        """Begin with zeros."""
        b, size = w.b, w.dtype.itemsize
        zero = b.const(w.type_of(w.dtype, self.lanes), 0.0)

        def one(index: Value, _: Sequence[Value]) -> Sequence[Value]:
            store(b, zero, w.dtype, Memory(b.at(start, b.times(index, size)), size), None)
            return []

        b.loop(0, self.count, self.lanes, [], one)

    def add(self, w: Writer, each: Sum, start: Value, vectors: Vectors | None) -> None:
        """Add what some vectors of points give, or begin with that."""
        b = w.b
        left = each.terms[0][0]
        rows = 1 if left is None else w.stages.columns(left) if left in w.stages.rows else 0
        if left is not None and not rows:
            rows = w.graph.metas[left].shape[1]
        columns = w.graph.metas[each.out].numel // rows
        high, wide = (even(rows, TILE[0]), even(columns, TILE[1]))
        if rows == 1:
            wide = even(columns, TILE[0] * TILE[1])
        size = w.dtype.itemsize
        base = w.place(("sum", each.out), lambda: w.b.at(start, self.first[each.out] * size))
        count = None if vectors is None else w.number("vectors", vectors.count)
        first = w.here
        zero = b.const(w.type_of(w.dtype, self.lanes), 0.0)

        def tile(row: Value, column: Value, many: int, some: int) -> None:
            def one(number: Value, so_far: Sequence[Value]) -> Sequence[Value]:
                w.here = first
                if vectors is not None:
                    w.here = w.moved(number)
                made = list(so_far)
                for x, y in each.terms:
                    right = [w.read_summand(y, b.plus(column, c)) for c in range(some)]
                    for r in range(many):
                        factor = None if x is None else w.read_summand(x, b.plus(row, r))
                        for c in range(some):
                            k = r * some + c
                            if factor is None:
                                made[k] = b.add(made[k], right[c])
                            else:
                                made[k] = b.muladd(factor, right[c], made[k])
                return made

            totals = [zero] * (many * some)
            if count is None:
                totals = one(Value("0", I64), totals)
            else:
                totals = b.loop(0, count, 1, totals, one)
            w.here = first
            numbers = self._numbers(w, totals)
            for r in range(many):
                line = b.times(b.plus(row, r), columns)
                for k, piece in _pieces(b, numbers, r * some, some):
                    number = b.plus(line, b.plus(column, k - r * some))
                    place = Memory(b.at(base, b.times(number, size)), size)
                    if vectors is not None and vectors.more:
                        piece = b.add(load(b, w.dtype, place, piece.type.lanes, None), piece)
                    store(b, piece, w.dtype, place, None)

        def line(row: Value, many: int) -> None:
            in_tiles(b, columns, wide, lambda column, some: tile(row, column, many, some))

        in_tiles(b, rows, high, line)

    def _numbers(self, w: Writer, totals: Sequence[Value]) -> list[Value]:
        """The lanes of each vector added up, as lanes of as few vectors as can hold them."""
        missing = -len(totals) % self.lanes
        every = [*totals, *[w.b.like(totals[0], 0.0)] * missing]
        groups = range(0, len(every), self.lanes)
        return [w.lanes_added(every[k : k + self.lanes]) for k in groups]

    def total(self, w: Writer, parts: int, target: int) -> None:
        """Add up the parts, into the first of them: all are asked for before one is waited for."""
        b, size = w.b, w.dtype.itemsize
        base = b.at(w.workspace, target)

        def some(index: Value, _: Sequence[Value]) -> Sequence[Value]:
            def place(part: Value) -> Memory:
                line = b.at(base, b.times(part, self.count * size))
                return Memory(b.at(line, b.times(index, size)), size)

            places = [place(Value(str(part), I64)) for part in range(parts)]
            total, *rest = [load(b, w.dtype, each, self.lanes, None) for each in places]
            for each in rest:
                total = b.add(total, each)
            store(b, total, w.dtype, places[0], None)
            return []

        b.loop(0, self.count, self.lanes, [], some)


def _pieces(
    b: Builder, vectors: Sequence[Value], start: int, count: int
) -> Iterator[tuple[int, Value]]:
    """Lanes that lie side by side in a row of vectors, vector by vector, and where each begins."""
    lanes, end = vectors[0].type.lanes, start + count
    while start < end:
        vector, lane = vectors[start // lanes], start % lanes
        width = min(end - start, lanes - lane)
        if width == 1:
            yield start, b.extract(vector, lane)
        else:
            yield start, b.shuffle(vector, vector, range(lane, lane + width))
        start += width
