"""The thread pool for native code, one for each process.

Its threads never enter Python: they run generated code (`pool_ir.py`) and sleep when idle. A caller
that finds the pool busy runs its work alone. After a fork the child starts a pool of its own at
first use; the threads are joined when the interpreter exits.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import threading
from collections.abc import Callable
from typing import Final, Literal

from pirkit.diag.errors import UsageError
from pirkit.diag.once import once
from pirkit.diag.settings import setting
from pirkit.runtime.native.cached_ir import compile_cached_ir
from pirkit.runtime.native.engine import Library, load
from pirkit.runtime.native.pool_ir import FIELDS, FUNCTIONS, MAX_WORKERS, POOL_BYTES, pool_text
from pirkit.runtime.native.target import host

_SPINS: Final = 4000
_LINE: Final = 64
_lock = threading.Lock()

AVAILABLE: Final = os.name == "posix"
"""Whether the system has POSIX threads; elsewhere callers run alone."""

Run = Callable[[int, int, int, int, int, int], None]
_RUN: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3
)
_START: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_STOP: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def thread_count() -> int:
    """The number of threads: PIRKIT_NUM_THREADS, else OMP_NUM_THREADS, else the available CPUs.

    Raises UsageError (PK0705) for a value that is not a positive number.
    """
    for name in ("PIRKIT_NUM_THREADS", "OMP_NUM_THREADS"):
        text = (setting(name) or "").partition(",")[0].strip()
        if not text:
            continue
        if not text.isdecimal() or int(text) < 1:
            raise UsageError(f"{name} is `{text}`, not a positive number", code="PK0705")
        return min(int(text), MAX_WORKERS + 1)
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MAX_WORKERS + 1)
    return min(os.cpu_count() or 1, MAX_WORKERS + 1)


class Pool:
    """The worker threads, and the state that they share with callers."""

    def __init__(self, threads: int) -> None:
        self._library = _library()
        self._memory = ctypes.create_string_buffer(POOL_BYTES + _LINE)
        self.address = -(-ctypes.addressof(self._memory) // _LINE) * _LINE
        ctypes.c_int64.from_address(self.address + FIELDS["spins"]).value = _SPINS
        addresses = self._library.addresses
        self.run_address = addresses["pirkit_pool_run"]
        self.run: Run = _RUN(self.run_address)
        self._stop = _STOP(addresses["pirkit_pool_stop"])
        start = _START(addresses["pirkit_pool_start"])
        # workers inherit the mask, so that signals are delivered to threads of Python only
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._workers = start(self.address, threads - 1)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def threads(self) -> int:
        """The number of threads in a run, including the caller."""
        return self._workers + 1

    @property
    def sleepers(self) -> int:
        """The number of workers that are asleep now."""
        return ctypes.c_int64.from_address(self.address + FIELDS["sleepers"]).value

    def stop(self) -> None:
        """Stop the workers; later runs are executed by their caller alone."""
        self._stop(self.address, self._workers)
        self._workers = 0


class _Shared:
    """The pool of this process, if it has one."""

    pool: Pool | None = None


@once
def _library() -> Library:
    return load(compile_cached_ir(pool_text(host().triple)), FUNCTIONS)


def pool() -> Pool:
    """The pool of this process, created at the first call."""
    if _Shared.pool is None:
        with _lock:
            if _Shared.pool is None:
                _Shared.pool = Pool(thread_count())
    return _Shared.pool


def _forget() -> Literal[None]:
    """In the child of a fork: the parent's workers and lock holders do not exist here."""
    global _lock
    _lock = threading.Lock()
    _Shared.pool = None


def _end() -> None:
    if _Shared.pool is not None:
        _Shared.pool.stop()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
