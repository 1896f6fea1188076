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
        b, size = w.b, w.dtype.itemsize
        rows, columns = self._extents(w, batch_sum)
        height, width = _tile_extents(rows, columns)
        base = w.place(
            # the argument of an outlined loop, computed in the builder of its caller
            ("sum", batch_sum.out),
            lambda: w.b.at(start, self.first[batch_sum.out] * size),
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
        congruent = TermsInScratch(w, batch_sum.terms)

        def tile(row: Value, column: Value, tile_rows: int, tile_columns: int) -> None:
            def unlike(sums: list[Value]) -> list[Value]:
                for x, y in congruent.others:
                    left, right = elements(x, row, tile_rows), elements(y, column, tile_columns)
                    sums = microkernel(b, left, right, [], sums)
                return sums

            def like(number: Value, so_far: Sequence[Value]) -> list[Value]:
                *x, y = congruent.operands(number)

                def term(sums: list[Value]) -> list[Value]:
                    left = elements(None, row, tile_rows)
                    if x:
                        left = Computed(lambda _: congruent.columns(0, x[0], row, tile_rows))
                    right = Computed(lambda _: congruent.columns(-1, y, column, tile_columns))
                    return microkernel(b, left, right, [], sums)

                return over_vectors(term, so_far)

            totals = [zero] * (tile_rows * tile_columns)
            if congruent.others:
                totals = over_vectors(unlike, totals)
            totals = b.loop(0, congruent.count(), 1, totals, like)
            lines = [b.plus(b.times(b.plus(row, r), columns), column) for r in range(tile_rows)]
            places = [b.at(base, b.times(line, size)) for line in lines]
            self._store(w, totals, places, tile_columns, vectors is not None and vectors.more)

        def line(row: Value, tile_rows: int) -> None:
            for_tiles(b, columns, width, lambda column, count: tile(row, column, tile_rows, count))

        for_tiles(b, rows, height, line)

    def _extents(self, w: LoopEmitter, batch_sum: BatchSum) -> tuple[int, int]:
        """Rows and columns of a reduction; a sum of rows is one row."""
        left, rows = batch_sum.terms[0][0], 1
        if left is not None:
            is_row = left in w.schedule.rows
            rows = w.schedule.columns(left) if is_row else w.graph.metas[left].shape[1]
        return rows, w.graph.metas[batch_sum.out].numel // rows

    def _store(
        self, w: LoopEmitter, totals: Sequence[Value], places: Sequence[Value], columns: int,
        adds: bool,
    ) -> None:  # fmt: skip
        """Store the rows of a tile at ``places``, or add them to what is there."""
        b, size, numbers = w.b, w.dtype.itemsize, self._numbers(w, totals)
        for r, place in enumerate(places):
            for k, segment in _lane_segments(b, numbers, r * columns, columns):
                memory = Memory(b.at(place, (k - r * columns) * size), size)
                if adds:
                    segment = b.add(load(b, w.dtype, memory, segment.type.lanes, None), segment)
                store(b, segment, w.dtype, memory, None)

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


def _tile_extents(rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of the register tiles."""
    width = tile_width(columns, SUM_TILE[1], range(SUM_TILE[1], _WIDEST + 1))
    fitting = rows_that_fit(width, _WIDEST, host())
    usual = min(fitting, SUM_TILE[0])
    if rows == 1:
        most = SUM_TILE[0] * SUM_TILE[1]
        width = tile_width(columns, most, range(MIN_ACCUMULATORS, most + 1))
    return tile_width(rows, usual, range(usual, fitting + 1)), width


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
