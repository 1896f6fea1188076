"""Linux lets a process use the tile registers of AMX only after it has asked for them."""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import Final

_ARCH_PRCTL: Final = 158
"""The number of the system call on x86-64."""
_REQUEST: Final = 0x1023
"""`ARCH_REQ_XCOMP_PERM`, from Linux 5.16 on (Documentation/arch/x86/xstate.rst)."""
_TILE_DATA: Final = 18
"""The component of the state of a thread that holds the tiles."""


@cache
def tiles_permitted() -> bool:
    """Ask for the tile registers, for all threads of the process and its children.

    The kernel refuses if a thread has too small a stack for signals.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    libc = ctypes.CDLL(None)
    return libc.syscall(_ARCH_PRCTL, ctypes.c_long(_REQUEST), ctypes.c_long(_TILE_DATA)) == 0
