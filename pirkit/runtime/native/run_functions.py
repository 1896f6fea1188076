"""The native functions that run the steps of a program, and how they are called."""

from __future__ import annotations

import ctypes
from typing import Final

from pirkit.diag.once import once
from pirkit.runtime.native.cached_ir import compile_cached_ir
from pirkit.runtime.native.engine import Library, load
from pirkit.runtime.native.program_ir import (
    RUN_FUNCTIONS,
    RUN_MODULE,
    TENSOR_FUNCTIONS,
    TENSOR_MODULE,
)
from pirkit.runtime.native.tensor_call import Method, method

RUN: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
RUN_BRIEF: Final = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
CALL: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
CALL_BRIEF: Final = ctypes.PYFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
)
"""Types of them: ctypes releases the GIL in calls of CFUNCTYPE and holds it in those of PYFUNCTYPE,
as is faster for brief ones."""

_SIGNALS_NS: Final = 50_000_000
_MOST_FUEL: Final = 1 << 16


def fuel(work: int) -> int:
    """The number of iterations of a loop after which Python can handle signals.

    ``work`` is the estimated time of an iteration in ns: Ctrl-C takes effect within some 50 ms.
    """
    return max(1, min(_MOST_FUEL, _SIGNALS_NS // max(work, 1)))


@once
def run_library() -> Library:
    """The functions that run programs on arrays."""
    return load(compile_cached_ir(RUN_MODULE), RUN_FUNCTIONS)


@once
def tensor_library() -> Library:
    """The functions that take and make tensors."""
    return load(compile_cached_ir(TENSOR_MODULE), TENSOR_FUNCTIONS)


@once
def tensor_method() -> Method:
    """The native function of `TensorCall`."""
    return method(tensor_library().addresses[TENSOR_FUNCTIONS[0]])


@once
def tree_method() -> Method:
    """The native function for `tree_call`."""
    return method(tensor_library().addresses[TENSOR_FUNCTIONS[1]], keywords=True)
