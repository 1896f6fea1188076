"""Indices of sparse tensors, and sums of values with equal ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from pirkit.diag.errors import UsageError
from pirkit.runtime.convert import widened

Array = np.ndarray[Any, Any]


def whole_numbers(indices: Any) -> Array:
    """Indices as int64. Raises UsageError for numbers with fractions, which would be dropped."""
    held = np.asarray(indices)
    if held.size and held.dtype.kind not in "iu":
        raise UsageError(f"indices of type {held.dtype}", help="give integers")
    return held.astype(np.int64)


def sum_duplicates(numbers: Array, values: Array) -> tuple[Array, Array]:
    """The distinct ``numbers``, in ascending order, and the sum of the values of each.

    ``values`` has one entry on its first axis for each number. float16 and bfloat16 values are
    summed in float32 and rounded once.
    """
    unique, group = np.unique(numbers, return_inverse=True)
    wide = widened(values)
    total = np.zeros((len(unique), *values.shape[1:]), wide.dtype)
    np.add.at(total, group.reshape(-1), wide)
    return unique, total.astype(values.dtype, copy=False)
