"""Calls the LAPACK and BLAS that numpy is linked with.

numpy.linalg computes float32 matrices in float64, and has neither triangular solves nor solves
with given factors. The library below it has both (https://netlib.org/lapack/lug/).

Matrices of LAPACK lie in memory column by column: a contiguous array of shape (rows, columns) is,
for LAPACK, its transpose.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.cores import blas_library

_LETTERS: Final = {dt.float32: "s", dt.float64: "d"}


class Routine:
    """A routine, called with integers, numbers of 0 dimensions, arrays, and strings for options.

    One of LAPACK returns `info`, which is no argument here.
    """

    def __init__(self, name: str, function: Any, *, has_info: bool) -> None:
        self._name, self._function, self._has_info = name, function, has_info

    def __call__(self, *arguments: Any) -> int:
        return self.on(*arguments)()

    def on(self, *arguments: Any) -> Callable[..., int]:
        """A call on these arguments, for many runs: it takes the arrays for which ``...`` stands.

        All go by address. Fortran takes the lengths of strings after all other arguments.
        """
        name, function, info, later = self._name, self._function, ctypes.c_int64(), list[Any]()
        given: list[Any] = []
        for a in arguments:
            if a is ...:
                later.append(ctypes.c_void_p())
                given.append(later[-1])
            elif isinstance(a, np.ndarray):
                given.append(ctypes.c_void_p(a.ctypes.data))
            elif isinstance(a, str):
                given.append(a.encode())
            else:
                given.append(ctypes.byref(ctypes.c_int64(a)))
        given += [ctypes.byref(info)] * self._has_info
        given += [ctypes.c_size_t(1) for a in arguments if isinstance(a, str)]
        owned = arguments  # keeps the arrays alive, as native code has only addresses

        def call(*arrays: Array) -> int:
            for place, array in zip(later, arrays, strict=True):
                place.value = array.ctypes.data
            function(*given)
            found = ctypes.c_int32.from_buffer(info).value  # some libraries have 32-bit integers
            if found < 0:
                raise ValueError(f"LAPACK's {name} refuses its argument {-found} of {len(owned)}")
            return found

        return call


@cache
def lapack(name: str, dtype: DType) -> Routine | None:
    """A LAPACK routine, `getrf` for example, for float32 or float64; None if numpy has none."""
    function = _symbol(name, dtype)
    return None if function is None else Routine(name, function, has_info=True)


@cache
def blas_routine(name: str, dtype: DType) -> Routine | None:
    """A BLAS routine, `trsm` for example, for float32 or float64; None if numpy has none."""
    function = _symbol(name, dtype)
    return None if function is None else Routine(name, function, has_info=False)


def row_numbers(pivots: Array) -> Array:
    """The row numbers in an array of int64 that LAPACK reads or wrote: all, or its first half."""
    return pivots.view(_integers())[: pivots.size]


@cache
def _integers() -> type[np.int64] | type[np.int32]:
    """The integers of LAPACK; those of 64 bits have a suffix (`USE64BITINT` of OpenBLAS)."""
    return np.int64 if _found("s", "getrf")[1] == "_64_" else np.int32


def _symbol(name: str, dtype: DType) -> Any:
    function, _ = _found(_LETTERS[dtype], name)
    if function is not None:
        function.restype = None
    return function


def _found(letter: str, name: str) -> tuple[Any, str]:
    """A function of the library, and the suffix of its name."""
    library = blas_library()
    for before, after in product(("scipy_", ""), ("_64_", "_")):
        symbol = f"{before}{letter}{name}{after}"
        if library is not None and hasattr(library, symbol):
            return library[symbol], after
    return None, ""
