"""Sparse tensors: COO (coordinates) and CSR (compressed rows)."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar, Final

import numpy as np

from pirkit.diag.errors import UsageError
from pirkit.runtime.dtype import DType
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.sum_duplicates import sum_duplicates, whole_numbers

_COO: Final = (
    "indices are [sparse dimensions, elements], from 0 to below the sizes; values are [elements,"
    " *dense dimensions]"
)
_CSR: Final = (
    "a matrix [rows, columns], or a batch of them, has rows + 1 row starts from 0 to its count of"
    " elements, and a column and a value for each"
)

Array = np.ndarray[Any, Any]


class SparseCooTensor:
    """Values at coordinates: ``indices [sparse dims, n]`` and ``values [n, *dense dims]``.

    Unless ``coalesced``, a coordinate may occur more than once, and its values are summed. Raises
    UsageError for indices that do not fit the shape.
    """

    __slots__ = ("coalesced", "indices", "shape", "values")

    kind: ClassVar[str] = "sparse_coo"

    def __init__(
        self, indices: Any, values: DenseTensor, shape: tuple[int, ...], *, coalesced: bool = False
    ) -> None:
        held = whole_numbers(indices)
        if held.ndim != 2 or held.shape[1:] != values.shape[:1]:
            raise UsageError(f"indices {held.shape} do not fit values {values.shape}", help=_COO)
        dims = held.shape[0]
        if not 1 <= dims <= len(shape):
            raise UsageError(f"{dims} of {len(shape)} dimensions cannot be sparse", help=_COO)
        if values.shape[1:] != tuple(shape[dims:]):
            raise UsageError(
                f"values {values.shape} do not fill a tensor of shape {shape}", help=_COO
            )
        sizes = np.array(shape[:dims], np.int64).reshape(-1, 1)
        if held.size and not ((held >= 0) & (held < sizes)).all():
            raise UsageError(f"an index lies outside of the shape {shape}", help=_COO)
        self.indices: Array = held
        self.values = values
        self.shape = tuple(shape)
        self.coalesced = coalesced

    @classmethod
    def from_dense(cls, x: DenseTensor, sparse_dims: int | None = None) -> SparseCooTensor:
        """The non-zero elements, or the non-zero rows of the last dimensions."""
        dims = x.ndim if sparse_dims is None else sparse_dims
        if not 1 <= dims <= x.ndim:
            raise UsageError(f"{dims} of {x.ndim} dimensions cannot be sparse", help=_COO)
        array = x.array
        is_nonzero = array != 0
        if dims < x.ndim:
            is_nonzero = is_nonzero.any(axis=tuple(range(dims, x.ndim)))
        return cls(
            np.stack(np.nonzero(is_nonzero)),
            DenseTensor(array[is_nonzero]),
            x.shape,
            coalesced=True,
        )

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    def coalesce(self) -> SparseCooTensor:
        """Each coordinate once, in row-major order, with summed values."""
        if self.coalesced:
            return self
        dims = self.shape[: self.indices.shape[0]]
        if prod(dims) > np.iinfo(np.int64).max:  # flat positions would overflow
            indices, flat = np.unique(self.indices, axis=1, return_inverse=True)
            _, values = sum_duplicates(flat.reshape(-1), self.values.array)
        else:
            flat = np.asarray(np.ravel_multi_index(tuple(self.indices), dims))
            is_nonzero, values = sum_duplicates(flat, self.values.array)
            indices = np.stack(np.unravel_index(is_nonzero, dims))
        return SparseCooTensor(indices, DenseTensor(values), self.shape, coalesced=True)

    def to_dense(self) -> DenseTensor:
        """The whole tensor."""
        merged = self.coalesce()
        out = np.zeros(self.shape, self.values.array.dtype)
        out[tuple(merged.indices)] = merged.values.array
        return DenseTensor(out)

    def to_csr(self) -> SparseCsrTensor:
        """The tensor in CSR form; for matrices and batches of matrices without dense dimensions."""
        merged = self.coalesce()
        if len(self.shape) not in (2, 3) or merged.indices.shape[0] != len(self.shape):
            raise UsageError(f"a tensor of shape {self.shape} has no compressed rows", help=_CSR)
        rows = self.shape[-2]
        batch = merged.indices[0] if len(self.shape) == 3 else np.zeros_like(merged.indices[0])
        batches = self.shape[0] if len(self.shape) == 3 else 1
        counts = np.zeros((batches, rows), np.int64)
        np.add.at(counts, (batch, merged.indices[-2]), 1)
        crows = np.concatenate([np.zeros((batches, 1), np.int64), counts.cumsum(axis=1)], axis=1)
        return SparseCsrTensor(crows.reshape(-1), merged.indices[-1], merged.values, self.shape)

    def __repr__(self) -> str:
        at = self.indices.tolist()
        return f"SparseCooTensor(shape={list(self.shape)}, indices={at}, {self.values!r})"


class SparseCsrTensor:
    """A matrix, or a batch of concatenated matrices, in CSR format.

    ``crows`` are the offsets of rows in ``cols`` and ``values``, starting at 0 for each matrix.
    Raises UsageError for inconsistent parts.
    """

    __slots__ = ("cols", "crows", "shape", "values")

    kind: ClassVar[str] = "sparse_csr"

    def __init__(self, crows: Any, cols: Any, values: DenseTensor, shape: tuple[int, ...]) -> None:
        starts, columns = whole_numbers(crows), whole_numbers(cols)
        if len(shape) not in (2, 3):
            raise UsageError(
                f"compressed rows have two or three dimensions, not {len(shape)}", help=_CSR
            )
        batches = prod(shape[:-2])
        if starts.shape != (batches * (shape[-2] + 1),):
            raise UsageError(f"{starts.shape} row starts for shape {shape}", help=_CSR)
        by_matrix = starts.reshape(batches, shape[-2] + 1)
        if (by_matrix[:, 0] != 0).any() or (np.diff(by_matrix, axis=1) < 0).any():
            raise UsageError("row starts begin at 0 and never fall", help=_CSR)
        ends = by_matrix[:, -1]
        if not columns.shape == values.shape == (int(ends.sum()),):
            raise UsageError(
                f"{columns.shape} columns, {values.shape} values, {ends.sum()} counted", help=_CSR
            )
        if columns.size and not (0 <= columns.min() and columns.max() < shape[-1]):
            raise UsageError(f"a column lies outside of the shape {shape}", help=_CSR)
        self.crows: Array = starts
        self.cols: Array = columns
        self.values = values
        self.shape = tuple(shape)

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    def to_coo(self) -> SparseCooTensor:
        """The tensor in COO form."""
        batches, rows = prod(self.shape[:-2]), self.shape[-2]
        counts = np.diff(self.crows.reshape(batches, rows + 1), axis=1)
        row = np.concatenate([np.repeat(np.arange(rows), c) for c in counts] or [self.cols[:0]])
        parts = [row, self.cols]
        if len(self.shape) == 3:
            parts = [np.repeat(np.arange(batches), counts.sum(axis=1)), *parts]
        return SparseCooTensor(np.stack(parts), self.values, self.shape)

    def to_dense(self) -> DenseTensor:
        """The whole tensor."""
        return self.to_coo().to_dense()

    def __repr__(self) -> str:
        starts = self.crows.tolist()
        return f"SparseCsrTensor(shape={list(self.shape)}, crows={starts}, {self.values!r})"
