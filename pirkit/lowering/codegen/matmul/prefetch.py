"""Chooses what fused row blocks prefetch while they multiply: the operands of later blocks.

Each tile of a GEMM prefetches a few lines, so memory is busy all the time: the rows of the next
block, and, spread over the blocks of this matrix, the right operand of the next one.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.matmul.macrokernel import Strides, TileShape
from pirkit.lowering.codegen.matmul.row_block_plan import MemoryRows, RowBlocks, RowGemm
from pirkit.runtime.native.target import Target

_MAX_LINES: Final = 64
"""Cache lines that a tile prefetches at most."""


class Prefetch(Struct, frozen=True):
    """Memory that tiles prefetch, ``lines`` each: ``nbytes`` of an operand per block.

    With ``next_matrix`` it belongs to the next matrix of the batch, else to the next block of rows.
    """

    operand: MemoryRows
    next_matrix: bool
    nbytes: int
    lines: int


def prefetches(
    group: RowBlocks, at_once: int, shape: TileShape, target: Target
) -> dict[int, tuple[Prefetch, ...]]:  # fmt: skip
    """The prefetches of each GEMM by the number of its step; each operand is prefetched once."""
    # Everything stays in L2 anyway.
    if sum(group.sizes) <= target.l2_bytes:
        return {}
    size, down = shape.dtype.itemsize, -(-group.rows // at_once)
    seen: set[int] = set()
    found: dict[int, tuple[Prefetch, ...]] = {}
    for number, step in enumerate(group.steps):
        if not isinstance(step, RowGemm):
            continue
        tiles = -(-at_once // shape.rows) * -(-step.columns // shape.columns)
        found_prefetches: list[Prefetch] = []
        if _is_dense(step.y.strides, step.columns, step.depth, size) and any(step.y.batch[-1:]):
            found_prefetches.append(
                _prefetch(step.y, True, -(-step.depth * step.columns * size // down), tiles)
            )
        x = step.x
        if isinstance(x, MemoryRows) and x.strides == (step.depth * size, size) and down > 1:
            found_prefetches.append(_prefetch(x, False, at_once * step.depth * size, tiles))
        found[number] = tuple([a for a in found_prefetches if a.operand.operand not in seen])
        seen |= {a.operand.operand for a in found_prefetches}
    return found


def _is_dense(strides: Strides, columns: int, depth: int, size: int) -> bool:
    return strides in ((columns * size, size), (size, depth * size))


def _prefetch(operand: MemoryRows, next_matrix: bool, nbytes: int, tiles: int) -> Prefetch:
    nbytes = -(-nbytes // LINE) * LINE
    return Prefetch(operand, next_matrix, nbytes, min(-(-nbytes // LINE // tiles), _MAX_LINES))
