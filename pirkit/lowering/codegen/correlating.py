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

from pirkit.lowering.codegen.registers import MOST_ROWS, MOST_VECTORS, cost, fits
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

DEEP: Final = 200
"""Terms of a sum that are added up at a time."""

LONGEST: Final = 384
"""Windows of a row at most; longer rows are cut, and one piece is held at a time."""

TALL: Final = 64
"""Images of a task at most."""

BROAD: Final = 8
"""Vectors of filters of a task at most."""

Distances = tuple[int, int, int, int]
"""Bytes from one image to the next, of its channels, of filters, and of their channels."""

PIECES: Final = 16
"""Tasks at least, if there is enough: so many threads share them evenly."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """``images`` of ``groups`` times ``depth`` channels, ``each`` filters for each group.

    What follows is by spatial axis. Position t of window w meets the image at
    ``move * t + spread * w - before``.
    """

    images: int
    groups: int
    each: int
    depth: int
    lengths: tuple[int, ...]
    windows: tuple[int, ...]
    positions: tuple[int, ...]
    move: tuple[int, ...]
    spread: tuple[int, ...]
    before: tuple[int, ...]
    dtype: DType

    @property
    def products(self) -> int:
        """Multiplications of all sums."""
        sums = self.images * self.groups * self.each * prod(self.positions)
        return sums * self.depth * prod(self.windows)

    @property
    def pieces(self) -> int:
        """Pieces of a row of windows."""
        return -(-self.windows[-1] // LONGEST)

    @property
    def length(self) -> int:
        """Windows of a piece."""
        return -(-self.windows[-1] // self.pieces)

    @property
    def planes(self) -> int:
        """Planes of windows that a sum meets: rows side by side."""
        return self.depth * prod(self.windows[:-2])

    @property
    def rows(self) -> int:
        """Rows of windows that a sum meets, or pieces of them."""
        return self.planes * self.windows[-2] * self.pieces

    @property
    def outer(self) -> int:
        """Positions along all axes but the last one."""
        return prod(self.positions[:-1])


@dataclass(frozen=True, slots=True)
class Cut:
    """How a correlation is cut."""

    lanes: int
    slice: int
    """Positions of a tile along the last axis."""
    slices: int
    """Slices of all positions along the last axis."""
    some: int
    """Images of a tile."""
    vectors: int
    """Vectors of filters of a tile."""
    tall: int
    """Images of a task, a multiple of ``some``."""
    broad: int
    """Vectors of filters of a task."""
    planes: int
    """Planes of windows at a time; more than one only if they are whole."""
    lines: int
    """Rows of windows of a plane at a time."""
    parts: int
    """Pieces of all of these."""
    copied: int
    """Rows of a plane of the image that are copied for these rows."""
    shares: bool
    """Whether the positions of a plane share that copy; else there is one for each row of them."""
    width: int
    """Elements of a copied row of an image."""

    def held(self, c: Correlation) -> tuple[int, int, int]:
        """What is held one after the other, by planes, rows and their pieces."""
        return -(-c.planes // self.planes), -(-c.windows[-2] // self.lines), c.pieces

    def talls(self, c: Correlation) -> int:
        """Pieces of all images."""
        return -(-c.images // self.tall)

    def broads(self, c: Correlation) -> int:
        """Pieces of the filters of a group."""
        return -(-c.each // (self.lanes * self.broad))

    def pieces(self, c: Correlation) -> int:
        """Tasks of one part."""
        return c.groups * self.talls(c) * self.broads(c)

    def share(self, c: Correlation) -> int:
        """What a part holds one after the other."""
        return -(-prod(self.held(c)) // self.parts)

    def sums(self, c: Correlation) -> int:
        """Elements of the sums of a task: `[outer positions, tall, slices * slice, filters]`."""
        return c.outer * self.tall * self.slices * self.slice * self.broad * self.lanes


def cut_of(c: Correlation, target: Target) -> Cut:
    """Sizes for the caches of a CPU. The order of adding up is that of ``parts``."""
    lanes = target.vector_bits // (8 * c.dtype.itemsize)
    filters = -(-c.each // lanes)
    slices = -(-c.positions[-1] // 7)
    length = -(-c.positions[-1] // slices)
    some, vectors = _tile(c.images, filters, length, target)
    broad = -(-filters // -(-filters // BROAD))
    tall = min(TALL, -(-c.images // some) * some)
    tall = -(-tall // some) * some
    deep, height = max(1, DEEP // c.length), c.windows[-2]
    lines = -(-height // -(-height // deep))
    planes = max(1, min(c.planes, deep // height)) if lines == height else 1
    reach = (c.length - 1) * c.spread[-1] + (length * slices - 1) * c.move[-1] + 1
    width = -(-reach // lanes) * lanes
    copied = (lines - 1) * c.spread[-2] + (c.positions[-2] - 1) * c.move[-2] + 1
    shares = copied < lines * c.positions[-2]
    shares &= tall * planes * copied * width * c.dtype.itemsize <= target.l2_bytes // 4
    copied = copied if shares else lines
    whole = Cut(
        lanes, length, slices, some, vectors, tall, broad, planes, lines, 1, copied, shares, width
    )
    parts = max(1, min(-(-PIECES // whole.pieces(c)), prod(whole.held(c)) // 4))
    return replace(whole, parts=parts)


def _tile(images: int, filters: int, length: int, target: Target) -> tuple[int, int]:
    """Images and vectors of filters of a tile."""
    best: tuple[float, int, int] | None = None
    for some, vectors in product(range(1, MOST_ROWS // length + 1), range(1, MOST_VECTORS + 1)):
        if not fits(some * length, vectors, target):
            continue
        excess = -(-images // some) * some / images * -(-filters // vectors) * vectors / filters
        found = excess * cost(some * length, vectors)
        if best is None or found < best[0]:
            best = found, some, vectors
    assert best is not None
    return best[1], best[2]
