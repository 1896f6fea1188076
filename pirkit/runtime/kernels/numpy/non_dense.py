"""Kernels for tensors that are not dense: rows, sparse tensors, strings.

Their steps take and give tensors, not arrays.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pirkit.diag.errors import ArgumentError, UsageError
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.convert import constant
from pirkit.runtime.registry import kernel
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.selected_rows import SelectedRows
from pirkit.runtime.tensor.sparse import SparseCooTensor, SparseCsrTensor
from pirkit.runtime.tensor.string import StringTensor


def _scaled(value: DenseTensor, b: Binding) -> DenseTensor:
    """``value * scale + bias``, the numbers in the element type of the value."""
    factor = constant(b.attrs["scale"], value.dtype)
    offset = constant(b.attrs["bias"], value.dtype)
    array = value.array
    if b.attrs["bias_after_scale"]:
        return DenseTensor(np.asarray(array * factor + offset))
    return DenseTensor(np.asarray((array + offset) * factor))


def _require_equal_shape(x: Any, y: Any) -> None:
    if x.shape != y.shape:
        raise ArgumentError(f"a sum of shapes {x.shape} and {y.shape}",
                         help="sparse values and selected rows are not broadcast")  # fmt: skip


@kernel("scale", dtypes=dt.ANY, kind="selected_rows", form="new")
def scale_rows(b: Binding) -> Step:
    """Scales the rows that are stored, ``bias`` included; all others stay zero."""

    def step(x: SelectedRows) -> SelectedRows:
        return SelectedRows(x.rows, _scaled(x.value, b), x.height)

    return step


@kernel("scale", dtypes=dt.ANY, kind="sparse_coo", form="new")
def scale_coo(b: Binding) -> Step:
    def step(x: SparseCooTensor) -> SparseCooTensor:
        return SparseCooTensor(x.indices, _scaled(x.values, b), x.shape, coalesced=x.coalesced)

    return step


@kernel("scale", dtypes=dt.ANY, kind="sparse_csr", form="new")
def scale_csr(b: Binding) -> Step:
    def step(x: SparseCsrTensor) -> SparseCsrTensor:
        return SparseCsrTensor(x.crows, x.cols, _scaled(x.values, b), x.shape)

    return step


@kernel("add", dtypes=dt.NUMBERS, kind="selected_rows", form="new")
def add_rows(b: Binding) -> Step:
    """Concatenates the rows and merges nothing; with a dense operand the sum is dense."""

    def step(x: Any, y: Any) -> Any:
        if not isinstance(x, SelectedRows) or not isinstance(y, SelectedRows):
            dense = [t.to_dense() if isinstance(t, SelectedRows) else t for t in (x, y)]
            _require_equal_shape(*dense)
            return DenseTensor(dense[0].array + dense[1].array)
        _require_equal_shape(x, y)
        value = np.concatenate([x.value.array, y.value.array])
        return SelectedRows(np.concatenate([x.rows, y.rows]), DenseTensor(value), x.height)

    return step


@kernel("merge_selected_rows", dtypes=dt.NUMBERS, kind="selected_rows", form="new")
def merge_rows(b: Binding) -> Step:
    return SelectedRows.merged


@kernel("add", dtypes=dt.NUMBERS, kind="sparse_coo", form="new")
def add_coo(b: Binding) -> Step:
    """The coordinates of both operands; the values of common ones are added."""

    def step(x: Any, y: Any) -> SparseCooTensor:
        if not isinstance(x, SparseCooTensor) or not isinstance(y, SparseCooTensor):
            raise ArgumentError(
                "the sum of a coordinate tensor and one of another kind",
                help="take `to_dense()` of it, or `to_coo()` of compressed rows",
            )
        _require_equal_shape(x, y)
        if len(x.indices) != len(y.indices):
            raise UsageError(f"{len(x.indices)} and {len(y.indices)} sparse dimensions",
                             help="make both with the same `sparse_dims`")  # fmt: skip
        indices = np.concatenate([x.indices, y.indices], axis=1)
        values = DenseTensor(np.concatenate([x.values.array, y.values.array]))
        return SparseCooTensor(indices, values, x.shape).coalesce()

    return step


@kernel("to_dense", dtypes=dt.ANY, kind="sparse_coo", form="new")
@kernel("to_dense", dtypes=dt.ANY, kind="sparse_csr", form="new")
@kernel("to_dense", dtypes=dt.ANY, kind="selected_rows", form="new")
def to_dense(b: Binding) -> Step:
    def step(x: SelectedRows | SparseCooTensor | SparseCsrTensor) -> DenseTensor:
        return x.to_dense()

    return step


@kernel("strings.lower", dtypes=(dt.uint8,), kind="string", form="new")
def lower(b: Binding) -> Step:
    utf8 = b.attrs.get("use_utf8_encoding", False)
    return partial(StringTensor.lower, utf8=utf8)


@kernel("strings.upper", dtypes=(dt.uint8,), kind="string", form="new")
def upper(b: Binding) -> Step:
    utf8 = b.attrs.get("use_utf8_encoding", False)
    return partial(StringTensor.upper, utf8=utf8)
