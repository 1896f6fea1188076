"""Sizes of blocks for products whose one side is made while they run.

A product is computed in tiles: some filters times some vectors of positions, whose sums stay in
registers. A panel of what the filters meet lies in the L2 cache, one tile of it in the L1 cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from pirkit.lowering.codegen.registers import MOST_ROWS, MOST_VECTORS, cost, fits
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

DEEP: Final = 128
"""Terms of a sum that are added up at a time: a tile of the panel stays in the L1 cache."""

PIECES: Final = 16
"""Pieces of work at least, if there is enough: so many threads share them evenly."""

WIDE: Final = 24
"""Vectors of a panel at most."""


@dataclass(frozen=True, slots=True)
class Taps:
    """Elements of a filter along an axis: ``first``, ``first + step``..., ``count`` in all.

    For position q they meet the image at ``move * q + offset``, ``+ offset + shift``...
    """

    count: int
    first: int
    step: int
    offset: int
    shift: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """A convolution, or those positions of it that meet the same elements of the filter.

    ``each`` filters for each of ``groups`` have ``depth`` channels, like their images. What
    follows is by spatial axis. The filter lies as ``[groups * each, depth, *sizes]``, with
    ``turned`` as ``[groups * depth, each, *sizes]``. Position q meets the image at ``move * q``
    and is element ``begin + spread * q`` of the result, which has ``room`` elements.
    """

    n: int
    groups: int
    each: int
    depth: int
    lengths: tuple[int, ...]
    sizes: tuple[int, ...]
    room: tuple[int, ...]
    positions: tuple[int, ...]
    taps: tuple[Taps, ...]
    move: tuple[int, ...]
    begin: tuple[int, ...]
    spread: tuple[int, ...]
    dtype: DType
    turned: bool = False

    @property
    def terms(self) -> int:
        """Terms of one sum for each channel."""
        return prod([t.count for t in self.taps])

    @property
    def products(self) -> int:
        """Multiplications of all sums."""
        sums = self.n * self.groups * self.each * prod(self.positions)
        return sums * self.depth * self.terms


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a convolution is cut."""

    lanes: int
    rows: int
    """Filters of a tile."""
    vectors: int
    """Vectors of positions of a tile."""
    width: int
    """Positions of a line: a row of the result, or a part of one."""
    parts: int
    """Lines of a row."""
    lines: int
    """Lines of a panel."""
    panel: int
    """Vectors of a panel."""
    deep: int
    """Channels of a panel."""
    tall: int
    """Tiles along the filters that share a panel."""


def tile_of(each: int, target: Target) -> tuple[int, int]:
    """Filters and vectors of a tile: few filters in excess, and few reads for each product."""
    best: tuple[float, int, int] | None = None
    for rows, vectors in product(range(1, MOST_ROWS + 1), range(1, MOST_VECTORS + 1)):
        if not fits(rows, vectors, target):
            continue
        found = -(-each // rows) * rows / each * cost(rows, vectors)
        if best is None or found < best[0]:
            best = found, rows, vectors
    assert best is not None
    return best[1], best[2]


def blocks_of(c: Blocked, target: Target) -> Blocks:
    """Sizes for the caches of a CPU. The order in which sums are added up is that of ``deep``."""
    lanes = target.vector_bits // (8 * c.dtype.itemsize)
    rows, vectors = tile_of(c.each, target)
    deep = min(max(1, DEEP // max(c.terms, 1)), c.depth)
    line_bytes = target.vector_bits // 8 * max(c.terms, 1) * deep
    most = max(vectors, min(WIDE, target.l2_bytes // 4 // line_bytes))
    parts = -(-c.positions[-1] // (most * lanes))
    width = -(-c.positions[-1] // parts)
    total = c.n * prod(c.positions[:-1]) * parts
    lines = _lines(width, min(total, max(1, most * lanes // width)), lanes, vectors)
    panel = -(-lines * width // lanes)
    tiles = -(-c.each // rows)
    tall = max(1, min(tiles, target.l2_bytes // 4 // (rows * panel * target.vector_bits // 8)))
    while lines > 1 and c.groups * -(-tiles // tall) * -(-total // lines) < PIECES:
        fewer = _lines(width, (lines + 1) // 2, lanes, vectors)
        if -(-fewer * width // lanes) < vectors:
            break
        lines = fewer
    while tall > 1 and c.groups * -(-tiles // tall) * -(-total // lines) < PIECES:
        tall = (tall + 1) // 2
    tall = -(-tiles // -(-tiles // tall))
    panel = -(-lines * width // lanes)
    return Blocks(lanes, rows, vectors, width, parts, lines, panel, deep, tall)


def _lines(width: int, most: int, lanes: int, vectors: int) -> int:
    """Lines of a panel: as few lanes in excess as can be, then as many lines."""

    def excess(lines: int) -> tuple[float, int]:
        count = -(-lines * width // lanes)
        short = 0.3 if count % vectors else 0.0
        return round((count + short) * lanes / (lines * width), 2), -lines

    return min(range(max(1, most // 2), most + 1), key=excess)
