"""Emits matmuls of batch rows by a weight matrix, with one batch row in each lane.

The accumulator of one output column is a vector over batch rows; each weight is loaded as a scalar,
broadcast, and multiplied by a column of the input. Derivatives multiply several values (operands
of several matmuls) by the same weights, so the register tile is matmuls x output columns: an input
column that is loaded serves all columns of the tile, and a weight all matmuls of the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Value
from pirkit.lowering.codegen.matmul.microkernel import Computed, Elements, microkernel
from pirkit.lowering.codegen.matmul.register_tile import (
    MIN_ACCUMULATORS,
    register_count,
    rows_that_fit,
)
from pirkit.lowering.whole_program.lane_tiling import even_width, for_tiles, tile_width
from pirkit.lowering.whole_program.loop_emit import LoopEmitter
from pirkit.lowering.whole_program.op_graph import Op
from pirkit.runtime.native.target import host

_ROWS: Final = 5
"""Largest number of matmuls in a register tile."""
_SUMS: Final = {32: 20, 16: 12}
"""Accumulators at most by vector registers: few columns leave tiles of about equal width."""
_CHAINS: Final = 4
"""Independent accumulators that hide the latency of an addition: the inner loop of a small tile is
unrolled until it has as many."""


def multiply(w: LoopEmitter, ops: Sequence[Op]) -> None:
    """Emit matmuls that share their right operand."""
    rows_per_tile = even_width(len(ops), _ROWS)
    for start in range(0, len(ops), rows_per_tile):
        w.outlined(partial(_emit_block, w, ops[start : start + rows_per_tile]))


def _emit_block(w: LoopEmitter, ops: Sequence[Op]) -> None:
    """Emit a block. A tile stores after all its loads, so LLVM need not know whether rows alias."""
    w.by_value = True
    _tiles(w, ops)
    w.by_value = False


def _tiles(w: LoopEmitter, ops: Sequence[Op]) -> None:
    b, (x, y), out = w.b, ops[0].args, ops[0].out
    inner, count = w.schedule.columns(x), w.schedule.columns(out)
    size = w.graph.dtype(y).itemsize
    transposed = ops[0].attrs["transpose_y"]
    row_stride, column_stride = (size, inner * size) if transposed else (count * size, size)
    max_columns = _SUMS[register_count(host())] // len(ops)
    usual = rows_that_fit(len(ops), max_columns, host())
    width = tile_width(count, usual, range(max(3, -(-MIN_ACCUMULATORS // len(ops))), usual))
    chains = max(1, min(_CHAINS // (width * len(ops)), inner))

    def tile(start: Value, columns: int) -> None:
        base = b.at(w.pointer(y), b.times(start, column_stride))
        weights = [(base, k * column_stride) for k in range(columns)]
        left = Elements(w.type_of(w.dtype, 1), weights, [row_stride])
        right = Computed(lambda indices: [w.read_row(op.args[0], *indices) for op in ops])
        zeros = [b.const(w.type_of(w.dtype, w.lanes), 0.0)] * (columns * len(ops))
        # weights are the scalars here, batch rows the vectors: no weight is packed or transposed
        sums = microkernel(b, left, right, [inner], zeros, chains)
        for k, total in enumerate(sums):
            column, op = divmod(k, len(ops))
            w.store_row(ops[op].out, b.plus(start, column), total)

    for_tiles(b, count, width, tile)
