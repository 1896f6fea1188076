"""The floating-point environment in which code is generated.

Libraries leave other rounding modes behind, or flush subnormal numbers to zero. Python converts
constants in the mode of the thread and LLVM folds them so, and code that has them would stay in the
cache for processes that round as usual.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

_BYTES: Final = 256
"""More than an environment takes on any platform."""


@cache
def _library() -> tuple[Any, Any] | None:
    """The C library, and its default environment; None where there is no such function."""
    with suppress(AttributeError, OSError, TypeError, ValueError):
        library = ctypes.CDLL(None)
        library.fesetenv.argtypes = library.fegetenv.argtypes = [ctypes.c_void_p]
        if sys.platform == "darwin":
            default = ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV"))
        else:
            default = ctypes.c_void_p(-1).value
        return library, default
    return None


@contextmanager
def default_environment() -> Generator[None]:
    """Round to nearest, with subnormal numbers, in this thread until the block ends."""
    found = _library()
    if found is None:
        yield
        return
    library, default = found
    kept = ctypes.create_string_buffer(_BYTES)
    library.fegetenv(kept)
    library.fesetenv(default)
    try:
        yield
    finally:
        library.fesetenv(kept)
