"""A register tile of a convolution over blocked channels: the body of its function.

The loops around it are in `nchwc_conv.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Final

from pirkit.lowering.codegen.conv.nchwc_blocking import NchwcBlocking, NchwcConv
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I1, PTR, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.math.primitives import extremum
from pirkit.lowering.codegen.matmul.microkernel import Elements, Scaled, microkernel
from pirkit.lowering.codegen.matmul.output_tile import L1, read_vector, write_vector
from pirkit.lowering.codegen.matmul.register_tile import (
    MIN_ACCUMULATORS,
    fits_registers,
)
from pirkit.runtime.native.target import Target

_UNROLLED: Final = 4
"""Terms of a tile that are unrolled."""


class NchwcFrame:
    """What the loops and the tiles of a convolution share: its sizes in bytes, and its epilogue."""

    def __init__(self, c: NchwcConv, cut: NchwcBlocking, target: Target) -> None:
        self.c, self.cut, self.target = c, cut, target
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
        weights = taps * c.block * self.size
        self.filter_bytes = 0 if c.pool else weights * (1 if c.depthwise else c.blocks * c.depth)

    @property
    def summed_blocks(self) -> int:
        """The blocks of channels that a sum runs over."""
        return 1 if self.c.depthwise else self.c.blocks

    @property
    def in_parts(self) -> bool:
        """Whether sums are kept in the result while one range of channels follows another."""
        return self.cut.channels < self.summed_blocks

    def finished(self, b: Builder, value: Value, residual: Value | None) -> Value:
        """A complete sum with its summand, activated."""
        if residual is not None:
            value = b.add(value, read_vector(b, self.vector, residual))
        return ACTIVATIONS[self.c.activation](b, value)


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
class Ends:
    """Whether a range of channels comes after another one, and whether it is the last."""

    later: Value
    last: Value


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
        self, b: Builder, e: NchwcFrame, t: Tile, counts: Sequence[Value | int]
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
        sums = [b.const(self.vector, -inf if self.c.pool else 0.0)] * (t.width * vectors)
        if self.c.bias:
            at = [b.at(Value("%s", PTR), o) for o in self.bias_offsets]
            sums = [read_vector(b, self.vector, place) for place in at] * t.width
        if in_parts:  # a former range of channels has left its sums in the result
            later = Value("%later", I1)
            sums = b.branch(later, lambda: [read_vector(b, self.vector, p) for p in places], sums)
        for part in t.parts:
            first, end = part.first * vectors, part.end * vectors
            sums[first:end] = self._sum(part, sums[first:end])
        last, complete = Value("%last", I1) if in_parts else Value("true", I1), sums
        sums = b.branch(last, lambda: [self._finished(*s) for s in enumerate(complete)], sums)
        for place, value in zip(places, sums, strict=True):
            write_vector(b, value, place)

    def _sum(self, part: Part, sums: Sequence[Value]) -> list[Value]:
        """Add the products of some columns of the filter."""
        c = self.c
        if not c.tail:
            return self._products(part, sums, self.counts[0], c.depth)
        if c.blocks > 1:
            sums = self._products(part, sums, c.blocks - 1, c.depth)
        return self._products(part, sums, 1, c.tail, c.blocks - 1)

    def _products(
        self, part: Part, sums: Sequence[Value], blocks: Value | int, depth: int, first: int = 0
    ) -> list[Value]:  # fmt: skip
        """Add those of the first ``depth`` channels of some blocks, from ``first`` on."""
        b, c, e, size = self.b, self.c, self.e, self.e.size
        block, row, column, channel = e.image
        step = c.strides[1] * column
        base = b.at(Value("%x", PTR), first * block + part.tap * c.dilations[1] * column)
        if c.depthwise:
            return self._depthwise(part, base, step, sums)
        tap_bytes = c.depth * c.block * size
        left = [(base, p * step) for p in range(part.first, part.end)]
        taps = b.at(Value("%w", PTR), (first * prod(c.sizes) + part.tap) * tap_bytes)
        right = [(taps, at) for at in self.filter_offsets]
        moved, weights = [block, c.dilations[0] * row], [
            c.sizes[0] * c.sizes[1] * tap_bytes, c.sizes[1] * tap_bytes,
        ]  # fmt: skip
        extents: list[Value | int] = [blocks, self.counts[1]]
        if c.dilations[1] == 1 and not c.planar and depth == c.depth:
            extents += [part.taps * depth]  # columns and channels are one run of memory
        else:
            extents += [part.taps, depth]
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
        # Filters of 1x1 read each line once: a larger filter has it in L1 from the row before.
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
        """The same where each channel has a filter of its own, or a maximum: no broadcast."""
        b, c, e, vectors = self.b, self.c, self.e, self.cut.vectors
        row_bytes = c.sizes[1] * self.pixel

        def line(k: Value, carried: list[Value]) -> Sequence[Value]:
            image = b.at(base, b.times(k, c.dilations[0] * e.image[1]))
            filters = b.at(Value("%w", PTR), b.plus(b.times(k, row_bytes), part.tap * self.pixel))
            total, seen = list(carried), dict[int, Value]()
            for tap in range(part.taps):
                for v, offset in enumerate(self.bias_offsets):
                    weight = b.at(filters, tap * self.pixel + offset)
                    weight = None if c.pool else read_vector(b, self.vector, weight)
                    for p in range(part.first, part.end):
                        at = p * step + tap * c.dilations[1] * e.image[2] + offset
                        if at not in seen:
                            seen[at] = read_vector(b, self.vector, b.at(image, at))
                        number = (p - part.first) * vectors + v
                        if weight is None:
                            total[number] = extremum(b, seen[at], total[number], "max", c.dtype)
                        else:
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
