"""Products of 8-bit integers by the tile registers of AMX; they are exact, as all others are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Value
from pirkit.lowering.codegen.ir.routine import Functions
from pirkit.lowering.codegen.matmul.output_tile import OutputTile
from pirkit.lowering.codegen.matmul.quantized_tile import RowsProduct, RowsTile
from pirkit.lowering.codegen.matmul.tile_registers import (
    ROW_BYTES,
    SIDE,
    TileProduct,
    configure,
    has_tiles,
    room,
)
from pirkit.runtime.native.target import Target

HEIGHT: Final = 2 * SIDE
"""Rows of a tile."""
_FEWEST_ROWS: Final = 16
"""Rows from which the products take longer than the weights take to arrive."""


def uses_tiles(p: RowsProduct, target: Target) -> bool:
    """Whether tile registers multiply: quads fill their rows, which end with the panels."""
    whole = p.exact and p.quads and p.depth % ROW_BYTES == 0 and p.rows >= _FEWEST_ROWS
    return whole and has_tiles(target, "amx-int8")


class MatrixRowsTile(RowsTile, frozen=True):
    """The function of `RowsTile` by tile registers, 32 columns at a time.

    A tile of fewer rows configures the registers, and restores them.
    """

    def function(self, functions: Functions) -> str:
        (rows, columns), shape, lanes = self.extent, self.shape, self.shape.lanes
        names = ("x", "panel", "out", "scales", "row_scales", "added", "zeros")
        panel_row, sums_row, words = 4 * shape.columns, 2 * ROW_BYTES, shape.vector.of("i32")

        def write(b: Builder) -> None:
            x, panel, out, scales, row_scales, added, zeros = (Value(f"%{n}", PTR) for n in names)
            sums = room(b, rows * sums_row)
            if rows < HEIGHT:
                configure(b, rows)
            for first in range(0, columns, 2 * SIDE):
                width = min(columns - first, 2 * SIDE)
                product = TileProduct("tdpbusd", rows, width, self.pitch, panel_row)
                base = b.at(panel, 4 * first)
                product.clear(b)

                def step(
                    number: Value,
                    _: list[Value],
                    base: Value = base,
                    product: TileProduct = product,
                ) -> Sequence[Value]:
                    right = b.at(base, b.times(number, SIDE * panel_row))
                    product.add(b, b.at(x, b.times(number, ROW_BYTES)), right)
                    return []

                b.loop(0, Value(str(self.p.depth // ROW_BYTES), I64), 1, [], step)
                product.store(b, sums, sums_row)
                tail = width % lanes
                masks = [*[None] * (width // lanes), *([tail_mask(b, lanes, tail)] if tail else ())]
                offsets = None
                if self.p.offset:
                    at = [
                        b.at(zeros, self.pitch + 4 * (first + v * lanes)) for v in range(len(masks))
                    ]
                    offsets = OutputTile(words, at).load(b)

                def line(
                    r: Value, _: list[Value], first: int = first,
                    masks: Sequence[Value | None] = masks, offsets: list[Value] | None = offsets,
                ) -> Sequence[Value]:  # fmt: skip
                    here = b.at(sums, b.times(r, sums_row))
                    at = [b.at(here, v * ROW_BYTES) for v in range(len(masks))]
                    found = OutputTile(words, at).load(b)
                    if offsets is not None:
                        found = [b.op("add", s, o) for s, o in zip(found, offsets, strict=True)]
                    goals = (
                        b.at(b.at(out, b.times(r, 4 * self.p.columns)), 4 * first),
                        b.at(scales, 4 * first),
                        b.at(row_scales, b.times(r, 4 * self.p.each_row)),
                        b.at(added, 4 * first),
                    )
                    self.finish(b, found, masks, goals)
                    return []

                b.loop(0, Value(str(rows), I64), 1, [], line)
            if rows < HEIGHT:
                configure(b, HEIGHT)

        return functions.add(self, ", ".join(f"ptr %{name}" for name in names), write)
