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
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import key_of
from pirkit.lowering.codegen.emit.nest_writer import write_nest
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.schedule_loops import Stage
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.loop_ir import Buffer, Count, Invoke, Loop, Nest, Node, rounded
from pirkit.lowering.codegen.ir.loopnest import Kernel, Operand
from pirkit.lowering.codegen.ir.plain_loops import loops_of
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values, matrix
from pirkit.lowering.codegen.matmul.integer_products import has_quads
from pirkit.lowering.codegen.matmul.macrokernel import TileShape, tile_shape_for
from pirkit.lowering.codegen.matmul.output_tile import read_vector, write_vector
from pirkit.lowering.codegen.matmul.panel_routines import PanelCopy
from pirkit.lowering.codegen.matmul.quantized_matrix_tile import (
    HEIGHT,
    MatrixRowsTile,
    uses_tiles,
)
from pirkit.lowering.codegen.matmul.quantized_tile import ZERO, RowsProduct, RowsTile, ZeroSums
from pirkit.lowering.codegen.matmul.tile_registers import ConfigureTiles
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host
from pirkit.runtime.native.thread_pool import thread_count

FEW_ROWS: Final = 8
"""Rows up to which a product in float32 takes as long as its weights of fewer bits take to arrive,
though each tile of rows widens them again."""
DIRECT_ROWS: Final = 128
"""Rows up to which a product in float32 is faster if it reads panels as a whole, not slices of
their depth, where a panel stays in the L2 cache (128 rows of 3072 by 768 run at 92 GFlop/s, in
slices at 107, on a Cascade Lake)."""
_BYTES_PER_NS: Final = 12
"""What memory delivers to one thread."""


def exact_group(target: Target) -> int:
    """Terms of exact products that one instruction multiplies: four with VNNI, else two."""
    return 4 if has_quads(target) else 2


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
    if uses_tiles(p, target):
        shape = replace(shape, rows=HEIGHT)
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
        self.tiled = uses_tiles(p, target)
        self.summed_first = p.offset and (self.tiled or self.rows >= shape.rows)
        """Whether the row of zeros is multiplied before all tiles, not in the only one, which has
        registers for it."""

    def nest(self) -> Nest:
        """Axes are rows, columns and depth; operands x, panels, result, scales of both kinds, and
        what is added.
        """
        p, shape = self.p, self.shape
        x, panels = p.x, -(-p.columns // shape.columns)
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
        operands += [Operand(dt.int32, (0, 4), (0,), p.columns * 4)] * p.adds
        # Panels have no single stride along the columns: there is no plain nest of loads.
        kernel = Kernel((p.rows, p.columns), (p.depth,), tuple(operands), ())
        nest, left, body = loops_of(kernel), 0, list[Node]()
        block = Count("m0", p.rows, self.rows)
        if p.exact:
            strides, nbytes = (self.wide_row, 0, 0), self.rows * self.wide_row
            kind = dt.uint8 if p.quads else dt.int16
            wide = Buffer(kind, strides, nbytes, space="scratch", outside=("m0", "n0"))
            nest, left = nest.with_buffer(wide)
            widen = WidenRows(p.depth, shape.lanes, self.wide_row, p.quads, p.unsigned)
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
        if self.tiled:
            begin, end = (Invoke(ConfigureTiles(n), (), ()) for n in (shape.rows, None))
            body = [begin, *body, end]
        groups = Loop("n0", (1,), 0, p.columns, width, tuple(body), "parallel")
        return replace(nest, body=(Loop("m0", (0,), 0, p.rows, self.rows, (groups,), "parallel"),))

    def _tiles(self, buffers: tuple[int, ...], block: Count, columns: int) -> Iterator[Node]:
        """The tiles of a block with one panel."""
        whole, size = rounded(block, self.shape.rows), self.shape.rows
        pitch = self.wide_row if self.p.exact else self.p.depth * 4
        for rows, start, stop in ((size, 0, whole), (self.p.rows % size, whole, block)):
            if rows:
                made = MatrixRowsTile if self.tiled else RowsTile
                tile = made(
                    self.p, self.shape, self.target, (rows, columns), pitch, self.summed_first
                )
                yield Loop("m1", (0,), start, stop, size, (Invoke(tile, buffers, ()),))


class WidenRows(PanelCopy, frozen=True):
    """Rows of bytes become rows ``wide_row`` bytes apart, filled up with 0: of i16, or of unsigned
    bytes for ``quads``, which are 128 more if the rows are not ``unsigned``.
    """

    depth: int
    lanes: int
    wide_row: int
    quads: bool
    unsigned: bool

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = widen {buffers[0]} [{numbers[0]} x {self.depth}]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        kind = dt.uint8 if self.quads else dt.int16
        count, size = numbers[0], kind.itemsize
        wide = matrix(memory[1], kind, (count, self.wide_row // size), (self.wide_row, size))
        given = dt.uint8 if self.unsigned else dt.int8
        rows = matrix(memory[0], given, (count, self.depth), (self.depth, 1))
        wide[:, self.depth :] = 0
        moved = self.quads and not self.unsigned
        wide[:, : self.depth] = rows.view(np.uint8) ^ ZERO if moved else rows

    def function(self, functions: Functions) -> str:
        """Rows as the products read them: unsigned bytes for quads, else int16; then zeros.

        Signed bytes become unsigned by adding 128, which flips their first bit.
        """
        depth, lanes = self.depth, self.lanes
        width, size = (4 * lanes, 1) if self.quads else (2 * lanes, 2)

        def write(b: Builder) -> None:
            def converted(value: Value) -> Value:
                if not self.quads:
                    return b.cast("zext" if self.unsigned else "sext", value, "i16")
                return value if self.unsigned else b.op("xor", value, ZERO)

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


class ZeroRow(Struct, frozen=True):
    """The function ``(zeros)``: a row of zeros with 128 added."""

    wide_row: int
    lanes: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[0]} = fill {ZERO} [{self.wide_row}]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        matrix(memory[0], dt.uint8, (1, self.wide_row), (0, 1))[...] = ZERO

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        def write(b: Builder) -> None:
            row = b.const(Type("i8", 4 * self.lanes), ZERO)

            def one(k: Value, _: list[Value]) -> Sequence[Value]:
                write_vector(b, row, b.at(Value("%zeros", PTR), k))
                return []

            b.loop(0, self.wide_row, 4 * self.lanes, [], one)

        name = functions.add("zero_row", "ptr %zeros", write)
        b.emit_void(f"call void @{name}({addresses[0]})")
