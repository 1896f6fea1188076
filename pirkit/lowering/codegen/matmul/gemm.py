"""GEMM as a native function: cache blocking after Goto and BLIS, one block of C per task.

For each block of C a part of B is packed into panels, and as many rows of A as half of the L2 cache
holds are multiplied by all panels, for at most `MAX_DEPTH` of the depth at a time. An element of C
is a sum of partial sums over these depths in a fixed order: its bits depend on the depth of the
matmul, not on the blocks or the threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.compile import key_of
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import address_at, argument, split_index
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Value
from pirkit.lowering.codegen.matmul.blocking import block_extent
from pirkit.lowering.codegen.matmul.macrokernel import (
    PackSource,
    PanelLoop,
    Strides,
    TileShape,
    tile_shape_for,
)
from pirkit.lowering.codegen.matmul.panel_packing import (
    copied_row_bytes,
    copy_function,
    divisibility,
    pack_function,
    unpack_function,
)
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.pool import thread_count
from pirkit.runtime.native.target import Target, host

MAX_DEPTH: Final = 768
"""Depth of a packed panel at most; C is loaded and stored once per such depth."""
_PANEL_BYTES: Final = 18 << 10
_WIDE_PANEL_BYTES: Final = 96 << 10
"""Bytes of a panel at most where registers have 256 bits or less: it stays in the L1 cache. A tile
of 512 bits reads fewer bytes for each multiply-add, so that its panels may come from L2."""
_MAX_COLUMNS: Final = 1024
"""Columns of B that are packed at a time."""
_PACKING: Final = 10
"""Cost of packing an element, in multiplications."""
_FAR_ROWS: Final = 2048
"""Bytes of which a multiple as stride makes rows conflict in the cache."""


@dataclass(frozen=True, slots=True)
class MatrixBatch:
    """The matrices of an operand: strides and the ``size`` of the buffer, in bytes."""

    batch: tuple[int, ...]
    strides: Strides
    size: int


@dataclass(frozen=True, slots=True)
class Gemm:
    """``c = a b`` of ``rows`` by ``columns`` for each element of the batch; operands are a, b, c.

    a and b are contiguous along one of their axes, c along rows. With ``panel`` columns, b is in
    panels of so many: all rows of the first columns, then of the next ones, filled up with zeros.
    Panels in ``stored``, of fewer bits, are widened; a last operand multiplies each column if it
    ``scales``.
    """

    batch: tuple[int, ...]
    rows: int
    columns: int
    depth: int
    dtype: DType
    a: MatrixBatch
    b: MatrixBatch
    c: MatrixBatch
    panel: int = 0
    stored: DType | None = None
    scales: bool = False

    @property
    def multiplications(self) -> int:
        return prod(self.batch) * self.rows * self.columns * self.depth


@dataclass(frozen=True, slots=True)
class Blocking:
    """The block sizes: ``rows`` by ``columns`` of C per task, ``depth`` of a panel.

    ``inner`` rows of A at a time are multiplied by all panels of the block.
    """

    rows: int
    columns: int
    depth: int
    inner: int


def copies_transposed_a(p: Gemm) -> bool:
    """Whether A is column-major with a stride that makes its columns conflict in the cache.

    A contiguous copy is read then. A row-major A needs none: a tile uses whole cache lines of it at
    once.
    """
    row, column = p.a.strides
    return row == p.dtype.itemsize and column != row and column % _FAR_ROWS == 0


def blocking(p: Gemm, shape: TileShape, target: Target, threads: int) -> Blocking:
    """The cheapest blocks by `_estimated_time`; the depth follows from that of the matmul alone."""
    most = _PANEL_BYTES if target.vector_bits < 512 else _WIDE_PANEL_BYTES
    deepest = min(MAX_DEPTH, most // shape.panel_bytes(shape.lanes) * shape.lanes)
    depth = -(-p.depth // -(-p.depth // deepest))
    rows, columns = min(
        _candidates(p, shape, threads), key=lambda block: _estimated_time(p, *block, threads)
    )
    # The rows of A take half of the L2 cache; the panel and C share the rest.
    fitting = target.l2_bytes // 2 // (depth * p.dtype.itemsize)
    inner = _even_blocks(rows, max(fitting // shape.rows, 4) * shape.rows, shape.rows)
    return Blocking(rows, columns, depth, inner)


def _candidates(p: Gemm, shape: TileShape, threads: int) -> Iterator[tuple[int, int]]:
    """Rows and columns of blocks such that each thread has one to four of them."""
    widest = _even_blocks(p.columns, _MAX_COLUMNS, shape.columns)
    yield _even_blocks(p.rows, p.rows, shape.rows), widest
    if threads == 1:
        return
    for parts in range(-(-p.columns // widest), min(8 * threads, -(-p.columns // 64)) + 1):
        columns = _even_blocks(p.columns, -(-p.columns // parts), shape.columns)
        across = prod(p.batch) * -(-p.columns // columns)
        for per_thread in range(1, 5):
            down = -(-threads * per_thread // across)
            yield _even_blocks(p.rows, -(-p.rows // down), shape.rows), columns


def _estimated_time(p: Gemm, rows: int, columns: int, threads: int) -> float:
    """Relative time of the busiest thread; few blocks are harder to balance."""
    count = _block_counts(p, rows, columns)
    # Packing B is amortized over the rows of a block, copying A over its columns.
    packing = (not p.panel or p.stored is not None) * _PACKING / rows + copies_transposed_a(
        p
    ) * _PACKING / columns
    uneven = 1 + 0.1 * threads / count if threads > 1 else 1
    return -(-count // threads) * rows * columns * (1 + packing) * uneven


def _block_counts(p: Gemm, rows: int, columns: int) -> int:
    return prod(p.batch) * -(-p.rows // rows) * -(-p.columns // columns)


def _even_blocks(extent: int, max_block: int, unit: int) -> int:
    """The size of about equal blocks, a multiple of ``unit``, close to ``max_block``."""
    block_count = -(-extent // max(max_block, unit))
    return -(-extent // block_count // unit) * unit


def native_gemm(p: Gemm) -> NativeFunction:
    """The function of a GEMM with operands a, b, c."""
    threads = thread_count()
    return function_of(key_of((p, threads), host()), lambda: gemm_draft(p, host(), threads))


def gemm_draft(p: Gemm, target: Target, threads: int) -> Draft:
    """The module of a GEMM for a number of threads, not yet compiled."""
    shape = tile_shape_for(p.dtype, target, p.columns)
    cut = blocking(p, shape, target, threads)
    routines = Routines()
    b = routines.builder()
    writer = _Writer(p, shape, cut, routines, b)
    writer.emit()
    sizes = (p.a.size, p.b.size, p.c.size, *[p.columns * p.dtype.itemsize] * p.scales)
    # About three vector FMAs per ns.
    work = int(p.multiplications / shape.lanes / 3)
    tile = {"lanes": shape.lanes, "tile rows": shape.rows, "tile columns": shape.columns}
    block = {"block rows": cut.rows, "block columns": cut.columns, "block depth": cut.depth}
    blocks = _block_counts(p, cut.rows, cut.columns)
    known = about(_Writer, "matmul", **tile, **block, blocks=blocks)
    return routines.draft(b, writer.scratch, sizes, work, known)


class _Writer:
    """Emits the loops around the macrokernel: blocks, depth, chunks of rows, panels."""

    def __init__(
        self, p: Gemm, shape: TileShape, block_sizes: Blocking, routines: Routines, b: Builder
    ) -> None:  # fmt: skip
        self.p, self.shape, self.block_sizes, self.routines, self.b = (
            p,
            shape,
            block_sizes,
            routines,
            b,
        )
        size = p.dtype.itemsize
        self.panels = 0
        if not p.panel or p.stored is not None:
            self.panels = shape.panels_bytes(block_sizes.depth, block_sizes.columns)
        self.scales = Value("null", PTR)
        self.copies_a = copies_transposed_a(p)
        self.copied_row = copied_row_bytes(shape, block_sizes.inner)
        self.scratch = self.panels + self.copies_a * self.copied_row * block_sizes.depth
        self.a_strides: Strides = (size, self.copied_row) if self.copies_a else p.a.strides

    def emit(self) -> None:
        """The loop over blocks of C."""
        p, b, block_sizes = self.p, self.b, self.block_sizes
        pointers = [argument(b, k) for k in range(3)]
        scales = argument(b, 3) if p.scales else Value("null", PTR)
        across = -(-p.columns // block_sizes.columns)
        down = -(-p.rows // block_sizes.rows)

        def block(number: Value, _: list[Value]) -> Sequence[Value]:
            *batch, column_block, row_block = split_index(b, number, [*p.batch, across, down])
            bases = [
                address_at(b, pointer, m.batch, batch)
                for pointer, m in zip(pointers, (p.a, p.b, p.c), strict=True)
            ]
            row, column = (
                b.times(row_block, block_sizes.rows),
                b.times(column_block, block_sizes.columns),
            )
            rows = block_extent(b, block_sizes.rows, p.rows, row)
            columns = block_extent(b, block_sizes.columns, p.columns, column)
            a = b.at(bases[0], b.times(row, p.a.strides[0]))
            other = b.at(bases[1], b.times(column, p.b.strides[1]))
            c = b.at(
                bases[2], b.plus(b.times(row, p.c.strides[0]), b.times(column, p.c.strides[1]))
            )
            self.scales = b.at(scales, b.times(column, p.dtype.itemsize)) if p.scales else scales
            self._depths(a, other, c, rows, columns)
            return []

        b.loop(Value("%lo", I64), Value("%hi", I64), 1, [], block)

    def _depths(self, a: Value, other: Value, c: Value, rows: Value, columns: Value) -> None:
        """The loops over depth and over chunks of ``inner`` rows."""
        p, b, step, inner = self.p, self.b, self.block_sizes.depth, self.block_sizes.inner

        def depths(k: Value, _: list[Value]) -> Sequence[Value]:
            block_depth = block_extent(b, step, p.depth, k)
            fresh = b.compare("eq", k, 0)
            left = b.at(a, b.times(k, p.a.strides[1]))
            column_block = b.at(other, b.times(k, p.b.strides[0]))

            def row_chunk(first: Value, _: list[Value]) -> Sequence[Value]:
                here = b.at(left, b.times(first, p.a.strides[0]))
                c_block = b.at(c, b.times(first, p.c.strides[0]))
                count = block_extent(b, inner, rows, first)
                if self.copies_a:
                    here = self._copied_rows(here, count, block_depth)
                self._panels(
                    here, column_block, c_block, (count, columns, block_depth), fresh, first
                )
                return []

            b.loop(0, rows, inner, [], row_chunk)
            return []

        b.loop(0, p.depth, step, [], depths)

    def _panels(
        self, left: Value, column_block: Value, c: Value, extents: tuple[Value, Value, Value],
        fresh: Value, row: Value,
    ) -> None:  # fmt: skip
        """A chunk of rows times all panels; the first chunk of a block packs them."""
        p, b, shape, routines = self.p, self.b, self.shape, self.routines
        step = self.block_sizes.depth
        rows, columns, block_depth = extents
        rest = (p.rows % shape.rows, p.columns % shape.columns)
        tiles = max(1, self.block_sizes.inner // shape.rows)
        # If B is row-major, the first tile (if it has all rows) packs while it multiplies.
        packs = not p.panel and p.b.strides[1] == p.dtype.itemsize and self._fewest() >= shape.rows
        # Two versions of the loop: later chunks reuse the panels.
        loop = PanelLoop(
            shape, self.a_strides, step, p.c.strides[0], rest, accumulates=p.depth > step
        )
        if p.panel and p.stored is None:
            self._packed_panels(loop, tiles, (left, column_block, c), extents, fresh)
            return
        reuse = loop.function(routines)
        source = None if p.panel else PackSource(p.b.strides, tiles, packs)
        pack_and_use = replace(loop, source=source).function(routines)
        is_first = b.compare("eq", row, 0)
        is_later = b.compare("ne", row, 0)

        def panel(number: Value, _: list[Value]) -> Sequence[Value]:
            column = b.times(number, shape.columns)
            panel_at = b.at(Value("%scratch", PTR), b.times(number, shape.panel_bytes(step)))
            c_block = b.at(c, b.times(column, p.c.strides[1]))
            whole = p.columns % shape.columns == 0
            total = p.columns if whole else columns
            count = block_extent(b, shape.columns, total, column)
            given = f"{left}, {panel_at}, {c_block}, {rows}, {count}, {block_depth}, {fresh}"

            def first() -> Sequence[Value]:
                source = b.at(column_block, b.times(column, p.b.strides[1]))
                if p.stored is not None:
                    scales = b.at(self.scales, b.times(column, p.dtype.itemsize * p.scales))
                    unpack = unpack_function(routines, shape, p.stored, rest[1], p.scales)
                    operands = (source, panel_at, scales, block_depth, count)
                    b.emit_void(f"call void @{unpack}({', '.join(map(str, operands))})")
                    b.emit_void(f"call void @{reuse}({given})")
                    return []
                if not packs:
                    even = divisibility(shape, p.columns, p.depth, step)
                    pack = pack_function(routines, shape, p.b.strides, step, even)
                    b.emit_void(f"call void @{pack}({source}, {panel_at}, {block_depth}, {count})")
                b.emit_void(f"call void @{pack_and_use}({given}, {source})")
                return []

            def later() -> Sequence[Value]:
                b.emit_void(f"call void @{reuse}({given})")
                return []

            b.branch(is_first, first)
            b.branch(is_later, later)
            return []

        panels = b.emit(I64, f"udiv {b.plus(columns, shape.columns - 1)}, {shape.columns}")
        b.loop(0, panels, 1, [], panel)

    def _packed_panels(
        self, loop: PanelLoop, tiles: int, at: tuple[Value, Value, Value],
        extents: tuple[Value, Value, Value], fresh: Value,
    ) -> None:  # fmt: skip
        """A chunk of rows times panels that B consists of; tiles prefetch the next panel."""
        p, b, shape = self.p, self.b, self.shape
        left, column_block, c = at
        rows, columns, block_depth = extents
        lines = -(-shape.panel_bytes(self.block_sizes.depth) // (tiles * LINE))
        call = replace(loop, prefetch_lines=(lines,)).function(self.routines)

        def panel(column: Value, _: list[Value]) -> Sequence[Value]:
            here = b.at(column_block, b.times(column, p.b.strides[1]))
            later = b.at(here, shape.columns * p.b.strides[1])
            c_block = b.at(c, b.times(column, p.c.strides[1]))
            total = p.columns if p.columns % shape.columns == 0 else columns
            count = block_extent(b, shape.columns, total, column)
            given = (left, here, c_block, rows, count, block_depth, fresh, later)
            b.emit_void(f"call void @{call}({', '.join(map(str, given))})")
            return []

        b.loop(0, columns, shape.columns, [], panel)

    def _fewest(self) -> int:
        """Rows of the smallest block."""
        return self.p.rows % self.block_sizes.rows or self.block_sizes.rows

    def _copied_rows(self, left: Value, rows: Value, block_depth: Value) -> Value:
        """Copy a chunk of a column-major A to scratch."""
        b = self.b
        c_block = b.at(Value("%scratch", PTR), self.panels)
        copy = copy_function(self.routines, self.shape, self.p.a.strides[1], self.copied_row)
        b.emit_void(f"call void @{copy}({left}, {c_block}, {block_depth}, {rows})")
        return c_block
