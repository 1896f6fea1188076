"""Fuses GEMMs and row kernels over blocks of rows, so that values between them stay in cache.

Attention is a GEMM, a row kernel (softmax) and a GEMM; its scores are the largest array of all.
Here a block of rows runs through all steps before the next block does:

`RowGemm`          rows of x times a matrix: rows of the result.
`RowAccumulation`  rows of x, transposed, times rows of y: accumulated over all blocks.
`RowNest`          a loop nest whose outer iterations are the rows.

Values between steps are tiles in scratch memory. With accumulations one thread computes a whole
matrix of the batch, else a block of rows: the bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.compile import kernel_work, key_of
from pirkit.lowering.codegen.emit.generate import PARAMETERS, emit_body, emit_prologue
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import address_at, argument, split_index
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Type, Value
from pirkit.lowering.codegen.matmul.blocking import ScratchLayout, block_extent
from pirkit.lowering.codegen.matmul.deferred_normalization import with_deferred_scales
from pirkit.lowering.codegen.matmul.fused_row_max import end_row_max, init_row_max, with_row_max
from pirkit.lowering.codegen.matmul.macrokernel import PanelLoop, Strides
from pirkit.lowering.codegen.matmul.panel_packing import (
    copied_row_bytes,
    divisibility,
    pack_function,
    scale_function,
)
from pirkit.lowering.codegen.matmul.prefetch import Prefetch, prefetches
from pirkit.lowering.codegen.matmul.row_block_plan import (
    RowAccumulation,
    RowBlocks,
    RowGemm,
    RowNest,
    Rows,
    RowStep,
    ScratchRows,
    runs_by_rows,
    tile_shape,
    with_scratch_strides,
)
from pirkit.runtime.machine_costs import VECTOR_FMAS_PER_NS
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host

_MAX_DEPTH: Final = 512
"""Depth of a panel that is multiplied at a time."""
_MAX_ROWS: Final = 96
"""Rows of a block at most."""
_BLOCKS: Final = 8
"""Units of work from which threads are busy."""
_MAX_SHARED_PANELS: Final = 1 << 18
"""Bytes of packed panels that each thread may pack again."""


def native_rows(group: RowBlocks) -> NativeFunction:
    """The function of a group, with its operands by number."""
    return function_of(key_of(group, host()), lambda: row_blocks_draft(group, host()))


def row_blocks_draft(group: RowBlocks, target: Target) -> Draft:
    """The module of a group, not yet compiled."""
    group = with_row_max(with_deferred_scales(group, target), _MAX_DEPTH, target)
    writer = _Writer(group, target)
    writer.emit()
    sizes = {"lanes": writer.shape.lanes, "rows": writer.block_rows, "blocks": writer.blocks}
    known = about(_Writer, "blocks of rows", **sizes)
    return writer.routines.draft(writer.b, writer.layout.size, group.sizes, writer.work, known)


def block_rows(group: RowBlocks, target: Target) -> int:
    """Rows of a block: their tiles fill half of the L2 cache, but at least two register tiles."""
    shape = tile_shape(group.dtype, target)
    row = sum(copied_row_bytes(shape, columns) for columns in group.tiles)
    fitting = target.l2_bytes // 2 // max(row, 1) // shape.rows * shape.rows
    max_rows = min(_MAX_ROWS // shape.rows, -(-group.rows // shape.rows)) * shape.rows
    return min(max(2 * shape.rows, fitting), max_rows)


def is_profitable(group: RowBlocks, target: Target) -> bool:
    """Whether there are enough matrices or rows to occupy the threads.

    Each range of blocks that a thread takes packs the right operands again.
    """
    matrices = prod(group.batch)
    if group.sums:
        return matrices >= _BLOCKS
    shape = tile_shape(group.dtype, target)
    gemms = [s for s in group.steps if isinstance(s, RowGemm)]
    panels = sum(shape.panels_bytes(s.depth, s.columns) for s in gemms)
    many = matrices >= _BLOCKS or group.rows >= _BLOCKS * _MAX_ROWS
    return many or panels <= _MAX_SHARED_PANELS


class _Writer:
    """Emits one function: units of work, the steps of a block; nests are private functions."""

    def __init__(self, group: RowBlocks, target: Target) -> None:
        self.group, self.target = group, target
        self.shape = tile_shape(group.dtype, target)
        self.routines = Routines(scalef=target.x86 and target.has("avx512f"))
        self.b = self.routines.builder()
        self.block_rows = block_rows(group, target)
        self.layout = ScratchLayout()
        self.pitch = [copied_row_bytes(self.shape, columns) for columns in group.tiles]
        self.tile_offsets = [self.layout.reserve(self.block_rows * pitch) for pitch in self.pitch]
        self.blocks_per_matrix = -(-group.rows // self.block_rows)
        self.matrices = prod(group.batch)
        self.blocks = self.matrices * (1 if group.sums else self.blocks_per_matrix)
        # One tile function serves all GEMMs of the group, so one that accumulates decides for all.
        self.accumulates = group.sums or any(
            isinstance(s, RowGemm) and s.depth > _MAX_DEPTH for s in group.steps
        )
        # With strides as arguments LLVM compiles one tile function for all GEMMs of the group.
        self.shared = sum(not isinstance(s, RowNest) for s in group.steps) > 1
        self.prefetches = prefetches(group, self.block_rows, self.shape, target)
        self.work = 0
        self.panels: dict[int, int] = {}
        self.nests: dict[int, tuple[str, int]] = {}
        self.pointers: list[Value] = []
        for number, step in enumerate(group.steps):
            self._prepare(number, step)

    def _prepare(self, number: int, step: RowStep) -> None:
        """Reserve the scratch of a step and emit its nest as a private function."""
        group, shape = self.group, self.shape
        rows = self.matrices * group.rows
        match step:
            case RowGemm(depth=depth, columns=columns):
                # The right operand of a matrix is packed whole: all of its blocks of rows read it.
                self.panels[number] = self.layout.reserve(shape.panels_bytes(depth, columns))
                self.work += rows * depth * columns // (VECTOR_FMAS_PER_NS * shape.lanes)
            case RowAccumulation(rows=out_rows, columns=columns):
                self.panels[number] = self.layout.reserve(
                    shape.panels_bytes(self.block_rows, columns)
                )
                self.work += rows * out_rows * columns // (VECTOR_FMAS_PER_NS * shape.lanes)
            case RowNest():
                kernel = with_scratch_strides(step, group.tiles, shape)
                # Blocks of the nest are called by row number, so its schedule must match.
                if not runs_by_rows(kernel, rows, self.target):
                    raise InternalError("a nest of fused row blocks is not scheduled by rows")
                b, plan, scratch = emit_body(kernel, self.target)
                name = f"nest{number}"
                count = len(kernel.operands)
                self.routines.define(
                    f"private void @{name}({PARAMETERS})", b, emit_prologue(count, 0)
                )
                self.nests[number] = name, self.layout.reserve(scratch)
                self.work += kernel_work(kernel, plan)

    def emit(self) -> None:
        """The loop over the units of work; ``%block`` holds the argument block of the nests."""
        b, group = self.b, self.group
        max_rows = max([len(s.operands) for s in group.steps if isinstance(s, RowNest)], default=0)
        b.emit_void(f"%block = alloca [{max_rows + 1} x ptr], align 8")
        self.pointers = [argument(b, k) for k in range(len(group.sizes))]

        def matrix_of_sums(number: Value, _: list[Value]) -> Sequence[Value]:
            positions = split_index(b, number, group.batch)
            self._pack(positions)

            def block(row_block: Value, _: list[Value]) -> Sequence[Value]:
                self._block(number, positions, row_block)
                return []

            b.loop(0, self.blocks_per_matrix, 1, [], block)
            return []

        def block_of_rows(number: Value, carried: list[Value]) -> Sequence[Value]:
            matrix, row_block = split_index(b, number, [self.matrices, self.blocks_per_matrix])
            positions = split_index(b, matrix, group.batch)
            # Consecutive blocks of one matrix reuse its panels: the loop carries the packed matrix.
            other = b.emit(Type("i1"), f"icmp ne {matrix}, {carried[0].text}")

            def pack() -> Sequence[Value]:
                self._pack(positions)
                return []

            b.branch(other, pack)
            self._block(matrix, positions, row_block)
            return [matrix]

        lo, hi = Value("%lo", I64), Value("%hi", I64)
        if group.sums:
            b.loop(lo, hi, 1, [], matrix_of_sums)
        else:
            b.loop(lo, hi, 1, [Value("-1", I64)], block_of_rows)

    def _pack(self, positions: list[Value]) -> None:
        """Pack the right operands of the GEMMs, which all blocks of a matrix share."""
        b = self.b
        for number, step in enumerate(self.group.steps):
            if not isinstance(step, RowGemm):
                continue
            even = divisibility(self.shape, step.columns, step.depth)
            pack = pack_function(self.routines, self.shape, step.y.strides, step.depth, even)
            source = address_at(b, self.pointers[step.y.operand], step.y.batch, positions)
            panel = self.layout.at(b, self.panels[number])
            b.emit_void(
                f"call void @{pack}({source}, {panel}, i64 {step.depth}, i64 {step.columns})"
            )

    def _block(self, matrix: Value, positions: list[Value], row_block: Value) -> None:
        """All steps for one block of rows."""
        b, group = self.b, self.group
        first = b.times(row_block, self.block_rows)
        count = block_extent(b, self.block_rows, group.rows, first)
        row = b.plus(b.times(matrix, group.rows), first)
        for number, step in enumerate(group.steps):
            match step:
                case RowGemm():
                    prefetch_lines = [
                        (a, self._prefetch_address(a, matrix, row_block))
                        for a in self.prefetches.get(number, ())
                    ]
                    self._gemm(number, step, positions, first, count, prefetch_lines)
                case RowAccumulation():
                    self._accumulate(number, step, positions, first, count)
                case RowNest():
                    self._nest(number, step, row, count)

    def _prefetch_address(self, what: Prefetch, matrix: Value, row_block: Value) -> Value:
        """The address that tiles prefetch from; beyond the last block it may be invalid."""
        b, operand = self.b, what.operand
        if what.next_matrix:
            matrix = b.binary("smin", b.plus(matrix, 1), Value(str(self.matrices - 1), I64))
        else:
            row_block = b.plus(row_block, 1)
        positions = split_index(b, matrix, self.group.batch)
        base = address_at(b, self.pointers[operand.operand], operand.batch, positions)
        return b.at(base, b.times(row_block, what.nbytes))

    def _rows(self, rows: Rows, positions: list[Value], first: Value) -> tuple[Value, Strides]:
        """The address of the first row of the present block, and the strides."""
        b = self.b
        if isinstance(rows, ScratchRows):
            strides = (self.pitch[rows.number], self.group.dtype.itemsize)
            return self.layout.at(b, self.tile_offsets[rows.number]), strides
        base = address_at(b, self.pointers[rows.operand], rows.batch, positions)
        return b.at(base, b.times(first, rows.strides[0])), rows.strides

    def _gemm(
        self, number: int, step: RowGemm, positions: list[Value], first: Value, count: Value,
        prefetch_lines: Sequence[tuple[Prefetch, Value]],
    ) -> None:  # fmt: skip
        """``out = x y`` in parts of the depth, then the maxima or scales of its rows."""
        x, strides = self._rows(step.x, positions, first)
        out, (c_row, _) = self._rows(step.out, positions, first)
        rest = (self.group.rows % self.shape.rows, step.columns % self.shape.columns)
        b, size = self.b, self.shape.dtype.itemsize
        lines = [what.lines for what, _ in prefetch_lines]
        row_stride = 0 if step.row_max is None else self.pitch[step.row_max.number]
        loop_name = PanelLoop(
            self.shape, strides, step.depth, c_row, rest, shared=self.shared,
            prefetch_lines=tuple(lines), row_max_stride=row_stride,
            accumulates=step.depth > _MAX_DEPTH if row_stride else self.accumulates,
        ).function(self.routines)  # fmt: skip
        more = [location for _, location in prefetch_lines]
        if step.row_max is not None:
            more.append(self.layout.at(b, self.tile_offsets[step.row_max.number]))
            init = init_row_max(self.routines, self.shape, row_stride)
            b.emit_void(f"call void @{init}({more[-1]}, {count})")
        others = "".join([f", {location}" for location in more])
        panels = self.layout.at(b, self.panels[number])
        depth_parts = -(-step.depth // _MAX_DEPTH)
        # Parts of about equal depth, at most `_MAX_DEPTH` each.
        part_depth = -(-step.depth // depth_parts)

        def one(k: Value, _: list[Value]) -> Sequence[Value]:
            left = b.at(x, b.times(k, strides[1]))
            right = b.at(panels, b.times(k, self.shape.columns * size))
            rest_of = b.emit(I64, f"sub i64 {step.depth}, {k.text}")
            depth_left = b.binary("smin", Value(str(part_depth), I64), rest_of)
            fresh = b.compare("eq", k, 0)
            b.emit_void(
                f"call void @{loop_name}({left}, {right}, {out}, {count}, i64 {step.columns}, "
                f"{depth_left}, {fresh}{others})"
            )
            return []

        b.loop(0, step.depth, part_depth, [], one)
        if step.row_max is not None:
            end = end_row_max(self.routines, self.shape, row_stride)
            b.emit_void(f"call void @{end}({more[-1]}, {count})")
        if step.row_scale is not None:
            scale = scale_function(
                self.routines, self.shape, c_row, self.pitch[step.row_scale.number]
            )
            factors = self.layout.at(b, self.tile_offsets[step.row_scale.number])
            b.emit_void(f"call void @{scale}({out}, {factors}, {count}, i64 {step.columns})")

    def _accumulate(
        self, number: int, step: RowAccumulation, positions: list[Value], first: Value, count: Value
    ) -> None:
        """Pack the block's rows of y, scaled, and accumulate ``x' y``."""
        b, depth = self.b, self.block_rows
        x, (x_row, x_column) = self._rows(step.x, positions, first)
        y, strides = self._rows(step.y, positions, first)
        out = address_at(b, self.pointers[step.out.operand], step.out.batch, positions)
        panels = self.layout.at(b, self.panels[number])
        given = f"{y}, {panels}, {count}, i64 {step.columns}"
        row_stride = 0
        if step.row_scale is not None:
            row_stride = self.pitch[step.row_scale.number]
            given += f", {self.layout.at(b, self.tile_offsets[step.row_scale.number])}"
        even = divisibility(self.shape, step.columns, depth, self.group.rows)
        pack = pack_function(self.routines, self.shape, strides, depth, even, row_stride)
        b.emit_void(f"call void @{pack}({given})")
        rest = (step.rows % self.shape.rows, step.columns % self.shape.columns)
        x_strides = (x_column, x_row)
        c_row = step.out.strides[0]
        loop_name = PanelLoop(
            self.shape, x_strides, depth, c_row, rest, shared=self.shared,
            accumulates=self.accumulates,
        ).function(self.routines)  # fmt: skip
        fresh = b.compare("eq", first, 0)
        b.emit_void(
            f"call void @{loop_name}({x}, {panels}, {out}, i64 {step.rows}, i64 {step.columns}, "
            f"{count}, {fresh})"
        )

    def _nest(self, number: int, step: RowNest, row: Value, count: Value) -> None:
        """Call the nest for the rows of the block.

        It addresses row r at ``base + r * stride``; the base of a tile is moved back so that the
        first row of the block falls on the tile's first row.
        """
        b, (name, scratch) = self.b, self.nests[number]
        block = Value("%block", PTR)
        for k, location in enumerate(step.operands):
            if isinstance(location, ScratchRows):
                back = b.emit(I64, f"sub i64 0, {b.times(row, self.pitch[location.number]).text}")
                address = b.at(self.layout.at(b, self.tile_offsets[location.number]), back)
            else:
                address = self.pointers[location]
            b.emit_void(f"store {address}, {b.at(block, 8 * k)}, align 8")
        b.emit_void(
            f"store {self.layout.at(b, scratch)}, {b.at(block, 8 * len(step.operands))}, align 8"
        )
        b.emit_void(f"call void @{name}({block}, i64 0, {row}, {b.plus(row, count)})")
