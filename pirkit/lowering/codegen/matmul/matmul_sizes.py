"""The sizes and strides of a matmul: what its loops are built from."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pirkit.lowering.codegen.matmul.macrokernel import Strides
from pirkit.runtime.dtype import DType


@dataclass(frozen=True, slots=True)
class MatrixBatch:
    """The matrices of an operand: strides and the ``size`` of the buffer, in bytes."""

    batch: tuple[int, ...]
    strides: Strides
    size: int


@dataclass(frozen=True, slots=True)
class Gemm:
    """``c = a b`` of ``rows`` by ``columns`` for each element of the batch; operands are a, b, c.

    a and b are contiguous along one of their axes, c along rows. With ``panel`` columns, b is in
    panels of so many: all rows of the first columns, then of the next ones, filled up with zeros.
    Panels in ``stored``, of fewer bits, are widened; a last operand multiplies each column if it
    ``scales``.
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

    @property
    def multiplications(self) -> int:
        return prod(self.batch) * self.rows * self.columns * self.depth
