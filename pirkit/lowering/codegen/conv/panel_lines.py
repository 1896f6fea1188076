"""The lines of a panel: rows of positions of the result, or parts of them, of all images.

Where each one is in image and result stands in tables in scratch memory, since lines are read for
each channel and tap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.conv.conv_blocking import ConvBlocking, ConvProblem
from pirkit.lowering.codegen.emit.vector_emit import address_at, split_index
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Value
from pirkit.lowering.codegen.ir.routine import Array, Functions, Location, Values, matrix
from pirkit.runtime import dtype as dt


def line_ranges(c: ConvProblem, cut: ConvBlocking) -> tuple[int, int]:
    """Ranges of lines that no panel crosses, and lines in each of them."""
    images = c.n * prod(c.positions[:-2]) if cut.pitch else 1
    return images, c.n * prod(c.positions[:-1]) * cut.line_parts // images


class Line(Struct, frozen=True):
    """An image, and where the line begins in it and in the result.

    The last one of ``starts`` is the number of its first position, the others lie in the image.
    """

    image: int
    starts: tuple[int, ...]
    result: tuple[int, ...]


def lines_of(c: ConvProblem, cut: ConvBlocking, numbers: Sequence[int]) -> Iterator[Line]:
    """The lines of a panel, given by the numbers of its range and in it, and their count."""
    which, heap, count = numbers
    first = which * line_ranges(c, cut)[1] + heap * cut.lines
    for number in range(first, first + count):
        extents = (c.n, *c.positions[:-1], cut.line_parts)
        image, *at = (int(x) for x in np.unravel_index(number, extents))
        at[-1] *= cut.width
        moved = [q * m for q, m in zip(at, c.image_stride, strict=True)]
        pairs = zip(at, c.result_stride, c.result_start, strict=True)
        yield Line(image, (*moved[:-1], at[-1]), tuple([q * s + f for q, s, f in pairs]))


def image_bytes(c: ConvProblem) -> tuple[int, int]:
    """Bytes from an image to the next one, and from a result to the next one."""
    size = c.dtype.itemsize
    return c.groups * c.depth * prod(c.lengths) * size, (
        c.groups * c.group_filters * prod(c.room) * size
    )


class PanelLines(Struct, frozen=True):
    """The lines of a panel, in scratch tables of i64 with one entry per line.

    ``image`` and ``result`` are offsets in bytes; ``starts`` are the image positions along each
    axis but the last, where it is the number of the line's first output position.
    """

    image: Value
    result: Value
    starts: tuple[Value, ...]
    count: Value

    @staticmethod
    def at(
        b: Builder, c: ConvProblem, cut: ConvBlocking, tables: Value, count: Value
    ) -> PanelLines:
        image, result, *starts = (
            b.at(tables, 8 * cut.lines * k) for k in range(2 + len(c.positions))
        )
        return PanelLines(image, result, tuple(starts), count)

    @staticmethod
    def entry(b: Builder, table: Value, line: Value) -> Value:
        """The entry of a line, an i64."""
        return b.load(I64, b.at(table, b.times(line, 8)), 8)


class LineTables(Struct, frozen=True):
    """Stores the tables of a panel; numbers are its range of lines, its place there, its lines."""

    c: ConvProblem
    cut: ConvBlocking

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[0]} = places of {numbers[2]} lines"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        c, cut = self.c, self.cut
        size, (image, result) = c.dtype.itemsize, image_bytes(c)
        shape = 2 + len(c.positions), cut.lines
        tables = matrix(memory[0], dt.int64, shape, (8 * cut.lines, 8))
        for r, line in enumerate(lines_of(c, cut, numbers)):
            moved = (*line.starts[:-1], line.starts[-1] * c.image_stride[-1])
            tables[0, r] = line.image * image + _offset(moved, c.lengths) * size
            tables[1, r] = line.image * result + _offset(line.result, c.room) * size
            tables[2:, r] = line.starts

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        c, cut, size = self.c, self.cut, self.c.dtype.itemsize
        which, heap, count = numbers
        lines = PanelLines.at(b, c, cut, addresses[0], count)
        first = b.plus(b.times(which, line_ranges(c, cut)[1]), b.times(heap, cut.lines))
        steps = [prod(c.lengths[k + 1 :]) * size for k in range(len(c.lengths))]
        places = [prod(c.room[k + 1 :]) * size for k in range(len(c.room))]
        images, results = image_bytes(c)

        def line(r: Value, _: list[Value]) -> Sequence[Value]:
            at = split_index(b, b.plus(first, r), [c.n, *c.positions[:-1], cut.line_parts])
            at[-1] = b.times(at[-1], cut.width)
            moved = [b.times(q, m) for q, m in zip(at[1:], c.image_stride, strict=True)]
            result_at = [
                b.plus(b.times(q, s), f)
                for q, s, f in zip(at[1:], c.result_stride, c.result_start, strict=True)
            ]
            # Tables serve all channels and taps, so they hold offsets: addresses based on null.
            null = Value("null", PTR)
            sources = address_at(b, null, [images, *steps], [at[0], *moved])
            result_lines = address_at(b, null, [results, *places], [at[0], *result_at])
            for table, value in ((lines.image, sources), (lines.result, result_lines)):
                number = b.emit(I64, f"ptrtoint {value} to i64")
                b.store(number, b.at(table, b.times(r, 8)), 8)
            for table, value in zip(lines.starts, [*moved[:-1], at[-1]], strict=True):
                b.store(value, b.at(table, b.times(r, 8)), 8)
            return []

        b.loop(0, count, 1, [], line)


def _offset(position: Sequence[int], extents: Sequence[int]) -> int:
    """The number of an element; it may lie outside of the extents."""
    found = 0
    for at, extent in zip(position, extents, strict=True):
        found = found * extent + at
    return found


def image_planes(c: ConvProblem, location: Location, image: int, channels: int) -> Array:
    """Channels of an image, from the one at a location in the first image on."""
    size, plane = c.dtype.itemsize, prod(c.lengths)
    steps = [prod(c.lengths[k + 1 :]) * size for k in range(len(c.lengths))]
    begin = location[0], location[1] + image * image_bytes(c)[0]
    return matrix(begin, c.dtype, (channels, *c.lengths), (plane * size, *steps))
