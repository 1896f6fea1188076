"""Rows times weights in panels: some rows in float32, any number of them in int8.

A product of few rows reads its weights once, so that it takes as long as memory takes to deliver
them: fewer bits are less time. A tile widens a vector of weights in registers, for all its rows.
Numbers of 8 bits are multiplied in pairs of terms, as i16, and added up in i32, which is exact:
`vpmaddwd` and an addition, or `vpdpwssd`. Rows are widened to i16 first, in scratch memory.
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
from pirkit.lowering.codegen.ir.routine import Functions, Location, matrix
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


@dataclass(frozen=True, slots=True)
class RowsProduct:
    """``rows`` by ``depth`` times panels of ``columns`` in all; operands are x, panels, the result,
    and the scales of columns if it ``scales``, those of rows if it is ``exact``.

    An exact product is one of 8-bit integers; ``each_row`` has a scale of its own then.
    """

    rows: int
    columns: int
    depth: int
    weights: DType
    scales: bool
    exact: bool = False
    each_row: bool = False

    @property
    def terms(self) -> int:
        """Iterations of the loop over the depth: those of pairs, if it is exact."""
        return -(-self.depth // 2) if self.exact else self.depth


def product_tile(target: Target, exact: bool, dtype: DType = dt.float32) -> TileShape:
    """The register tile; its columns are those of a panel.

    Without VNNI a product of pairs takes a register before it is added.
    """
    shape = tile_shape_for(dtype, target)
    return replace(shape, rows=5, vectors=2) if exact and target.vector_bits < 512 else shape


def native_rows_product(p: RowsProduct) -> NativeFunction:
    """The function of a product."""
    threads = thread_count()
    return function_of(key_of((p, threads), host()), lambda: rows_product_draft(p, host(), threads))


def rows_product_draft(p: RowsProduct, target: Target, threads: int) -> Draft:
    """The module of a product, not yet compiled."""
    shape = product_tile(target, p.exact)
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
        # Rows in i16, in whole vectors: they fill a quarter of the L2 cache at most.
        self.wide_row = -(-p.depth // (2 * shape.lanes)) * 4 * shape.lanes
        fitting = max(target.l2_bytes // 4 // self.wide_row // shape.rows, 1) * shape.rows
        self.rows = min(p.rows, fitting) if p.exact else p.rows
        down = -(-p.rows // self.rows)
        # A block widens its rows again: one thread has no reason for more than one block across.
        across = min(panels, max(4 * threads // down, 1)) if threads > 1 else 1
        self.group = -(-panels // across)
        self.count = down * -(-panels // self.group)

    def nest(self) -> Nest:
        """Axes are rows, columns and depth; operands x, panels, result, scales of both kinds."""
        p, shape = self.p, self.shape
        item, x = (2, dt.int8) if p.exact else (p.weights.itemsize, dt.float32)
        panel, panels = p.terms * item, -(-p.columns // shape.columns) * shape.columns
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
            wide = Buffer(dt.int16, strides, nbytes, space="scratch", outside=("m0", "n0"))
            nest, left = nest.with_buffer(wide)
            body.append(Invoke(WidenRows(p.depth, shape.lanes, self.wide_row), (0, left), (block,)))
        buffers = (left, 1, 2, *range(3, len(operands)))
        width = self.group * shape.columns
        group = Count("n0", p.columns, width)
        whole = rounded(group, shape.columns)
        for columns, start, stop in ((shape.columns, 0, whole),
                                     (p.columns % shape.columns, whole, group)):  # fmt: skip
            if columns:
                tiles = tuple(self._tiles(buffers, block, columns))
                body.append(Loop("n1", (1,), start, stop, shape.columns, tiles))
        groups = Loop("n0", (1,), 0, p.columns, width, tuple(body), "parallel")
        return replace(nest, body=(Loop("m0", (0,), 0, p.rows, self.rows, (groups,), "parallel"),))

    def _tiles(self, buffers: tuple[int, ...], block: Count, columns: int) -> Iterator[Node]:
        """The tiles of a block with one panel."""
        whole, size = rounded(block, self.shape.rows), self.shape.rows
        pitch = self.wide_row if self.p.exact else self.p.depth * 4
        for rows, start, stop in ((size, 0, whole), (self.p.rows % size, whole, block)):
            if rows:
                tile = RowsTile(self.p, self.shape, self.target, (rows, columns), pitch)
                yield Loop("m1", (0,), start, stop, size, (Invoke(tile, buffers, ()),))


@dataclass(frozen=True, slots=True)
class WidenRows(PanelCopy):
    """Rows of i8 become rows of i16, ``wide_row`` bytes apart and filled up with 0."""

    depth: int
    lanes: int
    wide_row: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = widen {buffers[0]} [{numbers[0]} x {self.depth}]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        wide = matrix(memory[1], dt.int16, (numbers[0], self.wide_row // 2), (self.wide_row, 2))
        wide[:, self.depth :] = 0
        wide[:, : self.depth] = matrix(
            memory[0], dt.int8, (numbers[0], self.depth), (self.depth, 1)
        )

    def function(self, functions: Functions) -> str:
        depth, lanes = self.depth, self.lanes

        def write(b: Builder) -> None:
            def line(number: Value, _: list[Value]) -> Sequence[Value]:
                here = b.at(Value("%from", PTR), b.times(number, depth))
                there = b.at(Value("%to", PTR), b.times(number, self.wide_row))

                def vectors(width: int, start: int, stop: int) -> None:
                    kind = Type("i8", width)

                    def one(k: Value, _: list[Value]) -> Sequence[Value]:
                        found = b.cast("sext", read_vector(b, kind, b.at(here, k)), "i16")
                        write_vector(b, found, b.at(there, b.times(k, 2)))
                        return []

                    b.loop(start, stop, width, [], one)

                whole = depth - depth % (2 * lanes)
                vectors(2 * lanes, 0, whole)
                vectors(1, whole, depth)
                zero = Value("0", Type("i16"))
                for k in range(depth, self.wide_row // 2):
                    write_vector(b, zero, b.at(there, 2 * k))
                return []

            b.loop(0, Value("%rows", I64), 1, [], line)

        return functions.add("widen", "ptr %from, ptr %to, i64 %rows", write)


@dataclass(frozen=True, slots=True)
class RowsTile:
    """The function ``(x, panel, out, scales, row_scales)`` of a tile of rows by columns.

    Rows of x are ``pitch`` bytes apart.
    """

    p: RowsProduct
    shape: TileShape
    target: Target
    extent: tuple[int, int]
    pitch: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        (rows, columns), (x, panel, out, *scales) = self.extent, buffers
        return f"microkernel {out}[{rows} x {columns}] = {' * '.join([f'{x} {panel}', *scales])}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        p, (rows, columns), width = self.p, self.extent, self.shape.columns
        kind, size = (dt.int16, 2) if p.exact else (dt.float32, 4)
        x = matrix(memory[0], kind, (rows, p.depth), (self.pitch, size))
        if p.exact:  # pairs of terms lie side by side
            pairs = matrix(memory[1], p.weights, (p.terms, 2 * width), (2 * width, 1))
            panel = pairs.reshape(p.terms, width, 2).swapaxes(1, 2).reshape(-1, width)
            sums = x.astype(np.int32) @ panel[: p.depth, :columns].astype(np.int32)
        else:
            item = p.weights.itemsize
            panel = matrix(memory[1], p.weights, (p.depth, columns), (width * item, item))
            sums = x @ panel.astype(np.float32)
        found = sums.astype(np.float32)
        if p.exact:
            found *= matrix(memory[-1], dt.float32, (rows, 1), (4 * p.each_row, 4))
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
            addresses[-1] if p.exact else null,
        ]
        b.emit_void(f"call void @{self.function(functions)}({', '.join(map(str, given))})")

    def function(self, functions: Functions) -> str:
        p, shape, pitch, (rows, columns) = self.p, self.shape, self.pitch, self.extent
        parameters = "ptr %x, ptr %panel, ptr %out, ptr %scales, ptr %row_scales"

        def write(b: Builder) -> None:
            lanes, vector = shape.lanes, shape.vector
            x, panel, out, scales, row_scales = (
                Value(f"%{name}", PTR) for name in ("x", "panel", "out", "scales", "row_scales")
            )
            tail = columns % lanes
            count = -(-columns // lanes)
            masks = [*[None] * (columns // lanes), *([tail_mask(b, lanes, tail)] if tail else ())]
            size = 2 if p.exact else p.weights.itemsize
            kind = Type("i8", 2 * lanes) if p.exact else Type(stored(p.weights), lanes)
            right = Elements(
                kind, [(panel, v * lanes * size) for v in range(count)], [shape.columns * size],
                widen=_pairs if p.exact else lambda b, v: as_float(b, v, p.weights),
            )  # fmt: skip
            scalar = Type("i32" if p.exact else "float")
            left = Elements(scalar, [(x, r * pitch) for r in range(rows)], [4])
            zero = b.const(vector.of(scalar.elem), 0)
            sums = microkernel(
                b, left, right, [p.terms], [zero] * (rows * count),
                chains=max(1, _IN_FLIGHT // (rows * count)) if p.terms > _IN_FLIGHT else 1,
                combine=self.add_pairs if p.exact else None,
            )  # fmt: skip
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
            places = [b.at(out, r * p.columns * 4 + v * lanes * 4)
                      for r in range(rows) for v in range(count)]  # fmt: skip
            OutputTile(vector, places, masks).store(b, sums)

        return functions.add(self, parameters, write)

    def add_pairs(self, b: Builder, left: Value, right: Value, total: Value) -> Value:
        return b.op("add", total, pair_products(b, left, right, self.target))


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


def _pairs(b: Builder, value: Value) -> Value:
    """Pairs of i8 as pairs of i16, in i32 lanes."""
    kind = Type("i32", value.type.lanes // 2)
    return b.emit(kind, f"bitcast {b.cast('sext', value, 'i16')} to {kind}")
