"""What blocks of rows go through, as plain data: see `fused_row_blocks.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from pirkit.lowering.codegen.emit.schedule import schedule
from pirkit.lowering.codegen.ir.loopnest import Kernel, Operand, Store
from pirkit.lowering.codegen.matmul.macrokernel import Strides, TileShape, tile_shape_for
from pirkit.lowering.codegen.matmul.panel_packing import copied_row_bytes
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target


@dataclass(frozen=True, slots=True)
class MemoryRows:
    """Rows in memory: the operand, bytes from one matrix to the next, and in a matrix."""

    operand: int
    batch: tuple[int, ...]
    strides: Strides


@dataclass(frozen=True, slots=True)
class ScratchRows:
    """Rows of the present block, in scratch memory."""

    number: int


Rows = MemoryRows | ScratchRows


@dataclass(frozen=True, slots=True)
class RowGemm:
    """``out = x y``: ``depth`` elements in a row of x, ``columns`` in one of the result.

    Each row is multiplied by what ``row_scale`` has for it, in its one column. The largest
    element of
    a row is put into the first column of ``row_max``, which has one for each lane of a vector.
    """

    x: Rows
    y: MemoryRows
    out: Rows
    depth: int
    columns: int
    row_scale: ScratchRows | None = None
    row_max: ScratchRows | None = None


@dataclass(frozen=True, slots=True)
class RowAccumulation:
    """``out = x' y`` over all rows: ``rows`` elements in a row of x, ``columns`` in one of y.

    Each row of y is multiplied by what ``row_scale`` has for it.
    """

    x: Rows
    y: Rows
    out: MemoryRows
    rows: int
    columns: int
    row_scale: ScratchRows | None = None


@dataclass(frozen=True, slots=True)
class RowNest:
    """A kernel in which a row of the batch is an outer point; where each of its operands is.

    An operand in a tile is dense: its strides are those of an array in memory.
    """

    kernel: Kernel
    operands: tuple[int | ScratchRows, ...]


RowStep = RowGemm | RowAccumulation | RowNest


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """``steps`` for ``rows`` rows of each matrix of the batch; ``tiles`` are elements of a row."""

    batch: tuple[int, ...]
    rows: int
    dtype: DType
    steps: tuple[RowStep, ...]
    sizes: tuple[int, ...]
    tiles: tuple[int, ...]

    @property
    def sums(self) -> bool:
        return any(isinstance(s, RowAccumulation) for s in self.steps)


def tile_shape(dtype: DType, target: Target) -> TileShape:
    """Tiles like those of large products, of which rows of 32, 64... columns leave no rest."""
    return tile_shape_for(dtype, target)


def with_scratch_strides(step: RowNest, columns: Sequence[int], shape: TileShape) -> Kernel:
    """The kernel of a nest with the rows of its tiles as far apart as those of scratch memory."""
    operands = [
        _restrided(o, columns[where.number], shape) if isinstance(where, ScratchRows) else o
        for o, where in zip(step.kernel.operands, step.operands, strict=True)
    ]
    return replace(step.kernel, operands=tuple(operands))


def _restrided(o: Operand, columns: int, shape: TileShape) -> Operand:
    row, pitch = columns * o.dtype.itemsize, copied_row_bytes(shape, columns)
    outer = tuple([stride // row * pitch for stride in o.outer])
    return replace(o, outer=outer, size=o.size // row * pitch)


def runs_by_rows(kernel: Kernel, rows: int, target: Target) -> bool:
    """Whether the blocks of a kernel are its rows, counted as they lie in memory."""
    plan = schedule(kernel, target)
    if plan.strategy != "rows" or plan.blocks != rows or kernel.accumulations():
        return False
    outer = plan.kernel.outer
    stored = {s.operand for s in plan.kernel.statements() if isinstance(s, Store)}
    found = [plan.kernel.operands[k].outer for k in stored]
    return any(
        strides == tuple([strides[-1] * prod(outer[k + 1 :]) for k in range(len(outer))])
        for strides in found
        if strides
    )
