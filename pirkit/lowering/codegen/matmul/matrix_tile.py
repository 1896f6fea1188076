"""Matmuls of bfloat16 by the tile registers of AMX, sixteen times as fast as by `vdpbf16ps`.

The instruction sums the even terms and the odd terms of 32 apart, and takes subnormal numbers for
0: bits differ from those of other CPUs. Panels are those of pairs (`bfloat16_pairs.py`), filled up
with zeros. The last terms of rows of A that are read in place are copied to the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.matmul.bfloat16_pairs import TERMS
from pirkit.lowering.codegen.matmul.bfloat16_tile import PairTile, store_narrowed
from pirkit.lowering.codegen.matmul.macrokernel import TileShape
from pirkit.lowering.codegen.matmul.output_tile import read_vector, write_vector
from pirkit.lowering.codegen.matmul.tile_registers import (
    ROW_BYTES,
    SIDE,
    SUMS,
    TileProduct,
    clear,
    configure,
    halves,
    load,
    store,
)
from pirkit.runtime import dtype as dt

SHAPE: Final = TileShape(dt.bfloat16, SIDE, 2 * SIDE, 2, native=True, matrix=True)


class MatrixTile(PairTile, frozen=True):
    """The function ``(a, panel, c, k, fresh)`` of a tile, by tile registers.

    Rows of A have their terms side by side, with zeros after the depth. Those of a ``ragged``
    depth, no multiple of 32, end where other memory begins. A tile of fewer rows configures the registers, and restores them.
    """

    ragged: bool = False

    def _write(self, b: Builder) -> None:
        assert self.strides is not None
        (rows, columns), shape = self.extent, self.shape
        pa, panel, pc, k = (Value(f"%{name}", t) for name, t in
                            (("a", PTR), ("b", PTR), ("c", PTR), ("k", I64)))  # fmt: skip
        a_row, _, c_row = self.strides
        pitch = shape.columns * shape.sum_bytes
        scratch = pc if self.wide else _room(b, rows * pitch)
        tails = _room(b, rows * ROW_BYTES) if self.ragged else None
        if rows < shape.rows:
            configure(b, rows)
        self._begin(b, pc, c_row)
        product = TileProduct("tdpbf16ps", rows, columns, a_row, pitch)

        def right(number: Value) -> Value:
            return b.at(panel, b.times(number, SIDE * pitch))

        def step(number: Value, _: list[Value]) -> Sequence[Value]:
            product.emit(b, b.at(pa, b.times(number, ROW_BYTES)), right(number))
            return []

        whole = b.emit(I64, f"udiv {k if self.ragged else b.plus(k, TERMS - 1)}, {TERMS}")
        b.loop(0, whole, 1, [], step)
        if tails is not None:
            rest = b.emit(I64, f"urem {k}, {TERMS}")

            def last() -> Sequence[Value]:
                _copy_rows(b, b.at(pa, b.times(whole, ROW_BYTES)), a_row, tails, rows, rest)
                TileProduct("tdpbf16ps", rows, columns, ROW_BYTES, pitch).emit(
                    b, tails, right(whole)
                )
                return []

            b.branch(b.compare("ne", rest, 0), last)
        row = c_row if self.wide else pitch
        for r in halves(rows):
            for c in halves(columns):
                store(b, SUMS[r][c], b.at(b.at(scratch, r * SIDE * row), c * ROW_BYTES), row)
        if not self.wide:
            self._round(b, scratch, pitch, pc, c_row)
        if rows < shape.rows:
            configure(b, shape.rows)

    def _begin(self, b: Builder, pc: Value, c_row: int) -> None:
        """Start from zero, or from sums in memory."""
        (rows, columns) = self.extent

        def zeros() -> Sequence[Value]:
            for r in halves(rows):
                for c in halves(columns):
                    clear(b, SUMS[r][c])
            return []

        def sums() -> Sequence[Value]:
            for r in halves(rows):
                for c in halves(columns):
                    load(b, SUMS[r][c], b.at(b.at(pc, r * SIDE * c_row), c * ROW_BYTES), c_row)
            return []

        if not self.accumulates:
            zeros()
            return
        fresh = Value("%fresh", I1)
        b.branch(fresh, zeros)
        b.branch(b.emit(I1, f"xor {fresh}, true"), sums)

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


def _room(b: Builder, nbytes: int) -> Value:
    return b.emit(PTR, f"alloca [{nbytes} x i8], align {ROW_BYTES}")


def _copy_rows(b: Builder, source: Value, row: int, goal: Value, rows: int, count: Value) -> None:
    """Copy the first ``count`` terms of rows, with zeros behind them."""
    mask, half = tail_mask(b, TERMS, count), Type("i16", TERMS)

    def copy(r: Value, _: list[Value]) -> Sequence[Value]:
        found = read_vector(b, half, b.at(source, b.times(r, row)), mask)
        write_vector(b, found, b.at(goal, b.times(r, ROW_BYTES)))
        return []

    b.loop(0, Value(str(rows), I64), 1, [], copy)
