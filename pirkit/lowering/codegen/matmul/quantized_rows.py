"""Rows times weights in panels: some rows in float32, any number of them in int8.

A product of few rows reads its weights once, so that it takes as long as memory takes to deliver
them: fewer bits are less time. A tile widens a vector of weights in registers, for all its rows.
Sums of products of 8-bit numbers are exact in i32. With VNNI four terms are multiplied and added
at once (`vpdpbusd`): rows are copied to scratch memory with 128 added, because the left factors of
that instruction are unsigned, and 128 times the sum of a column, which is the product by a row of
zeros, is subtracted from its sums. Elsewhere rows are widened to i16, and pairs are multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.compile import key_of
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import argument, split_index, tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import stored
from pirkit.lowering.codegen.matmul.blocking import block_extent, for_tiles
from pirkit.lowering.codegen.matmul.macrokernel import TileShape, tile_shape_for
from pirkit.lowering.codegen.matmul.microkernel import Elements, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile, read_vector, write_vector
from pirkit.lowering.codegen.matmul.panel_packing import as_float
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.pool import thread_count
from pirkit.runtime.native.target import Target, host

FEW_ROWS: Final = 8
"""Rows up to which a product in float32 takes as long as its weights of fewer bits take to arrive,
though each tile of rows widens them again."""
DIRECT_ROWS: Final = 128
"""Rows up to which a product in float32 is faster if it reads panels as a whole, not slices of
their depth, where a panel stays in the L2 cache (128 rows of 3072 by 768 run at 92 GFlop/s, in
slices at 107, on a Cascade Lake)."""
_BYTES_PER_NS: Final = 12
"""What memory delivers to one thread."""
_IN_FLIGHT: Final = 8
"""Accumulators that hide the latency of a multiply-add."""
_ZERO: Final = 0x80
"""A row's 0 with 128 added."""


