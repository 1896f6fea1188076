"""Copies of panels and rows, and prefetches of panels, as routines of the loop IR."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Value
from pirkit.lowering.codegen.ir.routine import Functions, Location, PrefetchRoutine, Values, matrix
from pirkit.lowering.codegen.matmul.bfloat16_pairs import fill_pairs, fill_terms
from pirkit.lowering.codegen.matmul.macrokernel import Strides, TileShape
from pirkit.lowering.codegen.matmul.output_tile import L2, prefetch_bytes
from pirkit.lowering.codegen.matmul.panel_packing import (
    end_row_max,
    init_row_max,
    pack_function,
    pack_tiles_function,
    scale_function,
    unpack_function,
)
from pirkit.runtime.dtype import DType


class PanelCopy(Struct, frozen=True):
    """A routine that is a function of the addresses and numbers of its invocation, in order."""

    def function(self, functions: Functions) -> str:
        raise NotImplementedError

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        given = ", ".join(map(str, [*addresses, *numbers]))
        b.emit_void(f"call void @{self.function(functions)}({given})")


class PackPanel(PanelCopy, frozen=True):
    """Packs rows and columns of B, whose numbers it gets, into panels of ``depth`` rows.

    With ``scale_row`` rows are multiplied by scalars in a third buffer, so many bytes apart.
    """

    shape: TileShape
    strides: Strides
    depth: int
    divisible: tuple[bool, bool]
    scale_row: int = 0

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        scaled = f", rows times {buffers[2]}" if self.scale_row else ""
        return f"{buffers[1]} = pack {buffers[0]} [{numbers[0]} x {numbers[1]}]{scaled}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        shape, size, (rows, columns) = self.shape, self.shape.dtype.itemsize, numbers
        found = matrix(memory[0], shape.dtype, (rows, columns), self.strides)
        if self.scale_row:
            found = found * matrix(memory[2], shape.dtype, (rows, 1), (self.scale_row, size))
        for number, first in enumerate(range(0, columns, shape.columns)):
            part = found[:, first : first + shape.columns]
            begin = memory[1][0], memory[1][1] + number * shape.panel_bytes(self.depth)
            if shape.terms == 2:
                fill_pairs(begin, part, 4 * shape.columns, 4)
                continue
            panel = matrix(begin, shape.dtype, part.shape, (shape.columns * size, size), panel=True)
            panel[...] = part

    def function(self, functions: Functions) -> str:
        given = self.shape, self.strides, self.depth, self.divisible, self.scale_row
        return pack_function(functions, *given)


class UnpackPanel(PanelCopy, frozen=True):
    """Widens a panel of fewer bits, and multiplies its columns if it ``scales``.

    Numbers are the rows and columns; the last panel has ``rest`` columns.
    """

    shape: TileShape
    kind: DType
    rest: int
    scales: bool

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        factor = f" * {buffers[2]}" if self.scales else ""
        return f"{buffers[1]} = widen {buffers[0]} [{numbers[0]} x {numbers[1]}]{factor}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        (depth, width), columns, dtype = numbers, self.shape.columns, self.shape.dtype
        row, size = columns * self.kind.itemsize, dtype.itemsize
        found = matrix(memory[0], self.kind, (depth, width), (row, self.kind.itemsize))
        panel = matrix(memory[1], dtype, (depth, width), (columns * size, size), panel=True)
        scales = matrix(memory[2], dtype, (1, width), (0, size)) if self.scales else 1
        # Scales belong to columns, so the products of a widened panel need no factors.
        panel[...] = found.astype(dtype.np) * scales

    def function(self, functions: Functions) -> str:
        return unpack_function(functions, self.shape, self.kind, self.rest, self.scales)


class PackTiles(PanelCopy, frozen=True):
    """Packs A, column-major but for tile registers, into tiles of ``depth`` columns.

    Numbers are columns and rows.
    """

    shape: TileShape
    strides: Strides
    depth: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = pack {buffers[0]} [{numbers[1]} rows of {numbers[0]}]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        (depth, rows), shape, size = numbers, self.shape, self.shape.dtype.itemsize
        found = matrix(memory[0], shape.dtype, (rows, depth), self.strides)
        for first in range(0, rows, shape.rows):
            part = found[first : first + shape.rows]
            begin = memory[1][0], memory[1][1] + first * self.depth * size
            strides = size, shape.rows * size
            if shape.matrix:
                fill_terms(begin, part)
                continue
            if shape.terms == 2:
                fill_pairs(begin, part.T, 4 * shape.rows, 4)
                continue
            tile = matrix(begin, shape.dtype, part.shape, strides, panel=True)
            tile[...] = part

    def function(self, functions: Functions) -> str:
        return pack_tiles_function(functions, self.shape, self.strides, self.depth)


class ScaleRows(PanelCopy, frozen=True):
    """Multiplies rows, ``row`` bytes apart, by scalars in a second buffer, ``factor_row`` apart.

    Numbers are rows and their length.
    """

    shape: TileShape
    row: int
    factor_row: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[0]} [{numbers[0]} rows of {numbers[1]}] times {buffers[1]}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        (count, length), dtype, size = numbers, self.shape.dtype, self.shape.dtype.itemsize
        rows = matrix(memory[0], dtype, (count, length), (self.row, size))
        rows *= matrix(memory[1], dtype, (count, 1), (self.factor_row, size))

    def function(self, functions: Functions) -> str:
        return scale_function(functions, self.shape, self.row, self.factor_row)


class InitRowMax(PanelCopy, frozen=True):
    """Sets a vector of maxima for each row, ``row`` bytes apart, to -inf; the number is of rows."""

    shape: TileShape
    row: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[0]} [{numbers[0]} rows] = -inf"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        dtype, extent = self.shape.dtype, (numbers[0], self.shape.lanes)
        # Lanes keep maxima of their own until the row ends: no shuffles in the innermost loop.
        matrix(memory[0], dtype, extent, (self.row, dtype.itemsize))[...] = -np.inf

    def function(self, functions: Functions) -> str:
        return init_row_max(functions, self.shape, self.row)


class EndRowMax(PanelCopy, frozen=True):
    """Reduces a vector of maxima for each row into its first lane; the number is of rows."""

    shape: TileShape
    row: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[0]} [{numbers[0]} rows] = maximum of their lanes"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        dtype, extent = self.shape.dtype, (numbers[0], self.shape.lanes)
        lanes = matrix(memory[0], dtype, extent, (self.row, dtype.itemsize))
        lanes[:, 0] = lanes.max(1)

    def function(self, functions: Functions) -> str:
        return end_row_max(functions, self.shape, self.row)


class PrefetchBlock(PrefetchRoutine, frozen=True):
    """Each tile prefetches ``lines`` cache lines of what the next block or matrix reads.

    That begins ``distance`` bytes further on, and ``per_block`` for each block of the matrix.
    Numbers are those of the panel and the tile of rows, the rows of the block, and its number.
    """

    lines: int
    tile_rows: int
    distance: int
    per_block: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"prefetch {self.lines} lines of {buffers[0]} for the next block"

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        panel, tile, rows, block = numbers
        # Tiles are numbered over all panels: each prefetches its own lines.
        before = b.op("mul", panel, b.emit(I64, f"udiv {rows}, {self.tile_rows}"))
        first = b.times(b.plus(before, tile), self.lines * LINE)
        base = b.at(b.at(addresses[0], self.distance), b.times(block, self.per_block))
        prefetch_bytes(b, b.at(base, first), self.lines * LINE, L2)


class PrefetchPanel(PrefetchRoutine, frozen=True):
    """Prefetches the share of one of ``tiles`` of the next panel of B, or of its source.

    The next panel lies ``distance`` bytes further on: ``lines`` pieces of ``length`` bytes,
    ``stride`` bytes apart. The number is that of the tile.
    """

    distance: int
    lines: int
    stride: int
    length: int
    tiles: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"prefetch part {numbers[0]} of {self.tiles} of the next panel of {buffers[0]}"

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        per_tile = -(-self.lines // self.tiles)
        next_panel = b.at(addresses[0], self.distance)
        # One piece per tile: after the last one a prefetch is harmless, a loop around it is not.
        if per_tile == 1:
            prefetch_bytes(b, b.at(next_panel, b.times(numbers[0], self.stride)), self.length, L2)
            return

        def line(k: Value, _: list[Value]) -> Sequence[Value]:
            prefetch_bytes(b, b.at(next_panel, b.times(k, self.stride)), self.length, L2)
            return []

        first = b.times(numbers[0], per_tile)
        last = b.binary("smin", b.plus(first, per_tile), Value(str(self.lines), I64))
        b.loop(first, last, 1, [], line)


def prefetch_panel(shape: TileShape, strides: Strides, depth: int, tiles: int) -> PrefetchPanel:
    """The prefetch of what the next panel is packed from."""
    (row, column), size = strides, shape.dtype.itemsize
    distance = shape.columns * column
    if column == size:
        return PrefetchPanel(distance, depth, row, shape.columns * size, tiles)
    return PrefetchPanel(distance, shape.columns, column, depth * size, tiles)
