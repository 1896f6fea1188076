"""Convolutions with large filters and few positions: gradients of filters.

The terms of a sum are the elements of the filter, here called windows. Lanes are filters, whose
windows are turned into panels; the rows of a tile are positions along the last axis, for some
images, which are copied with their padding. What is called image here is one channel of the batch
that is summed over in a gradient, and its channels are that batch: both may lie in any distance.

A task adds up the products of some windows for some images and filters; a second function adds up
what the tasks of the same images and filters have found, in the order of their windows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from pirkit.lowering.codegen.matmul.microkernel import (
    MAX_ROWS,
    MAX_VECTORS,
    estimated_cost,
    fits_registers,
)
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

MAX_TERMS: Final = 200
"""Terms of a sum that are added up at a time."""

MAX_WINDOWS: Final = 384
"""Windows of a row at most; longer rows are cut, and one piece is held at a time."""

MAX_IMAGES: Final = 64
"""Images of a task at most."""

MAX_FILTER_VECTORS: Final = 8
"""Vectors of filters of a task at most."""

BatchStrides = tuple[int, int, int, int]
"""Bytes from one image to the next, of its channels, of filters, and of their channels."""

MIN_TASKS: Final = 16
"""Tasks at least, if there is enough: so many threads share them evenly."""


@dataclass(frozen=True, slots=True)
class WeightGrad:
    """``images`` of ``groups`` times ``depth`` channels, ``group_filters`` filters for each group.

    What follows is by spatial axis. Position t of window w meets the image at
    ``image_stride * t + window_stride * w - before``.
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
        """Multiplications of all sums."""
        sums = self.images * self.groups * self.group_filters * prod(self.positions)
        return sums * self.depth * prod(self.windows)

    @property
    def segments(self) -> int:
        """Pieces of a row of windows."""
        return -(-self.windows[-1] // MAX_WINDOWS)

    @property
    def length(self) -> int:
        """Windows of a piece."""
        return -(-self.windows[-1] // self.segments)

    @property
    def planes(self) -> int:
        """Planes of windows that a sum meets: rows side by side."""
        return self.depth * prod(self.windows[:-2])

    @property
    def rows(self) -> int:
        """Rows of windows that a sum meets, or pieces of them."""
        return self.planes * self.windows[-2] * self.segments

    @property
    def outer(self) -> int:
        """Positions along all axes but the last one."""
        return prod(self.positions[:-1])


@dataclass(frozen=True, slots=True)
class WeightGradBlocking:
    """How a correlation is cut."""

    lanes: int
    tile_positions: int
    """Positions of a tile along the last axis."""
    slices: int
    """Slices of all positions along the last axis."""
    tile_images: int
    """Images of a tile."""
    vectors: int
    """Vectors of filters of a tile."""
    task_images: int
    """Images of a task, a multiple of ``tile_images``."""
    task_vectors: int
    """Vectors of filters of a task."""
    planes: int
    """Planes of windows at a time; more than one only if they are whole."""
    lines: int
    """Rows of windows of a plane at a time."""
    parts: int
    """Pieces of all of these."""
    copied_rows: int
    """Rows of a plane of the image that are copied for these rows."""
    shares_copy: bool
    """Whether the positions of a plane share that copy; else there is one for each row of them."""
    width: int
    """Elements of a copied row of an image."""

    def window_blocks(self, c: WeightGrad) -> tuple[int, int, int]:
        """What is held one after the other, by planes, rows and their pieces."""
        return -(-c.planes // self.planes), -(-c.windows[-2] // self.lines), c.segments

    def image_tasks(self, c: WeightGrad) -> int:
        """Pieces of all images."""
        return -(-c.images // self.task_images)

    def filter_tasks(self, c: WeightGrad) -> int:
        """Pieces of the filters of a group."""
        return -(-c.group_filters // (self.lanes * self.task_vectors))

    def segments(self, c: WeightGrad) -> int:
        """Tasks of one part."""
        return c.groups * self.image_tasks(c) * self.filter_tasks(c)

    def blocks_per_part(self, c: WeightGrad) -> int:
        """What a part holds one after the other."""
        return -(-prod(self.window_blocks(c)) // self.parts)

    def sums(self, c: WeightGrad) -> int:
        """Elements of the sums of a task: `[outer positions, task_images, slices *
        tile_positions, filters]`."""
        return (
            c.outer
            * self.task_images
            * self.slices
            * self.tile_positions
            * self.task_vectors
            * self.lanes
        )


def weight_grad_blocking_of(c: WeightGrad, target: Target) -> WeightGradBlocking:
    """Sizes for the caches of a CPU. The order of adding up is that of ``parts``."""
    lanes = target.vector_bits // (8 * c.dtype.itemsize)
    filters = -(-c.group_filters // lanes)
    slices = -(-c.positions[-1] // 7)
    length = -(-c.positions[-1] // slices)
    images_per_tile, vectors = _tile(c.images, filters, length, target)
    filter_task = -(-filters // -(-filters // MAX_FILTER_VECTORS))
    image_task = min(MAX_IMAGES, -(-c.images // images_per_tile) * images_per_tile)
    image_task = -(-image_task // images_per_tile) * images_per_tile
    deep, height = max(1, MAX_TERMS // c.length), c.windows[-2]
    lines = -(-height // -(-height // deep))
    planes = max(1, min(c.planes, deep // height)) if lines == height else 1
    reach = (c.length - 1) * c.window_stride[-1] + (length * slices - 1) * c.image_stride[-1] + 1
    width = -(-reach // lanes) * lanes
    copied = (lines - 1) * c.window_stride[-2] + (c.positions[-2] - 1) * c.image_stride[-2] + 1
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
    parts = max(1, min(-(-MIN_TASKS // whole.segments(c)), prod(whole.window_blocks(c)) // 4))
    return replace(whole, parts=parts)


def _tile(images: int, filters: int, length: int, target: Target) -> tuple[int, int]:
    """Images and vectors of filters of a tile."""
    best: tuple[float, int, int] | None = None
    for images_per_tile, vectors in product(
        range(1, MAX_ROWS // length + 1), range(1, MAX_VECTORS + 1)
    ):
        if not fits_registers(images_per_tile * length, vectors, target):
            continue
        excess = (
            -(-images // images_per_tile)
            * images_per_tile
            / images
            * -(-filters // vectors)
            * vectors
            / filters
        )
        found = excess * estimated_cost(images_per_tile * length, vectors)
        if best is None or found < best[0]:
            best = found, images_per_tile, vectors
    assert best is not None
    return best[1], best[2]
