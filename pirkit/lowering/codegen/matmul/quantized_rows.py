"""Rows times weights in panels: some rows in float32, any number of them in int8.

A product of few rows reads its weights once, so that it takes as long as memory takes to deliver
them: fewer bits are less time. A tile widens a vector of weights in registers, for all its rows.
Sums of products of 8-bit numbers are exact in i32. With VNNI four terms are multiplied and added
at once (`vpdpbusd`): rows are copied to scratch memory with 128 added, because the left factors of
that instruction are unsigned, and 128 times the sum of a column, which is the product by a row of
zeros, is subtracted from its sums. Elsewhere rows are widened to i16, and pairs are multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.compile import key_of
from pirkit.lowering.codegen.emit.nest_writer import write_nest
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.schedule_loops import Stage
from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.loop_ir import Buffer, Count, Invoke, Loop, Nest, Node, rounded
from pirkit.lowering.codegen.ir.loopnest import Kernel, Operand
from pirkit.lowering.codegen.ir.plain_loops import loops_of
from pirkit.lowering.codegen.ir.routine import Array, Functions, Location, matrix
from pirkit.lowering.codegen.math.casts import stored
from pirkit.lowering.codegen.matmul.macrokernel import TileShape, tile_shape_for
from pirkit.lowering.codegen.matmul.microkernel import Elements, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile, read_vector, write_vector
from pirkit.lowering.codegen.matmul.panel_packing import as_float
from pirkit.lowering.codegen.matmul.panel_routines import PanelCopy
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.pool import thread_count
from pirkit.runtime.native.target import Target, host

FEW_ROWS: Final = 8
"""Rows up to which a product in float32 takes as long as its weights of fewer bits take to arrive,
though each tile of rows widens them again."""
DIRECT_ROWS: Final = 128
"""Rows up to which a product in float32 is faster if it reads them where they are than in blocks,
which pack them."""
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
    blocks = _Blocks(p, shape, target, threads)
    stage = Stage("block", blocks.nest())
    scratch = write_nest(b, stage.nest, functions=routines)
    sizes = [operand.size for operand in stage.nest.kernel.operands]
    work = max(sizes[1] // _BYTES_PER_NS, p.rows * p.columns * p.terms // (3 * shape.lanes))
    tile = {"lanes": shape.lanes, "tile rows": shape.rows, "tile columns": shape.columns}
    block = {"block rows": blocks.rows, "block panels": blocks.group, "blocks": blocks.count}
    known = about(_Blocks, "rows by panels", **tile, **block)
    return routines.draft(b, scratch, tuple(sizes), work, known, [stage])


class _Blocks:
    """Builds the loops over blocks of rows by groups of panels, then over panels and tiles."""

    def __init__(self, p: RowsProduct, shape: TileShape, target: Target, threads: int) -> None:
        self.p, self.shape, self.target = p, shape, target
        panels = -(-p.columns // shape.columns)
        # Rows in i16 or in bytes, in whole vectors: they fill a quarter of the L2 cache at most.
        self.wide_row = -(-p.depth // (p.group * shape.lanes)) * 4 * shape.lanes
        fitting = max(target.l2_bytes // 4 // self.wide_row // shape.rows, 1) * shape.rows
        self.rows = min(p.rows, fitting) if p.exact else p.rows
        down = -(-p.rows // self.rows)
        # A block widens its rows again: one thread has no reason for more than one block across.
        across = min(panels, max(4 * threads // down, 1)) if threads > 1 else 1
        self.group = -(-panels // across)
        self.count = down * -(-panels // self.group)
        self.summed_first = p.offset and self.rows >= shape.rows
        """Whether the row of zeros is multiplied before all tiles, not in the only one, which has
        registers for it."""

    def nest(self) -> Nest:
        """Axes are rows, columns and depth; operands x, panels, result, scales of both kinds."""
        p, shape = self.p, self.shape
        x, panels = dt.int8 if p.exact else dt.float32, -(-p.columns // shape.columns)
        panel, panels = p.terms * p.group * p.weights.itemsize, panels * shape.columns
        operands = [
            Operand(x, (p.depth * x.itemsize, 0), (x.itemsize,), p.rows * p.depth * x.itemsize),
            Operand(p.weights, (0, panel), (0,), panels * panel),
            Operand(dt.float32, (p.columns * 4, 4), (0,), p.rows * p.columns * 4),
            *[Operand(dt.float32, (0, 4), (0,), p.columns * 4)] * p.scales,
        ]
        if p.exact:
            size = (p.rows if p.each_row else 1) * 4
            operands.append(Operand(dt.float32, (4 * p.each_row, 0), (0,), size))
        # Panels have no single stride along the columns: there is no plain nest of loads.
        kernel = Kernel((p.rows, p.columns), (p.depth,), tuple(operands), ())
        nest, left, body = loops_of(kernel), 0, list[Node]()
        block = Count("m0", p.rows, self.rows)
        if p.exact:
            strides, nbytes = (self.wide_row, 0, 0), self.rows * self.wide_row
            kind = dt.uint8 if p.offset else dt.int16
            wide = Buffer(kind, strides, nbytes, space="scratch", outside=("m0", "n0"))
            nest, left = nest.with_buffer(wide)
            widen = WidenRows(p.depth, shape.lanes, self.wide_row, p.offset)
            body.append(Invoke(widen, (0, left), (block,)))
        buffers = (left, *range(1, len(operands)))
        sums = list[Node]()
        if p.offset:
            nbytes = self.wide_row + shape.columns * 4
            row = Buffer(dt.uint8, (0, 0, 0), nbytes, space="scratch", outside=("m0", "n0"))
            nest, zeros = nest.with_buffer(row)
            body.append(Invoke(ZeroRow(self.wide_row, shape.lanes), (zeros,), ()))
            sums += [Invoke(ZeroSums(p, shape, self.target), (1, zeros), ())] * self.summed_first
            buffers = (*buffers, zeros)
        width = self.group * shape.columns
        group = Count("n0", p.columns, width)
        whole = rounded(group, shape.columns)
        for columns, start, stop in ((shape.columns, 0, whole),
                                     (p.columns % shape.columns, whole, group)):  # fmt: skip
            if columns:
                tiles = (*sums, *self._tiles(buffers, block, columns))
                body.append(Loop("n1", (1,), start, stop, shape.columns, tiles))
        groups = Loop("n0", (1,), 0, p.columns, width, tuple(body), "parallel")
        return replace(nest, body=(Loop("m0", (0,), 0, p.rows, self.rows, (groups,), "parallel"),))

    def _tiles(self, buffers: tuple[int, ...], block: Count, columns: int) -> Iterator[Node]:
        """The tiles of a block with one panel."""
        whole, size = rounded(block, self.shape.rows), self.shape.rows
        pitch = self.wide_row if self.p.exact else self.p.depth * 4
        for rows, start, stop in ((size, 0, whole), (self.p.rows % size, whole, block)):
            if rows:
                tile = RowsTile(
                    self.p, self.shape, self.target, (rows, columns), pitch, self.summed_first
                )
                yield Loop("m1", (0,), start, stop, size, (Invoke(tile, buffers, ()),))


@dataclass(frozen=True, slots=True)
class WidenRows(PanelCopy):
    """Rows of i8 become rows ``wide_row`` bytes apart, filled up with 0: of i16, or of bytes that
    are 128 more if they have an ``offset``.
    """

    depth: int
    lanes: int
    wide_row: int
    offset: bool

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = widen {buffers[0]} [{numbers[0]} x {self.depth}]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        kind = dt.uint8 if self.offset else dt.int16
        count, size = numbers[0], kind.itemsize
        wide = matrix(memory[1], kind, (count, self.wide_row // size), (self.wide_row, size))
        rows = matrix(memory[0], dt.int8, (count, self.depth), (self.depth, 1))
        wide[:, self.depth :] = 0
        wide[:, : self.depth] = rows.view(np.uint8) ^ _ZERO if self.offset else rows

    def function(self, functions: Functions) -> str:
        depth, lanes, offset = self.depth, self.lanes, self.offset
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

        return functions.add("widen", "ptr %from, ptr %to, i64 %rows", write)


@dataclass(frozen=True, slots=True)
class ZeroRow:
    """The function ``(zeros)``: a row of zeros with 128 added."""

    wide_row: int
    lanes: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[0]} = fill {_ZERO} [{self.wide_row}]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        matrix(memory[0], dt.uint8, (1, self.wide_row), (0, 1))[...] = _ZERO

    def call(
        self, b: Builder, functions: Functions, addresses: Sequence[Value], numbers: Sequence[Value]
    ) -> None:
        def write(b: Builder) -> None:
            row = b.const(Type("i8", 4 * self.lanes), _ZERO)

            def one(k: Value, _: list[Value]) -> Sequence[Value]:
                write_vector(b, row, b.at(Value("%zeros", PTR), k))
                return []

            b.loop(0, self.wide_row, 4 * self.lanes, [], one)

        name = functions.add("zero_row", "ptr %zeros", write)
        b.emit_void(f"call void @{name}({addresses[0]})")


@dataclass(frozen=True, slots=True)
class PanelSums:
    """Sums over the depth of rows times the columns of a panel."""

    p: RowsProduct
    shape: TileShape
    target: Target

    def sums(
        self, b: Builder, rows: Sequence[tuple[Value, int]], start: Sequence[Value]
    ) -> list[Value]:
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

    def panel(self, location: Location, columns: int) -> Array:
        """Rows of some columns, from terms of a column that lie side by side."""
        p, width = self.p, self.shape.columns
        group, item = p.group, p.weights.itemsize
        found = matrix(location, p.weights, (p.terms, group * width), (group * width * item, item))
        found = found.reshape(p.terms, width, group).swapaxes(1, 2).reshape(-1, width)
        return found[: p.depth, :columns].astype(np.int32 if p.exact else np.float32)


@dataclass(frozen=True, slots=True)
class ZeroSums(PanelSums):
    """The function ``(panel, zeros)``: the negated sums of the row of zeros, behind it."""

    @property
    def row_bytes(self) -> int:
        return -(-self.p.depth // (self.p.group * self.shape.lanes)) * 4 * self.shape.lanes

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"microkernel {buffers[1]} = -({buffers[1]} {buffers[0]})"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        width, (array, offset) = self.shape.columns, memory[1]
        sums = matrix((array, offset + self.row_bytes), dt.int32, (1, width), (0, 4))
        sums[...] = -_ZERO * self.panel(memory[0], width).sum(0)

    def call(
        self, b: Builder, functions: Functions, addresses: Sequence[Value], numbers: Sequence[Value]
    ) -> None:
        def write(b: Builder) -> None:
            zeros, kind, size = Value("%zeros", PTR), self.shape.vector.of("i32"), self.shape.lanes
            start = [b.const(kind, 0)] * self.shape.vectors
            sums = [b.op("sub", start[0], s) for s in self.sums(b, [(zeros, 0)], start)]
            places = [b.at(zeros, self.row_bytes + v * size * 4) for v in range(len(sums))]
            OutputTile(kind, places).store(b, sums)

        name = functions.add("zero_sums", "ptr %panel, ptr %zeros", write)
        b.emit_void(f"call void @{name}({addresses[0]}, {addresses[1]})")


@dataclass(frozen=True, slots=True)
class RowsTile(PanelSums):
    """The function ``(x, panel, out, scales, row_scales, zeros)`` of a tile of rows by columns.

    Rows of x are ``pitch`` bytes apart, as long as the row of zeros. Its sums lie behind it if they
    are ``summed_first``.
    """

    extent: tuple[int, int]
    pitch: int
    summed_first: bool

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        (rows, columns), (x, panel, out, *more) = self.extent, buffers
        factors = more[: self.p.scales + self.p.exact]
        less = f" - {more[-1]} {panel}" if self.p.offset else ""
        product = f"({x} {panel}{less})" if less else f"{x} {panel}"
        return f"microkernel {out}[{rows} x {columns}] = {' * '.join([product, *factors])}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        p, (rows, columns) = self.p, self.extent
        kind = dt.float32 if not p.exact else dt.uint8 if p.offset else dt.int16
        x = matrix(memory[0], kind, (rows, p.depth), (self.pitch, kind.itemsize))
        panel = self.panel(memory[1], columns)
        sums = x.astype(panel.dtype) @ panel
        if p.offset:
            array, offset = memory[-1]
            if self.summed_first:
                sums += matrix((array, offset + self.pitch), dt.int32, (1, columns), (0, 4))
            else:
                sums -= matrix(memory[-1], kind, (1, p.depth), (0, 1)).astype(np.int32) @ panel
        found = sums.astype(np.float32)
        if p.exact:
            found *= matrix(memory[3 + p.scales], dt.float32, (rows, 1), (4 * p.each_row, 4))
        if p.scales:
            found *= matrix(memory[3], dt.float32, (1, columns), (0, 4))
        matrix(memory[2], dt.float32, (rows, columns), (p.columns * 4, 4))[...] = found

    def call(
        self, b: Builder, functions: Functions, addresses: Sequence[Value], numbers: Sequence[Value]
    ) -> None:
        p, null = self.p, Value("null", PTR)
        given = [
            *addresses[:3],
            addresses[3] if p.scales else null,
            addresses[3 + p.scales] if p.exact else null,
            addresses[-1] if p.offset else null,
        ]
        b.emit_void(f"call void @{self.function(functions)}({', '.join(map(str, given))})")

    def function(self, functions: Functions) -> str:
        p, shape, pitch, (rows, columns) = self.p, self.shape, self.pitch, self.extent
        parameters = "ptr %x, ptr %panel, ptr %out, ptr %scales, ptr %row_scales, ptr %zeros"
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
                held = [b.at(zeros, self.pitch + v * lanes * 4) for v in range(count)]
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

        return functions.add(self, parameters, write)


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
