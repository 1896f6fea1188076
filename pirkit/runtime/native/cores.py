"""Avoids oversubscription: during a run the cores belong to pirkit's thread pool.

The threads of numpy's BLAS spin while they wait for the next call, and would compete with the pool.
So BLAS is limited to one thread during runs. The limit is process-wide: the first of several
concurrent runs saves the old value and the last one restores it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import ArgumentError
from pirkit.runtime.native.thread_pool import MAX_WORKERS

_PAIRS: Final = (
    *(
        (f"{before}openblas_get_num_threads{after}", f"{before}openblas_set_num_threads{after}")
        for before in ("scipy_", "")
        for after in ("64_", "")
    ),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
)
"""Pairs of functions that get and set the number of threads of a BLAS."""


class BlasThreads(Struct, frozen=True):
    """The functions that get and set the number of threads of a BLAS."""

    get: Callable[[], int]
    set: Callable[[int], None]


@cache
def blas_library(kind: type[ctypes.CDLL] = ctypes.CDLL) -> ctypes.CDLL | None:
    """numpy's extension module, in which symbols of the libraries it is linked with are found."""
    core: Any = np.linalg._umath_linalg  # type: ignore[attr-defined]  # pyright: ignore
    try:
        return kind(core.__file__)
    except (OSError, AttributeError, TypeError):
        return None


@cache
def blas_threads() -> BlasThreads | None:
    """The thread setting of numpy's BLAS; None if it has no such functions."""
    library = blas_library(ctypes.PyDLL)  # calls are too short to release the GIL
    for names in _PAIRS:
        if library is not None and all(hasattr(library, name) for name in names):
            get, put = (library[name] for name in names)
            get.argtypes, get.restype = [], ctypes.c_int
            put.argtypes, put.restype = [ctypes.c_int], None
            return BlasThreads(get, put)
    return None


class _OneBlasThread:
    """A re-entrant context, shared by concurrent runs, in which BLAS has one thread."""

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
            self._runs = max(self._runs - 1, 0)  # a child that was forked in a run has dropped it
            if not self._runs and self._before > 1:
                threads.set(self._before)

    def after_fork(self) -> None:
        """In the child of a fork: drop the runs of threads that do not exist here."""
        self._lock = threading.Lock()
        running, self._runs = self._runs, 0
        threads = blas_threads() if running and self._before > 1 else None
        if threads is not None:
            threads.set(self._before)


ONE_BLAS_THREAD: Final = _OneBlasThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ONE_BLAS_THREAD.after_fork)


class _Allowed(threading.local):
    """The thread limit for native code that is bound or run by the current thread."""

    threads = MAX_WORKERS + 1


_ALLOWED: Final = _Allowed()


def allowed_threads() -> int:
    """The current thread limit for native code, independent of the pool's size."""
    return _ALLOWED.threads


def check_threads(threads: Any) -> None:
    """Raise ArgumentError (PK0701) unless it is an integer of at least 1, or None."""
    is_count = hasattr(threads, "__index__") and not isinstance(threads, bool)
    if threads is not None and not (is_count and threads > 0):
        raise ArgumentError(
            f"{threads!r} threads run nothing",
            help="give an integer of at least 1, or None for all",
        )


def limit_all(threads: int | None) -> None:
    """Limit the threads of native code in this thread and in all others, except inside of their
    `at_most`; None for no limit.
    """
    _Allowed.threads = MAX_WORKERS + 1 if threads is None else threads
    vars(_ALLOWED).pop("threads", None)


class at_most:
    """A context that limits native code to a number of threads; None for no limit."""

    def __init__(self, threads: int | None) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        if self._threads is not None:
            self._before: int | None = vars(_ALLOWED).get("threads")
            _ALLOWED.threads = min(_ALLOWED.threads, self._threads)

    def __exit__(self, *_: object) -> None:
        if self._threads is None:
            return
        if self._before is None:  # from here on the limit of `limit_all` holds again
            vars(_ALLOWED).pop("threads", None)
        else:
            _ALLOWED.threads = self._before
