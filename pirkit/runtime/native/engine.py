"""Compiles LLVM IR to object code and links it into this process; one thread at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from msgspec import Struct

from pirkit.diag.errors import InternalError
from pirkit.diag.forks import taken_by_forks
from pirkit.runtime.native import object_compiler
from pirkit.runtime.native.compile_stats import COMPILE_STATS
from pirkit.runtime.native.float_environment import default_environment
from pirkit.runtime.native.llvm import llvm
from pirkit.runtime.native.target import Target, host

_lock = threading.RLock()
taken_by_forks(_lock)  # after that of `llvm.py`, which compilation takes inside of it
_names = count()


class Library(Struct, frozen=True):
    """Linked code; it stays in memory as long as this object lives."""

    addresses: dict[str, int]
    handle: Any


LINKED_BY_ONE: Final = 16
"""How many libraries one linker links. It keeps 10 KB for each of them, also for unloaded ones,
until the last of them is unloaded, which frees the linker too; making a linker takes 0.5 ms."""

_linkers: list[Any] = []
"""The present linker, once for each library that it may still link."""


def _linker() -> Any:
    """A linker for one library; the caller holds the lock."""
    if not _linkers:
        target = host()
        machine = object_compiler.machine(target.triple, target.cpu, target.features)
        linker = llvm.create_lljit_compiler(machine, suppress_errors=True)
        _linkers.extend([linker] * LINKED_BY_ONE)
    return _linkers.pop()


def compile_ir(text: str, target: Target | None = None) -> bytes:
    """Object code of a module. Raises InternalError for a module that LLVM refuses."""
    made_for = target or host()
    with _lock, default_environment():
        try:
            return object_compiler.object_code(
                text, made_for.triple, made_for.cpu, made_for.features
            )
        except RuntimeError as error:
            raise refused(str(error)) from error


def assembly(text: str, target: Target | None = None) -> str:
    """Machine code of a module as text. Raises InternalError for a module that LLVM refuses."""
    made_for = target or host()
    with _lock:
        try:
            return object_compiler.assembly(text, made_for.triple, made_for.cpu, made_for.features)
        except RuntimeError as error:
            raise refused(str(error)) from error


def refused(why: str) -> InternalError:
    """The error for a module that LLVM refuses."""
    return InternalError("LLVM refuses generated code", notes=(why,))


def load(image: bytes, symbols: Sequence[str]) -> Library:
    """Link object code into this process. Undefined symbols resolve to those of the process, such
    as the C library.
    """
    with _lock:
        start = time.thread_time()
        linker = _linker()
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        tracker = builder.link(linker, f"pirkit{next(_names)}")
        COMPILE_STATS.linked += 1
        COMPILE_STATS.linking += time.thread_time() - start
        return Library({symbol: tracker[symbol] for symbol in symbols}, (linker, tracker))
