"""Sizes of blocks for products whose one side is made while they run.

A product is computed in tiles: some filters times some vectors of positions, whose sums stay in
registers. A panel of what the filters meet lies in the L2 cache, one tile of it in the L1 cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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

NARROWEST: Final = 96
"""Filters that share a panel at least, if there are so many: filling it costs a few of them."""

FILLING: Final = 6
"""Filters whose products take as long as filling a row of a panel for a term."""

FEW: Final = 512
"""Positions up to which a filter is not laid out anew."""

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
    pitch: int
    """Elements of a row in a panel of rows; 0 for a panel with a row for each term."""
    deep: int
    """Channels of a panel."""
    tall: int
    """Tiles along the filters that share a panel."""
    plain: bool
    """Whether tiles read the filter where it lies."""


def reach(taps: Taps) -> tuple[int, int]:
    """The first and the last element that the first position meets."""
    ends = (taps.offset, taps.offset + (taps.count - 1) * taps.shift)
    return min(ends), max(ends)


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
    vector_bytes = target.vector_bits // 8
    most = target.l2_bytes // 4 // (vector_bytes * max(c.terms, 1) * deep)
    most = max(vectors, min(WIDE, most))
    parts = -(-c.positions[-1] // (most * lanes))
    width = -(-c.positions[-1] // parts)
    total = c.n * prod(c.positions[:-1]) * parts
    tiles = -(-c.each // rows)
    tall = max(1, min(tiles, target.l2_bytes // 4 // (rows * most * vector_bytes)))
    least = -(-NARROWEST // rows)

    def pieces(tall: int, lines: int) -> int:
        return c.groups * -(-tiles // tall) * -(-total // lines)

    lines = _lines(width, total, most, lanes, vectors)
    while tall > least and pieces(tall, lines) < PIECES:
        tall = max(least, (tall + 1) // 2)
    while lines > 1 and pieces(tall, lines) < PIECES and lines * width > vectors * lanes:
        lines = _lines(width, total, (lines * width // 2) // lanes, lanes, vectors)
    while tall > 1 and pieces(tall, lines) < PIECES:
        tall = (tall + 1) // 2
    tall = -(-tiles // -(-tiles // tall))
    panel = -(-lines * width // lanes)
    found = Blocks(
        lanes, rows, vectors, width, parts, lines, panel, 0, deep, tall, _is_plain(c, rows)
    )
    return _with_rows(c, found) or found


def _is_plain(c: Blocked, rows: int) -> bool:
    """For few positions laying out the filter takes longer than reading it from rows far apart."""
    return not c.turned and c.each % rows == 0 and c.n * prod(c.positions) <= FEW


def _with_rows(c: Blocked, cut: Blocks) -> Blocks | None:
    """The blocks with a panel of rows; None where the positions that it adds are too many."""
    low, high = reach(c.taps[-1])
    if prod(c.move) != 1 or cut.parts > 1 or c.terms < 2 or low == high:
        return None
    height = c.positions[-2]
    most = -(-height // -(-height // max(1, cut.lines)))
    pitch = _pitch(c)
    best: tuple[float, Blocks] | None = None
    for lines in range(max(1, most // 2), min(height, most + 2) + 1):
        panel = -(-((lines - 1) * pitch + c.positions[-1]) // cut.lanes)
        total = -(-height // lines) * panel
        found = replace(cut, lines=lines, panel=panel, pitch=pitch)
        if best is None or total <= best[0]:
            best = total, found
    assert best is not None
    exact = height * c.positions[-1] / cut.lanes
    filters = min(c.each, cut.tall * cut.rows)
    return best[1] if best[0] <= exact * (1 + FILLING / filters) else None


def _pitch(c: Blocked) -> int:
    """Elements of a row with its padding; where both ends are padded, rows share the zeros."""
    low, high = reach(c.taps[-1])
    length = c.lengths[-1]
    before, behind = -low, high + c.positions[-1] - length
    if min(before, behind) < 0:
        return before + length + behind
    return length + max(before, behind)


def _lines(width: int, total: int, most: int, lanes: int, vectors: int) -> int:
    """Lines of a panel of ``most`` vectors: few lanes in excess, the last panel's included."""
    limit = max(1, min(total, most * lanes // width))

    def excess(lines: int) -> tuple[float, int]:
        count = -(-lines * width // lanes)
        whole, left = divmod(total, lines)
        last = -(-left * width // (lanes * vectors)) * vectors
        short = 0.3 * (count % vectors != 0)
        return round(whole * (count + short) + min(last, count), 1), -lines

    return min(range(max(1, limit // 2), limit + 1), key=excess)
