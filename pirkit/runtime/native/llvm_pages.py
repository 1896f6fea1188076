"""Gives back the memory of LLVM's own code after a compilation.

Compiling touches some 50 MB of `libllvmlite`, which count as memory of the process although nothing
reads them again before the next compilation. The system keeps them in its cache of files.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

WORTH_S: Final = 0.2
"""CPU seconds of a compilation from which on this pays: mapping the pages again takes 3 ms."""

_LIBRARY: Final = "libllvmlite"


def release_llvm_pages() -> None:
    """Unmap the pages of LLVM's code; they are read from the file again when they are needed."""
    if not sys.platform.startswith("linux"):
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for start, end in _code_ranges():
        advise(start, end - start, mmap.MADV_DONTNEED)


def _code_ranges() -> Iterator[tuple[int, int]]:
    """The addresses of the library's code, which is mapped from its file and never written to."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:  # a system without /proc
        return
    for line in lines:
        place, mode, *_, path = line.split(maxsplit=5)
        if mode == "r-xp" and Path(path).name.startswith(_LIBRARY):
            start, end = place.split("-")
            yield int(start, 16), int(end, 16)
