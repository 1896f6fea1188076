"""Sizes of convolutions over blocked channels, and of the blocks that compute them."""

from __future__ import annotations

from math import prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.diag.once import cached_property
from pirkit.lowering.codegen.ir.llvm_text import Type
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.register_tile import fits_registers, rows_that_fit
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

_FILTER_BYTES: Final = 6 << 10
"""Bytes of a stack of filters that are read again for each tile, so that they, the rows that meet
them and what is prefetched stay in the L1 cache."""
_WHOLE_FILTERS: Final = 72 << 10
"""Bytes of a stack of filters up to which all of it is read for each tile, from the L2 cache."""
_SHARED_FILTERS: Final = 48 << 10
"""The same for a task of `_MANY_ROWS`, which can share the reads of parts, and for filters of 1x1,
whose stacks are wide: without parts few rows of so many channels fit the L2 cache, and each reads
all filters again (1024 to 256 channels at 14 x 14 took 1.4 times as long on a Cascade Lake)."""
_POINT_FILTER_BYTES: Final = 16 << 10
"""Bytes of such a part of filters of 1x1: sums are read and written once for every part."""
_TWICE: Final = 12
"""An odd number of blocks of filters below which tiles have one (5 blocks: 1.2 times as fast on a
Zen 4, 7 blocks 1.16); the more blocks, the less it costs to compute one of them twice."""
_MANY_ROWS: Final = 8
_MAX_POSITIONS: Final = 8
_WIDE_ROWS: Final = 5
"""Positions that a tile of four vectors has at least."""


