"""Many small calls and many compilations in one process, whose memory has to stay flat.

    python tools/soak.py --calls 1000000 --compilations 2000

The first tenth of each, and 1,200 compilations (at most half of them), fill caches: those of types
and kernels hold 1,024 and more. From there on, the anonymous memory, open files and threads are
compared with those of the end; the exit status is 1 if memory has grown by more than
``--mebibytes`` or the others at all. Each compilation is one of another shape, run once, dropped.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pirkit
from pirkit import ops


class Held(NamedTuple):
    """What a process holds: MiB of anonymous memory, open files, threads."""

    anonymous: float
    files: int
    threads: int


def held() -> Held:
    """What this process holds, as Linux says."""
    gc.collect()
    # Not the pages of libraries and of mapped files, of which the system keeps what it likes.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    threads = len(os.listdir("/proc/self/task")) or threading.active_count()
    files = len(os.listdir("/proc/self/fd"))
    return Held(int(status["RssAnon"].split()[0]) / 2**10, files, threads)


def called() -> Callable[[], None]:
    """A small call of a compiled function, and one that splits into forward and backward."""
    step = pirkit.jit(lambda x, y: ops.tanh(x * 2.0) + y)
    slope = pirkit.jit(pirkit.grad(lambda x: ops.sum(ops.sin(x) * x)))
    x = np.linspace(0, 1, 8, dtype=np.float32)

    def run() -> None:
        step(x, x)
        slope(x)

    return run


def compiled() -> Callable[[], None]:
    """A compilation of a program of its own, its run, and its end."""
    number = 0

    def run() -> None:
        nonlocal number
        number += 1
        # New programs, but not larger ones: the latest are kept, with the memory that they need.
        rows, columns = 2 + number % 97, 1 + number // 97 % 11
        x = np.ones((rows, columns), np.float32)

        def network(x: Any) -> Any:
            return ops.softmax(ops.matmul(x, x, transpose_y=True) * float(number), -1)

        pirkit.jit(network)(x)

    return run


def main() -> int:
    """Run both; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--compilations", type=int, default=2000)
    parser.add_argument("--mebibytes", type=float, default=8)
    options = parser.parse_args()
    print("| what | count | MiB | files | threads | MiB at the end | files | threads |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    grown = False
    for name, make, count in (
        ("calls", called, options.calls // 2),
        ("compilations", compiled, options.compilations),
    ):
        run = make()
        warm = max(count // 10, min(count // 2, 1200))
        for _ in range(warm):
            run()
        first = held()
        for _ in range(count - warm):
            run()
        last = held()
        cells = [f"{first.anonymous:.1f}", *first[1:], f"{last.anonymous:.1f}", *last[1:]]
        total = options.calls if name == "calls" else count
        print(f"| {name} | {total:,} | {' | '.join(map(str, cells))} |", flush=True)
        grown |= last.anonymous > first.anonymous + options.mebibytes or last[1:] > first[1:]
    return int(grown)


if __name__ == "__main__":
    sys.exit(main())
