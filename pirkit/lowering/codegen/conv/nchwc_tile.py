"""The register tile of a convolution over blocked channels: a routine of the loop IR.

The loops around it are in `nchwc_conv.py`, what it computes with numpy in `nchwc_reference.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf, prod
from typing import Final

from msgspec import Struct

from pirkit.lowering.codegen.conv.nchwc_blocking import NchwcFrame, Part
from pirkit.lowering.codegen.conv.nchwc_reference import run_tile
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values
from pirkit.lowering.codegen.math.primitives import extremum
from pirkit.lowering.codegen.matmul.integer_products import quad_products
from pirkit.lowering.codegen.matmul.microkernel import Elements, Scaled, microkernel
from pirkit.lowering.codegen.matmul.output_tile import L1, L2, read_vector, write_vector
from pirkit.lowering.codegen.matmul.register_tile import MIN_ACCUMULATORS, fits_registers
from pirkit.runtime.dtype import DType

_UNROLLED: Final = 4
"""Terms of a tile that are unrolled."""
_IMAGE: Final = "%moved0"
"""The first tap of the first position, which lies before the image where that is padded."""


class NchwcTile(Struct, frozen=True):
    """Positions of a row by some blocks of filters, as a routine of the loop IR.

    ``parts`` are the columns of the filter that the positions meet. Buffers are all operands, at
    the first tap of the first position; numbers are the blocks of channels, the first row of taps
    and how many there are, and if there are several ranges of channels which one
    it is: the first one (0), one between, or the last one (2).
    """

    frame: NchwcFrame
    width: int
    parts: tuple[Part, ...]
    filters_ahead: int = 0
    """Bytes after the filters at which those lie that are multiplied next, which are prefetched."""

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        c, cut = self.frame.c, self.frame.cut
        named = dict(zip(c.operand_bytes, buffers, strict=True))
        taps = f"rows {numbers[1]}, {numbers[2]}; {sum(p.taps for p in self.parts)} columns"
        what = f"{'maximum' if c.pool else 'convolution'} {named['x']} {named.get('w', '')}"
        last = f", range {numbers[3]}" if numbers[3:] else ""
        extent = f"[{self.width} x {cut.filters * c.block}]"
        return f"microkernel {named['y']}{extent} = {what}, {numbers[0]} blocks, {taps}{last}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        places = dict(zip(self.frame.c.operand_bytes, memory, strict=True))
        run_tile(self.frame, self.width, self.parts, places, numbers)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        """Call the function of the tile."""
        e, (blocks, first, rows, *part) = self.frame, numbers
        given = dict(zip(e.c.operand_bytes, addresses, strict=True))
        given["x"] = b.at(given["x"], b.times(first, e.c.dilations[0] * e.image[1]))
        if "w" in given:
            given["w"] = b.at(given["w"], b.times(first, e.filter_row))
        if part:
            given["later"] = b.compare("sgt", part[0], 0)
            given["last"] = b.compare("eq", part[0], 2)
        counts = {"m": blocks, "n": rows}
        known = {name: int(n.text) for name, n in counts.items() if n.text.isdigit()}
        given |= {name: n for name, n in counts.items() if name not in known}
        named = {_IMAGE if name == "x" else f"%{name}": v for name, v in given.items()}
        parameters = ", ".join(f"{v.type} {name}" for name, v in named.items())

        def write(inner: Builder) -> None:
            extents = [known.get(name, Value(f"%{name}", I64)) for name in counts]
            _TileBody(inner, e, self, extents).emit()

        name = functions.add(
            (self.width, self.parts, self.filters_ahead, str(known)), parameters, write
        )
        b.emit_void(f"call void @{name}({', '.join(map(str, given.values()))})")


class Ahead(Elements, frozen=True):
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


class NextFilters(Elements, frozen=True):
    """Filters of a tile that prefetch those ``ahead`` bytes further on."""

    ahead: int = 0

    def load(self, b: Builder) -> Iterator[Value]:
        for base, offset in self.places if self.ahead else ():
            assert isinstance(offset, int)
            b.prefetch(b.at(base, offset + self.ahead), L2)
        yield from Elements.load(self, b)


class _TileBody:
    """Emits the body of the function of a tile; sums stay in registers."""

    def __init__(
        self, b: Builder, e: NchwcFrame, t: NchwcTile, counts: Sequence[Value | int]
    ) -> None:  # fmt: skip
        self.b, self.e, self.c, self.cut, self.t, self.counts = b, e, e.c, e.cut, t, counts
        self.vector, size = e.vector, e.size
        each, lanes = self.c.block // self.cut.lanes, self.cut.lanes
        parts = [(f, v * lanes) for f in range(self.cut.filters) for v in range(each)]
        self.filter_offsets = [f * e.filter_bytes + at * e.c.group * size for f, at in parts]
        self.out_offsets = [f * e.plane + at for f, at in parts]  # in elements
        self.vector_offsets = [(f * self.c.block + at) * e.c.wide.itemsize for f, at in parts]
        self.pixel = self.c.block * size

    def emit(self) -> None:
        b, t, vectors = self.b, self.t, self.cut.vectors
        in_parts = self.e.parts > 1
        places = self._places("y", self.c.result)
        least = -inf if self.c.pool and self.c.dtype.is_float else 0
        sums = [b.const(self.e.sums, least)] * (t.width * vectors)
        if self.c.offsets or (self.c.bias and not self.c.quantized):
            sums = self._of_filters("o" if self.c.offsets else "s", self.e.sums) * t.width
        if in_parts:  # a former range of channels has left its sums in the result
            later = Value("%later", I1)
            sums = b.branch(later, lambda: [read_vector(b, self.vector, p) for p in places], sums)
        for part in t.parts:
            first, end = part.first * vectors, part.end * vectors
            sums[first:end] = self._sum(part, sums[first:end])
        last, complete = Value("%last", I1) if in_parts else Value("true", I1), sums
        sums = b.branch(last, lambda: self._finished(complete), sums)
        for place, value in zip(places, sums, strict=True):
            write_vector(b, value, place)

    def _places(self, name: str, dtype: DType) -> list[Value]:
        """The vectors of the result, or of a summand."""
        base, size = Value(f"%{name}", PTR), dtype.itemsize
        return [
            self.b.at(base, (p * self.c.block + at) * size)
            for p in range(self.t.width)
            for at in self.out_offsets
        ]

    def _of_filters(self, name: str, kind: Type | None = None) -> list[Value]:
        """The vectors of the bias, of the scales or of the offsets."""
        base, kind = Value(f"%{name}", PTR), kind or self.vector
        return [read_vector(self.b, kind, self.b.at(base, o)) for o in self.vector_offsets]

    def _sum(self, part: Part, sums: Sequence[Value]) -> list[Value]:
        """Add the products of some columns of the filter."""
        b, c = self.b, self.c
        if not c.tail:
            return self._products(part, sums, self.counts[0], c.depth)
        whole, last = b.plus(_register(self.counts[0]), -1), Value("true", I1)
        if self.e.parts > 1:  # the last range of channels has the tail
            last = Value("%last", I1)
            whole = b.select(last, whole, _register(self.counts[0]))
        known = int(whole.text) if whole.text.isdigit() else whole
        if known != 0:
            sums = self._products(part, sums, known, c.depth)
        before = list(sums)
        return b.branch(last, lambda: self._products(part, before, 1, c.tail, whole), before)

    def _products(
        self, part: Part, sums: Sequence[Value], blocks: Value | int, depth: int,
        first: Value | None = None,
    ) -> list[Value]:  # fmt: skip
        """Add those of the first ``depth`` channels of some blocks, from ``first`` on."""
        b, c, e, size = self.b, self.c, self.e, self.e.size
        block, row, column, channel = e.image
        step = c.strides[1] * column
        base = b.at(Value(_IMAGE, PTR), part.tap * c.dilations[1] * column)
        if c.depthwise:
            return self._depthwise(part, base, step, sums)
        tap_bytes = c.depth * c.block * size
        taps = b.at(Value("%w", PTR), part.tap * tap_bytes)
        if first is not None:
            base = b.at(base, b.times(first, block))
            taps = b.at(taps, b.times(first, prod(c.sizes) * tap_bytes))
        left = [(base, p * step) for p in range(part.first, part.end)]
        right = [(taps, at) for at in self.filter_offsets]
        moved, weights = [block, c.dilations[0] * row], [
            c.sizes[0] * c.sizes[1] * tap_bytes, c.sizes[1] * tap_bytes,
        ]  # fmt: skip
        extents: list[Value | int] = [blocks, self.counts[1]]
        depth //= c.group
        if c.dilations[1] == 1 and not c.planar and depth * c.group == c.depth:
            extents += [part.taps * depth]  # columns and channels are one run of memory
        else:
            extents += [part.taps, depth]
            moved.append(c.dilations[1] * column)
            weights.append(tap_bytes)
        moved.append(channel)
        weights.append(c.block * c.group * size)
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
        kind, combine = e.sums, None
        if c.quantized:
            kind, combine = Type("i8", c.group * e.sums.lanes), quad_products(e.target)
        return microkernel(
            b,
            Ahead(Type(e.sums.elem), left, [moved[k] for k in keep], ahead=ahead),
            NextFilters(
                kind,
                right,
                [weights[k] for k in keep],
                ahead=self.t.filters_ahead,
                widen=lambda b, v: b.emit(e.sums, f"bitcast {v} to {e.sums}") if c.quantized else v,
            ),
            [extents[k] for k in keep],
            sums,
            chains if isinstance(extents[keep[-1]], int) else 1,
            combine,
        )

    def _depthwise(
        self, part: Part, base: Value, step: int, sums: Sequence[Value]
    ) -> list[Value]:  # fmt: skip
        """The same where each channel has a filter of its own, or a maximum: no broadcast."""
        b, c, e, vectors = self.b, self.c, self.e, self.cut.vectors
        row_bytes = c.sizes[1] * self.pixel

        def line(k: Value, carried: list[Value]) -> Sequence[Value]:
            image = b.at(base, b.times(k, c.dilations[0] * e.image[1]))
            filters = None if c.pool else b.at(Value("%w", PTR), b.times(k, row_bytes))
            total, seen = list(carried), dict[int, Value]()
            for tap in range(part.taps):
                for v, offset in enumerate(self.filter_offsets):
                    at = (part.tap + tap) * self.pixel + offset
                    weight = filters and read_vector(b, self.vector, b.at(filters, at))
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

    def _finished(self, sums: Sequence[Value]) -> list[Value]:
        """Complete sums as results: scaled, with their summands, activated, rounded."""
        b, c, width = self.b, self.c, self.t.width
        found = list(sums)
        if c.quantized:
            scales = self._of_filters("q") * width
            found = [b.mul(b.cast("sitofp", v, "float"), s)
                     for v, s in zip(found, scales, strict=True)]  # fmt: skip
            if c.bias:
                found = list(map(b.add, found, self._of_filters("s") * width))
        if c.residual:
            found = list(map(b.add, found, self._summands()))
        found = [ACTIVATIONS[c.activation](b, v) for v in found]
        if not c.narrow:
            return found
        rate = self._spread("v")
        return [self._rounded(b.mul(v, rate)) for v in found]

    def _summands(self) -> list[Value]:
        b, c = self.b, self.c
        if not c.narrow_residual:
            return [read_vector(b, self.vector, p) for p in self._places("r", c.wide)]
        scale, found = self._spread("p"), list[Value]()
        for place in self._places("r", c.dtype):
            value = b.cast("zext", read_vector(b, self.vector.of("i8"), place), "i32")
            value = b.op("sub", value, c.zeros[1]) if c.zeros[1] else value
            found.append(b.mul(b.cast("sitofp", value, "float"), scale))
        return found

    def _spread(self, name: str) -> Value:
        """A number in all lanes."""
        place = Value(f"%{name}", PTR)
        return self.b.splat(read_vector(self.b, Type(self.vector.elem), place), self.vector.lanes)

    def _rounded(self, value: Value) -> Value:
        """The nearest integer, the even one of two, plus that for 0, within 0 to 255; NaN is 0."""
        b, zero = self.b, self.c.zeros[0]
        value = b.unary("roundeven", value)
        value = b.add(value, float(zero)) if zero else value
        for predicate, bound in (("ogt", 0.0), ("olt", 255.0)):
            value = b.select(b.compare(predicate, value, bound), value, b.like(value, bound))
        return b.cast("trunc", b.cast("fptosi", value, "i32"), "i8")


def _register(count: Value | int) -> Value:
    return count if isinstance(count, Value) else Value(str(count), I64)


def _clamped(b: Builder, value: Value, high: float | None = None) -> Value:
    """Clamp to 0 and ``high``; NaN stays NaN."""
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
