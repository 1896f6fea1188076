"""Chooses register tiles: how many rows by how many vectors of accumulators a microkernel has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pirkit.runtime.native.target import Target

MAX_ROWS: Final = 14
MAX_VECTORS: Final = 8
MIN_ACCUMULATORS: Final = 8
"""Accumulators that hide the latency of FMA: four cycles, two FMAs in each."""


def register_count(target: Target) -> int:
    """Vector registers: 32 with AVX-512 and on AArch64, else 16."""
    return 32 if target.vector_bits == 512 or not target.x86 else 16


def fits_registers(rows: int, vectors: int, target: Target) -> bool:
    """Whether accumulators, the vectors of one term and a broadcast fit the registers."""
    # Without FMA a product is a value of its own.
    product = target.x86 and not target.has("fma")
    return rows * vectors + vectors + 1 + product <= register_count(target)


def rows_that_fit(vectors: int, max_rows: int, target: Target) -> int:
    """The most rows, up to ``max_rows``, of a tile with so many vectors; at least one."""
    return max([1, *[n for n in range(1, max_rows + 1) if fits_registers(n, vectors, target)]])


def estimated_cost(rows: int, vectors: int) -> float:
    """Relative time per multiplication: loads, or FMA latency if accumulators are few."""
    loads = (rows + vectors) / (rows * vectors)
    return max(MIN_ACCUMULATORS / (rows * vectors), 0.9 + 0.2 * loads)


def cheapest_tile(
    candidates: Iterable[tuple[int, int]], padding: Callable[[int, int], float], target: Target
) -> tuple[int, int]:
    """Rows and vectors with the least estimated cost, times the factor that ``padding`` adds.

    The first one of equal candidates; at least one of them fits the registers.
    """
    fitting = [tile for tile in candidates if fits_registers(*tile, target)]
    return min(fitting, key=lambda tile: padding(*tile) * estimated_cost(*tile))


def padding(extent: int, block: int) -> float:
    """The factor by which blocks enlarge an extent."""
    return -(-extent // block) * block / extent
