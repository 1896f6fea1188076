"""What all processes that are measured have in common in their environment."""

from __future__ import annotations

import os
from typing import Final

DROPPED: Final = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Some environments pin OpenBLAS to kernels of old CPUs."""
KEEPING: Final = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""A malloc that keeps large buffers, for the frameworks whose name ends in ``+``."""


def environment_of(framework: str, threads: int) -> dict[str, str]:
    """This process's environment, for a framework on so many threads."""
    found = {k: v for k, v in os.environ.items() if k not in DROPPED}
    found |= {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL", "PIRKIT")}
    return found | KEEPING if framework.endswith("+") else found
