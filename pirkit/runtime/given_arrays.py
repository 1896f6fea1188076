"""Converts what users pass as tensors to numpy arrays."""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np

from pirkit.diag.errors import ArgumentError, PirkitError

Array = np.ndarray[Any, Any]
_HELP = "arguments are tensors, arrays, numbers, and lists of numbers"


def given_array(value: Any) -> Array:
    """A value as a numpy array, without a copy where numpy needs none.

    Raises ArgumentError (PK0701) for a value that numpy cannot convert, with numpy's error as its
    cause, and for a masked array, whose mask would be lost.
    """
    if type(value) is np.ndarray:
        return cast(Array, value)
    refuse_mask(value)
    try:
        return np.asarray(value)
    except PirkitError:
        raise
    except Exception as error:  # that of its `__array__` may be any
        why = str(error) or type(error).__name__
        name = type(value).__name__
        raise ArgumentError(f"a {name} is no array: {why}", help=_HELP) from error


def refuse_mask(value: Any) -> None:
    """Raise ArgumentError (PK0701) for a masked array."""
    # `numpy.ma` is imported at its first use: where it is not, there are no masked arrays.
    if "numpy.ma" in sys.modules and np.ma.isMaskedArray(value):
        raise ArgumentError(
            f"a {type(value).__name__} is no tensor: its mask would be lost",
            help="take the array: `x.filled(value)`, or `x.data` with all elements",
        )  # fmt: skip
