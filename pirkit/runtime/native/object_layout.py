"""The layout of array and tensor objects that native code reads, tested on known objects."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any
from weakref import ref

import numpy as np

from pirkit.runtime.native.program_ir import (
    CONTIGUOUS_AND_ALIGNED,
    HEADER,
    LAYOUT,
)
from pirkit.runtime.native.tensor_call import (
    functions,
    tensor_slots,
)
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]


@cache
def memory_layout_is_known() -> bool:
    """Whether tuples and arrays have the expected memory layout, tested on known objects."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.implementation.name != "cpython":
        return False
    pair = (LAYOUT, HEADER)
    items = (ctypes.c_size_t * 2).from_address(id(pair) + tuple.__basicsize__)
    if tuple(items) != (id(LAYOUT), id(HEADER)):
        return False
    whole = np.arange(6, dtype=np.float64).reshape(2, 3)
    return all(_layout_matches(a) for a in (whole, whole.T, whole[:1], whole.astype(np.int8)))


@cache
def array_slot() -> int:
    """The offset of a tensor's array, in bytes; 0 if native code cannot read it there."""
    known = memory_layout_is_known() and functions()
    return tensor_slots().get("slot", 0) if known else 0


def _layout_matches(array: Array) -> bool:
    at = {name: id(array) + offset for name, offset in LAYOUT.items()}
    weak = ref(array)
    pointer = {
        n: ctypes.c_size_t.from_address(at[n]).value for n in ("type", "data", "dtype", "weak")
    }
    known = {
        "type": id(np.ndarray), "data": address_of(array), "dtype": id(array.dtype),
        "weak": id(weak),
    }  # fmt: skip
    if pointer != known or ctypes.c_int32.from_address(at["rank"]).value != array.ndim:
        return False
    extents = ctypes.c_size_t.from_address(at["extents"]).value
    flags = ctypes.c_int32.from_address(at["flags"]).value & CONTIGUOUS_AND_ALIGNED
    shape = tuple((ctypes.c_int64 * array.ndim).from_address(extents))
    in_rows = array.flags.c_contiguous and array.flags.aligned
    return shape == array.shape and (flags == CONTIGUOUS_AND_ALIGNED) == in_rows
