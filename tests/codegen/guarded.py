"""Arrays beside memory that nobody may touch: what is read or written beyond them ends the process.

A process that is told to run a test this way is a child, so that the others go on.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PAGE = mmap.PAGESIZE


class Guarded:
    """Makes arrays that end where a forbidden page begins, or begin where one ends.

    All live as long as the maker.
    """

    def __init__(self) -> None:
        self.held: list[mmap.mmap] = []

    def __call__(self, array: Array, at_end: bool) -> Array:
        if not array.size:
            return array.copy()
        room = -(-array.nbytes // _PAGE) * _PAGE
        memory = mmap.mmap(-1, room + 2 * _PAGE)
        self.held.append(memory)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for page in (base, base + room + _PAGE):
            if _LIBC.mprotect(page, _PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        first = _PAGE + (room - array.nbytes if at_end else 0)
        found = np.frombuffer(memory, np.uint8, array.nbytes, first).view(array.dtype)
        found = found.reshape(array.shape)
        found[...] = array
        return found


def survives(run: Callable[[], None]) -> bool:
    """Whether a child that runs this ends well."""
    child = os.fork()
    if not child:
        status = 1
        try:
            run()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0
