"""Emits the loops over one batch: parts (for threads), blocks of vectors, vectors of rows.

for part in lo..hi:                   # one part per thread at a time
  for block in part:                  # rows that reductions read stay in L2
    for vector in block:              # one batch row in each lane
      all loops of the body           # values stay in L1
    reduce the block into the part's partial sums
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import I64, Value
from pirkit.lowering.whole_program.batch_reduction import BatchSums, VectorRange
from pirkit.lowering.whole_program.column_loops import emit_row_loop
from pirkit.lowering.whole_program.lane_gemm import multiply
from pirkit.lowering.whole_program.loop_emit import LoopEmitter, VectorPosition
from pirkit.lowering.whole_program.loop_fusion import FusedProgram, GroupLoops
from pirkit.lowering.whole_program.scheduling import BatchSum
from pirkit.runtime.dtype import DType

_MIN_PART_VECTORS: Final = 4
"""Smallest number of vectors of batch rows in a part."""
_MAX_PARTS: Final = 16


class BatchGroupEmitter:
    """Emits one batch group, in ``parts`` that threads may run in any order.

    The partial sums of part ``k`` are ``sums.count`` elements at byte
    ``numbers + k * sums.count * size`` of the workspace.
    """

    def __init__(self, order: FusedProgram, loops: GroupLoops, lanes: int, dtype: DType) -> None:
        self.loops, self.lanes, self.size = loops, lanes, dtype.itemsize
        self.count = loops.group.batch
        self.sums = BatchSums(order.schedule.graph, loops.group, lanes)
        part_count = min(_MAX_PARTS, loops.vectors // _MIN_PART_VECTORS)
        self.parts = 1 << max(
            0, part_count.bit_length() - 1
        )  # even shares for even numbers of threads
        self.scratch = loops.scratch
        self.is_block = loops.vectors <= self.parts * loops.block
        """True if each part is one block: its reductions then store instead of accumulating."""
        self.numbers = order.reserve(self.parts * self.sums.count * self.size)

    def place_sums(self, w: LoopEmitter) -> None:
        """Register the addresses of the reductions with the emitter."""
        for batch_sum in self.loops.group.sums:
            place = self.numbers + self.sums.first[batch_sum.out] * self.size
            w.place_in_workspace(batch_sum.out, place)

    def total(self, w: LoopEmitter) -> None:
        """Reduce the partial sums of the parts."""
        if self.parts > 1 and self.sums.count:
            self.sums.total(w, self.parts, self.numbers)

    def write(self, w: LoopEmitter) -> None:
        """Emit the loop over the parts ``%lo`` to ``%hi``."""
        self._parts(w)
        w.here = VectorPosition()

    def _parts(self, w: LoopEmitter) -> None:
        b = w.b
        if self.loops.vectors == 1:
            w.here = VectorPosition(left=Value(str(self.count), I64))
            self._vector(w)
            return

        def part(number: Value, _: object) -> list[Value]:
            low, high = (self._bound(w, b.plus(number, k)) for k in (0, 1))
            sums = b.at(self._sums(w), b.times(number, self.sums.count * self.size))
            if self.is_block:
                self._block(w, low, high, sums)
                return []
            self.sums.clear(w, sums)

            def block(first: Value, _: object) -> list[Value]:
                self._block(w, first, high, sums)
                return []

            b.loop(low, high, self.loops.block, [], block)
            return []

        b.loop(Value("%lo", I64), Value("%hi", I64), 1, [], part)

    def _bound(self, w: LoopEmitter, part: Value) -> Value:
        """The first vector of a part."""
        return w.b.emit(I64, f"udiv {w.b.times(part, self.loops.vectors)}, {self.parts}")

    def _sums(self, w: LoopEmitter) -> Value:
        return w.b.at(w.workspace, self.numbers)

    def _block(self, w: LoopEmitter, first: Value, high: Value, sums: Value) -> None:
        """Emit one block: each of its vectors through all loops, then the reductions over it."""
        b, block_vectors = w.b, self.loops.block
        left = b.emit(I64, f"sub i64 {high.text}, {first.text}")
        count = (
            b.call("llvm.smin.i64", I64, left, f"i64 {block_vectors}")
            if block_vectors > 1
            else Value("1", I64)
        )

        row = b.times(first, self.lanes)
        left = b.emit(I64, f"sub i64 {self.count}, {row.text}") if self.count % self.lanes else None
        block = w.here = VectorPosition(row, left=left)

        def one(number: Value, _: object) -> list[Value]:
            w.here = w.moved(number)
            self._vector(w)
            w.here = block
            return []

        b.loop(0, count, 1, [], one)
        for item in self.loops.sums:
            self._sum(w, item.sum, sums, VectorRange(count, not self.is_block))

    def _sum(
        self, w: LoopEmitter, batch_sum: BatchSum | None, sums: Value, vectors: VectorRange | None
    ) -> None:
        if batch_sum is not None:
            w.outlined(lambda: self.sums.add(w, batch_sum, sums, vectors))

    def _vector(self, w: LoopEmitter) -> None:
        """Emit all loops for one vector of batch rows."""
        for item in self.loops.body:
            if item.sum is not None:
                self._sum(w, item.sum, self._sums(w), None)
            elif item.first.kind == "matmul":
                multiply(w, [node.op for node in item.nodes])
            else:
                w.outlined(partial(emit_row_loop, w, item))
