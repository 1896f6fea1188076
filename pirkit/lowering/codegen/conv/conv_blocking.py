"""Block sizes of convolutions whose image panel is filled while they run.

A register tile is some filters by some vectors of output positions. A panel of what the taps read
stays in the L2 cache, the part of it that one tile reads in the L1 cache.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.conv.conv_epilogue import ConvEpilogue
from pirkit.lowering.codegen.matmul.register_tile import (
    MAX_ROWS,
    MAX_VECTORS,
    MIN_ACCUMULATORS,
    cheapest_tile,
    fits_registers,
    padding,
)
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

MAX_DEPTH: Final = 128
"""Most terms of a panel: a tile's part of it stays in the L1 cache."""

MIN_TASKS: Final = 16
TASKS_PER_THREAD: Final = 2
"""For a balanced load there are at least so many tasks (in all, or for each thread, whichever is
less), if the problem is large enough. More tasks fill the same panel again for other filters."""

MIN_PANEL_FILTERS: Final = 96
"""The least number of filters that share a panel, if there are so many: they pay for filling it."""

FILL_COST_FILTERS: Final = 6
"""Filters whose multiplications take as long as filling the panel."""

MAX_PLAIN_POSITIONS: Final = 512
"""Output positions up to which packing the filter does not pay."""

MAX_PANEL_VECTORS: Final = 24
"""Vectors of positions per panel at most."""


class Taps(Struct, frozen=True):
    """The taps of a filter along an axis: elements ``first``, ``first + step``..., ``count`` in
    all.

    At output position q they read the image at ``image_stride * q + offset``, ``+ offset +
    shift``...
    """

    count: int
    first: int
    step: int
    offset: int
    shift: int


class ConvProblem(Struct, frozen=True):
    """A convolution, or one phase of a transposed one.

    Each of ``groups`` has ``group_filters`` filters of ``depth`` channels. Tuples are by spatial
    axis. The filter has the shape ``[groups * group_filters, depth, *sizes]``, with
    ``is_transposed`` ``[groups * depth, group_filters, *sizes]``. Output position q reads the image
    from ``image_stride * q`` on and is element ``result_start + result_stride * q`` of the result,
    whose spatial extents are ``room``.
    """

    n: int
    groups: int
    group_filters: int
    depth: int
    lengths: tuple[int, ...]
    sizes: tuple[int, ...]
    room: tuple[int, ...]
    positions: tuple[int, ...]
    taps: tuple[Taps, ...]
    image_stride: tuple[int, ...]
    result_start: tuple[int, ...]
    result_stride: tuple[int, ...]
    dtype: DType
    is_transposed: bool = False
    epilogue: ConvEpilogue | None = None
    """Its vectors are operands after the result."""

    @property
    def spares_padding(self) -> bool:
        """Whether panels have zeros that the result does not count (`infinite_taps.py`)."""
        padded = any(map(self.leaves, range(len(self.taps))))
        return self.is_transposed and self.terms > 0 and padded

    def leaves(self, axis: int) -> bool:
        """Whether taps read outside of the image at some positions."""
        low, high = reach(self.taps[axis])
        last = (self.positions[axis] - 1) * self.image_stride[axis]
        return low < 0 or high + last >= self.lengths[axis]

    @property
    def terms(self) -> int:
        """Taps of a channel: terms of a sum per channel."""
        return prod([t.count for t in self.taps])

    @property
    def vectors(self) -> int:
        """Operands with a number for each filter."""
        return 0 if self.epilogue is None else len(self.epilogue.vectors)

    @property
    def multiplications(self) -> int:
        """Multiplications of the whole problem, for the estimate of work."""
        sums = self.n * self.groups * self.group_filters * prod(self.positions)
        return sums * self.depth * self.terms


class ConvBlocking(Struct, frozen=True):
    """The block sizes of a convolution."""

    lanes: int
    rows: int
    """Filters of a register tile."""
    vectors: int
    """Vectors of positions of a register tile."""
    width: int
    """Positions of a line: a row of the result, or a part of one."""
    line_parts: int
    """Lines per row."""
    lines: int
    """Lines per panel."""
    panel: int
    """Vectors of positions per panel."""
    pitch: int
    """Elements of a row of an implicit im2col panel; 0 for explicit im2col."""
    channel_block: int
    """Channels per panel."""
    filter_tiles: int
    """Register tiles along the filters that share a panel."""
    reads_filter_in_place: bool
    """Whether tiles read the filter without packing it."""
    stacked: int = 1
    """Tiles along the filters that one tile covers where fewer vectors than its own are left."""


def reach(taps: Taps) -> tuple[int, int]:
    """The lowest and the highest offset that taps read."""
    ends = (taps.offset, taps.offset + (taps.count - 1) * taps.shift)
    return min(ends), max(ends)


def tile_of(filters: int, target: Target) -> tuple[int, int]:
    """Filters and vectors of positions of a register tile."""
    candidates = product(range(1, MAX_ROWS + 1), range(1, MAX_VECTORS + 1))
    return cheapest_tile(candidates, lambda rows, _: padding(filters, rows), target)


