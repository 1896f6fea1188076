"""Implicit im2col: taps read one padded copy of the image rows at different offsets.

For strides of 1 the panel holds rows of the image with their padding: `[channels, planes, rows,
pitch]`. Output positions are counted in rows of ``pitch`` elements, a few more than exist; a tap
then reads a run of the panel that begins at its offset, and nothing is copied per tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from pirkit.lowering.codegen.conv.conv_blocking import ConvBlocking, ConvProblem, reach
from pirkit.lowering.codegen.conv.im2col import Im2colPanel
from pirkit.lowering.codegen.conv.panel_lines import PanelLines, image_planes, lines_of
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Value
from pirkit.lowering.codegen.ir.routine import Location, matrix
from pirkit.lowering.codegen.matmul.tile_update import Access


class ImplicitIm2colPanel(Im2colPanel):
    """Fills the panel of a task, whose lines are rows of one image."""

    def __init__(self, b: Builder, c: ConvProblem, cut: ConvBlocking, panel: Value, zeros: Value):
        super().__init__(b, c, cut, panel, zeros)
        self.lowest = [reach(t)[0] for t in c.taps]
        low, high = reach(c.taps[-2])
        self.more = high - low
        self.row = cut.pitch * self.size
        self.plane = (cut.lines + self.more) * self.row

    def fill(self, image: Value, channels: Value, lines: PanelLines) -> None:
        """Fill the rows of ``channels`` channels of the image at an address."""
        b, c = self.b, self.c
        first = Value("0", I64)
        source = b.at(image, lines.entry(b, lines.image, first))
        starts = [lines.entry(b, table, first) for table in lines.starts[:-1]]
        # The taps below the last line of the panel reach so many rows further.
        rows = b.plus(lines.count, self.more)

        def channel(d: Value, _: list[Value]) -> Sequence[Value]:
            base = b.at(source, b.times(d, prod(c.lengths) * self.size))
            dest = b.at(self.panel, b.times(d, channel_bytes(c, self.cut)))
            self._planes(base, dest, None, starts, 0, rows)
            return []

        b.loop(0, channels, 1, [], channel)

    def _planes(
        self, base: Value, dest: Value, inside: Value | None, starts: list[Value], axis: int,
        rows: Value,
    ) -> None:  # fmt: skip
        """The loops over the taps along all axes but the last two."""
        b, taps = self.b, self.c.taps[axis]
        if axis == len(self.c.taps) - 2:
            self._rows(base, dest, inside, starts[axis], rows)
            return
        inner = prod([t.count for t in self.c.taps[axis + 1 : -2]])

        def tap(t: Value, _: list[Value]) -> Sequence[Value]:
            offset = b.plus(b.times(t, taps.shift), taps.offset)
            holds = b.compare("ult", b.plus(starts[axis], offset), self.c.lengths[axis])
            both = holds if inside is None else b.op("and", inside, holds)
            moved = b.at(base, b.times(offset, self.steps[axis]))
            there = b.at(dest, b.times(t, inner * self.plane))
            self._planes(moved, there, both, starts, axis + 1, rows)
            return []

        b.loop(0, taps.count, 1, [], tap)

    def _rows(
        self, base: Value, dest: Value, inside: Value | None, start: Value, rows: Value
    ) -> None:  # fmt: skip
        """Copy the rows that taps along the last two axes read, zeros outside of the image."""
        b, c, lanes, size = self.b, self.c, self.cut.lanes, self.size
        low, remaining = self.lowest[-2:]
        width = c.positions[-1] + reach(c.taps[-1])[1] - remaining

        def row(j: Value, _: list[Value]) -> Sequence[Value]:
            at = b.plus(j, low)
            holds = b.compare("ult", b.plus(start, at), c.lengths[-2])
            holds = holds if inside is None else b.op("and", inside, holds)
            # Rows of the padding are copied from a row of zeros: no branch.
            source = b.select(holds, b.at(base, b.times(at, self.steps[-2])), self.zeros)
            source = b.at(source, remaining * size)
            there = b.at(dest, b.times(j, self.row))

            def one(first: Value, _: list[Value]) -> Sequence[Value]:
                masks = self._read_mask(b.plus(first, remaining))
                value = self._read(b.at(source, b.times(first, size)), masks)
                b.store(value, b.at(there, b.times(first, size)), size)
                return []

            self._each(-(-width // lanes), lanes, one)
            return []

        b.loop(0, rows, 1, [], row)


def channel_bytes(c: ConvProblem, cut: ConvBlocking) -> int:
    """Bytes of a channel in the panel."""
    low, high = reach(c.taps[-2])
    planes = prod([t.count for t in c.taps[:-2]])
    return planes * (cut.lines + high - low) * cut.pitch * c.dtype.itemsize


def implicit_access(c: ConvProblem, cut: ConvBlocking, vectors: Sequence[int]) -> Access:
    """How a register tile reads the panel; ``vectors`` are the offsets of its vectors."""
    *planes, down, along = c.taps
    size, row = c.dtype.itemsize, cut.pitch * c.dtype.itemsize
    plane = channel_bytes(c, cut) // prod([t.count for t in planes])
    strides = [prod([t.count for t in planes[k + 1 :]]) * plane for k in range(len(planes))]
    # The panel begins at the lowest tap; the first tap is another one if the taps run
    # backwards, as in a transposed convolution.
    start = (down.offset - reach(down)[0]) * row + (along.offset - reach(along)[0]) * size
    steps = (*strides, down.shift * row, along.shift * size)
    return Access(tuple([start + v for v in vectors]), (channel_bytes(c, cut), *steps))


def run_implicit(
    c: ConvProblem, cut: ConvBlocking, memory: Sequence[Location], numbers: Sequence[int]
) -> None:
    """Fill a panel with numpy, as `ImplicitIm2colPanel.fill` does."""
    channels, *place = numbers
    first, *others = lines_of(c, cut, place)
    (low, high), (left, right), size = reach(c.taps[-2]), reach(c.taps[-1]), c.dtype.itemsize
    planes = [[t.offset + k * t.shift for k in range(t.count)] for t in c.taps[:-2]]
    count, rows = prod(map(len, planes)), 1 + len(others) + high - low
    width, row = c.positions[-1] + right - left, cut.pitch * size
    steps = channel_bytes(c, cut), channel_bytes(c, cut) // count, row, size
    panel = matrix(memory[1], c.dtype, (channels, count, rows, width), steps)
    image = image_planes(c, memory[0], first.image, channels)
    columns = np.arange(left, left + width)
    exists = (columns >= 0) & (columns < c.lengths[-1])
    columns = np.where(exists, columns, 0)
    # The next row overwrites elements beyond the pitch.
    for number, outer in enumerate(product(*planes)):
        for j in range(rows):
            at = [s + o for s, o in zip(first.starts, (*outer, low + j), strict=False)]
            inside = all(0 <= x < n for x, n in zip(at, c.lengths, strict=False))
            found = image[(slice(None), *(x * inside for x in at))][:, columns]
            panel[:, number, j] = np.where(exists & inside, found, 0)
