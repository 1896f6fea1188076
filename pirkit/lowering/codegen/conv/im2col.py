"""Explicit im2col: a panel with one row per term (channel and tap), its columns are output
positions.

Lines of positions are packed without a gap. Stores are whole vectors: what the last one of a line
stores beyond its end, the next line overwrites.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np

from pirkit.lowering.codegen.conv.conv_blocking import ConvBlocking, ConvProblem, reach
from pirkit.lowering.codegen.conv.panel_lines import PanelLines, image_planes, lines_of
from pirkit.lowering.codegen.emit.memory_access import Memory, gather, masked_load
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Location, matrix
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.tile_update import Access

_MAX_UNROLLED = 28
"""Vectors up to which copies are unrolled."""

Body = Callable[[Value, list[Value]], Sequence[Value]]


class Im2colPanel:
    """Fills the panel of a task for a block of channels."""

    def __init__(self, b: Builder, c: ConvProblem, cut: ConvBlocking, panel: Value, zeros: Value):
        self.b, self.c, self.cut, self.panel = b, c, cut, panel
        self.size = c.dtype.itemsize
        self.zeros = b.at(zeros, _padding_before(c) * self.size)
        self.vector = Type(element(c.dtype), cut.lanes)
        self.steps = [prod(c.lengths[k + 1 :]) * self.size for k in range(len(c.lengths))]
        self.row = row_bytes(c, cut)

    def fill(self, image: Value, channels: Value, lines: PanelLines) -> None:
        """Fill the rows of ``channels`` channels of the image at an address."""
        b, c = self.b, self.c

        def channel(d: Value, _: list[Value]) -> Sequence[Value]:
            base = b.at(image, b.times(d, prod(c.lengths) * self.size))
            self._taps(base, b.times(d, c.terms), [], lines)
            return []

        b.loop(0, channels, 1, [], channel)

    def _taps(self, base: Value, term: Value, offsets: list[Value], lines: PanelLines) -> None:
        """The loops over the taps along all axes but the last one."""
        b, axis = self.b, len(offsets)
        if axis == len(self.c.taps) - 1:
            self._lines(base, term, offsets, lines)
            return
        taps = self.c.taps[axis]
        inner = prod([t.count for t in self.c.taps[axis + 1 :]])

        def tap(t: Value, _: list[Value]) -> Sequence[Value]:
            offset = b.plus(b.times(t, taps.shift), taps.offset)
            moved = b.at(base, b.times(offset, self.steps[axis]))
            self._taps(moved, b.plus(term, b.times(t, inner)), [*offsets, offset], lines)
            return []

        b.loop(0, taps.count, 1, [], tap)

    def _lines(self, base: Value, term: Value, offsets: list[Value], lines: PanelLines) -> None:
        """Every line of the panel, for all taps along the last axis."""
        b, cut, taps, size = self.b, self.cut, self.c.taps[-1], self.size
        # Whole vectors: what the last one stores beyond a line, the next line overwrites.
        count = -(-cut.width // cut.lanes)

        def line(r: Value, _: list[Value]) -> Sequence[Value]:
            source = b.at(base, lines.entry(b, lines.image, r))
            inside: Value | None = None
            for axis, table in enumerate(lines.starts[:-1]):
                # Without padding along an axis its lines are inside at any position.
                if not self.c.leaves(axis):
                    continue
                at = b.plus(lines.entry(b, table, r), offsets[axis])
                holds = b.compare("ult", at, self.c.lengths[axis])
                inside = holds if inside is None else b.op("and", inside, holds)
            if inside is not None:
                # A line outside the image reads from a line of zeros: its copy needs no branch.
                source = b.select(inside, source, self.zeros)
            start = Value("0", I64)
            if cut.line_parts > 1:
                start = b.times(lines.entry(b, lines.starts[-1], r), self.c.image_stride[-1])
            dest = b.at(self.panel, b.times(r, cut.width * size))

            def tap(t: Value, _: list[Value]) -> Sequence[Value]:
                offset = b.plus(b.times(t, taps.shift), taps.offset)
                here = b.at(source, b.times(offset, size))
                there = b.at(dest, b.times(b.plus(term, t), self.row))

                def one(first: Value, _: list[Value]) -> Sequence[Value]:
                    image_offset = b.times(first, self.c.image_stride[-1])
                    masks = self._read_mask(b.plus(b.plus(start, offset), image_offset))
                    value = self._read(b.at(here, b.times(image_offset, size)), masks)
                    b.store(value, b.at(there, b.times(first, size)), size)
                    return []

                self._each(count, cut.lanes, one)
                return []

            self._each(taps.count, 1, tap, count)
            return []

        b.loop(0, lines.count, 1, [], line)

    def _each(self, count: int, step: int, body: Body, each: int = 1) -> None:
        """Emit ``body`` for ``count`` multiples of ``step``; unrolled if that is short.

        ``each`` is the number of vectors in a body.
        """
        if count * each > _MAX_UNROLLED:
            self.b.loop(0, count * step, step, [], body)
            return
        for k in range(count):
            body(Value(str(k * step), I64), [])

    def _read_mask(self, position: Value) -> list[Value | None]:
        """The lanes inside the image for each vector of a load from a position on."""
        b, lanes, move, length = self.b, self.cut.lanes, self.c.image_stride[-1], self.c.lengths[-1]
        index = Type("i32" if self.size == 4 else "i64", lanes)
        if move > 2:
            return [self._bounded(position, index, move, length)]
        return [self._bounded(b.plus(position, k * lanes), index, 1, length) for k in range(move)]

    def _bounded(self, position: Value, index: Type, move: int, length: int) -> Value | None:
        """The lanes inside the image, None for all; a constant if the position is one."""
        b, lanes = self.b, index.lanes
        if position.text.lstrip("-").isdigit():
            on = [0 <= int(position.text) + k * move < length for k in range(lanes)]
            bits = ", ".join(f"i1 {'true' if each else 'false'}" for each in on)
            return None if all(on) and move < 3 else Value(f"<{bits}>", index.mask)
        start = position if index.elem == "i64" else b.cast("trunc", position, "i32")
        ramp = ", ".join(f"{index.elem} {k * move}" for k in range(lanes))
        positions = b.op("add", b.splat(start, lanes), Value(f"<{ramp}>", index))
        return b.compare("ult", positions, length)

    def _read(self, source: Value, masks: list[Value | None]) -> Value:
        """Load every ``image_stride``-th element."""
        b, vector, size, lanes = self.b, self.vector, self.size, self.cut.lanes
        move = self.c.image_stride[-1]
        # Strides 1 and 2 load whole vectors (and deinterleave them); larger ones gather.
        if move > 2:
            (mask,) = masks
            return gather(b, vector, Memory(source, move * size), size, mask)
        read = [
            masked_load(b, vector, b.at(source, k * lanes * size), size, mask)
            for k, mask in enumerate(masks)
        ]
        return read[0] if move == 1 else b.shuffle(read[0], read[1], range(0, 2 * lanes, 2))


def row_bytes(c: ConvProblem, cut: ConvBlocking) -> int:
    """Bytes of a panel row, with room for what its last line stores beyond its end.

    An odd number of vectors, so that rows map to different cache sets.
    """
    return ((cut.panel + 1) | 1) * cut.lanes * c.dtype.itemsize


def _padding_before(c: ConvProblem) -> int:
    """Elements before the begin of a line that taps read."""
    return max(-reach(c.taps[-1])[0], 0)


def zero_bytes(c: ConvProblem, cut: ConvBlocking) -> int:
    """Bytes of the zeros that stand for a line outside of the image."""
    furthest = max(reach(c.taps[-1])[1], 0)
    width = -(-max(cut.width, cut.pitch) // cut.lanes) * cut.lanes * c.image_stride[-1]
    return (_padding_before(c) + furthest + width + cut.lanes) * c.dtype.itemsize


def access(c: ConvProblem, cut: ConvBlocking, vectors: Sequence[int]) -> Access:
    """How a register tile reads the panel; ``vectors`` are the offsets of its vectors."""
    return Access(tuple(vectors), (row_bytes(c, cut),))


def run_im2col(
    c: ConvProblem, cut: ConvBlocking, memory: Sequence[Location], numbers: Sequence[int]
) -> None:
    """Fill a panel with numpy, as `Im2colPanel.fill` does."""
    channels, *place = numbers
    lines, size, row = list(lines_of(c, cut, place)), c.dtype.itemsize, row_bytes(c, cut)
    shape = channels, c.terms, len(lines), cut.width
    panel = matrix(
        memory[1], c.dtype, (channels * c.terms, len(lines) * cut.width), (row, size), panel=True
    ).reshape(shape)
    images = {n: image_planes(c, memory[0], n, channels) for n in {x.image for x in lines}}
    offsets = [[t.offset + k * t.shift for k in range(t.count)] for t in c.taps]
    along = np.arange(cut.width) * c.image_stride[-1]
    for r, line in enumerate(lines):
        for term, (*outer, last) in enumerate(product(*offsets)):
            at = [s + o for s, o in zip(line.starts[:-1], outer, strict=True)]
            inside = all(0 <= x < n for x, n in zip(at, c.lengths, strict=False))
            places = line.starts[-1] * c.image_stride[-1] + along + last
            exists = (places >= 0) & (places < c.lengths[-1]) & inside
            places = np.where(exists, places, 0)
            found = images[line.image][(slice(None), *(x * inside for x in at))][:, places]
            panel[:, term, r] = np.where(exists, found, 0)
