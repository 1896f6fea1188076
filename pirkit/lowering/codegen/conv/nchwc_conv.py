"""Direct convolution over blocked channels: a vector register holds the same position of a block.

An image has the shape ``[N, C/b, H, W, b]`` (NCHWc in Liu et al., USENIX ATC 2019, and MLAS). A
register tile is some positions of a row by some blocks of filters; it stays in registers for all
taps of a range of channels, so nothing is copied and no lane is idle, however small the image is.
Rows of the filter beyond the image are skipped by the bounds of a loop, columns by tiles of their
own at both ends of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from typing import Final

from pirkit.lowering.codegen.conv.nchwc_blocking import NchwcBlocking, NchwcConv
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.scratch import LINE
from pirkit.lowering.codegen.emit.vector_emit import argument, split_index
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.math.primitives import element
from pirkit.lowering.codegen.matmul.blocking import block_extent
from pirkit.lowering.codegen.matmul.microkernel import Elements, Scaled, microkernel
from pirkit.lowering.codegen.matmul.output_tile import L1, read_vector, write_vector
from pirkit.lowering.codegen.matmul.register_tile import (
    MIN_ACCUMULATORS,
    fits_registers,
)
from pirkit.runtime.native.target import Target

_UNROLLED: Final = 4
"""Terms of a tile that are unrolled."""


class NchwcEmitter:
    """Emits the convolution; a block of the function is a task: rows by a stack of filters."""

    def __init__(
        self, b: Builder, routines: Routines, c: NchwcConv, cut: NchwcBlocking, target: Target
    ) -> None:  # fmt: skip
        self.b, self.routines, self.c, self.cut, self.target = b, routines, c, cut, target
        self.size = c.dtype.itemsize
        self.vector = Type(element(c.dtype), cut.lanes)
        pixel = self.size * (1 if c.planar else c.block)
        plane = prod(c.lengths) * self.size
        # Bytes between blocks of channels, rows, columns and channels of the image.
        self.image = (
            c.depth * plane,
            c.lengths[1] * pixel,
            pixel,
            plane if c.planar else self.size,
        )
        self.plane = prod(c.positions) * c.block * self.size
        taps = prod(c.sizes)
        self.filter_bytes = taps * c.block * self.size * (1 if c.depthwise else c.blocks * c.depth)

    def emit(self) -> None:
        """The loop over tasks, and in each over ranges of channels, rows, and tiles of a row."""
        b, c, cut = self.b, self.c, self.cut
        operands = [argument(b, k) for k in range(len(c.operand_elements))]
        image, filters, result = operands[0], operands[1], operands[-1]
        bias = operands[2] if c.bias else None
        residual = operands[2 + c.bias] if c.residual else None
        bands = -(-c.positions[0] // cut.rows)
        stacks = -(-c.filter_blocks // cut.filters)
        blocks = self._blocks
        piece = self.filter_bytes // blocks

        def task(number: Value, _: list[Value]) -> Sequence[Value]:
            which, band, stack = split_index(b, number, [c.n, bands, stacks])
            # The last stack overlaps the one before, rather than being smaller.
            first = b.times(stack, cut.filters)
            first = b.binary("smin", first, Value(str(c.filter_blocks - cut.filters), I64))
            source = b.at(image, b.times(which, c.blocks * self.image[0]))
            if c.depthwise:
                source = b.at(source, b.times(first, self.image[0]))
            weights = b.at(filters, b.times(first, self.filter_bytes))
            at = b.times(b.plus(b.times(which, c.filter_blocks), first), self.plane)
            shift = None
            if bias is not None:
                shift = b.at(bias, b.times(first, c.block * self.size))
            begin = b.times(band, cut.rows)
            rows = block_extent(b, cut.rows, c.positions[0], begin)
            goal = Goal(b.at(result, at), None if residual is None else b.at(residual, at), shift)
            behind = b.at(weights, cut.filters * self.filter_bytes)

            def channels(k: Value, _: list[Value]) -> Sequence[Value]:
                count = block_extent(b, cut.channels, blocks, k)
                here = b.at(source, b.times(k, self.image[0]))
                there = b.at(weights, b.times(k, piece))
                further = b.plus(k, cut.channels)
                following = b.select(
                    b.compare("slt", further, blocks),
                    b.at(weights, b.times(further, piece)),
                    behind,
                )

                def row(j: Value, _: list[Value]) -> Sequence[Value]:
                    self._prefetch(following, piece * min(cut.channels, blocks), j)
                    self._row(b.plus(begin, j), here, there, goal, count)
                    return []

                b.loop(0, rows, 1, [], row)
                return []

            self._each_vector(goal, begin, rows, self._begun)
            b.loop(0, blocks, cut.channels, [], channels)
            self._each_vector(goal, begin, rows, self._complete)
            return []

        b.block_loop(task)

    @property
    def in_parts(self) -> bool:
        """Whether sums are kept in the result while one range of channels follows another."""
        return self.cut.channels < self._blocks

    def _each_vector(
        self, goal: Goal, begin: Value, rows: Value, body: Callable[[Goal], None]
    ) -> None:
        """Where sums are kept in the result: something for each vector of a task's result."""
        b, c, cut = self.b, self.c, self.cut
        if not self.in_parts:
            return
        lane_bytes = cut.lanes * self.size
        count = c.positions[1] * c.block * self.size
        first, size = b.times(begin, count), b.times(rows, count)
        for f in range(cut.filters):
            for part in range(0, c.block * self.size, lane_bytes):

                def one(at: Value, _: list[Value]) -> Sequence[Value]:
                    place = b.plus(b.plus(first, at), f * self.plane + part)  # noqa: B023
                    body(goal.moved(b, place, f * c.block * self.size + part))  # noqa: B023
                    return []

                b.loop(0, size, c.block * self.size, [], one)

    def _begun(self, goal: Goal) -> None:
        value = self.b.const(self.vector, 0.0)
        if goal.bias is not None:
            value = read_vector(self.b, self.vector, goal.bias)
        write_vector(self.b, value, goal.out)

    def _complete(self, goal: Goal) -> None:
        value = read_vector(self.b, self.vector, goal.out)
        write_vector(self.b, self.finished(self.b, value, goal.residual), goal.out)

    def finished(self, b: Builder, value: Value, residual: Value | None) -> Value:
        """A complete sum with its summand, activated."""
        if residual is not None:
            value = b.add(value, read_vector(b, self.vector, residual))
        return ACTIVATIONS[self.c.activation](b, value)

    def _row(self, y: Value, image: Value, filters: Value, goal: Goal, blocks: Value) -> None:
        """All tiles of a row of the result."""
        b, c, cut = self.b, self.c, self.cut
        top = b.plus(b.times(y, c.strides[0]), -c.before[0])
        first, count = self._rows_inside(top)
        line = b.plus(top, b.times(first, c.dilations[0]))
        source = b.at(image, b.times(line, self.image[1]))
        taps = b.at(filters, b.times(first, self.filter_bytes // (self._blocks * c.sizes[0])))
        pixel = c.block * self.size
        row = goal.moved(b, b.times(y, c.positions[1] * pixel), 0)
        widths = _split(c.positions[1], cut.positions)
        tiles = [(w, tuple(self._parts(sum(widths[:k]), w))) for k, w in enumerate(widths)]
        x = 0
        for (width, parts), run in groupby(tiles):
            end = x + width * len(list(run))

            def one(at: Value, _: list[Value]) -> Sequence[Value]:
                left = b.plus(b.times(at, c.strides[1]), -c.before[1])
                here = b.at(source, b.times(left, self.image[2]))
                tile = Tile(width, parts)  # noqa: B023  called now
                self._tile(tile, here, taps, row.moved(b, b.times(at, pixel), 0), blocks, count)
                return []

            b.loop(x, end, width, [], one)
            x = end

    def _prefetch(self, filters: Value, piece: int, row: Value) -> None:
        """Prefetch a row's share of the filters that are multiplied next."""
        b, cut = self.b, self.cut
        if self.filter_bytes * self.c.filter_blocks <= self.target.l2_bytes // 2:
            return
        rows = min(cut.rows, self.c.positions[0])
        share = -(-piece // (rows * LINE)) * LINE
        starts = [b.at(filters, f * self.filter_bytes) for f in range(cut.filters)]

        def line(at: Value, _: list[Value]) -> Sequence[Value]:
            for start in starts:
                b.prefetch(b.at(b.at(start, b.times(row, share)), at))
            return []

        b.loop(0, share, LINE, [], line)

    @property
    def _blocks(self) -> int:
        return 1 if self.c.depthwise else self.c.blocks

    def _rows_inside(self, top: Value) -> tuple[Value, Value]:
        """The first row of the filter that meets the image, and how many do."""
        b, c = self.b, self.c
        height, size, step = c.lengths[0], c.sizes[0], c.dilations[0]
        zero = Value("0", I64)
        lowest = -c.before[0]
        highest = lowest + (c.positions[0] - 1) * c.strides[0] + (size - 1) * step
        first, end = zero, Value(str(size), I64)
        if lowest < 0:
            missing = b.binary("smax", b.emit(I64, f"sub i64 0, {top.text}"), zero)
            first = b.emit(I64, f"udiv {b.plus(missing, step - 1)}, {step}")
        if highest >= height:
            room = b.emit(I64, f"sub i64 {height - 1 + step}, {top.text}")
            end = b.binary("smin", b.emit(I64, f"udiv {room}, {step}"), end)
        count = b.emit(I64, f"sub {end}, {first.text}") if lowest < 0 or highest >= height else end
        return first, count

    def _parts(self, x: int, width: int) -> Iterator[Part]:
        """Columns of the filter with the positions of a tile that meet the image there."""
        c = self.c
        held: list[Part] = []
        for tap in range(c.sizes[1]):
            at = [(x + p) * c.strides[1] - c.before[1] + tap * c.dilations[1] for p in range(width)]
            inside = [p for p, place in enumerate(at) if 0 <= place < c.lengths[1]]
            if not inside:
                continue
            span = (inside[0], inside[-1] + 1)
            if held and (held[-1].first, held[-1].end) == span:
                held[-1] = replace(held[-1], taps=held[-1].taps + 1)
            else:
                held.append(Part(tap, 1, *span))
        # The widest one first: it begins the sums.
        yield from sorted(held, key=lambda p: p.first - p.end)

    def _tile(
        self, t: Tile, image: Value, filters: Value, goal: Goal, blocks: Value, rows: Value
    ) -> None:  # fmt: skip
        """Call the function of a tile."""
        known = tuple([int(n.text) if n.text.isdigit() else None for n in (blocks, rows)])
        given = {"x": image, "w": filters, "y": goal.out}
        if not self.in_parts:
            more = {"r": goal.residual, "s": goal.bias}
            given |= {name: value for name, value in more.items() if value is not None}
        for name, value, number in zip("mn", (blocks, rows), known, strict=True):
            given |= {name: value} if number is None else {}
        parameters = ", ".join(f"{v.type} %{name}" for name, v in given.items())

        def write(inner: Builder) -> None:
            pairs = zip("mn", known, strict=True)
            counts = [Value(f"%{name}", I64) if n is None else n for name, n in pairs]
            NchwcTile(inner, self, t, counts).emit()

        name = self.routines.add((t, known), parameters, write)
        self.b.emit_void(f"call void @{name}({', '.join(map(str, given.values()))})")


@dataclass(frozen=True, slots=True)
class Goal:
    """Addresses of a vector of the result, of its summand and of its bias."""

    out: Value
    residual: Value | None
    bias: Value | None

    def moved(self, b: Builder, offset: Value, filters: int) -> Goal:
        """Another vector, ``filters`` bytes further in the bias."""
        residual = None if self.residual is None else b.at(self.residual, offset)
        bias = None if self.bias is None else b.at(self.bias, filters)
        return Goal(b.at(self.out, offset), residual, bias)


@dataclass(frozen=True, slots=True)
class Part:
    """Columns ``tap``... of a filter, ``taps`` of them, for positions ``first`` to ``end``."""

    tap: int
    taps: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Tile:
    """Positions of a row, and the columns of the filter that they meet."""

    width: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Ahead(Elements):
    """Elements of a tile that prefetch those of the next one, a block at a time.

    Blocks of channels lie too far apart for the hardware to follow.
    """

    ahead: range = range(0)

    def moved(self, b: Builder, axis: int, index: Value, scaled: Scaled) -> Elements:
        found = Elements.moved(self, b, axis, index, scaled)
        if axis == 0 and self.ahead:
            base, first = found.places[0]
            assert isinstance(first, int)
            for line in self.ahead:
                b.prefetch(b.at(base, first + self.ahead.stop + line), L1)
        return found


class NchwcTile:
    """Emits the body of the function of a tile; sums stay in registers."""

    def __init__(
        self, b: Builder, e: NchwcEmitter, t: Tile, counts: Sequence[Value | int]
    ) -> None:  # fmt: skip
        self.b, self.e, self.c, self.cut, self.t, self.counts = b, e, e.c, e.cut, t, counts
        self.vector, size = e.vector, e.size
        each = self.c.block // self.cut.lanes
        lane_bytes = self.cut.lanes * size
        parts = [(f, v * lane_bytes) for f in range(self.cut.filters) for v in range(each)]
        self.filter_offsets = [f * e.filter_bytes + at for f, at in parts]
        self.out_offsets = [f * e.plane + at for f, at in parts]
        self.bias_offsets = [f * self.c.block * size + at for f, at in parts]
        self.pixel = self.c.block * size

    def emit(self) -> None:
        b, t, vectors = self.b, self.t, self.cut.vectors
        in_parts = self.e.in_parts
        out = Value("%y", PTR)
        places = [b.at(out, p * self.pixel + at) for p in range(t.width) for at in self.out_offsets]
        if not in_parts and self.c.bias:
            row = [
                read_vector(b, self.vector, b.at(Value("%s", PTR), o)) for o in self.bias_offsets
            ]
            sums = row * t.width
        elif not in_parts:
            sums = [b.const(self.vector, 0.0)] * (t.width * vectors)
        else:
            sums = [read_vector(b, self.vector, place) for place in places]
        for part in t.parts:
            first, end = part.first * vectors, part.end * vectors
            sums[first:end] = self._sum(part, sums[first:end])
        if not in_parts:
            sums = [self._finished(k, s) for k, s in enumerate(sums)]
        for place, value in zip(places, sums, strict=True):
            write_vector(b, value, place)

    def _sum(self, part: Part, sums: Sequence[Value]) -> list[Value]:
        """Add the products of some columns of the filter."""
        b, c, e, size = self.b, self.c, self.e, self.e.size
        block, row, column, channel = e.image
        step = c.strides[1] * column
        base = b.at(Value("%x", PTR), part.tap * c.dilations[1] * column)
        if c.depthwise:
            return self._depthwise(part, base, step, sums)
        tap_bytes = c.depth * c.block * size
        left = [(base, p * step) for p in range(part.first, part.end)]
        taps = b.at(Value("%w", PTR), part.tap * tap_bytes)
        right = [(taps, at) for at in self.filter_offsets]
        moved, weights = [block, c.dilations[0] * row], [
            c.sizes[0] * c.sizes[1] * tap_bytes, c.sizes[1] * tap_bytes,
        ]  # fmt: skip
        extents: list[Value | int] = [*self.counts]
        if c.dilations[1] == 1 and not c.planar:  # columns and channels are one run of memory
            extents += [part.taps * c.depth]
        else:
            extents += [part.taps, c.depth]
            moved.append(c.dilations[1] * column)
            weights.append(tap_bytes)
        moved.append(channel)
        weights.append(c.block * size)
        # Tiles of few sums have several sets of them, which hide the latency of FMA.
        chains = -(-MIN_ACCUMULATORS // len(sums))
        if not fits_registers(chains * len(sums) // self.cut.vectors, self.cut.vectors, e.target):
            chains = 1
        last = extents[-1]
        assert isinstance(last, int)
        if chains == 1 and last > _UNROLLED and last % _UNROLLED == 0:
            extents[-1:] = last // _UNROLLED, _UNROLLED
            for steps in (moved, weights):
                steps[-1:] = steps[-1] * _UNROLLED, steps[-1]
        keep = [k for k, n in enumerate(extents) if n != 1] or [0]
        ahead = range(0, self.t.width * step, LINE) if prod(c.sizes) == 1 else range(0)
        return microkernel(
            b,
            Ahead(Type(self.vector.elem), left, [moved[k] for k in keep], ahead=ahead),
            Elements(self.vector, right, [weights[k] for k in keep]),
            [extents[k] for k in keep],
            sums,
            chains if isinstance(extents[keep[-1]], int) else 1,
        )

    def _depthwise(
        self, part: Part, base: Value, step: int, sums: Sequence[Value]
    ) -> list[Value]:  # fmt: skip
        """The same where each channel has a filter of its own: no broadcast."""
        b, c, e, vectors = self.b, self.c, self.e, self.cut.vectors
        row_bytes = c.sizes[1] * self.pixel

        def line(k: Value, carried: list[Value]) -> Sequence[Value]:
            image = b.at(base, b.times(k, c.dilations[0] * e.image[1]))
            filters = b.at(Value("%w", PTR), b.plus(b.times(k, row_bytes), part.tap * self.pixel))
            total, seen = list(carried), dict[int, Value]()
            for tap in range(part.taps):
                for v, offset in enumerate(self.bias_offsets):
                    weight = read_vector(b, self.vector, b.at(filters, tap * self.pixel + offset))
                    for p in range(part.first, part.end):
                        at = p * step + tap * c.dilations[1] * e.image[2] + offset
                        if at not in seen:
                            seen[at] = read_vector(b, self.vector, b.at(image, at))
                        number = (p - part.first) * vectors + v
                        total[number] = b.muladd(seen[at], weight, total[number])
            return total

        return b.loop(0, self.counts[1], 1, list(sums), line)

    def _finished(self, number: int, value: Value) -> Value:
        position, k = divmod(number, self.cut.vectors)
        at = position * self.pixel + self.out_offsets[k]
        place = self.b.at(Value("%r", PTR), at) if self.c.residual else None
        return self.e.finished(self.b, value, place)


def _clamped(b: Builder, value: Value, high: float | None = None) -> Value:
    """At least 0, at most ``high``; NaN stays."""
    value = b.select(b.compare("ole", value, 0.0), b.like(value, 0.0), value)
    return value if high is None else (
        b.select(b.compare("oge", value, high), b.like(value, high), value)
    )  # fmt: skip


ACTIVATIONS: Final[dict[str, Callable[[Builder, Value], Value]]] = {
    "identity": lambda b, x: x,
    "relu": _clamped,
    "relu6": lambda b, x: _clamped(b, x, 6.0),
    "hardswish": lambda b, x: b.div(b.mul(x, _clamped(b, b.add(x, 3.0), 6.0)), 6.0),
}


def _split(extent: int, most: int) -> list[int]:
    """Widths of at most ``most`` that cover an extent, as equal as possible, larger ones first."""
    count = -(-extent // most)
    small, left = divmod(extent, count)
    return [small + 1] * left + [small] * (count - left)
