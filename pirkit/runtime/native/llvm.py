"""llvmlite as an untyped module, as it has no type annotations.

Only `object_compiler.py`, which also runs as a script, imports it elsewhere.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import llvmlite as _llvmlite  # pyright: ignore[reportMissingTypeStubs]
import llvmlite.binding as _binding  # pyright: ignore[reportMissingTypeStubs]

from pirkit.diag.forks import taken_by_forks

llvm: Any = _binding
LLVMLITE_VERSION: Final[str] = _llvmlite.__version__
LLVM_LOCK: Final[AbstractContextManager[object]] = getattr(llvm.ffi.lib, "_lock", nullcontext())
"""The lock that llvmlite holds during each of its calls."""

# Here, since other modules than the compiler ask LLVM too, before that is imported.
taken_by_forks(LLVM_LOCK)
