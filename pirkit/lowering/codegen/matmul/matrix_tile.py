"""Matmuls of bfloat16 by the tile registers of AMX, ten times as fast as by `vdpbf16ps`.

The instruction sums the even terms and the odd terms of 32 apart, and takes subnormal numbers for
0: bits differ from those of other CPUs. Panels are those of pairs (`bfloat16_pairs.py`), filled up
with zeros. A is packed so that a tile register is loaded from 1024 contiguous bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Location, matrix
from pirkit.lowering.codegen.matmul.bfloat16_pairs import TERMS, pairs_in, terms_in
from pirkit.lowering.codegen.matmul.bfloat16_tile import PairTile, store_narrowed
from pirkit.lowering.codegen.matmul.macrokernel import TileShape
from pirkit.lowering.codegen.matmul.output_tile import read_vector
from pirkit.lowering.codegen.matmul.tile_registers import (
    ROW_BYTES,
    SIDE,
    TileProduct,
    configure,
    room,
)
from pirkit.runtime import dtype as dt

SHAPE: Final = TileShape(dt.bfloat16, SIDE, 2 * SIDE, 2, native=True, matrix=True)


class MatrixTile(PairTile, frozen=True):
    """The function ``(a, panel, c, k, fresh)`` of a tile, by tile registers.

    A tile of fewer rows configures the registers, and restores them.
    """

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        assert self.strides is not None
        (rows, columns), (depth, first), width = self.extent, numbers, self.shape.columns
        a = terms_in(memory[0], rows, depth).swapaxes(0, 1).reshape(rows, -1)[:, :depth]
        panel = pairs_in(memory[1], depth, width, 4 * width, 4).reshape(-1, width)
        result = self.result
        c = matrix(memory[2], result, self.extent, (self.strides[2], result.itemsize))
        sums = a.astype(np.float32) @ panel[:depth, :columns].astype(np.float32)
        c[...] = c + sums if self.accumulates and first > 0 else sums

    def _write(self, b: Builder) -> None:
        assert self.strides is not None
        (rows, columns), shape = self.extent, self.shape
        pa, panel, pc, k = (Value(f"%{name}", t) for name, t in
                            (("a", PTR), ("b", PTR), ("c", PTR), ("k", I64)))  # fmt: skip
        c_row = self.strides[2]
        pitch = shape.columns * shape.sum_bytes
        scratch = pc if self.wide else room(b, rows * pitch)
        if rows < shape.rows:
            configure(b, rows)
        product = TileProduct("tdpbf16ps", rows, columns, ROW_BYTES, pitch)
        if self.accumulates:
            fresh = Value("%fresh", I1)
            b.branch(fresh, lambda: product.clear(b) or [])
            b.branch(b.emit(I1, f"xor {fresh}, true"), lambda: product.load(b, pc, c_row) or [])
        else:
            product.clear(b)

        def step(number: Value, _: list[Value]) -> Sequence[Value]:
            left = b.at(pa, b.times(number, TERMS * ROW_BYTES))
            product.add(b, left, b.at(panel, b.times(number, SIDE * pitch)))
            return []

        b.loop(0, b.emit(I64, f"udiv {b.plus(k, TERMS - 1)}, {TERMS}"), 1, [], step)
        product.store(b, scratch, c_row if self.wide else pitch)
        if not self.wide:
            self._round(b, scratch, pitch, pc, c_row)
        if rows < shape.rows:
            configure(b, shape.rows)

    def _round(self, b: Builder, sums: Value, pitch: int, pc: Value, c_row: int) -> None:
        """Round sums to bfloat16, row by row."""
        rows, columns = self.extent
        vectors, tail, kind = -(-columns // SIDE), columns % SIDE, Type("float", SIDE)
        masks = [*[None] * (columns // SIDE), *([tail_mask(b, SIDE, tail)] if tail else ())]

        def line(r: Value, _: list[Value]) -> Sequence[Value]:
            here, there = b.at(sums, b.times(r, pitch)), b.at(pc, b.times(r, c_row))
            found = [read_vector(b, kind, b.at(here, v * ROW_BYTES)) for v in range(vectors)]
            goals = [b.at(there, v * SIDE * dt.bfloat16.itemsize) for v in range(vectors)]
            store_narrowed(b, found, goals, masks, True)
            return []

        b.loop(0, Value(str(rows), I64), 1, [], line)
