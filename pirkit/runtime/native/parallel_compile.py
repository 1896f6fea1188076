"""Compiles several modules in parallel: in this process, and in workers if that pays.

The object code does not depend on the process that compiles it.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pirkit.diag.errors import InternalError
from pirkit.runtime.native.compile_workers import CompileWorker, Made, WorkerEndedError, can_start
from pirkit.runtime.native.engine import compile_ir
from pirkit.runtime.native.target import Target
from pirkit.runtime.native.thread_pool import thread_count

_LINE_MS: Final = 0.025
_MODULE_MS: Final = 1.5
_MIN_MS_PER_WORKER: Final = 120.0
"""Least work for a worker in ms, as one takes 70 ms to start."""
_MAX_WORKERS: Final = 7
_PATIENCE_S: Final = 120.0
"""Seconds to wait for the last answers of workers before this process compiles the rest."""


def compile_all(
    texts: Sequence[str], target: Target, progress: Callable[[int], None] = lambda done: None,
    cpu_seconds: Callable[[int, float], None] = lambda number, seconds: None,
) -> list[Made]:  # fmt: skip
    """The object code of each text, or the error that `compile_ir` raises for it.

    ``progress`` is called by this thread, from time to time, with the number of finished texts;
    ``cpu_seconds`` with the index of each text that this thread has compiled and its CPU time.
    """
    work, began = _WorkQueue(texts, target), time.thread_time()
    threads = _start_threads(work.by_worker, worker_count(texts))
    try:
        for number in work.numbers():
            start = time.thread_time()
            work.put(number, _compiled(texts[number], target))
            cpu_seconds(number, time.thread_time() - start)
            progress(work.done)
        until = time.monotonic() + _PATIENCE_S
        while any(t.is_alive() for t in threads) and time.monotonic() < until:
            threads[-1].join(0.1)
            threads = [t for t in threads if t.is_alive()]
            progress(work.done)
    finally:
        work.stop()
    made = [m or _compiled(t, target) for t, m in zip(texts, work.made, strict=True)]
    if time.thread_time() - began > WORTH_S:
        release_llvm_pages()
    return made


def _start_threads(run: Callable[[], None], count: int) -> list[threading.Thread]:
    """Start threads; fewer than ``count`` if the system allows no more."""
    threads: list[threading.Thread] = []
    for _ in range(count):
        thread = threading.Thread(target=run, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            break
        threads.append(thread)
    return threads


def worker_count(texts: Sequence[str]) -> int:
    """The number of workers that pay for these texts."""
    max_workers = min(thread_count() - 1, len(texts) - 1, _MAX_WORKERS)
    # LLVM's time is about linear in the number of lines
    expected = sum(_MODULE_MS + _LINE_MS * text.count("\n") for text in texts)
    useful_workers = min(max_workers, int(expected / _MIN_MS_PER_WORKER) - 1)
    return useful_workers if useful_workers > 0 and can_start() else 0


def _compiled(text: str, target: Target) -> Made:
    try:
        return compile_ir(text, target)
    except InternalError as error:
        return error


class _WorkQueue:
    """A queue of texts, the longest first, shared by this thread and the workers' threads."""

    def __init__(self, texts: Sequence[str], target: Target) -> None:
        self._texts, self._target = texts, target
        self.made: list[Made | None] = [None] * len(texts)
        self._left = sorted(range(len(texts)), key=lambda k: (len(texts[k]), -k))
        self._children: list[CompileWorker] = []
        self._lock = threading.Lock()
        self._stopped = False

    def numbers(self) -> Iterator[int]:
        """Take indices of texts from the queue until it is empty."""
        while True:
            with self._lock:
                if not self._left or self._stopped:
                    return
                number = self._left.pop()
            yield number

    @property
    def done(self) -> int:
        return sum(made is not None for made in self.made)

    def put(self, number: int, made: Made) -> None:
        self.made[number] = made

    def by_worker(self) -> None:
        """Drive one worker process until the queue is empty or the process ends."""
        try:
            worker = CompileWorker(self._target)
        except OSError:
            return
        with self._lock:
            self._children.append(worker)
        try:
            for number in self.numbers():
                self.put(number, worker.compile(self._texts[number]))
        except WorkerEndedError:
            return  # the caller of `compile_all` compiles the missing text
        finally:
            worker.end()

    def stop(self) -> None:
        """Stop handing out texts, and kill workers that still compile."""
        with self._lock:
            self._stopped = True
            worker_count = list(self._children)
        for worker in worker_count:
            worker.kill()


WORTH_S: Final = 0.2
"""CPU seconds of a compilation from which `release_llvm_pages` pays: mapping the pages again takes
3 ms."""

_LIBRARY: Final = "libllvmlite"


def release_llvm_pages() -> None:
    """Unmap the pages of LLVM's code; they are read from the file again when they are needed.

    Compiling touches some 50 MB of `libllvmlite`, which count as memory of the process although
    nothing reads them before the next compilation. The system keeps them in its cache of files.
    """
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
