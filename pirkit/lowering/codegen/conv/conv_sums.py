"""Sums of a blocked convolution in scratch memory: zeros before, copies to the result after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from msgspec import Struct

from pirkit.lowering.codegen.conv.conv_blocking import ConvBlocking, ConvProblem
from pirkit.lowering.codegen.conv.im2col import row_bytes
from pirkit.lowering.codegen.conv.panel_lines import PanelLines, image_bytes, lines_of
from pirkit.lowering.codegen.emit.memory_access import Memory, store
from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values, matrix
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.blocking import block_extent, clear
from pirkit.runtime.dtype import DType


class ClearSums(Struct, frozen=True):
    """Stores zeros, in whole vectors."""

    dtype: DType
    lanes: int
    nbytes: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[0]} = 0 [{self.nbytes:,} bytes]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        size = self.dtype.itemsize
        matrix(memory[0], self.dtype, (self.nbytes // size,), (size,))[...] = 0

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        clear(b, Type(element(self.dtype), self.lanes), addresses[0], self.nbytes)


class CopySums(Struct, frozen=True):
    """Copies sums to the result, by way of the epilogue.

    Buffers are sums, result, the tables of the panel's lines and the vectors of the epilogue.

    Numbers are those of the filters, of the range of lines and the place in it, and the lines.
    """

    c: ConvProblem
    cut: ConvBlocking

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = copy {buffers[0]} [{numbers[3]} lines]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        c, cut, (stack, *place) = self.c, self.cut, numbers
        size, filters = c.dtype.itemsize, cut.filter_tiles * cut.rows
        count, lines = (
            min(filters, c.group_filters - stack * filters),
            list(lines_of(c, cut, place)),
        )
        pitch = cut.pitch or cut.width
        used = (len(lines) - 1) * pitch + cut.width
        sums = matrix(memory[0], c.dtype, (count, used), (row_bytes(c, cut), size), panel=True)
        steps = tuple([prod(c.room[k:]) * size for k in range(len(c.room) + 1)])
        results = {
            n: matrix(
                (memory[1][0], memory[1][1] + n * image_bytes(c)[1]), c.dtype,
                (count, *c.room), steps,
            )
            for n in {line.image for line in lines}
        }  # fmt: skip
        for r, line in enumerate(lines):
            width = min(cut.width, c.positions[-1] - line.starts[-1])
            *outer, first = line.result
            step = c.result_stride[-1]
            last = slice(first, first + (width - 1) * step + 1, step)
            found = sums[:, r * pitch : r * pitch + width]
            if c.epilogue is not None:
                found = c.epilogue.run(
                    found, [matrix(m, c.dtype, (count,), (size,)) for m in memory[3:]]
                )
            results[line.image][(slice(None), *outer, last)] = found

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        # Loops over filters, lines, and vectors along a line. A line that is a part of a row of the
        # image may reach beyond the end of that row (`left`): these lanes are masked.
        c, cut, size = self.c, self.cut, self.c.dtype.itemsize
        sums, result, tables, *vectors = addresses
        lines = PanelLines.at(b, c, cut, tables, numbers[3])
        filters = cut.filter_tiles * cut.rows
        count = block_extent(b, filters, c.group_filters, b.times(numbers[0], filters))
        vector, step = Type(element(c.dtype), cut.lanes), c.result_stride[-1] * size

        def filter_(e: Value, _: list[Value]) -> Sequence[Value]:
            row = b.at(sums, b.times(e, row_bytes(c, cut)))
            result_lines = b.at(result, b.times(e, prod(c.room) * size))
            finish: Callable[[Value], Value] | None = None
            if c.epilogue is not None:
                here = [b.at(v, b.times(e, size)) for v in vectors]
                finish = c.epilogue.of_filter(b, c.dtype, cut.lanes, here)

            def line(r: Value, _: list[Value]) -> Sequence[Value]:
                source = b.at(row, b.times(r, (cut.pitch or cut.width) * size))
                target = b.at(result_lines, lines.entry(b, lines.result, r))
                left: Value | None = None
                if cut.line_parts * cut.width != c.positions[-1]:
                    start = lines.entry(b, lines.starts[-1], r)
                    left = b.emit(I64, f"sub i64 {c.positions[-1]}, {start.text}")

                def one(first: Value, mask: Value | None) -> None:
                    address = b.at(source, b.times(first, size))
                    value = b.load(vector, address, size)
                    value = value if finish is None else finish(value)
                    _store_strided(b, c, value, b.at(target, b.times(first, step)), mask)

                def along(first: Value, _: list[Value]) -> Sequence[Value]:
                    one(first, mask_at(first))
                    return []

                def mask_at(first: Value) -> Value | None:
                    if left is None:
                        return None
                    short = b.emit(I64, f"sub {left}, {first.text}")
                    return tail_mask(b, cut.lanes, b.binary("smax", short, Value("0", I64)))

                full = cut.width // cut.lanes * cut.lanes
                b.loop(0, full, cut.lanes, [], along)
                if cut.width > full:
                    first = Value(str(full), I64)
                    tail = tail_mask(b, cut.lanes, cut.width - full)
                    other = mask_at(first)
                    one(first, tail if other is None else b.op("and", tail, other))
                return []

            b.loop(0, lines.count, 1, [], line)
            return []

        b.loop(0, count, 1, [], filter_)


def _store_strided(
    b: Builder, c: ConvProblem, value: Value, address: Value, mask: Value | None
) -> None:
    """Store a vector with the stride of the result along its last axis."""
    lanes, size, stride = value.type.lanes, c.dtype.itemsize, c.result_stride[-1]
    # For stride 2, two masked stores of duplicated lanes replace a scatter.
    if stride != 2:
        store(b, value, c.dtype, Memory(address, stride * size), mask)
        return
    off = b.const(value.type.mask, False)
    on = b.const(value.type.mask, True) if mask is None else mask
    for half in range(2):
        picks = [half * lanes // 2 + k // 2 for k in range(lanes)]
        lane_mask = b.shuffle(on, off, [p + k % 2 * lanes for k, p in enumerate(picks)])
        memory = Memory(b.at(address, half * lanes * size), size)
        store(b, b.shuffle(value, value, picks), c.dtype, memory, lane_mask)
