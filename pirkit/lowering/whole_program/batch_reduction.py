"""Reduces over the batch: ``a^T b`` (a weight gradient) or a sum of rows, with a register tile.

Batch rows are in lanes, so each element of the tile has one vector accumulator. After the last
vector of a block its lanes are reduced and added to the partial sum in memory.

Threads share the batch in parts whose number depends on the program alone, and the partial sums
are added in a fixed order: the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from pirkit.lowering.codegen.emit.memory_access import Memory, load, store
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Value
from pirkit.lowering.codegen.matmul.microkernel import Computed, microkernel
from pirkit.lowering.codegen.matmul.register_tile import MIN_ACCUMULATORS, rows_that_fit
from pirkit.lowering.whole_program.lane_tiling import for_tiles, tile_width
from pirkit.lowering.whole_program.loop_emit import LoopEmitter
from pirkit.lowering.whole_program.op_graph import Graph
from pirkit.lowering.whole_program.scheduling import BatchGroup, BatchSum
from pirkit.lowering.whole_program.terms_in_scratch import TermsInScratch
from pirkit.runtime.native.target import host

SUM_TILE: Final = (4, 4)
"""Rows and columns of the register tile at most: 16 accumulators."""
_ZERO: Final = Value("0", I64)
_WIDEST: Final = 5
"""Rows and columns of a tile where those of `SUM_TILE` would leave a remainder."""


class VectorRange(Struct, frozen=True):
    """``count`` vectors of batch rows; with ``more`` their sum is added to what memory holds."""

    count: Value
    more: bool


class BatchSums:
    """The layout of a group's reductions in the workspace: ``count`` elements for each part."""

    def __init__(self, graph: Graph, group: BatchGroup, lanes: int) -> None:
        self.lanes = lanes
        self.first: dict[int, int] = {}
        """The index of the first element of each reduction, within a part."""
        self.count = 0
        for batch_sum in group.sums:
            self.first[batch_sum.out] = self.count
            numel = graph.metas[batch_sum.out].numel
            self.count += -(-numel // lanes) * lanes

    def clear(self, w: LoopEmitter, start: Value) -> None:
        """Set the partial sums of a part to zero."""
        b, size = w.b, w.dtype.itemsize
        zero = b.const(w.type_of(w.dtype, self.lanes), 0.0)

        def one(index: Value, _: Sequence[Value]) -> Sequence[Value]:
            store(b, zero, w.dtype, Memory(b.at(start, b.times(index, size)), size), None)
            return []

        b.loop(0, self.count, self.lanes, [], one)

    def add(
        self, w: LoopEmitter, batch_sum: BatchSum, start: Value, vectors: VectorRange | None
    ) -> None:
        """Reduce some vectors of batch rows (one if ``vectors`` is None) into the partial sums."""
        b = w.b
        left = batch_sum.terms[0][0]
        rows = 1 if left is None else w.schedule.columns(left) if left in w.schedule.rows else 0
        if left is not None and not rows:
            rows = w.graph.metas[left].shape[1]
        columns = w.graph.metas[batch_sum.out].numel // rows
        width = tile_width(columns, SUM_TILE[1], range(SUM_TILE[1], _WIDEST + 1))
        fitting = rows_that_fit(width, _WIDEST, host())
        usual = min(fitting, SUM_TILE[0])
        height = tile_width(rows, usual, range(usual, fitting + 1))
        if rows == 1:
            usual = SUM_TILE[0] * SUM_TILE[1]
            width = tile_width(columns, usual, range(MIN_ACCUMULATORS, usual + 1))
        size = w.dtype.itemsize
        base = w.place(
            ("sum", batch_sum.out), lambda: w.b.at(start, self.first[batch_sum.out] * size)
        )
        count = None if vectors is None else w.number("vectors", vectors.count)
        first = w.here
        zero = b.const(w.type_of(w.dtype, self.lanes), 0.0)

        def elements(value: int | None, start: Value, extent: int) -> Computed:
            """Some columns of an operand, as lazily read vectors; ones if there is none."""
            if value is None:
                return Computed(lambda _: [b.like(zero, 1.0)] * extent)
            return Computed(
                lambda _: (w.masked_row(value, b.plus(start, k)) for k in range(extent))
            )

        def over_vectors(
            term: Callable[[list[Value]], list[Value]], sums: Sequence[Value]
        ) -> list[Value]:
            """Add a term, or some, for each vector."""

            def one(number: Value, so_far: Sequence[Value]) -> list[Value]:
                w.here = first if vectors is None else w.moved(number)
                made = term(list(so_far))
                w.here = first
                return made

            return one(_ZERO, sums) if count is None else b.loop(0, count, 1, sums, one)

        # Terms of one form are added by a loop over a table of addresses (`like`), which keeps the
        # code small however many derivatives there are; each of the others has code of its own.
        alike = TermsInScratch(w, batch_sum.terms)

        def tile(row: Value, column: Value, tile_rows: int, tile_columns: int) -> None:
            def unlike(sums: list[Value]) -> list[Value]:
                for x, y in alike.others:
                    left, right = elements(x, row, tile_rows), elements(y, column, tile_columns)
                    sums = microkernel(b, left, right, [], sums)
                return sums

            def like(number: Value, so_far: Sequence[Value]) -> list[Value]:
                *x, y = alike.operands(number)

                def term(sums: list[Value]) -> list[Value]:
                    left = elements(None, row, tile_rows)
                    if x:
                        left = Computed(lambda _: alike.columns(0, x[0], row, tile_rows))
                    right = Computed(lambda _: alike.columns(-1, y, column, tile_columns))
                    return microkernel(b, left, right, [], sums)

                return over_vectors(term, so_far)

            totals = [zero] * (tile_rows * tile_columns)
            if alike.others:
                totals = over_vectors(unlike, totals)
            totals = b.loop(0, alike.count(), 1, totals, like)
            numbers = self._numbers(w, totals)
            for r in range(tile_rows):
                line = b.times(b.plus(row, r), columns)
                for k, segment in _lane_segments(b, numbers, r * tile_columns, tile_columns):
                    number = b.plus(line, b.plus(column, k - r * tile_columns))
                    place = Memory(b.at(base, b.times(number, size)), size)
                    if vectors is not None and vectors.more:
                        segment = b.add(load(b, w.dtype, place, segment.type.lanes, None), segment)
                    store(b, segment, w.dtype, place, None)

        def line(row: Value, tile_rows: int) -> None:
            for_tiles(
                b,
                columns,
                width,
                lambda column, tile_columns: tile(row, column, tile_rows, tile_columns),
            )

        for_tiles(b, rows, height, line)

    def _numbers(self, w: LoopEmitter, totals: Sequence[Value]) -> list[Value]:
        """The sum of the lanes of each accumulator, packed into as few vectors as possible."""
        groups = range(0, len(totals), self.lanes)
        return [w.transpose_reduce(totals[k : k + self.lanes]) for k in groups]

    def total(self, w: LoopEmitter, parts: int, target: int) -> None:
        """Add the partial sums of all parts into those of the first.

        All loads of a vector are issued before the first addition, so that misses overlap.
        """
        b, size = w.b, w.dtype.itemsize
        base = b.at(w.workspace, target)

        def tile_columns(index: Value, _: Sequence[Value]) -> Sequence[Value]:
            def place(part: Value) -> Memory:
                line = b.at(base, b.times(part, self.count * size))
                return Memory(b.at(line, b.times(index, size)), size)

            places = [place(Value(str(part), I64)) for part in range(parts)]
            total, *rest = [load(b, w.dtype, batch_sum, self.lanes, None) for batch_sum in places]
            for batch_sum in rest:
                total = b.add(total, batch_sum)
            store(b, total, w.dtype, places[0], None)
            return []

        b.loop(0, self.count, self.lanes, [], tile_columns)


def _lane_segments(
    b: Builder, vectors: Sequence[Value], start: int, count: int
) -> Iterator[tuple[int, Value]]:
    """The lanes ``start`` to ``start + count`` of consecutive vectors, split at vector bounds."""
    lanes, end = vectors[0].type.lanes, start + count
    while start < end:
        vector, lane = vectors[start // lanes], start % lanes
        width = min(end - start, lanes - lane)
        if width == 1:
            yield start, b.extract(vector, lane)
        else:
            yield start, b.shuffle(vector, vector, range(lane, lane + width))
        start += width
