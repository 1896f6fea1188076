"""One pool of threads for native code, shared by all callers of a process.

The threads know nothing of Python: they run generated code (`pool_ir.py`) and sleep when idle. A
caller that finds the pool taken runs its work alone. After a fork the child starts a pool of its
own when it first needs one; before the interpreter ends the threads are ended.
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
from pirkit.runtime.native.cached_ir import compile_cached_ir
from pirkit.runtime.native.engine import Library, load
from pirkit.runtime.native.pool_ir import FIELDS, FUNCTIONS, MAX_WORKERS, POOL_BYTES, pool_text
from pirkit.runtime.native.target import host

_SPINS: Final = 4000
_LINE: Final = 64
_lock = threading.Lock()

AVAILABLE: Final = os.name == "posix"
"""Whether there are threads of the kind the pool is made of; elsewhere callers run alone."""

Run = Callable[[int, int, int, int, int, int], None]
_RUN: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3
)
_START: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_STOP: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def thread_count() -> int:
    """Threads to use: PIRKIT_NUM_THREADS, else OMP_NUM_THREADS, else the CPUs we may run on.

    Raises UsageError for a value that is not a positive number.
    """
    for name in ("PIRKIT_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").partition(",")[0].strip()
        if not text:
            continue
        if not text.isdecimal() or int(text) < 1:
            raise UsageError(f"{name} is `{text}`, not a positive number", code="PK0705")
        return min(int(text), MAX_WORKERS + 1)
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MAX_WORKERS + 1)
    return min(os.cpu_count() or 1, MAX_WORKERS + 1)


class Pool:
    """Workers, and the memory they share with those who call them."""

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
        # workers inherit the mask: signals are for the threads of Python
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._workers = start(self.address, threads - 1)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def threads(self) -> int:
        """Threads that take part in a run, the caller included."""
        return self._workers + 1

    @property
    def sleepers(self) -> int:
        """Workers that are asleep right now."""
        return ctypes.c_int64.from_address(self.address + FIELDS["sleepers"]).value

    def stop(self) -> None:
        """End the workers; a run that comes later is run by its caller alone."""
        self._stop(self.address, self._workers)
        self._workers = 0


class _Shared:
    """The pool of this process, if it has one, and those that were replaced but may be in use."""

    pool: Pool | None = None


@once
def _library() -> Library:
    return load(compile_cached_ir(pool_text(host().triple)), FUNCTIONS)


def pool() -> Pool:
    """The pool of this process, made at the first call."""
    if _Shared.pool is None:
        with _lock:
            if _Shared.pool is None:
                _Shared.pool = Pool(thread_count())
    return _Shared.pool


def _forget() -> Literal[None]:
    """In the child of a fork: its parent's threads are not here, nor whoever held the locks."""
    global _lock
    _lock = threading.Lock()
    _Shared.pool = None


def _end() -> None:
    if _Shared.pool is not None:
        _Shared.pool.stop()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
