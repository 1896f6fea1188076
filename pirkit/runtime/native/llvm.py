"""llvmlite as an untyped module, as it has no type annotations.

Only `object_compiler.py`, which also runs as a script, imports it elsewhere.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Final

import llvmlite as _llvmlite  # pyright: ignore[reportMissingTypeStubs]
import llvmlite.binding as _binding  # pyright: ignore[reportMissingTypeStubs]

llvm: Any = _binding
LLVMLITE_VERSION: Final[str] = _llvmlite.__version__
LLVM_LOCK: Final[AbstractContextManager[object]] = getattr(llvm.ffi.lib, "_lock", nullcontext())
"""The lock that llvmlite holds during each of its calls."""

_forking = ExitStack()


def _before_fork() -> None:
    """Take the lock, else the child could inherit one that another thread holds for ever."""
    _forking.enter_context(LLVM_LOCK)


# Here, since other modules than the compiler ask LLVM too, before that is imported.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_forking.close, after_in_child=_forking.close
    )
