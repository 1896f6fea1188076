"""Several texts compiled at once: by this process, and by others where that pays.

Object code does not depend on who makes it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pirkit.diag.errors import InternalError
from pirkit.runtime.native.compile_workers import CompileWorker, Made, WorkerEndedError, can_start
from pirkit.runtime.native.engine import compile_ir
from pirkit.runtime.native.pool import thread_count
from pirkit.runtime.native.target import Target

_LINE_MS: Final = 0.025
_MODULE_MS: Final = 1.5
_MIN_MS_PER_WORKER: Final = 120.0
"""Work that a process takes off our hands at least: it takes 70 ms to start."""
_MAX_WORKERS: Final = 7
_PATIENCE_S: Final = 120.0
"""How long a process may take for what is left, before we do that ourselves."""


def compile_all(
    texts: Sequence[str], target: Target, progress: Callable[[int], None] = lambda done: None,
    cpu_seconds: Callable[[int, float], None] = lambda number, seconds: None,
) -> list[Made]:  # fmt: skip
    """Object code of each text, or the error that `compile_ir` raises for it.

    ``progress`` is called by this thread, every now and then, with the number of those that are
    done,
    ``cpu_seconds`` with the number of a text that this thread has compiled and its CPU time for
    that.
    """
    work = _WorkQueue(texts, target)
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
    return [m or _compiled(t, target) for t, m in zip(texts, work.made, strict=True)]


def _start_threads(run: Callable[[], None], count: int) -> list[threading.Thread]:
    """Threads that run; fewer where there can be no more."""
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
    """How many processes help to compile texts."""
    max_workers = min(thread_count() - 1, len(texts) - 1, _MAX_WORKERS)
    expected = sum(_MODULE_MS + _LINE_MS * text.count("\n") for text in texts)
    useful_workers = min(max_workers, int(expected / _MIN_MS_PER_WORKER) - 1)
    return useful_workers if useful_workers > 0 and can_start() else 0


def _compiled(text: str, target: Target) -> Made:
    try:
        return compile_ir(text, target)
    except InternalError as error:
        return error


class _WorkQueue:
    """Texts that are taken by whoever is free, the longest first."""

    def __init__(self, texts: Sequence[str], target: Target) -> None:
        self._texts, self._target = texts, target
        self.made: list[Made | None] = [None] * len(texts)
        self._left = sorted(range(len(texts)), key=lambda k: (len(texts[k]), -k))
        self._children: list[CompileWorker] = []
        self._lock = threading.Lock()
        self._stopped = False

    def numbers(self) -> Iterator[int]:
        """Numbers of texts that are the caller's to compile, while there are any."""
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
        """Let a process compile until nothing is left, or until it ends."""
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
            return  # its text is missing: whoever waits compiles it
        finally:
            worker.end()

    def stop(self) -> None:
        """Nothing more is taken; processes that still compile are ended."""
        with self._lock:
            self._stopped = True
            worker_count = list(self._children)
        for worker in worker_count:
            worker.kill()
