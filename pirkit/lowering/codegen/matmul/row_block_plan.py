"""The plan of fused row blocks as plain data; `fused_row_blocks.py` emits it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.schedule import schedule
from pirkit.lowering.codegen.ir.loopnest import Kernel, Operand, Store
from pirkit.lowering.codegen.matmul.macrokernel import Strides, TileShape, tile_shape_for
from pirkit.lowering.codegen.matmul.panel_packing import copied_row_bytes
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target


class MemoryRows(Struct, frozen=True):
    """Rows of an operand in memory: its number, batch strides and matrix strides in bytes."""

    operand: int
    batch: tuple[int, ...]
    strides: Strides


class ScratchRows(Struct, frozen=True):
    """Rows of the present block in scratch, by the number of the tile."""

    number: int


Rows = MemoryRows | ScratchRows


class RowGemm(Struct, frozen=True):
    """``out = x y`` for the rows of a block; ``depth`` elements per row of x, ``columns`` per row
    of out.

    With ``row_scale`` each row of the result is multiplied by the scalar in that one-column tile.
    With ``row_max`` the maximum of each row is stored to the first column of that tile, which has a
    column per lane of a vector.
    """

    x: Rows
    y: MemoryRows
    out: Rows
    depth: int
    columns: int
    row_scale: ScratchRows | None = None
    row_max: ScratchRows | None = None


class RowAccumulation(Struct, frozen=True):
    """``out += x' y`` over all blocks; ``rows`` elements per row of x, ``columns`` per row of y.

    With ``row_scale`` each row of y is multiplied by the scalar in that tile.
    """

    x: Rows
    y: Rows
    out: MemoryRows
    rows: int
    columns: int
    row_scale: ScratchRows | None = None


class RowNest(Struct, frozen=True):
    """A loop nest whose outer iterations are the rows of the batch, and where its operands are.

    Operands in tiles are dense: their strides are those of an array of all rows in memory.
    """

    kernel: Kernel
    operands: tuple[int | ScratchRows, ...]


RowStep = RowGemm | RowAccumulation | RowNest


class RowBlocks(Struct, frozen=True):
    """``steps`` for blocks of the ``rows`` rows of each matrix of the batch.

    ``sizes`` are bytes of the operands, ``tiles`` the columns of the scratch tiles.
    """

    batch: tuple[int, ...]
    rows: int
    dtype: DType
    steps: tuple[RowStep, ...]
    sizes: tuple[int, ...]
    tiles: tuple[int, ...]

    @property
    def sums(self) -> bool:
        """Whether a step accumulates over rows, so that blocks of a matrix run in order."""
        return any(isinstance(s, RowAccumulation) for s in self.steps)


def tile_shape(dtype: DType, target: Target) -> TileShape:
    """The tile of GEMM; row lengths of 32, 64... are multiples of its columns."""
    return tile_shape_for(dtype, target)


def with_scratch_strides(step: RowNest, columns: Sequence[int], shape: TileShape) -> Kernel:
    """The kernel of a nest with the row stride of scratch for its tiles."""
    operands = [
        _restrided(o, columns[where.number], shape) if isinstance(where, ScratchRows) else o
        for o, where in zip(step.kernel.operands, step.operands, strict=True)
    ]
    return replace(step.kernel, operands=tuple(operands))


def _restrided(o: Operand, columns: int, shape: TileShape) -> Operand:
    # Outer strides are multiples of a dense row: rescale them to the padded rows of scratch.
    row, pitch = columns * o.dtype.itemsize, copied_row_bytes(shape, columns)
    outer = tuple([stride // row * pitch for stride in o.outer])
    return replace(o, outer=outer, size=o.size // row * pitch)


def runs_by_rows(kernel: Kernel, rows: int, target: Target) -> bool:
    """Whether a kernel is scheduled by ``rows``, one block per row, in the order of memory."""
    plan = schedule(kernel, target)
    if plan.strategy != "rows" or plan.blocks != rows or kernel.accumulations():
        return False
    outer = plan.kernel.outer
    stored = {s.operand for s in plan.kernel.statements() if isinstance(s, Store)}
    found = [plan.kernel.operands[k].outer for k in stored]
    # Rows must be numbered as in memory; a stored operand shows the order of the outer axes.
    return any(
        strides == tuple([strides[-1] * prod(outer[k + 1 :]) for k in range(len(outer))])
        for strides in found
        if strides
    )
