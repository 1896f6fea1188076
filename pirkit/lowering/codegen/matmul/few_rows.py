"""Matmuls of few rows: B is read once, in its own order, and no panel is packed.

Such a matmul takes as long as memory takes to deliver B. If columns of B are contiguous (``x w.T``,
what a linear layer is), a tile takes the dot products of some rows of A and some columns of B:

    for each vector of terms k:    acc[r][c] += a[r][k] * b[c][k]        then the sum of the lanes

If rows are, some rows of B at a time update all columns of C, which stays in the L2 cache. A panel
of B would be a column of memory pages, each of them read for a few cache lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.vector_emit import reduce_lanes, tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Value
from pirkit.lowering.codegen.ir.loop_ir import Count, Invoke, Iteration, Loop, Nest, Node, rounded
from pirkit.lowering.codegen.ir.routine import Functions, Location, Routine, Values, matrix
from pirkit.lowering.codegen.matmul.macrokernel import Tile, TileShape
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm, parallel_blocks
from pirkit.lowering.codegen.matmul.microkernel import Elements, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile
from pirkit.lowering.codegen.matmul.register_tile import fits_registers
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

_MAX_ROWS: Final = 16
"""Rows up to which B is not packed."""
_MAX_ROWS_FROM_MEMORY: Final = 32
"""The same where B comes from memory (interleaved on a Cascade Lake: 32 rows by 9216 by 4096 take
55 ms, with panels 75; by 256 by 256, 80 and 79 us)."""
_FROM_MEMORY: Final = 1 << 20
"""Bytes of a B that comes from memory."""
_SHORT_BYTES: Final = 512
_MAX_SHORT_ROWS: Final = 4
"""Rows up to which dot products of so few bytes pay, whose lanes are added soon (8 rows by 64 by
256: 12 us, with panels 8; by 128 by 1000, 38 and 66)."""
_TERMS: Final = 16
"""Rows of B that update C at a time."""
TILE_ROWS: Final = 8
_TILE_COLUMNS: Final = 8
"""Rows and columns of a tile of dot products at most; each column of B is a stream from memory."""
_TILE_VECTORS: Final = 4
"""Vectors of a tile at most where rows of B are contiguous."""
_TASK_BYTES: Final = 1 << 16
"""Bytes of B that are worth a task."""


def has_few_rows(p: Gemm) -> bool:
    """Whether B is not packed: each of its elements would be used too few times.

    Dot products need contiguous rows of A.
    """
    size = p.dtype.itemsize
    most = _MAX_ROWS_FROM_MEMORY if p.b.size >= _FROM_MEMORY else _MAX_ROWS
    if p.b.strides[1] == size:
        return p.rows <= most and not p.panel
    short = p.depth * size < _SHORT_BYTES
    is_dot = p.a.strides[1] == p.b.strides[0] == size
    return p.rows <= (_MAX_SHORT_ROWS if short else most) and not p.panel and is_dot


class FewRows:
    """Builds the loops: tasks of columns, blocks of the depth, columns of a tile, its rows."""

    name = "matmul of few rows"

    def __init__(self, p: Gemm, target: Target, threads: int) -> None:
        self.p, self.target = p, target
        self.is_dot = p.b.strides[1] != p.dtype.itemsize
        self.shape = self._shape()
        self.width = self.shape.vectors * (1 if self.is_dot else self.shape.lanes)
        least = max(1, _TASK_BYTES // (p.depth * p.dtype.itemsize))
        most = -(-p.columns // (4 * threads)) if threads > 1 else p.columns
        if not self.is_dot:
            # C stays in half of the L2 cache.
            most = min(most, target.l2_bytes // 2 // (p.rows * p.dtype.itemsize))
        self.block = -(-max(least, most) // self.width) * self.width
        """Columns of a task."""
        lanes = self.shape.lanes
        # The same for A where it is read for each tile; elements of C are few then.
        fitting = target.l2_bytes // 2 // (p.rows * p.dtype.itemsize) // lanes * lanes
        self.depth = min(p.depth, max(fitting, lanes) if self.is_dot else _TERMS)

    def _shape(self) -> TileShape:
        """Even parts of the rows, by vectors of B: as many as registers hold."""
        p, target = self.p, self.target
        lanes = target.vector_bits // (8 * p.dtype.itemsize)
        most = TILE_ROWS if target.vector_bits == 512 else TILE_ROWS // 2
        rows = -(-p.rows // -(-p.rows // most))
        fitting = [v for v in range(1, _TILE_COLUMNS + 1) if fits_registers(rows, v, target)]
        vectors = min(fitting[-1], _TILE_COLUMNS if self.is_dot else _TILE_VECTORS)
        return TileShape(p.dtype, lanes, rows, vectors)

    @property
    def tasks(self) -> int:
        return -(-self.p.columns // self.block)

    def blocked(self, nest: Nest) -> Nest:
        """The plain loops of a matmul, blocked."""
        p, rank = self.p, len(self.p.batch)
        rows, columns, depth = range(rank, rank + 3)
        block, terms = Count("n0", p.columns, self.block), Count("k0", p.depth, self.depth)
        whole, body = rounded(block, self.width), list[Node]()
        for width, start, stop in ((self.width, 0, whole), (p.columns % self.width, whole, block)):
            tiles = list[Node]()
            for extent, first, end in self._row_tiles():
                tile = Invoke(self._tile((extent, width)), (0, 1, 2), (terms, Iteration("k0")))
                tiles.append(Loop("m0", (rows,), first, end, self.shape.rows, (tile,)))
            if width:
                body.append(Loop("n1", (columns,), start, stop, self.width, tuple(tiles)))
        steps = Loop("k0", (depth,), 0, p.depth, self.depth, tuple(body))
        blocks = [("n0", columns, p.columns, self.block)]
        return replace(nest, body=parallel_blocks(p, blocks, (steps,)))

    def _row_tiles(self) -> list[tuple[int, int, int]]:
        """How many rows tiles have, the first row of them and the one after the last."""
        rest = self.p.rows % self.shape.rows
        whole = self.p.rows - rest
        parts = [(self.shape.rows, 0, whole), (rest, whole, self.p.rows)]
        return [part for part in parts if part[0]]

    def _tile(self, extent: tuple[int, int]) -> Routine:
        p, accumulates = self.p, self.p.depth > self.depth
        if self.is_dot:
            strides = p.a.strides[0], p.b.strides[1], p.c.strides[0]
            has_tail = p.depth % self.shape.lanes > 0
            return DotTile(self.shape, *strides, extent, has_tail, accumulates)
        strides = *p.a.strides, p.c.strides[0]
        return Tile(self.shape, strides, extent, None, 0, accumulates, p.b.strides[0])


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
