"""Who owns the cores during a run: the pool, with as many threads as the run may use.

numpy's BLAS has threads of its own, which wait for their next call by spinning. Beside the pool
they would take its CPUs, so BLAS has one thread while a run is in numpy. The setting is one of the
process: the first run saves it and the last one restores it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from pirkit.runtime.native.pool import MAX_WORKERS

_PAIRS: Final = (
    *(
        (f"{before}openblas_get_num_threads{after}", f"{before}openblas_set_num_threads{after}")
        for before in ("scipy_", "")
        for after in ("64_", "")
    ),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
)
"""Functions of a BLAS: how many threads it uses, and how many it is to use."""


@dataclass(frozen=True, slots=True)
class BlasThreads:
    """How many threads a BLAS uses, and what sets that."""

    get: Callable[[], int]
    set: Callable[[int], None]


@cache
def blas_threads() -> BlasThreads | None:
    """The setting of the BLAS that numpy is linked with; None for one without such functions.

    A symbol is looked up in numpy's own module and in what that is linked with.
    """
    core: Any = np.linalg._umath_linalg  # type: ignore[attr-defined]  # pyright: ignore
    try:
        library = ctypes.PyDLL(core.__file__)  # its calls are shorter than to release the GIL
    except (OSError, AttributeError, TypeError):
        return None
    for names in _PAIRS:
        if all(hasattr(library, name) for name in names):
            get, put = (library[name] for name in names)
            get.argtypes, get.restype = [], ctypes.c_int
            put.argtypes, put.restype = [ctypes.c_int], None
            return BlasThreads(get, put)
    return None


class _OneBlasThread:
    """A context in which BLAS has one thread; entered by any number of runs at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._before = 1

    def __enter__(self) -> None:
        threads = blas_threads()
        if threads is None:
            return
        with self._lock:
            if not self._runs:
                self._before = threads.get()
                if self._before > 1:
                    threads.set(1)
            self._runs += 1

    def __exit__(self, *_: object) -> None:
        threads = blas_threads()
        if threads is None:
            return
        with self._lock:
            self._runs -= 1
            if not self._runs and self._before > 1:
                threads.set(self._before)

    def after_fork(self) -> None:
        """In the child of a fork: runs of other threads will never end, so they count no more."""
        self._lock = threading.Lock()
        running, self._runs = self._runs, 0
        threads = blas_threads() if running and self._before > 1 else None
        if threads is not None:
            threads.set(self._before)


ONE_BLAS_THREAD: Final = _OneBlasThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ONE_BLAS_THREAD.after_fork)


class _Allowed(threading.local):
    """Threads that native code bound or run by this thread may use."""

    threads = MAX_WORKERS + 1


_ALLOWED: Final = _Allowed()


def allowed_threads() -> int:
    """Threads that native code which is bound now may use, whatever the pool has."""
    return _ALLOWED.threads


class at_most:
    """A context in which native code is bound to at most so many threads; None for all."""

    def __init__(self, threads: int | None) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        self._before = _ALLOWED.threads
        if self._threads is not None:
            _ALLOWED.threads = min(self._before, self._threads)

    def __exit__(self, *_: object) -> None:
        _ALLOWED.threads = self._before
