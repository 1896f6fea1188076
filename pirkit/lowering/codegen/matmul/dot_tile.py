"""Tiles of dot products: rows of A and columns of B are contiguous, lanes are terms."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pirkit.lowering.codegen.emit.vector_emit import reduce_lanes, tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Value
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values, matrix
from pirkit.lowering.codegen.matmul.macrokernel import TileShape
from pirkit.lowering.codegen.matmul.microkernel import Elements, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile
from pirkit.runtime.dtype import DType


class DotTile(Struct, frozen=True):
    """The function ``(a, b, c, k, fresh)``: dot products of contiguous rows of A and columns of B.

    ``extent`` are the rows and columns of C; ``a_row``, ``b_column`` and ``c_row`` are distances in
    bytes. A depth ``has_tail`` if it may be no multiple of the lanes. If it
    ``accumulates``, results are added to C unless it is fresh. As a routine its numbers are k and
    the part of the depth.
    """

    shape: TileShape
    a_row: int
    b_column: int
    c_row: int
    extent: tuple[int, int]
    has_tail: bool
    accumulates: bool

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        (rows, columns), (a, right, c), (depth, first) = self.extent, buffers, numbers
        how = f", added if {first} > 0" if self.accumulates else ""
        return f"dot products {c}[{rows} x {columns}] = {a} {right}, depth {depth}{how}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        (rows, columns), (depth, first), dtype = self.extent, numbers, self.shape.dtype
        a = matrix(memory[0], dtype, (rows, depth), (self.a_row, dtype.itemsize))
        right = matrix(memory[1], dtype, (columns, depth), (self.b_column, dtype.itemsize))
        c = matrix(memory[2], dtype, self.extent, (self.c_row, dtype.itemsize))
        c[...] = c + a @ right.T if self.accumulates and first > 0 else a @ right.T

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        name = functions.add(self, "ptr %a, ptr %b, ptr %c, i64 %k, i1 %fresh", self._write)
        given = [*addresses, numbers[0], b.compare("eq", numbers[1], 0)]
        b.emit_void(f"call void @{name}({', '.join(map(str, given))})")

    def _write(self, b: Builder) -> None:
        (rows, columns), vector, depth = self.extent, self.shape.vector, Value("%k", I64)
        lanes, dtype = self.shape.lanes, self.shape.dtype
        size = dtype.itemsize
        pa, pb, pc = (Value(f"%{name}", PTR) for name in "abc")
        places = (
            [(pa, r * self.a_row) for r in range(rows)],
            [(pb, c * self.b_column) for c in range(columns)],
        )
        left, right = (Elements(vector, place, [lanes * size]) for place in places)
        zeros = [b.const(vector, 0.0)] * (rows * columns)
        sums = microkernel(b, left, right, [b.emit(I64, f"udiv {depth}, {lanes}")], zeros)
        if self.has_tail:
            rest = b.emit(I64, f"urem {depth}, {lanes}")
            done = b.times(b.emit(I64, f"sub {depth}, {rest.text}"), size)
            mask = tail_mask(b, lanes, rest)
            left, right = (
                Elements(vector, [(b.at(p, done), at) for p, at in place], [0], [mask] * len(place))
                for place in places
            )
            sums = microkernel(b, left, right, [1], sums)
        # The sums of a row's columns are one vector, or several.
        parts = [range(first, min(first + lanes, columns)) for first in range(0, columns, lanes)]
        totals = [
            sums_of_lanes(b, [sums[r * columns + c] for c in part], dtype)
            for r in range(rows)
            for part in parts
        ]
        addresses = [
            b.at(pc, r * self.c_row + part[0] * size) for r in range(rows) for part in parts
        ]
        kept = [(total.type.lanes, len(part)) for total, part in zip(totals, parts, strict=False)]
        masks = [None if n == width else tail_mask(b, width, n) for width, n in kept]
        output = OutputTile(totals[0].type, addresses, masks)
        if self.accumulates:
            totals = output.added(b, totals, b.emit(I1, "xor i1 %fresh, true"))
        output.store(b, totals)


def sums_of_lanes(b: Builder, vectors: Sequence[Value], dtype: DType) -> Value:
    """The sums of the lanes of up to as many vectors as one has lanes, as one vector or scalar.

    After the sums there may be others, so that their number is a power of two. Pairs of lanes are
    added, then pairs of pairs: two vectors become one at a third of the cost of two reductions.
    """
    if len(vectors) == 1:
        return reduce_lanes(b, "sum", vectors[0], dtype)
    found = [*vectors]
    found += found[-1:] * ((1 << (len(found) - 1).bit_length()) - len(found))
    width = len(found)
    while len(found) > 1 or found[0].type.lanes > width:
        seconds = found[1::2] or [None]
        found = [_pair_sums(b, x, y) for x, y in zip(found[::2], seconds, strict=True)]
    return found[0]


def _pair_sums(b: Builder, x: Value, y: Value | None) -> Value:
    """Sums of adjacent lanes of x, then of y."""
    count = x.type.lanes * (1 if y is None else 2)
    even, odd = (b.shuffle(x, x if y is None else y, range(k, count, 2)) for k in (0, 1))
    return b.add(even, odd)
