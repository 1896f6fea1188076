"""The sizes and strides of a matmul: what its loops are built from."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from msgspec import Struct

from pirkit.lowering.codegen.ir.loop_ir import Loop, Node
from pirkit.lowering.codegen.matmul.macrokernel import Strides
from pirkit.runtime.dtype import DType

Block = tuple[Node, ...]


class MatrixBatch(Struct, frozen=True):
    """The matrices of an operand: strides and the ``size`` of the buffer, in bytes."""

    batch: tuple[int, ...]
    strides: Strides
    size: int


class Gemm(Struct, frozen=True):
    """``c = a b`` of ``rows`` by ``columns`` for each element of the batch; operands are a, b, c.

    a and b are contiguous along one of their axes, c along rows. If ``panel`` is not 0, b is in
    panels of so many columns: all rows of the first columns, then all rows of the next ones. The
    last panel is filled up with zeros. ``stored`` is the element type of panels that have fewer
    bits than ``dtype`` and are widened. With ``scales``, an operand after c has a factor for each
    column. ``summands`` are the last operands and are added to c in order; a row of a summand is
    contiguous, or has one element for all columns.
    """

    batch: tuple[int, ...]
    rows: int
    columns: int
    depth: int
    dtype: DType
    a: MatrixBatch
    b: MatrixBatch
    c: MatrixBatch
    panel: int = 0
    stored: DType | None = None
    scales: bool = False
    summands: tuple[MatrixBatch, ...] = ()

    @property
    def multiplications(self) -> int:
        return prod(self.batch) * self.rows * self.columns * self.depth


def parallel_blocks(p: Gemm, blocks: Iterable[tuple[str, int, int, int]], body: Block) -> Block:
    """Parallel loops over blocks of C around a body, and around these over the batch.

    A block is a variable, an axis, its extent and the step; inner loops come first.
    """
    batch = [(f"i{k}", k, p.batch[k], 1) for k in reversed(range(len(p.batch)))]
    for var, axis, extent, step in (*blocks, *batch):
        body = (Loop(var, (axis,), 0, extent, step, body, "parallel"),)
    return body
