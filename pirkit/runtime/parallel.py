"""Runs independent steps of a block on several threads.

A step waits for its dependences: read-after-write, write-after-write and write-after-read. Results
do not depend on the number of threads, as each element is computed by one step, in a fixed order.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Hashable, Sequence
from heapq import heappop, heappush
from operator import call as apply
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct, field

from pirkit.diag.forks import renewed
from pirkit.runtime.native.cores import at_most
from pirkit.runtime.nodes import Access
from pirkit.runtime.run_block import BlockSteps, fault, is_of_kernel
from pirkit.runtime.slots import SlotTable

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class Graph(Struct, frozen=True):
    """For each step, the number of its predecessors, and its successors."""

    waits: tuple[int, ...]
    followers: tuple[tuple[int, ...], ...]


def dependencies(accesses: Sequence[Access | None]) -> Graph:
    """The dependence graph of steps; None is a barrier."""
    writer: dict[Hashable, int] = {}
    readers: defaultdict[Hashable, list[int]] = defaultdict(list)
    waits: list[int] = []
    followers: list[list[int]] = [[] for _ in accesses]
    barrier = -1
    for index, access in enumerate(accesses):
        if access is None:
            before = set(range(barrier, index)) - {-1}
            barrier = index
            writer.clear()
            readers.clear()
        else:
            # read after write and write after write, then write after read
            before = {writer[r] for r in access.reads | access.writes if r in writer}
            before |= {i for w in access.writes for i in readers[w]}
            before |= {barrier} if barrier >= 0 else set()
            for written in access.writes:
                writer[written] = index
                readers[written] = []
            for read in access.reads - access.writes:
                readers[read].append(index)
        waits.append(len(before))
        for earlier in before:
            followers[earlier].append(index)
    return Graph(tuple(waits), tuple(map(tuple, followers)))


class _Run(Struct):
    slot_table: SlotTable
    steps: BlockSteps
    graph: Graph
    threads: int
    waits: list[int]
    ready: list[int] = field(default_factory=list[int])
    left: int = 0
    failed: dict[int, BaseException] = field(default_factory=dict[int, BaseException])
    changed: threading.Condition = field(default_factory=threading.Condition)

    def work(self) -> None:
        """Run ready steps, the earliest first, until none is left."""
        with np.errstate(all="ignore"), at_most(self.threads):
            while (index := self.take()) is not None:
                error: BaseException | None = None
                try:
                    apply(*self.steps.calls[index])
                except BaseException as found:  # an interrupt, too, or the others wait for ever
                    error = found
                self.finish(index, error)

    def take(self) -> int | None:
        with self.changed:
            while not self.ready and self.left and not self.failed:
                self.changed.wait()
            return heappop(self.ready) if self.ready and not self.failed else None

    def stop(self, error: BaseException) -> None:
        """Let the threads begin no more steps."""
        with self.changed:
            self.failed[-1] = error
            self.changed.notify_all()

    def finish(self, index: int, error: BaseException | None) -> None:
        with self.changed:
            self.left -= 1
            if error is not None:
                self.failed[index] = error
            for follower in self.graph.followers[index]:
                self.waits[follower] -= 1
                if not self.waits[follower]:
                    heappush(self.ready, follower)
            self.changed.notify_all()


_POOLS: Final[dict[int, ThreadPoolExecutor]] = {}
_LOCK: Final = renewed(threading.Lock())


def _pool(threads: int) -> ThreadPoolExecutor:
    """The pool of a number of threads, created once."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  slow to import

    with _LOCK:
        found = _POOLS.get(threads)
        if found is None:
            found = _POOLS[threads] = ThreadPoolExecutor(threads, thread_name_prefix="pirkit")
        return found


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOLS.clear)  # threads are not forked


def execute_parallel(slot_table: SlotTable, steps: BlockSteps, graph: Graph, threads: int) -> None:
    """Run a block on a number of threads, including the calling one.

    Raises RuntimeFault for a kernel that refuses its arguments; if several do, for the earliest.
    """
    waits = list(graph.waits)
    ready = [i for i, count in enumerate(waits) if not count]
    run = _Run(slot_table, steps, graph, threads, waits, ready, len(waits))
    others = [_pool(threads - 1).submit(run.work) for _ in range(threads - 1)]
    try:
        run.work()
    except BaseException as error:  # an interrupt between two steps
        run.stop(error)
        raise
    for other in others:
        other.result()
    if run.failed:
        index = min(run.failed)
        error = run.failed[index]
        if isinstance(error, Exception) and is_of_kernel(error):
            raise fault(slot_table, steps.instructions[index], error) from error
        raise error