def conv_blocking_of(c: ConvProblem, target: Target, threads: int) -> ConvBlocking:
    """Block sizes for the caches of a CPU. Rounding depends on ``channel_block`` only."""
    min_tasks = min(MIN_TASKS, TASKS_PER_THREAD * threads) if threads > 1 else 1
    lanes = target.vector_bits // (8 * c.dtype.itemsize)
    rows, vectors = tile_of(c.group_filters, target)
    channel_block = min(max(1, MAX_DEPTH // max(c.terms, 1)), c.depth)
    vector_bytes = target.vector_bits // 8
    max_vectors = target.l2_bytes // 4 // (vector_bytes * max(c.terms, 1) * channel_block)
    max_vectors = max(vectors, min(MAX_PANEL_VECTORS, max_vectors))
    parts = -(-c.positions[-1] // (max_vectors * lanes))
    width = -(-c.positions[-1] // parts)
    total = c.n * prod(c.positions[:-1]) * parts
    tiles = -(-c.group_filters // rows)
    # The accumulators of the tiles get a quarter of L2, the panel another one.
    filter_tiles = max(1, min(tiles, target.l2_bytes // 4 // (rows * max_vectors * vector_bytes)))
    min_filter_tiles = -(-MIN_PANEL_FILTERS // rows)

    def tasks(filter_tiles: int, lines: int) -> int:
        return c.groups * -(-tiles // filter_tiles) * -(-total // lines)

    lines = _panel_lines(width, total, max_vectors, lanes, vectors)
    # With too few tasks: first fewer filters per task, then fewer lines, and only then so few
    # filters that filling the panel is no longer amortized.
    while filter_tiles > min_filter_tiles and tasks(filter_tiles, lines) < min_tasks:
        filter_tiles = max(min_filter_tiles, (filter_tiles + 1) // 2)
    while lines > 1 and tasks(filter_tiles, lines) < min_tasks and lines * width > vectors * lanes:
        lines = _panel_lines(width, total, (lines * width // 2) // lanes, lanes, vectors)
    while filter_tiles > 1 and tasks(filter_tiles, lines) < min_tasks:
        filter_tiles = (filter_tiles + 1) // 2
    filter_tiles = -(-tiles // -(-tiles // filter_tiles))
    panel = -(-lines * width // lanes)
    found = ConvBlocking(
        lanes,
        rows,
        vectors,
        width,
        parts,
        lines,
        panel,
        0,
        channel_block,
        filter_tiles,
        _is_plain(c, rows),
    )
    found = _with_implicit_im2col(c, found) or found
    return replace(found, stacked=_stacked(found, target))


def _stacked(cut: ConvBlocking, target: Target) -> int:
    """The fewest tiles whose accumulators hide the latency of FMA, if they fit the registers.

    More of them would read more rows of a filter at once; rows that are far apart by a power of two
    evict each other from the L1 cache.
    """
    left = cut.panel % cut.vectors
    wanted = min(-(-MIN_ACCUMULATORS // (cut.rows * max(left, 1))), cut.filter_tiles)
    return wanted if left and fits_registers(wanted * cut.rows, left, target) else 1


def _is_plain(c: ConvProblem, rows: int) -> bool:
    """Whether to read the filter in place: packing pays only with many positions."""
    return (
        not c.is_transposed
        and c.group_filters % rows == 0
        and c.n * prod(c.positions) <= MAX_PLAIN_POSITIONS
    )


def _with_implicit_im2col(c: ConvProblem, cut: ConvBlocking) -> ConvBlocking | None:
    """The blocks for implicit im2col; None if it adds too many positions or does not apply."""
    low, high = reach(c.taps[-1])
    # A tap must read a contiguous run of a row, at more than one offset.
    if prod(c.image_stride) != 1 or cut.line_parts > 1 or c.terms < 2 or low == high:
        return None
    height = c.positions[-2]
    max_vectors = -(-height // -(-height // max(1, cut.lines)))
    pitch = _row_pitch(c)
    best: tuple[float, ConvBlocking] | None = None
    for lines in range(max(1, max_vectors // 2), min(height, max_vectors + 2) + 1):
        panel = -(-((lines - 1) * pitch + c.positions[-1]) // cut.lanes)
        total = -(-height // lines) * panel
        found = replace(cut, lines=lines, panel=panel, pitch=pitch)
        if best is None or total <= best[0]:
            best = total, found
    assert best is not None
    exact = height * c.positions[-1] / cut.lanes
    filters = min(c.group_filters, cut.filter_tiles * cut.rows)
    # The added positions cost multiplications, explicit im2col costs copies of every tap.
    return best[1] if best[0] <= exact * (1 + FILL_COST_FILTERS / filters) else None


def _row_pitch(c: ConvProblem) -> int:
    """Elements of a padded row; if both ends are padded, adjacent rows share the zeros."""
    low, high = reach(c.taps[-1])
    length = c.lengths[-1]
    before, behind = -low, high + c.positions[-1] - length
    if min(before, behind) < 0:
        return before + length + behind
    return length + max(before, behind)


def _panel_lines(width: int, total: int, max_vectors: int, lanes: int, vectors: int) -> int:
    """Lines per panel of at most ``max_vectors`` vectors, with the fewest idle lanes."""
    limit = max(1, min(total, max_vectors * lanes // width))

    def excess(lines: int) -> tuple[float, int]:
        """Vectors that all panels take, the partial last one included; then larger panels."""
        count = -(-lines * width // lanes)
        whole, left = divmod(total, lines)
        last = -(-left * width // (lanes * vectors)) * vectors
        short = 0.3 * (count % vectors != 0)
        return round(whole * (count + short) + min(last, count), 1), -lines

    return min(range(max(1, limit // 2), limit + 1), key=excess)
