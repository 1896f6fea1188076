"""Compiles modules that are the same for all programs (pool, launcher), through the disk cache."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path

from pirkit.diag.source_files import SOURCES
from pirkit.diag.version import VERSION
from pirkit.runtime.native import object_compiler, routines
from pirkit.runtime.native.cache import user_cache
from pirkit.runtime.native.engine import compile_ir
from pirkit.runtime.native.llvm import LLVMLITE_VERSION
from pirkit.runtime.native.routines import RoutineModule
from pirkit.runtime.native.target import host


def compile_cached_ir(module: str | RoutineModule) -> bytes:
    """Object code of a module. Raises InternalError for a module that LLVM refuses."""
    store = user_cache()
    if store is None:
        return _compiled(module)
    parts = (module, host(), VERSION, LLVMLITE_VERSION, toolchain_hash())
    key = blake2b(repr(parts).encode(), digest_size=32).hexdigest()
    found = store.get(key)
    if found is None:
        found = _compiled(module)
        store.put(key, found)
    return found


def _compiled(module: str | RoutineModule) -> bytes:
    return compile_ir(module if isinstance(module, str) else module.text())


@cache
def toolchain_hash() -> str:
    """A hash of the code that compiles modules, so that another version of it has other keys."""
    return SOURCES.contents([Path(object_compiler.__file__), Path(routines.__file__)])
