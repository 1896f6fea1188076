"""Sizes of convolutions in Winograd's domain, and of the blocks that compute them."""

from __future__ import annotations

from math import prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.diag.once import cached_property
from pirkit.dialect.winograd import Transforms, points_of, transforms_of
from pirkit.lowering.codegen.conv.nchwc_blocking import NchwcBlocking, NchwcConv, NchwcFrame
from pirkit.lowering.codegen.ir.llvm_text import Type
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.register_tile import rows_that_fit
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

_MAX_ROWS: Final = 10
"""Tiles of results in a register tile at most."""
_FEW_TILES: Final = 24
"""Tiles that a task has at least, if there are as many: all of them read each filter once."""
_TASKS: Final = 4
"""Tasks that a thread has at least, if there are as many."""


class WinogradConv(Struct, frozen=True):
    """A convolution by filters of ``taps`` without strides; pairs are height and width.

    Operands are the image ``[N, blocks, H, W, block]``, the transformed filter
    ``[points, filter_blocks, blocks, block, block]``, a ``bias`` ``[K]`` and a summand
    (``residual``) of the shape of the result if there are any, and the result, to which
    ``activation`` is applied. It is computed in tiles of ``tile``. Unless ``tail`` is 0, only so
    many channels of the last block count.
    """

    n: int
    block: int
    blocks: int
    filter_blocks: int
    lengths: tuple[int, int]
    positions: tuple[int, int]
    before: tuple[int, int]
    taps: tuple[int, int]
    tile: tuple[int, int]
    dtype: DType
    bias: bool = False
    residual: bool = False
    activation: str = "identity"
    tail: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the image that a tile reads."""
        rows, columns = (m + r - 1 for m, r in zip(self.tile, self.taps, strict=True))
        return rows, columns

    @property
    def points(self) -> int:
        return points_of(self.tile, self.taps)

    @property
    def transforms(self) -> tuple[Transforms, Transforms]:
        """The matrices along rows and columns of a tile."""
        down, across = map(transforms_of, self.tile, self.taps)
        return down, across

    @property
    def counts(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        high, wide = (-(-n // m) for n, m in zip(self.positions, self.tile, strict=True))
        return high, wide

    def upright(self) -> WinogradConv:
        """The same with a signal as an image of one column, whose rows are shared by tasks."""
        if (self.lengths[0], self.positions[0], self.taps[0]) != (1, 1, 1):
            return self
        pairs = ("lengths", "positions", "before", "taps", "tile")
        return replace(self, **{name: getattr(self, name)[::-1] for name in pairs})

    @property
    def multiplications(self) -> int:
        pairs = self.blocks * self.filter_blocks * self.block**2
        return self.n * prod(self.counts) * self.points * pairs

    @property
    def operand_bytes(self) -> dict[str, int]:
        """Bytes of each operand, in order."""
        size, filters = self.dtype.itemsize, self.filter_blocks * self.block
        result = self.n * filters * prod(self.positions) * size
        known = {
            "x": self.n * self.blocks * self.block * prod(self.lengths) * size,
            "w": self.points * filters * self.blocks * self.block * size,
            "s": filters * size * self.bias,
            "r": result * self.residual,
            "y": result,
        }
        return {name: count for name, count in known.items() if count}


class WinogradBlocking(Struct, frozen=True):
    """Sizes of tiles: lanes, vectors and blocks of filters, tiles of results; of tasks: rows of
    tiles, and blocks of filters.
    """

    lanes: int
    vectors: int
    filters: int
    positions: int
    rows: int
    task_filters: int

    def tasks(self, c: WinogradConv) -> int:
        return c.n * -(-c.counts[0] // self.rows) * -(-c.filter_blocks // self.task_filters)


class WinogradFrame(Struct, frozen=True, dict=True):
    """The data that loops and routines share; strides are in bytes."""

    c: WinogradConv
    cut: WinogradBlocking
    target: Target

    @cached_property
    def vector(self) -> Type:
        return Type(element(self.c.dtype), self.cut.lanes)

    @cached_property
    def pixel(self) -> int:
        """Of a position of an image, of a result, or of a tile in scratch memory."""
        return self.c.block * self.c.dtype.itemsize

    @cached_property
    def tiles(self) -> int:
        """The tiles of a task."""
        return self.cut.rows * self.c.counts[1]

    @cached_property
    def point(self) -> int:
        """From a point of the transformed image to the next one."""
        return self.c.blocks * self.tiles * self.pixel

    @cached_property
    def sum_point(self) -> int:
        """From a point of the sums to the next one."""
        return self.cut.filters * self.tiles * self.pixel

    @cached_property
    def products(self) -> NchwcFrame:
        """The products at a point: a convolution of 1x1 over the tiles of a task."""
        c, cut, row = self.c, self.cut, (1, self.tiles)
        ones = (1, 1)
        flat = NchwcConv(1, c.block, c.blocks, c.block, c.filter_blocks, row, ones, row, ones, ones,
                         (0, 0), c.dtype, tail=c.tail)  # fmt: skip
        blocks = NchwcBlocking(cut.lanes, cut.vectors, cut.filters, cut.positions, c.blocks, 1)
        return NchwcFrame(flat, blocks, self.target)


def winograd_blocking(c: WinogradConv, target: Target, threads: int) -> WinogradBlocking:
    """Block sizes for the caches of a CPU."""
    size = c.dtype.itemsize
    lanes = min(c.block, target.vector_bits // (8 * size))
    each = c.block // lanes
    most = max(1, 2 // each)
    filters = most if c.filter_blocks % most == 0 else 1
    high, wide = c.counts
    # The transformed image of a task fits the L2 cache, unless it had too few tiles.
    row_bytes = c.points * c.blocks * c.block * wide * size
    rows = max(1, target.l2_bytes * 3 // 4 // row_bytes, -(-_FEW_TILES // wide))
    found = _of_rows(c, target, threads, filters, min(rows, high))
    while threads > 1 and found.rows > 1 and found.tasks(c) < 2 * threads:
        found = _of_rows(c, target, threads, filters, found.rows // 2)
    return found


def _of_rows(
    c: WinogradConv, target: Target, threads: int, filters: int, rows: int
) -> WinogradBlocking:
    """The other sizes where a task has at most so many rows of tiles."""
    lanes = min(c.block, target.vector_bits // (8 * c.dtype.itemsize))
    each, (high, wide) = c.block // lanes, c.counts
    rows = -(-high // -(-high // rows))  # as equal as possible
    fitting = min(rows_that_fit(filters * each, _MAX_ROWS, target), rows * wide)
    positions = -(-rows * wide // -(-rows * wide // fitting))
    stacks = c.filter_blocks // filters
    if threads > 1:
        wanted = -(-_TASKS * threads // (c.n * -(-high // rows)))
        stacks = -(-stacks // min(stacks, wanted))
    return WinogradBlocking(lanes, filters * each, filters, positions, rows, stacks * filters)