class NchwcConv(Struct, frozen=True):
    """A convolution of images with blocked channels; pairs are height and width.

    A filter has the shape ``[K/b, C/b, kh, kw, b, b]``, filters last; if it is ``depthwise``
    ``[C/b, kh, kw, b]``. An image in ``planar`` form is ``[N, depth, H, W]`` and its filter
    ``[K/b, 1, kh, kw, depth, b]``. A block of the image has ``depth`` channels, and each of
    ``groups`` has ``blocks`` of them, which its own filters multiply. Unless ``tail`` is 0, only so
    many channels of the last block count.

    Operands are image and filter, then a ``bias`` ``[K]`` and a summand (``residual``) of the shape
    of the result if there are any, and last the result, to which ``activation`` is applied. With
    ``pool``, which is ``depthwise`` without a filter, the result is the largest element of each
    window that is in the image.

    Images of uint8 have filters of int8, ``[K/b, C/d, kh, kw, d/4, b, 4]`` with d the ``depth``,
    and scales ``[K]``. Sums begin with ``offsets`` ``[K]`` of int32 if there are any. The result is
    float32, or uint8 if it is ``narrow``; the summand is uint8 with ``narrow_residual``. ``zeros``
    are the bytes that stand for 0 in the result and in the summand.
    """

    n: int
    block: int
    blocks: int
    depth: int
    filter_blocks: int
    lengths: tuple[int, int]
    sizes: tuple[int, int]
    positions: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    before: tuple[int, int]
    dtype: DType
    planar: bool = False
    depthwise: bool = False
    bias: bool = False
    residual: bool = False
    activation: str = "identity"
    tail: int = 0
    pool: bool = False
    narrow: bool = False
    narrow_residual: bool = False
    zeros: tuple[int, int] = (0, 0)
    groups: int = 1
    offsets: bool = False

    @property
    def quantized(self) -> bool:
        """Whether products of integers are added, four at once."""
        return self.dtype is dt.uint8 and not self.pool

    @property
    def group(self) -> int:
        """Channels that one lane multiplies at once."""
        return 4 if self.quantized else 1

    @property
    def summed(self) -> DType:
        """The element type of sums, which fixes the lanes of a register."""
        return dt.int32 if self.quantized else self.dtype

    @property
    def wide(self) -> DType:
        """The element type of the bias, of the scales, and of what is not narrow."""
        return dt.float32 if self.quantized else self.dtype

    @property
    def result(self) -> DType:
        return self.dtype if self.narrow else self.wide

    @property
    def multiplications(self) -> int:
        depth = 1 if self.depthwise else self.blocks * self.depth
        terms = depth * prod(self.sizes)
        return self.n * self.filter_blocks * self.block * prod(self.positions) * terms

    @property
    def operand_bytes(self) -> dict[str, int]:
        """Bytes of each operand, in order, by the name that a tile has for it."""
        filters, size, wide = self.filter_blocks * self.block, self.dtype.itemsize, self.wide
        weights = filters * prod(self.sizes)
        weights *= 1 if self.depthwise else self.blocks * self.depth
        result = self.n * filters * prod(self.positions)
        image = self.n * self.groups * self.blocks * self.depth * prod(self.lengths)
        summand = self.dtype if self.narrow_residual else wide
        known = {
            "x": image * size,
            "w": 0 if self.pool else weights * size,
            "q": filters * wide.itemsize * self.quantized,
            "s": filters * wide.itemsize * self.bias,
            "r": result * summand.itemsize * self.residual,
            "p": wide.itemsize * self.narrow_residual,
            "v": wide.itemsize * self.narrow,
            "o": filters * self.summed.itemsize * self.offsets,
            "y": result * self.result.itemsize,
        }
        return {name: count for name, count in known.items() if count}

    def flat(self, most: int) -> NchwcConv:
        """The same in longer rows, if each position meets one of the image.

        A row has at most ``most`` positions, or as many as now.
        """
        if prod(self.sizes) > 1 or prod(self.strides) > 1 or any(self.before):
            return self
        if self.positions != self.lengths:
            return self
        room = prod(self.lengths)
        most = max(most, self.lengths[1])
        width = max(n for n in range(1, most + 1) if room % n == 0)
        return replace(self, lengths=(room // width, width), positions=(room // width, width))


class NchwcBlocking(Struct, frozen=True):
    """Sizes of tiles: positions, vectors; of blocks: filters, channels (in blocks), rows."""

    lanes: int
    vectors: int
    filters: int
    positions: int
    channels: int
    rows: int
    """Rows of the result that a task computes."""

    def tasks(self, c: NchwcConv) -> int:
        return c.n * -(-c.positions[0] // self.rows) * -(-c.filter_blocks // self.filters)


class NchwcFrame(Struct, frozen=True, dict=True):
    """The data that loops and tiles of a convolution share: sizes in bytes, and the epilogue."""

    c: NchwcConv
    cut: NchwcBlocking
    target: Target

    @cached_property
    def size(self) -> int:
        return self.c.dtype.itemsize

    @cached_property
    def vector(self) -> Type:
        return Type(element(self.c.wide), self.cut.lanes)

    @cached_property
    def sums(self) -> Type:
        return Type(element(self.c.summed), self.cut.lanes)

    @cached_property
    def image(self) -> tuple[int, int, int, int]:
        """Bytes between blocks of channels, rows, columns and terms of the image."""
        c, plane = self.c, prod(self.c.lengths) * self.size
        pixel = self.size * (1 if c.planar else c.depth)
        term = plane if c.planar else c.group * self.size
        return c.depth * plane, c.lengths[1] * pixel, pixel, term

    @cached_property
    def plane(self) -> int:
        """Elements of a block of filters of the result."""
        return prod(self.c.positions) * self.c.block

    @cached_property
    def filter_bytes(self) -> int:
        c = self.c
        terms = prod(c.sizes) * (1 if c.depthwise else c.blocks * c.depth)
        return 0 if c.pool else terms * c.block * self.size

    @cached_property
    def filter_row(self) -> int:
        """Bytes from a row of taps to the next one."""
        return self.filter_bytes // (self.summed_blocks * self.c.sizes[0])

    @cached_property
    def summed_blocks(self) -> int:
        """The blocks of channels that a sum runs over."""
        return 1 if self.c.depthwise else self.c.blocks

    @cached_property
    def parts(self) -> int:
        """Ranges of channels; sums are kept in the result while one follows another."""
        return -(-self.summed_blocks // self.cut.channels)

    def dtype_of(self, name: str) -> DType:
        """The element type of an operand."""
        c = self.c
        narrow = {"x": c.dtype, "w": dt.int8 if c.quantized else c.dtype, "y": c.result,
                  "o": c.summed}  # fmt: skip
        if c.narrow_residual:
            narrow["r"] = c.dtype
        return narrow.get(name, c.wide)


class Part(Struct, frozen=True):
    """Columns ``tap``... of a filter, ``taps`` of them, for positions ``first`` to ``end``."""

    tap: int
    taps: int
    first: int
    end: int


def nchwc_blocking(c: NchwcConv, target: Target, threads: int) -> NchwcBlocking:
    """Block sizes for the caches of a CPU."""
    size = c.dtype.itemsize
    lanes = min(c.block, target.vector_bits // (8 * c.summed.itemsize))
    each = c.block // lanes
    filters, point, of_group = 1, prod(c.sizes) == 1, c.filter_blocks // c.groups
    if not c.depthwise:
        most = max(1, 3 // each)
        exact = [f for f in (2, 3) if f <= most and of_group % f == 0]
        # A tile is within a group, and of an odd number of blocks pairs compute one twice.
        alone = c.groups > 1 or of_group % 2 * _TWICE > of_group
        few = 1 if alone else min(2, most, of_group)
        filters = exact[0] if exact else few
        # Tiles of four vectors read an image less often; two of them may need no parts, and they
        # meet a summand in fewer places (64 to 256 channels at 56 x 56: 4 % on a Cascade Lake).
        pair_bytes = c.blocks * c.depth * 2 * lanes * size
        parted = pair_bytes <= _POINT_FILTER_BYTES
        parted = parted and (c.residual or pair_bytes > _POINT_FILTER_BYTES // 2)
        parted = parted and not c.quantized
        wide = point and not parted and of_group * each % 4 == 0
        if wide and fits_registers(_WIDE_ROWS, 4, target):
            filters = 4 // each
    vectors = filters * each
    fitting = min(rows_that_fit(vectors, _MAX_POSITIONS, target), c.positions[1])
    positions = -(-c.positions[1] // -(-c.positions[1] // fitting))
    term_bytes = prod(c.sizes) * c.depth * filters * c.block * size
    wanted = max(1, (_POINT_FILTER_BYTES if point else _FILTER_BYTES) // term_bytes)
    # Rows that overlapping stacks compute twice must not be added twice by two threads.
    overlaps = c.filter_blocks % filters != 0 and threads > 1
    row_bytes = c.lengths[1] * c.strides[0] * c.depth * size

    def rows_of(blocks: int) -> int:
        """Rows of a task, of which so many blocks of channels fill a quarter of the L2 cache."""
        return max(1, min(c.positions[0], target.l2_bytes // 4 // (row_bytes * blocks)))

    rows = rows_of(1 if c.depthwise else c.blocks)
    most = _SHARED_FILTERS if point or rows >= _MANY_ROWS else _WHOLE_FILTERS
    if point and vectors == 4:
        most = _POINT_FILTER_BYTES
    # Sums of integers have no place in the result.
    whole = overlaps or c.depthwise or term_bytes * c.blocks <= most or c.quantized
    channels = c.blocks if whole else -(-c.blocks // -(-c.blocks // wanted))
    if c.tail and c.blocks % channels == 1:
        channels = c.blocks if channels == 1 else channels + 1  # whole blocks before the tail
    if channels < c.blocks:
        rows = rows_of(channels)
    found = NchwcBlocking(lanes, vectors, filters, positions, channels, rows)
    while threads > 1 and found.rows > 1 and _is_uneven(found.tasks(c), threads):
        found = replace(found, rows=-(-found.rows // 2))
    return found


def _is_uneven(tasks: int, threads: int) -> bool:
    """Whether some threads wait while others work on one of a few tasks."""
    return tasks < 2 * threads or (tasks < 4 * threads and tasks % threads > 0)
