"""Sizes of the weight gradient of a convolution: few output positions, long sums (split-K).

The gradient of a filter is itself a convolution: of the images with the output gradient, which
takes the place of the filter. Here the elements of that large filter are called *windows*; they are
the terms of the sums (K). The batch of the forward convolution is the channels here and its
channels are the images, so both have strides of their own.

Lanes are filters, whose windows are transposed into panels. The rows of a register tile are
positions along the last axis for some images, which are copied with their padding. A task
accumulates some windows (a part of K) for some images and filters; `split_k_reduce.py` adds the
parts in the order of their windows.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.matmul.register_tile import (
    MAX_ROWS,
    MAX_VECTORS,
    cheapest_tile,
    padding,
)
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

MAX_TERMS: Final = 200
"""Windows per block, so that a panel stays in the L1 cache."""

MAX_WINDOWS: Final = 384
"""Windows of a row per block; longer rows are split into segments."""

MAX_IMAGES: Final = 64
"""Images of a task at most."""

MAX_FILTER_VECTORS: Final = 8
"""Vectors of filters of a task at most."""

BatchStrides = tuple[int, int, int, int]
"""Strides in bytes of images, of their channels, of filters, and of their channels."""

MIN_TASKS: Final = 16
"""Tasks at least, if the problem is large enough, for a balanced load."""


class WeightGrad(Struct, frozen=True):
    """The problem: ``images`` of ``groups * depth`` channels, ``group_filters`` filters per group.

    Tuples are by spatial axis. Output position t of window w reads the image at ``image_stride * t
    + window_stride * w - before``; outside of ``lengths`` the image is zero.
    """

    images: int
    groups: int
    group_filters: int
    depth: int
    lengths: tuple[int, ...]
    windows: tuple[int, ...]
    positions: tuple[int, ...]
    image_stride: tuple[int, ...]
    window_stride: tuple[int, ...]
    before: tuple[int, ...]
    dtype: DType

    @property
    def multiplications(self) -> int:
        """Multiplications of the whole problem, for the estimate of work."""
        sums = self.images * self.groups * self.group_filters * prod(self.positions)
        return sums * self.depth * prod(self.windows)

    @property
    def segments(self) -> int:
        """Segments of a row of windows."""
        return -(-self.windows[-1] // MAX_WINDOWS)

    @property
    def length(self) -> int:
        """Windows of a segment."""
        return -(-self.windows[-1] // self.segments)

    @property
    def planes(self) -> int:
        """Planes of windows of a sum: channels by all spatial axes but the last two."""
        return self.depth * prod(self.windows[:-2])

    @property
    def rows(self) -> int:
        """Row segments of a sum."""
        return self.planes * self.windows[-2] * self.segments

    @property
    def outer(self) -> int:
        """Output positions along all axes but the last one."""
        return prod(self.positions[:-1])


class WeightGradBlocking(Struct, frozen=True):
    """The block sizes of a weight gradient."""

    lanes: int
    tile_positions: int
    """Output positions of a register tile along the last axis."""
    slices: int
    """Register tiles along the last axis."""
    tile_images: int
    """Images of a register tile."""
    vectors: int
    """Vectors of filters of a register tile."""
    task_images: int
    """Images of a task, a multiple of ``tile_images``."""
    task_vectors: int
    """Vectors of filters of a task."""
    planes: int
    """Planes of windows per block; more than one only if all their rows are in it."""
    lines: int
    """Rows of windows of a plane per block."""
    parts: int
    """Parts of K: tasks that compute partial sums of the same elements."""
    copied_rows: int
    """Rows of an image plane that are copied for a block."""
    shares_copy: bool
    """Whether output rows of a plane share one copy of the image; else each makes its own."""
    width: int
    """Elements of a copied image row."""

    def window_blocks(self, c: WeightGrad) -> tuple[int, int, int]:
        """Blocks of windows, by planes, rows and segments."""
        return -(-c.planes // self.planes), -(-c.windows[-2] // self.lines), c.segments

    def image_tasks(self, c: WeightGrad) -> int:
        """Tasks along the images."""
        return -(-c.images // self.task_images)

    def filter_tasks(self, c: WeightGrad) -> int:
        """Tasks along the filters of a group."""
        return -(-c.group_filters // (self.lanes * self.task_vectors))

    def segments(self, c: WeightGrad) -> int:
        """Tasks of one part of K."""
        return c.groups * self.image_tasks(c) * self.filter_tasks(c)

    def blocks_per_part(self, c: WeightGrad) -> int:
        """Blocks of windows of one part."""
        return -(-prod(self.window_blocks(c)) // self.parts)

    def sums(self, c: WeightGrad) -> int:
        """Elements of the accumulators of a task, laid out as `[outer positions, task_images,
        slices * tile_positions, filters]`.
        """
        return (
            c.outer
            * self.task_images
            * self.slices
            * self.tile_positions
            * self.task_vectors
            * self.lanes
        )


class GradTask(Struct, frozen=True):
    """A weight gradient with its blocks, for operands of some strides; sizes are in bytes."""

    c: WeightGrad
    cut: WeightGradBlocking
    strides: BatchStrides

    @property
    def size(self) -> int:
        return self.c.dtype.itemsize

    @property
    def vector_bytes(self) -> int:
        return self.cut.lanes * self.size

    @property
    def image_bytes(self) -> int:
        """Bytes from a copied image to the next one."""
        # An odd number of cache lines, so that images map to different cache sets.
        cut = self.cut
        lines = -(-(cut.planes * cut.copied_rows * cut.width * self.size) // LINE)
        return (lines | 1) * LINE

    @property
    def panel_bytes(self) -> int:
        """Bytes from the panel of a vector of filters to the next one."""
        return self.cut.planes * self.cut.lines * self.c.length * self.vector_bytes

    @property
    def filters_bytes(self) -> int:
        """Sums of a position."""
        return self.cut.task_vectors * self.vector_bytes

    @property
    def image_sums(self) -> int:
        """Sums of an image at some outer position."""
        return self.cut.slices * self.cut.tile_positions * self.filters_bytes


def dense_strides(c: WeightGrad) -> BatchStrides:
    """The strides of contiguous operands."""
    plane, window = prod(c.lengths) * c.dtype.itemsize, prod(c.windows) * c.dtype.itemsize
    return c.groups * c.depth * plane, plane, c.depth * window, window


def operand_bytes(t: GradTask) -> tuple[int, int, int]:
    """Bytes of images, filters and partial sums, up to the last element."""
    c, cut = t.c, t.cut
    batches = (c.images, c.groups * c.depth), (c.groups * c.group_filters, c.depth)
    spans = [
        sum((n - 1) * s for n, s in zip(counts, strides, strict=True)) + prod(plane) * t.size
        for counts, strides, plane in zip(
            batches, (t.strides[:2], t.strides[2:]), (c.lengths, c.windows), strict=True
        )
    ]
    return spans[0], spans[1], cut.parts * cut.segments(c) * cut.sums(c) * t.size


def weight_grad_blocking_of(c: WeightGrad, target: Target) -> WeightGradBlocking:
    """Block sizes for the caches of a CPU. They determine the order of the sums."""
    lanes = target.vector_bits // (8 * c.dtype.itemsize)
    filters = -(-c.group_filters // lanes)
    # At most 7 positions per register tile, half of its `MAX_ROWS` rows.
    slices = -(-c.positions[-1] // 7)
    length = -(-c.positions[-1] // slices)
    filter_task = -(-filters // -(-filters // MAX_FILTER_VECTORS))
    images_per_tile, vectors = _tile(c.images, filter_task, length, target)
    image_task = min(MAX_IMAGES, -(-c.images // images_per_tile) * images_per_tile)
    image_task = -(-image_task // images_per_tile) * images_per_tile
    deep, height = max(1, MAX_TERMS // c.length), c.windows[-2]
    lines = -(-height // -(-height // deep))
    planes = max(1, min(c.planes, deep // height)) if lines == height else 1
    reach = (c.length - 1) * c.window_stride[-1] + (length * slices - 1) * c.image_stride[-1] + 1
    width = -(-reach // lanes) * lanes
    copied = (lines - 1) * c.window_stride[-2] + (c.positions[-2] - 1) * c.image_stride[-2] + 1
    # One copy for all output rows pays if it is smaller than their separate copies and fits a
    # quarter of L2.
    shares = copied < lines * c.positions[-2]
    shares &= image_task * planes * copied * width * c.dtype.itemsize <= target.l2_bytes // 4
    copied = copied if shares else lines
    whole = WeightGradBlocking(
        lanes,
        length,
        slices,
        images_per_tile,
        vectors,
        image_task,
        filter_task,
        planes,
        lines,
        1,
        copied,
        shares,
        width,
    )
    # Split K only as far as tasks are missing, with at least four blocks per part.
    parts = max(1, min(-(-MIN_TASKS // whole.segments(c)), prod(whole.window_blocks(c)) // 4))
    # The parts that have blocks: the last one may have fewer.
    per_part = replace(whole, parts=parts).blocks_per_part(c)
    return replace(whole, parts=-(-prod(whole.window_blocks(c)) // per_part))


def _tile(images: int, filters: int, length: int, target: Target) -> tuple[int, int]:
    """Images and vectors of a register tile of ``length`` positions per image.

    ``filters`` are the vectors of filters of a task.
    """
    counts = range(1, MAX_ROWS // length + 1)
    rows, vectors = cheapest_tile(
        product([n * length for n in counts], range(1, MAX_VECTORS + 1)),
        lambda rows, vectors: padding(images, rows // length) * padding(filters, vectors),
        target,
    )
    return rows // length, vectors
