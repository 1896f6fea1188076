"""Profiles: the time, traffic and arithmetic of each instruction, against what the machine can do.

The roofline is the least time of an instruction: its traffic divided by the memory bandwidth,
or its arithmetic divided by the rate of a large matmul, whichever is longer (Williams, Waterman and
Patterson, 2009). Both rates are measured here, with numpy, on the threads that the process has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import zip_longest
from statistics import median
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from pirkit.diag.span import Span
from pirkit.lowering.call_work import Work, work_of
from pirkit.runtime.executor import Executable
from pirkit.runtime.native.cores import ONE_BLAS_THREAD
from pirkit.runtime.plan import SEGMENT
from pirkit.runtime.trace import Entry

_COPIED: Final = 16 << 20
"""Bytes that are copied to measure the bandwidth."""
_SIDE: Final = 512
"""Rows and columns of the matrices that are multiplied to measure the arithmetic."""
_CLOCK: Final = 1e-5
"""Seconds up to which the clock is not precise enough to tell a rate."""


class Machine(Struct, frozen=True):
    """The peak rates of the machine: bytes and arithmetic operations per second."""

    bandwidth: float
    flops: float

    def least(self, work: Work) -> float:
        """The seconds that the work takes at least."""
        return max(work.nbytes / self.bandwidth, work.flops / self.flops)

    def reaching(self, rows: Iterable[Row]) -> Machine:
        """The rates, raised to those that rows reach: on a busy machine they are measured too low.

        All rows together count, too.
        """
        timed = [(row.seconds, row.work) for row in rows]
        seconds, works = sum(s for s, _ in timed), [w for _, w in timed]
        timed.append((seconds, Work(sum(w.nbytes for w in works), sum(w.flops for w in works))))
        timed = [(s, work) for s, work in timed if s > _CLOCK]
        return Machine(
            max([self.bandwidth, *(work.nbytes / s for s, work in timed)]),
            max([self.flops, *(work.flops / s for s, work in timed)]),
        )


class Row(Struct, frozen=True):
    """One instruction: its median time in seconds, and its work."""

    entry: Entry
    seconds: float
    work: Work

    @property
    def lines(self) -> tuple[Span, ...]:
        """The source lines, if they are known."""
        return () if self.entry.span is None else (self.entry.span,)


class Profile(Struct, frozen=True):
    """The instructions in order; ``run`` is the median time of a run without the profiler.

    For a native segment there are the kernels in it, each with the time of its functions.
    """

    rows: tuple[Row, ...]
    run: float
    machine: Machine

    @property
    def work(self) -> Work:
        """The work of all instructions."""
        return Work(sum(r.work.nbytes for r in self.rows), sum(r.work.flops for r in self.rows))

    def own(self) -> list[tuple[Row, float]]:
        """Each row with its seconds outside of the rows that it contains."""
        found: list[tuple[Row, float]] = []
        within: list[float] = []
        """By depth: the seconds of the rows that the next row above them contains."""
        for row in reversed(self.rows):
            depth = row.entry.depth
            within += [0.0] * (depth + 2 - len(within))
            found.append((row, max(row.seconds - within[depth + 1], 0.0)))
            within[depth + 1] = 0.0
            within[depth] += row.seconds
        return found[::-1]

    def share(self, row: Row) -> float:
        """The share of the roofline that an instruction reaches, from 0 to 1."""
        return min(self.machine.least(row.work) / row.seconds, 1.0) if row.seconds else 0.0


def profile(exe: Executable, inputs: Mapping[str, Any], repeat: int) -> Profile:
    """Run a program ``repeat`` times, instruction by instruction; a first run only warms up."""
    machine = measured()
    exe.trace(inputs)
    traces = [exe.trace(inputs).entries for _ in range(repeat)]
    # A loop may run another number of times: then only the last run is counted.
    same = [t for t in traces if [e.what for e in t] == [e.what for e in traces[-1]]]
    rows = list(_kernels([
        Row(entry, median(t[k].seconds for t in same), _work(entry))
        for k, entry in enumerate(traces[-1])
    ]))  # fmt: skip
    run = seconds_of(lambda: exe.run(inputs), repeat)
    return Profile(tuple(rows), run, machine.reaching(rows))


def _kernels(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows, with those in a native segment instead of that of the segment."""
    segment = None
    for row, following in zip_longest(rows, rows[1:]):
        depth = row.entry.depth
        segment = segment if segment is not None and depth > segment else None
        if segment is not None:
            yield replace(row, entry=replace(row.entry, depth=depth - 1))
        elif row.entry.what == SEGMENT and following is not None and following.entry.depth > depth:
            segment = depth
        else:
            yield row


def seconds_of(
    run: Callable[[], object], repeat: int, summary: Callable[[list[float]], float] = median
) -> float:
    """The median time of some runs, after one that warms up; or another summary."""
    run()
    times: list[float] = []
    for _ in range(repeat):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return summary(times)


def measured() -> Machine:
    """The rates of this machine, which take about a tenth of a second."""
    source = np.ones(_COPIED // 8)
    target = np.empty_like(source)
    copy = seconds_of(lambda: np.copyto(target, source), 9, min)
    rates: list[float] = []
    x = np.ones((_SIDE, _SIDE), np.float32)
    for context in (nullcontext(), ONE_BLAS_THREAD):  # busy threads wait for each other
        with context:
            rates.append(2 * _SIDE**3 / seconds_of(partial(np.matmul, x, x), 9, min))
    return Machine(2 * _COPIED / copy, max(rates))


def folded(rows: Iterable[tuple[Row, float]]) -> str:
    """Collapsed stacks, of file, line and instruction, in nanoseconds: for flame graph tools."""
    found: dict[str, int] = {}
    for row, seconds in rows:
        span = row.entry.span
        where = (span.file, f"{span.file}:{span.line}") if span else ("(unknown)",)
        stack = ";".join(part.replace(";", ",") for part in (*where, row.entry.what))
        found[stack] = found.get(stack, 0) + round(seconds * 1e9)
    return "".join(f"{stack} {count}\n" for stack, count in found.items())


def _work(entry: Entry) -> Work:
    """The work of all runs of an entry.

    Calls that share a native function move the bytes of its operands only.
    """
    works = [work_of(*typed) for typed in entry.calls if typed.call.kernel != SEGMENT]
    alone = len(works) == 1
    nbytes = works[0].nbytes * entry.times if alone else entry.nbytes
    return Work(nbytes, entry.times * sum(w.flops for w in works))
