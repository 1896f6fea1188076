"""Copies of panels and rows, and prefetches of panels, as routines of the loop IR."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Value
from pirkit.lowering.codegen.ir.routine import Functions, Location, matrix
from pirkit.lowering.codegen.matmul.macrokernel import Strides, TileShape
from pirkit.lowering.codegen.matmul.output_tile import L2, prefetch_bytes
from pirkit.lowering.codegen.matmul.panel_packing import (
    copy_function,
    pack_function,
    unpack_function,
)
from pirkit.runtime.dtype import DType


class PanelCopy(ABC):
    """A routine that is a function of the addresses and numbers of its invocation, in order."""

    @abstractmethod
    def function(self, functions: Functions) -> str: ...

    def call(
        self, b: Builder, functions: Functions, addresses: Sequence[Value], numbers: Sequence[Value]
    ) -> None:
        given = ", ".join(map(str, [*addresses, *numbers]))
        b.emit_void(f"call void @{self.function(functions)}({given})")


@dataclass(frozen=True, slots=True)
class PackPanel(PanelCopy):
    """Packs a panel of B; numbers are its rows and columns."""

    shape: TileShape
    strides: Strides
    depth: int
    divisible: tuple[bool, bool]

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = pack {buffers[0]} [{numbers[0]} x {numbers[1]}]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        dtype, size, (rows, columns) = self.shape.dtype, self.shape.dtype.itemsize, numbers
        panel = matrix(memory[1], dtype, (rows, columns), (self.shape.columns * size, size))
        panel[...] = matrix(memory[0], dtype, (rows, columns), self.strides)

    def function(self, functions: Functions) -> str:
        return pack_function(functions, self.shape, self.strides, self.depth, self.divisible)


@dataclass(frozen=True, slots=True)
class UnpackPanel(PanelCopy):
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
        panel = matrix(memory[1], dtype, (depth, width), (columns * size, size))
        scales = matrix(memory[2], dtype, (1, width), (0, size)) if self.scales else 1
        panel[...] = found.astype(dtype.np) * scales

    def function(self, functions: Functions) -> str:
        return unpack_function(functions, self.shape, self.kind, self.rest, self.scales)


@dataclass(frozen=True, slots=True)
class CopyRows(PanelCopy):
    """Copies contiguous rows to rows so many bytes apart; numbers are rows and their length."""

    shape: TileShape
    from_row: int
    to_row: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = copy {buffers[0]} [{numbers[0]} rows of {numbers[1]}]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        dtype, size, shape = self.shape.dtype, self.shape.dtype.itemsize, (numbers[0], numbers[1])
        rows = matrix(memory[1], dtype, shape, (self.to_row, size))
        rows[...] = matrix(memory[0], dtype, shape, (self.from_row, size))

    def function(self, functions: Functions) -> str:
        return copy_function(functions, self.shape, self.from_row, self.to_row)


@dataclass(frozen=True, slots=True)
class PrefetchPanel:
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

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        """Nothing: a prefetch changes no memory."""

    def call(
        self, b: Builder, functions: Functions, addresses: Sequence[Value], numbers: Sequence[Value]
    ) -> None:
        per_tile = -(-self.lines // self.tiles)
        next_panel = b.at(addresses[0], self.distance)
        # One piece per tile: behind the last one a prefetch is harmless, a loop around it is not.
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
