"""Matmuls of many rows by few columns, such as the last layer of a network with few outputs.

A vector of columns would be mostly masked. Each task copies B, which is small, with contiguous
columns, and takes dot products of rows of A, which are read once, with all of them.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.loop_ir import (
    Block,
    Buffer,
    Count,
    Invoke,
    Iteration,
    Loop,
    Nest,
    Node,
    rounded,
)
from pirkit.lowering.codegen.ir.loopnest import Load, Store
from pirkit.lowering.codegen.matmul.bfloat16_pairs import has_pairs
from pirkit.lowering.codegen.matmul.bfloat16_tile import PairDots
from pirkit.lowering.codegen.matmul.dot_tile import DotTile
from pirkit.lowering.codegen.matmul.few_rows import TILE_ROWS
from pirkit.lowering.codegen.matmul.macrokernel import TileShape, vector_lanes
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm, parallel_blocks
from pirkit.lowering.codegen.matmul.register_tile import rows_that_fit
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.target import Target

_MIN_COLUMNS: Final = 3
_MAX_COLUMNS: Final = 7
"""Columns of which dot products are taken; one or two are a row reduction without loss (4096 rows
of 1024 by 2, 4 and 7: 2.5, 3.4 and 25 ms as a nest; torch 2.8, 2.7, 4.0)."""
_MIN_BYTES: Final = 512
"""Bytes of a row from which dot products pay."""
_TASK_BYTES: Final = 1 << 18
"""Bytes of A that are worth a task, which copies B."""


def has_few_columns(p: Gemm, target: Target) -> bool:
    """Whether dot products of rows of A with a copy of B, in half of the L2 cache, are taken."""
    size = p.dtype.itemsize
    return (
        _MIN_COLUMNS <= p.columns <= _MAX_COLUMNS
        and p.rows > _MAX_COLUMNS
        and p.depth * size >= _MIN_BYTES
        and p.a.strides[1] == p.b.strides[1] == size
        and p.columns * _copied_row(p) <= target.l2_bytes // 2
        and not p.panel
    )


def _copied_row(p: Gemm) -> int:
    """Bytes from a column of the copy to the next one, which lies in another set of the cache."""
    return (-(-p.depth * p.dtype.itemsize // LINE) + 1) * LINE


class FewColumns:
    """Builds the loops: tasks of rows, the copy of B, tiles of rows by all columns."""

    name = "matmul of few columns"

    def __init__(self, p: Gemm, target: Target, threads: int) -> None:
        self.p = p
        lanes, paired = vector_lanes(p.dtype, target), p.dtype is dt.bfloat16
        self.dots = PairDots if paired else DotTile
        rows = rows_that_fit(p.columns, TILE_ROWS, target)
        self.shape = TileShape(p.dtype, lanes, rows, 1, paired and has_pairs(target))
        least = _TASK_BYTES // (p.depth * p.dtype.itemsize)
        # Four tasks for each thread, so that one that is late costs at most a quarter of its share.
        most = -(-p.rows // (4 * threads)) if threads > 1 else p.rows
        self.block = -(-max(least, most) // rows) * rows
        """Rows of a task."""

    @property
    def tasks(self) -> int:
        return -(-self.p.rows // self.block)

    def blocked(self, nest: Nest) -> Nest:
        """The plain loops of a matmul, blocked."""
        p, rank, row = self.p, len(self.p.batch), _copied_row(self.p)
        rows, columns, depth = range(rank, rank + 3)
        strides = (*[0] * rank, 0, row, p.dtype.itemsize)
        outside = tuple([*[f"i{k}" for k in range(rank)], "m0"])
        copied = Buffer(p.dtype, strides, p.columns * row, space="scratch", outside=outside)
        nest, right = nest.with_buffer(copied)
        copy: tuple[Node, ...] = (Block((Load("b", 1), Store(right, "b"))),)
        copy = (Loop("n", (columns,), 0, p.columns, 1, copy),)
        body: list[Node] = [Loop("k", (depth,), 0, p.depth, 1, copy)]
        block, step = Count("m0", p.rows, self.block), self.shape.rows
        whole, rest = rounded(block, step), p.rows % step
        # The rest has a tile of its own: its number of accumulators is part of the code.
        for extent, start, stop in ((step, 0, whole), (rest, whole, block)):
            strides = (p.a.strides[0], row, p.c.strides[0])
            has_tail = p.depth % (self.shape.lanes * self.shape.terms) > 0
            tile = self.dots(self.shape, *strides, (extent, p.columns), has_tail, False)
            call = Invoke(tile, (0, right, 2), (p.depth, Iteration("m0")))
            if extent:
                body.append(Loop("m1", (rows,), start, stop, step, (call,)))
        blocks = [("m0", rows, p.rows, self.block)]
        return replace(nest, body=parallel_blocks(p, blocks, tuple(body)))
