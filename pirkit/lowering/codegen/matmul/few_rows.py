"""Matmuls of few rows: B is read once, in its own order, and no panel is packed.

Such a matmul takes as long as memory takes to deliver B. If columns of B are contiguous (``x w.T``,
what a linear layer is), a tile takes the dot products of some rows of A and some columns of B:

    for each vector of terms k:    acc[r][c] += a[r][k] * b[c][k]        then the sum of the lanes

If rows are, some rows of B at a time update all columns of C, which stays in the L2 cache. A panel
of B would be a column of memory pages, each of them read for a few cache lines.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.loop_ir import Count, Invoke, Iteration, Loop, Nest, Node, rounded
from pirkit.lowering.codegen.ir.routine import Routine
from pirkit.lowering.codegen.matmul.bfloat16_pairs import has_pairs, wide_sums
from pirkit.lowering.codegen.matmul.bfloat16_tile import NarrowRows, PairDots, PairTile
from pirkit.lowering.codegen.matmul.dot_tile import DotTile
from pirkit.lowering.codegen.matmul.macrokernel import Tile, TileShape, vector_lanes
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm, parallel_blocks
from pirkit.lowering.codegen.matmul.register_tile import fits_registers
from pirkit.runtime import dtype as dt
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
    # Pairs of terms are read from rows of A in place.
    if p.dtype is dt.bfloat16 and p.a.strides[1] != size:
        return False
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
        self.paired = p.dtype is dt.bfloat16
        self.is_dot = p.b.strides[1] != p.dtype.itemsize
        self.shape = self._shape()
        self.width = self.shape.vectors * (1 if self.is_dot else self.shape.lanes)
        least = max(1, _TASK_BYTES // (p.depth * p.dtype.itemsize))
        most = -(-p.columns // (4 * threads)) if threads > 1 else p.columns
        if not self.is_dot:
            # The sums stay in half of the L2 cache.
            most = min(most, target.l2_bytes // 2 // (p.rows * self.shape.sum_bytes))
        self.block = -(-max(least, most) // self.width) * self.width
        """Columns of a task."""
        lanes = self.shape.lanes
        # The same for A where it is read for each tile; elements of C are few then.
        fitting = target.l2_bytes // 2 // (p.rows * p.dtype.itemsize) // lanes * lanes
        self.depth = min(p.depth, max(fitting, lanes) if self.is_dot else _TERMS)
        if self.paired and self.is_dot:
            self.depth = p.depth  # sums are rounded when they are stored

    def _shape(self) -> TileShape:
        """Even parts of the rows, by vectors of B: as many as registers hold."""
        p, target = self.p, self.target
        lanes = vector_lanes(p.dtype, target)
        most = TILE_ROWS if target.vector_bits == 512 else TILE_ROWS // 2
        rows = -(-p.rows // -(-p.rows // most))
        fitting = [v for v in range(1, _TILE_COLUMNS + 1) if fits_registers(rows, v, target)]
        vectors = min(fitting[-1], _TILE_COLUMNS if self.is_dot else _TILE_VECTORS)
        return TileShape(p.dtype, lanes, rows, vectors, self.paired and has_pairs(target))

    @property
    def tasks(self) -> int:
        return -(-self.p.columns // self.block)

    def blocked(self, nest: Nest) -> Nest:
        """The plain loops of a matmul, blocked."""
        p, rank, c = self.p, len(self.p.batch), 2
        rows, columns, depth = range(rank, rank + 3)
        block, terms = Count("n0", p.columns, self.block), Count("k0", p.depth, self.depth)
        rounds = self.paired and not self.is_dot
        if rounds:
            outside = tuple([*[f"i{k}" for k in range(rank)], "n0"])
            nest, c = nest.with_buffer(wide_sums(rank, p.rows, self.block, outside))
        whole, body = rounded(block, self.width), list[Node]()
        for width, start, stop in ((self.width, 0, whole), (p.columns % self.width, whole, block)):
            tiles = list[Node]()
            for extent, first, end in self._row_tiles():
                tile = Invoke(self._tile((extent, width)), (0, 1, c), (terms, Iteration("k0")))
                tiles.append(Loop("m0", (rows,), first, end, self.shape.rows, (tile,)))
            if width:
                body.append(Loop("n1", (columns,), start, stop, self.width, tuple(tiles)))
        steps: list[Node] = [Loop("k0", (depth,), 0, p.depth, self.depth, tuple(body))]
        if rounds:
            narrow = NarrowRows(self.shape, 4 * self.block, p.c.strides[0])
            steps.append(Invoke(narrow, (c, 2), (p.rows, block)))
        blocks = [("n0", columns, p.columns, self.block)]
        return replace(nest, body=parallel_blocks(p, blocks, tuple(steps)))

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
            has_tail = p.depth % (self.shape.lanes * self.shape.terms) > 0
            kind = PairDots if self.paired else DotTile
            return kind(self.shape, *strides, extent, has_tail, accumulates)
        strides = *p.a.strides, p.c.strides[0]
        if self.paired:
            strides = *p.a.strides, 4 * self.block
            return PairTile(
                self.shape, strides, extent, None, 0, accumulates, p.b.strides[0], wide=True,
                odd=p.depth % 2 > 0,
            )  # fmt: skip
        return Tile(self.shape, strides, extent, None, 0, accumulates, p.b.strides[0])
