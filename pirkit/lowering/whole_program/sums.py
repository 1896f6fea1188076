"""Sums over all points: a vector for each element, added up over the lanes at the end.

Points are shared out in parts whose number follows from the program alone, and the parts are added
in their order: the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pirkit.lowering.codegen.ir import I64, Value
from pirkit.lowering.codegen.points import Memory, load, store
from pirkit.lowering.whole_program.stages import Stages, Sum
from pirkit.lowering.whole_program.writer import Writer, in_tiles

TILE: Final = (4, 5)
"""Rows and columns of a product that are added up at once."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """``count`` vectors of points; ``choose`` lets the writer work on one of them.

    ``more`` lanes hold 1 if there were others before them, whose sums these are added to.
    """

    count: Value
    more: Value
    choose: Callable[[Value], None]


class Sums:
    """Where the sums of a program are: vectors in scratch memory, numbers in the workspace."""

    def __init__(self, stages: Stages, lanes: int) -> None:
        self.lanes = lanes
        self.first: dict[int, int] = {}
        """The number of the first vector of each sum."""
        self.count = 0
        for each in stages.sums:
            self.first[each.out] = self.count
            numel = stages.graph.metas[each.out].numel
            self.count += -(-numel // lanes) * lanes

    def add(self, w: Writer, each: Sum, start: Value, vectors: Vectors | None) -> None:
        """Add what some vectors of points give; or begin with the only one."""
        b = w.b
        left = each.terms[0][0]
        rows = 1 if left is None else w.stages.columns(left) if left in w.stages.rows else 0
        if left is not None and not rows:
            rows = w.graph.metas[left].shape[1]
        columns = w.graph.metas[each.out].numel // rows
        high, wide = (_even(rows, TILE[0]), _even(columns, TILE[1]))
        if rows == 1:
            wide = _even(columns, TILE[0] * TILE[1])
        base = b.at(start, self.first[each.out] * self.lanes * w.dtype.itemsize)

        def tile(row: Value, column: Value, many: int, some: int) -> None:
            places: list[Memory] = []
            totals: list[Value] = []
            for r in range(many):
                line = b.times(b.plus(row, r), columns)
                for c in range(some):
                    number = b.plus(line, b.plus(column, c))
                    where = b.at(base, b.times(number, self.lanes * w.dtype.itemsize))
                    places.append(Memory(where, w.dtype.itemsize))
                    zero = b.const(w.type_of(w.dtype, self.lanes), 0.0)
                    more = vectors and load(b, w.dtype, places[-1], self.lanes, vectors.more)
                    totals.append(more or zero)

            def one(number: Value, so_far: Sequence[Value]) -> Sequence[Value]:
                if vectors is not None:
                    vectors.choose(number)
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
                                made[k] = b.fma(factor, right[c], made[k])
                return made

            if vectors is None:
                found = one(Value("0", I64), totals)
            else:
                found = b.loop(0, vectors.count, 1, totals, one)
            for place, total in zip(places, found, strict=True):
                store(b, total, w.dtype, place, None)

        def line(row: Value, many: int) -> None:
            in_tiles(b, columns, wide, lambda column, some: tile(row, column, many, some))

        in_tiles(b, rows, high, line)

    def finish(self, w: Writer, start: int, part: Value, target: int) -> None:
        """Add up the lanes, into the numbers of a part."""
        b, size = w.b, w.dtype.itemsize
        vector = self.lanes * size
        numbers = b.at(b.at(w.workspace, target), b.times(part, self.count * size))

        def group(index: Value, _: Sequence[Value]) -> Sequence[Value]:
            base = b.at(b.at(w.scratch, start), b.times(index, vector))
            vectors = [
                load(b, w.dtype, Memory(b.at(base, k * vector), size), self.lanes, None)
                for k in range(self.lanes)
            ]
            made = w.lanes_added(vectors)
            store(b, made, w.dtype, Memory(b.at(numbers, b.times(index, size)), size), None)
            return []

        b.loop(0, self.count, self.lanes, [], group)

    def total(self, w: Writer, parts: int, target: int) -> None:
        """Add up the parts, into the first of them."""
        b, size = w.b, w.dtype.itemsize
        base = b.at(w.workspace, target)

        def some(index: Value, _: Sequence[Value]) -> Sequence[Value]:
            def place(part: Value) -> Memory:
                line = b.at(base, b.times(part, self.count * size))
                return Memory(b.at(line, b.times(index, size)), size)

            def one(part: Value, so_far: Sequence[Value]) -> Sequence[Value]:
                return [b.add(so_far[0], load(b, w.dtype, place(part), self.lanes, None))]

            zero = Value("0", I64)
            first = load(b, w.dtype, place(zero), self.lanes, None)
            (total,) = b.loop(1, parts, 1, [first], one)
            store(b, total, w.dtype, place(zero), None)
            return []

        b.loop(0, self.count, self.lanes, [], some)


def _even(count: int, most: int) -> int:
    """The width of tiles that are alike, none wider than ``most``."""
    return -(-count // -(-count // most))
