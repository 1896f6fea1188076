"""What blocks of rows ask memory for while they multiply: what the next ones will read.

Tiles of a product ask for some lines each, so memory works all the time: the rows of the next
block, and of the right factor of the next matrix a part in each block of this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pirkit.lowering.codegen.panels import Shape, Strides
from pirkit.lowering.codegen.row_steps import Outside, RowBlocks, RowProduct
from pirkit.lowering.codegen.scratch import LINE
from pirkit.runtime.native.target import Target

_MOST_LINES: Final = 64
"""Lines that a tile asks for at most."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Memory that tiles ask for, ``lines`` each: ``nbytes`` for each block of an operand's matrix.

    With ``next_matrix`` those of the next one, else those of the next block.
    """

    operand: Outside
    next_matrix: bool
    nbytes: int
    lines: int


def asked(
    group: RowBlocks, at_once: int, shape: Shape, target: Target
) -> dict[int, tuple[Asked, ...]]:  # fmt: skip
    """What each product asks for, by the number of its step; each operand is asked for once."""
    if sum(group.sizes) <= target.l2_bytes:
        return {}
    size, down = shape.dtype.itemsize, -(-group.rows // at_once)
    seen: set[int] = set()
    found: dict[int, tuple[Asked, ...]] = {}
    for number, step in enumerate(group.steps):
        if not isinstance(step, RowProduct):
            continue
        tiles = -(-at_once // shape.rows) * -(-step.columns // shape.columns)
        some: list[Asked] = []
        if _is_dense(step.y.strides, step.columns, step.depth, size) and any(step.y.batch):
            some.append(_asked(step.y, True, -(-step.depth * step.columns * size // down), tiles))
        x = step.x
        if isinstance(x, Outside) and x.strides == (step.depth * size, size) and down > 1:
            some.append(_asked(x, False, at_once * step.depth * size, tiles))
        found[number] = tuple([a for a in some if a.operand.operand not in seen])
        seen |= {a.operand.operand for a in some}
    return found


def _is_dense(strides: Strides, columns: int, depth: int, size: int) -> bool:
    return strides in ((columns * size, size), (size, depth * size))


def _asked(operand: Outside, next_matrix: bool, nbytes: int, tiles: int) -> Asked:
    nbytes = -(-nbytes // LINE) * LINE
    return Asked(operand, next_matrix, nbytes, min(-(-nbytes // LINE // tiles), _MOST_LINES))
