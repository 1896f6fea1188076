"""What memory for a result costs: to get it and write it once, from numpy and the allocator."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from pirkit.runtime.tensor.allocator import CachingAllocator

KIBI = 1 << 10


def microseconds(empty: Callable[..., Any], nbytes: int, repeat: int) -> float:
    """The median time to get an array and fill it, with two of them alive in turn."""
    times: list[float] = []
    held: list[Any] = [None, None]
    for i in range(repeat + 2):
        start = time.perf_counter()
        array = empty((nbytes // 4,), np.dtype(np.float32))
        array.fill(1)
        times.append(time.perf_counter() - start)
        held[i % 2] = array
        del array
    return median(times[2:]) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=30)
    repeat = parser.parse_args().repeat
    allocator = CachingAllocator()
    print(f"{'KiB':>8}{'numpy us':>12}{'allocator us':>14}{'ratio':>8}")
    for kibi in (4, 64, 256, 1024, 8192, 65536):
        plain = microseconds(np.empty, kibi * KIBI, repeat)
        kept = microseconds(allocator.empty, kibi * KIBI, repeat)
        print(f"{kibi:>8}{plain:>12.1f}{kept:>14.1f}{plain / kept:>8.2f}")
    print(allocator.stats)


if __name__ == "__main__":
    main()
