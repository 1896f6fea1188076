"""Some rows of a large tensor: the gradient of an embedding table."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pirkit.diag.errors import UsageError
from pirkit.runtime.dtype import DType
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.sum_duplicates import sum_duplicates, whole_numbers

Array = np.ndarray[Any, Any]


class SelectedRows:
    """Rows of a tensor of ``height`` rows; all others are zero (Paddle's ``SelectedRows``).

    ``rows`` are row indices (int64), ``value`` has one row for each. Rows with equal indices are
    summed, which :meth:`merged` and :meth:`to_dense` do.
    Raises UsageError for indices outside of ``[0, height)``, or another number of them than of
    rows.
    """

    __slots__ = ("height", "rows", "value")

    kind: ClassVar[str] = "selected_rows"

    def __init__(self, rows: Any, value: DenseTensor, height: int) -> None:
        numbers = whole_numbers(rows)
        if numbers.ndim != 1 or value.ndim < 1 or len(numbers) != value.shape[0]:
            raise UsageError(f"{numbers.shape} row numbers for a value of shape {value.shape}",
                             help="give one row number for each row of the value")  # fmt: skip
        if numbers.size and not (0 <= numbers.min() and numbers.max() < height):
            raise UsageError(f"row numbers {numbers.min()} to {numbers.max()} of {height} rows",
                             help="rows count from 0; give a larger `height`")  # fmt: skip
        self.rows: Array = numbers
        self.value = value
        self.height = height

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense tensor."""
        return (self.height, *self.value.shape[1:])

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    def merged(self) -> SelectedRows:
        """Each row index once, in ascending order, with the sum of its rows."""
        rows, value = sum_duplicates(self.rows, self.value.array)
        return SelectedRows(rows, DenseTensor(value), self.height)

    def to_dense(self) -> DenseTensor:
        """The dense tensor."""
        merged = self.merged()
        out = np.zeros(self.shape, self.value.array.dtype)
        out[merged.rows] = merged.value.array
        return DenseTensor(out)

    def __repr__(self) -> str:
        return f"SelectedRows(rows={self.rows.tolist()}, height={self.height}, {self.value!r})"
