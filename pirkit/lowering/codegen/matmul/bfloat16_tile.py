"""Register tiles of bfloat16: pairs of terms are added in float32, and sums are rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pirkit.lowering.codegen.emit.memory_access import Memory, store
from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values, matrix
from pirkit.lowering.codegen.matmul.bfloat16_pairs import (
    PairedRows,
    add_pairs,
    narrowed,
    pairs_in,
)
from pirkit.lowering.codegen.matmul.dot_tile import DotTile, sums_of_lanes
from pirkit.lowering.codegen.matmul.macrokernel import Tile, TileShape
from pirkit.lowering.codegen.matmul.microkernel import Elements, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile, prefetch_bytes, read_vector
from pirkit.lowering.codegen.matmul.panel_routines import PanelCopy
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

_WORD = Type("i32")


class PairTile(Tile, frozen=True):
    """The function ``(a, panel, c, k, fresh)`` of a tile: C is float32 where it is ``wide``.

    Rows of A have both terms of a pair side by side, or A is packed into tiles. The last pair of
    an ``odd`` depth has one term. If the tile accumulates, C must be wide.
    """

    wide: bool = False
    odd: bool = False

    @property
    def result(self) -> DType:
        return dt.float32 if self.wide else dt.bfloat16

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        assert self.strides is not None
        (rows, columns), (depth, first), width = self.extent, numbers[:2], self.shape.columns
        (a_row, a_column, c_row), result = self.strides, self.result
        if a_column == dt.bfloat16.itemsize:
            a = matrix(memory[0], dt.bfloat16, (rows, depth), (a_row, a_column))
        else:
            a = pairs_in(memory[0], depth, rows, 2 * a_column, a_row).reshape(-1, rows)[:depth].T
        if self.panel_row is None:
            panel = pairs_in(memory[1], depth, width, 4 * width, 4).reshape(-1, width)
            panel = panel[:depth, :columns]
        else:
            panel = matrix(memory[1], dt.bfloat16, (depth, columns), (self.panel_row, 2))
        c = matrix(memory[2], result, (rows, columns), (c_row, result.itemsize))
        sums = a.astype(np.float32) @ panel.astype(np.float32)
        c[...] = c + sums if self.accumulates and first > 0 else sums

    def _write(self, b: Builder) -> None:
        assert self.strides is not None
        (rows, columns), shape, size = self.extent, self.shape, self.result.itemsize
        lanes, vector, tail = shape.lanes, shape.vector, columns % shape.lanes
        pa, panel, pc, k = (Value(f"%{name}", t) for name, t in
                            (("a", PTR), ("b", PTR), ("c", PTR), ("k", I64)))  # fmt: skip
        masks = [*[None] * (columns // lanes), *([tail_mask(b, lanes, tail)] if tail else ())]
        a_row, a_column, c_row = self.strides
        lines = [b.at(pc, r * c_row) for r in range(rows)]
        for line in lines:
            prefetch_bytes(b, line, len(masks) * lanes * size, to_write=True)
        places = [(pa, r * a_row) for r in range(rows)]
        is_packed = a_column != dt.bfloat16.itemsize
        pairs = b.emit(I64, f"udiv {b.plus(k, 1) if is_packed else k}, 2")
        combine, sums = add_pairs(shape.native), [b.const(vector, 0.0)] * (rows * len(masks))

        def right(is_last: bool, at: Value | int) -> Elements | PairedRows:
            moved = b.at(panel, b.times(at, 2 * self.right_row) if isinstance(at, Value) else at)
            if self.panel_row is not None:
                here = [(moved, v * lanes * 2) for v in range(len(masks))]
                return PairedRows(lanes, here, self.panel_row, masks, is_last)
            offsets = [(moved, v * lanes * 4) for v in range(len(masks))]
            return Elements(vector.integer, offsets, [2 * self.right_row])

        left = Elements(_WORD, places, [2 * a_column])
        sums = microkernel(b, left, right(False, 0), [pairs], sums, combine=combine)
        if self.odd and not is_packed:
            # The term after the last of a row may be anything, or no memory.
            here = b.at(pa, b.times(pairs, 2 * a_column))
            alone = Elements(Type("i16"), [(here, at) for _, at in places], [0],
                             widen=lambda b, value: b.cast("zext", value, "i32"))  # fmt: skip
            rest = b.emit(I64, f"urem {k}, 2")
            sums = microkernel(b, alone, right(True, pairs), [rest], sums, combine=combine)
        goals = [b.at(line, v * lanes * size) for line in lines for v in range(len(masks))]
        if not self.wide:
            store_narrowed(b, sums, goals, masks, shape.native)
            return
        output = OutputTile(vector, goals, masks)
        if self.accumulates:
            sums = output.added(b, sums, b.emit(I1, "xor i1 %fresh, true"))
        output.store(b, sums)


class PairDots(DotTile, frozen=True):
    """The function ``(a, b, c, k, fresh)``: dot products of rows of A and columns of B."""

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        (rows, columns), depth = self.extent, numbers[0]
        a = matrix(memory[0], dt.bfloat16, (rows, depth), (self.a_row, 2))
        right = matrix(memory[1], dt.bfloat16, (columns, depth), (self.b_column, 2))
        c = matrix(memory[2], dt.bfloat16, self.extent, (self.c_row, 2))
        c[...] = a.astype(np.float32) @ right.astype(np.float32).T

    def _write(self, b: Builder) -> None:
        (rows, columns), shape, depth = self.extent, self.shape, Value("%k", I64)
        lanes, combine = shape.lanes, add_pairs(shape.native)
        pa, pb, pc = (Value(f"%{name}", PTR) for name in "abc")
        ends = (pa, rows, self.a_row), (pb, columns, self.b_column)
        words, halves = shape.vector.integer, Type("i16", 2 * lanes)
        sums = [b.const(shape.vector, 0.0)] * (rows * columns)
        left, right = (
            Elements(words, [(p, i * pitch) for i in range(n)], [4 * lanes]) for p, n, pitch in ends
        )
        whole = b.emit(I64, f"udiv {depth}, {2 * lanes}")
        sums = microkernel(b, left, right, [whole], sums, combine=combine)
        if self.has_tail:
            rest = b.emit(I64, f"urem {depth}, {2 * lanes}")
            done = b.times(b.emit(I64, f"sub {depth}, {rest.text}"), 2)
            mask = tail_mask(b, 2 * lanes, rest)
            left, right = (
                Elements(halves, [(b.at(p, done), i * pitch) for i in range(n)], [0], [mask] * n,
                         widen=lambda b, v: b.emit(words, f"bitcast {v} to {words}"))
                for p, n, pitch in ends
            )  # fmt: skip
            sums = microkernel(b, left, right, [1], sums, combine=combine)
        parts = [range(first, min(first + lanes, columns)) for first in range(0, columns, lanes)]
        for r in range(rows):
            for part in parts:
                total = sums_of_lanes(b, [sums[r * columns + c] for c in part], dt.float32)
                width, goal = total.type.lanes, b.at(pc, r * self.c_row + part[0] * 2)
                mask = None if width == len(part) else tail_mask(b, width, len(part))
                store_narrowed(b, [total], [goal], [mask], shape.native)


class NarrowRows(PanelCopy, frozen=True):
    """Rounds rows of float32, ``wide_row`` bytes apart, to bfloat16, ``row`` bytes apart.

    Numbers are those of rows and columns.
    """

    shape: TileShape
    wide_row: int
    row: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = round {buffers[0]} [{numbers[0]} x {numbers[1]}]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        shape = numbers[0], numbers[1]
        found = matrix(memory[0], dt.float32, shape, (self.wide_row, 4))
        matrix(memory[1], dt.bfloat16, shape, (self.row, 2))[...] = found

    def function(self, functions: Functions) -> str:
        lanes, vector = self.shape.lanes, self.shape.vector

        def write(b: Builder) -> None:
            n = Value("%n", I64)
            rest = b.emit(I64, f"urem {n}, {lanes}")
            whole = b.emit(I64, f"sub {n}, {rest.text}")

            def line(number: Value, _: list[Value]) -> Sequence[Value]:
                here = b.at(Value("%from", PTR), b.times(number, self.wide_row))
                there = b.at(Value("%to", PTR), b.times(number, self.row))

                def one(at: Value, mask: Value | None) -> list[Value]:
                    value = read_vector(b, vector, b.at(here, b.times(at, 4)), mask)
                    goal = b.at(there, b.times(at, 2))
                    store_narrowed(b, [value], [goal], [mask], self.shape.native)
                    return []

                b.loop(0, whole, lanes, [], lambda at, _: one(at, None))
                b.branch(b.compare("ne", rest, 0), lambda: one(whole, tail_mask(b, lanes, rest)))
                return []

            b.loop(0, Value("%rows", I64), 1, [], line)

        return functions.add(self, "ptr %from, ptr %to, i64 %rows, i64 %n", write)


def store_narrowed(
    b: Builder, sums: Values, addresses: Values, masks: Sequence[Value | None], native: bool
) -> None:
    """Store sums rounded to bfloat16; masks are those of the vectors of a row."""
    for k, (value, address) in enumerate(zip(sums, addresses, strict=True)):
        bits = narrowed(b, value, native)
        store(b, bits, dt.bfloat16, Memory(address, 2), masks[k % len(masks)])