@dataclass(frozen=True, slots=True)
class RowsProduct:
    """``rows`` by ``depth`` times panels of ``columns`` in all; operands are x, panels, the result,
    and the scales of columns if it ``scales``, those of rows if it is ``exact``.

    An exact product is one of 8-bit integers, ``group`` terms of a column together in the panels;
    ``each_row`` has a scale of its own then.
    """

    rows: int
    columns: int
    depth: int
    weights: DType
    scales: bool
    exact: bool = False
    each_row: bool = False
    group: int = 1

    @property
    def terms(self) -> int:
        """Iterations of the loop over the depth."""
        return -(-self.depth // self.group)

    @property
    def offset(self) -> bool:
        """Whether rows are unsigned bytes, 128 more than they are."""
        return self.group == 4


def exact_group(target: Target) -> int:
    """Terms of exact products that one instruction multiplies: four with VNNI, else two."""
    wide = target.has("avx512vnni") and target.has("avx512vl")
    return 4 if wide or (target.has("avxvnni") and target.vector_bits < 512) else 2


def product_tile(
    target: Target, exact: bool, columns: int, dtype: DType = dt.float32
) -> TileShape:  # fmt: skip
    """The register tile of a product of so many columns; its own are those of a panel.

    Without VNNI a product of pairs takes a register before it is added.
    """
    shape = tile_shape_for(dtype, target, columns)
    return replace(shape, rows=5, vectors=2) if exact and target.vector_bits < 512 else shape


def native_rows_product(p: RowsProduct) -> NativeFunction:
    """The function of a product."""
    threads = thread_count()
    return function_of(key_of((p, threads), host()), lambda: rows_product_draft(p, host(), threads))


def rows_product_draft(p: RowsProduct, target: Target, threads: int) -> Draft:
    """The module of a product, not yet compiled."""
    shape = product_tile(target, p.exact, p.columns)
    routines = Routines()
    b = routines.builder()
    writer = _Writer(p, shape, target, threads, routines, b)
    writer.emit()
    panels = -(-p.columns // shape.columns) * shape.columns
    nbytes = panels * p.terms * p.group * p.weights.itemsize
    work = max(nbytes // _BYTES_PER_NS, p.rows * p.columns * p.terms // (3 * shape.lanes))
    x, out = p.rows * p.depth * (1 if p.exact else 4), p.rows * p.columns * 4
    sizes = [x, nbytes, out, *[p.columns * 4] * p.scales]
    sizes += [(p.rows if p.each_row else 1) * 4] * p.exact
    tile = {"lanes": shape.lanes, "tile rows": shape.rows, "tile columns": shape.columns}
    block = {"block rows": writer.rows, "block panels": writer.group, "blocks": writer.blocks}
    known = about(_Writer, "rows by panels", **tile, **block)
    return routines.draft(b, writer.scratch, tuple(sizes), work, known)


class _Writer:
    """Emits the loops over blocks of rows by groups of panels, then over panels and tiles."""

    def __init__(
        self, p: RowsProduct, shape: TileShape, target: Target, threads: int, routines: Routines,
        b: Builder,
    ) -> None:  # fmt: skip
        self.p, self.shape, self.target, self.routines, self.b = p, shape, target, routines, b
        self.panels = -(-p.columns // shape.columns)
        # Rows in i16 or in bytes, in whole vectors: they fill a quarter of the L2 cache at most.
        together = p.group * shape.lanes
        self.wide_row = -(-p.depth // together) * 4 * shape.lanes
        fitting = max(target.l2_bytes // 4 // self.wide_row // shape.rows, 1) * shape.rows
        self.rows = min(p.rows, fitting) if p.exact else p.rows
        down = -(-p.rows // self.rows)
        # A block widens its rows again: one thread has no reason for more than one block across.
        across = min(self.panels, max(4 * threads // down, 1)) if threads > 1 else 1
        self.group = -(-self.panels // across)
        self.extents = (down, -(-self.panels // self.group))
        self.blocks = self.extents[0] * self.extents[1]
        self.zeros = self.rows * self.wide_row
        """Where the row of zeros lies in scratch memory; the sums of a panel lie behind it."""
        self.summed_first = p.offset and self.rows >= shape.rows
        """Whether the row of zeros is multiplied before all tiles, not in the only one, which has
        registers for it."""
        self.scratch = self.zeros if p.exact else 0
        self.scratch += (self.wide_row + shape.columns * 4) * p.offset

    def emit(self) -> None:
        p, b, shape = self.p, self.b, self.shape
        pointers = [argument(b, k) for k in range(3 + p.scales + p.exact)]
        x, weights, out, *more = pointers
        scales = more[0] if p.scales else Value("null", PTR)
        row_scales = more[-1] if p.exact else Value("null", PTR)
        panel_bytes = shape.columns * p.terms * p.group * p.weights.itemsize

        def block(number: Value, _: list[Value]) -> Sequence[Value]:
            row_block, group = split_index(b, number, self.extents)
            row, first = b.times(row_block, self.rows), b.times(group, self.group)
            rows = block_extent(b, self.rows, p.rows, row)
            left, pitch = b.at(x, b.times(row, p.depth * (1 if p.exact else 4))), p.depth * 4
            if p.exact:
                wide = Value("%scratch", PTR)
                b.emit_void(f"call void @{self.widen()}({left}, {wide}, {rows})")
                left, pitch = wide, self.wide_row
            zeros = b.at(Value("%scratch", PTR), self.zeros) if p.offset else Value("null", PTR)
            lines = b.at(out, b.times(row, p.columns * 4))
            factors = b.at(row_scales, b.times(row, 4 * p.each_row)) if p.exact else row_scales

            def panel(number: Value, width: int) -> None:
                at = b.plus(first, number)
                columns = b.times(at, shape.columns * 4)
                here = b.at(weights, b.times(at, panel_bytes))
                there, spread = b.at(lines, columns), b.at(scales, columns) if p.scales else scales
                if self.summed_first:
                    b.emit_void(f"call void @{self.zero_sums()}({here}, {zeros})")

                def tile(number: Value, many: int) -> None:
                    low = b.times(number, shape.rows)
                    name = self.tile(many, width, pitch)
                    places = [b.at(left, b.times(low, pitch)), here,
                              b.at(there, b.times(low, p.columns * 4)), spread,
                              b.at(factors, b.times(low, 4 * p.each_row)), zeros]  # fmt: skip
                    b.emit_void(f"call void @{name}({', '.join(map(str, places))})")

                for_tiles(b, rows, shape.rows, p.rows % shape.rows, tile)

            begin = b.times(first, shape.columns)
            extent = block_extent(b, self.group * shape.columns, p.columns, begin)
            for_tiles(b, extent, shape.columns, p.columns % shape.columns, panel)
            return []

        b.loop(Value("%lo", I64), Value("%hi", I64), 1, [], block)

    def widen(self) -> str:
        """The function ``(from, to, rows)``: rows of i8 become rows of i16 filled up with 0, or
        bytes 128 more than they were, filled up with whatever the panels' zeros may multiply.
        """
        depth, lanes, offset = self.p.depth, self.shape.lanes, self.p.offset
        width, size = (4 * lanes, 1) if offset else (2 * lanes, 2)

        def write(b: Builder) -> None:
            def converted(value: Value) -> Value:
                return b.op("xor", value, _ZERO) if offset else b.cast("sext", value, "i16")

            def line(number: Value, _: list[Value]) -> Sequence[Value]:
                here = b.at(Value("%from", PTR), b.times(number, depth))
                there = b.at(Value("%to", PTR), b.times(number, self.wide_row))

                def vectors(width: int, start: int, stop: int) -> None:
                    kind = Type("i8", width)

                    def one(k: Value, _: list[Value]) -> Sequence[Value]:
                        found = converted(read_vector(b, kind, b.at(here, k)))
                        write_vector(b, found, b.at(there, b.times(k, size)))
                        return []

                    b.loop(start, stop, width, [], one)

                whole = depth - depth % width
                vectors(width, 0, whole)
                vectors(1, whole, depth)
                for k in range(depth, self.wide_row // size):
                    write_vector(b, Value("0", Type(f"i{8 * size}")), b.at(there, size * k))
                return []

            b.loop(0, Value("%rows", I64), 1, [], line)
            if offset:
                start = b.at(Value("%to", PTR), self.zeros)
                row = b.const(Type("i8", 4 * lanes), _ZERO)

                def one(k: Value, _: list[Value]) -> Sequence[Value]:
                    write_vector(b, row, b.at(start, k))
                    return []

                b.loop(0, self.wide_row, 4 * lanes, [], one)

        return self.routines.add("widen", "ptr %from, ptr %to, i64 %rows", write)

    def zero_sums(self) -> str:
        """The function ``(panel, zeros)``: the negated sums of the row of zeros, behind it."""
        shape = self.shape

        def write(b: Builder) -> None:
            zeros, kind = Value("%zeros", PTR), shape.vector.of("i32")
            start = [b.const(kind, 0)] * shape.vectors
            sums = [b.op("sub", start[0], s) for s in self.sums(b, [(zeros, 0)], start)]
            places = [b.at(zeros, self.wide_row + v * shape.lanes * 4) for v in range(len(sums))]
            OutputTile(kind, places).store(b, sums)

        return self.routines.add("zero_sums", "ptr %panel, ptr %zeros", write)

    def tile(self, rows: int, columns: int, pitch: int) -> str:
        """The function ``(x, panel, out, scales, row_scales, zeros)`` of rows by columns."""
        p, shape = self.p, self.shape
        names = ("x", "out", "scales", "row_scales", "zeros")

        def write(b: Builder) -> None:
            lanes, vector = shape.lanes, shape.vector
            x, out, scales, row_scales, zeros = (Value(f"%{name}", PTR) for name in names)
            tail = columns % lanes
            count = -(-columns // lanes)
            masks = [*[None] * (columns // lanes), *([tail_mask(b, lanes, tail)] if tail else ())]
            kind = vector.of("i32" if p.exact else "float")
            places, start = [(x, r * pitch) for r in range(rows)], [b.const(kind, 0)] * count
            if self.summed_first:
                held = [b.at(zeros, self.wide_row + v * lanes * 4) for v in range(count)]
                start = OutputTile(kind, held).load(b)
            elif p.offset:
                places.append((zeros, 0))
            sums = self.sums(b, places, start * len(places))
            if len(places) > rows:
                sums, offsets = sums[:-count], sums[-count:]
                sums = [b.op("sub", s, offsets[k % count]) for k, s in enumerate(sums)]
            if p.exact:
                sums = [b.cast("sitofp", s, "float") for s in sums]
                factors = [
                    b.splat(read_vector(b, Type("float"), b.at(row_scales, 4 * p.each_row * r)),
                            lanes)
                    for r in range(rows)
                ]  # fmt: skip
                sums = [b.mul(s, factors[k // count]) for k, s in enumerate(sums)]
            if p.scales:
                spread = [b.at(scales, v * lanes * 4) for v in range(count)]
                found = OutputTile(vector, spread, masks).load(b)
                sums = [b.mul(s, found[k % count]) for k, s in enumerate(sums)]
            goals = [b.at(out, r * p.columns * 4 + v * lanes * 4)
                     for r in range(rows) for v in range(count)]  # fmt: skip
            OutputTile(vector, goals, masks).store(b, sums)

        parameters = "ptr %x, ptr %panel, ptr %out, ptr %scales, ptr %row_scales, ptr %zeros"
        return self.routines.add(("tile", rows, columns), parameters, write)

    def sums(
        self, b: Builder, rows: Sequence[tuple[Value, int]], start: Sequence[Value]
    ) -> list[Value]:  # fmt: skip
        """Sums over the depth of rows at some places, times the first vectors of ``%panel``."""
        p, lanes = self.p, self.shape.lanes
        count, size = len(start) // len(rows), p.group * p.weights.itemsize
        if p.exact:
            kind, scalar, combine = Type("i8", p.group * lanes), Type("i32"), self.add_products
        else:
            kind, scalar, combine = Type(stored(p.weights), lanes), Type("float"), None

        def widen(b: Builder, vector: Value) -> Value:
            if not p.exact:
                return as_float(b, vector, p.weights)
            vector = vector if p.offset else b.cast("sext", vector, "i16")
            return b.emit(Type("i32", lanes), f"bitcast {vector} to {Type('i32', lanes)}")

        panel = Value("%panel", PTR)
        right = Elements(
            kind, [(panel, v * lanes * size) for v in range(count)], [self.shape.columns * size],
            widen=widen,
        )  # fmt: skip
        chains = max(1, _IN_FLIGHT // len(start)) if p.terms > _IN_FLIGHT else 1
        return microkernel(
            b, Elements(scalar, rows, [4]), right, [p.terms], start, chains, combine
        )  # fmt: skip

    def add_products(self, b: Builder, left: Value, right: Value, total: Value) -> Value:
        if self.p.offset:
            return b.call(_QUADS[total.type.lanes], total.type, total, left, right)
        return b.op("add", total, pair_products(b, left, right, self.target))


_QUADS: Final = {
    lanes: f"llvm.x86.avx512.vpdpbusd.{32 * lanes}" for lanes in (4, 8, 16)
}  # fmt: skip
"""Lanes -> the instruction that adds four products of unsigned by signed bytes."""
_PAIRS: Final = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}
"""Lanes -> the instruction for products of pairs; with VNNI LLVM joins it with the addition."""


def pair_products(b: Builder, left: Value, right: Value, target: Target) -> Value:
    """``l0 r0 + l1 r1`` of the two i16 in each i32 lane."""
    kind, halves = left.type, Type("i16", 2 * left.type.lanes)
    pairs = [b.emit(halves, f"bitcast {v} to {halves}") for v in (left, right)]
    if target.x86 and kind.lanes in _PAIRS:
        return b.call(_PAIRS[kind.lanes], kind, *pairs)
    products = b.op("mul", *(b.cast("sext", v, "i32") for v in pairs))
    evens, odds = (b.shuffle(products, products, range(k, halves.lanes, 2)) for k in range(2))
    return b.op("add", evens, odds)
