"""Tiles of rows times panels: float32 by weights of fewer bits, exact 8-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Array, Functions, Location, Values, matrix
from pirkit.lowering.codegen.math.casts import stored
from pirkit.lowering.codegen.matmul.integer_products import pair_products, quads_by_vnni
from pirkit.lowering.codegen.matmul.macrokernel import TileShape
from pirkit.lowering.codegen.matmul.microkernel import Elements, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile, read_vector
from pirkit.lowering.codegen.matmul.panel_packing import as_float
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

_IN_FLIGHT: Final = 8
"""Accumulators that hide the latency of a multiply-add."""
ZERO: Final = 0x80
"""A row's 0 with 128 added."""


class RowsProduct(Struct, frozen=True):
    """``rows`` by ``depth`` times panels of ``columns`` in all.

    Operands are x, panels and the result; if it ``scales``, a factor for each column; if it is
    ``exact``, a factor for all rows, or with ``each_row`` one for each; and if it ``adds``, an
    int32 for each column, which is added to the sums before they are scaled. An exact product is
    one of 8-bit integers: panels hold ``group`` terms of a column together, and x may be
    ``unsigned``.
    """

    rows: int
    columns: int
    depth: int
    weights: DType
    scales: bool
    exact: bool = False
    each_row: bool = False
    group: int = 1
    unsigned: bool = False
    adds: bool = False

    @property
    def x(self) -> DType:
        return dt.uint8 if self.unsigned else dt.int8 if self.exact else dt.float32

    @property
    def terms(self) -> int:
        """Iterations of the loop over the depth."""
        return -(-self.depth // self.group)

    @property
    def quads(self) -> bool:
        """Whether rows are unsigned bytes, of which four are multiplied at once."""
        return self.group == 4

    @property
    def offset(self) -> bool:
        """Whether these bytes are 128 more than the rows are."""
        return self.quads and not self.unsigned


class PanelSums(Struct, frozen=True):
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
            vector = vector if p.quads else b.cast("sext", vector, "i16")
            return b.emit(Type("i32", lanes), f"bitcast {vector} to {Type('i32', lanes)}")

        panel = Value("%panel", PTR)
        right = Elements(
            kind, [(panel, v * lanes * size) for v in range(count)], [self.shape.columns * size],
            widen=widen,
        )  # fmt: skip
        # A small tile has fewer accumulators than FMAs in flight; several chains hide the latency.
        chains = max(1, _IN_FLIGHT // len(start)) if p.terms > _IN_FLIGHT else 1
        return microkernel(
            b, Elements(scalar, rows, [4]), right, [p.terms], start, chains, combine
        )  # fmt: skip

    def add_products(self, b: Builder, left: Value, right: Value, total: Value) -> Value:
        if self.p.quads:
            return quads_by_vnni(b, left, right, total)
        return b.op("add", total, pair_products(b, left, right, self.target))

    def panel(self, location: Location, columns: int) -> Array:
        """Some columns as a matrix; the panel has ``group`` terms of a column contiguous."""
        p, width = self.p, self.shape.columns
        group, item = p.group, p.weights.itemsize
        found = matrix(location, p.weights, (p.terms, group * width), (group * width * item, item))
        found = found.reshape(p.terms, width, group).swapaxes(1, 2).reshape(-1, width)
        return found[: p.depth, :columns].astype(np.int32 if p.exact else np.float32)


class ZeroSums(PanelSums, frozen=True):
    """The function ``(panel, zeros)``: the negated sums of the row of zeros, after it."""

    @property
    def row_bytes(self) -> int:
        return -(-self.p.depth // (self.p.group * self.shape.lanes)) * 4 * self.shape.lanes

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"microkernel {buffers[1]} = -({buffers[1]} {buffers[0]})"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        width, (array, offset) = self.shape.columns, memory[1]
        sums = matrix((array, offset + self.row_bytes), dt.int32, (1, width), (0, 4))
        sums[...] = -ZERO * self.panel(memory[0], width).sum(0)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        def write(b: Builder) -> None:
            zeros, kind, size = Value("%zeros", PTR), self.shape.vector.of("i32"), self.shape.lanes
            start = [b.const(kind, 0)] * self.shape.vectors
            sums = [b.op("sub", start[0], s) for s in self.sums(b, [(zeros, 0)], start)]
            places = [b.at(zeros, self.row_bytes + v * size * 4) for v in range(len(sums))]
            OutputTile(kind, places).store(b, sums)

        name = functions.add("zero_sums", "ptr %panel, ptr %zeros", write)
        b.emit_void(f"call void @{name}({addresses[0]}, {addresses[1]})")


class RowsTile(PanelSums, frozen=True):
    """The function ``(x, panel, out, scales, row_scales, added, zeros)`` of a tile of rows by
    columns.

    Rows of x are ``pitch`` bytes apart, as long as the row of zeros. Its sums lie after it if they
    are ``summed_first``.
    """

    extent: tuple[int, int]
    pitch: int
    summed_first: bool

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        (rows, columns), (x, panel, out, *more) = self.extent, buffers
        factors = more[: self.p.scales + self.p.exact]
        less = f" - {more[-1]} {panel}" if self.p.offset else ""
        less += f" + {more[self.p.scales + 1]}" if self.p.adds else ""
        product = f"({x} {panel}{less})" if less else f"{x} {panel}"
        return f"microkernel {out}[{rows} x {columns}] = {' * '.join([product, *factors])}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        p, (rows, columns) = self.p, self.extent
        kind = dt.float32 if not p.exact else dt.uint8 if p.quads else dt.int16
        x = matrix(memory[0], kind, (rows, p.depth), (self.pitch, kind.itemsize))
        panel = self.panel(memory[1], columns)
        sums = x.astype(panel.dtype) @ panel
        if p.offset:
            array, offset = memory[-1]
            if self.summed_first:
                sums += matrix((array, offset + self.pitch), dt.int32, (1, columns), (0, 4))
            else:
                sums -= matrix(memory[-1], kind, (1, p.depth), (0, 1)).astype(np.int32) @ panel
        if p.adds:
            sums = sums + matrix(memory[4 + p.scales], dt.int32, (1, columns), (0, 4))
        found = sums.astype(np.float32)
        if p.exact:
            found *= matrix(memory[3 + p.scales], dt.float32, (rows, 1), (4 * p.each_row, 4))
        if p.scales:
            found *= matrix(memory[3], dt.float32, (1, columns), (0, 4))
        matrix(memory[2], dt.float32, (rows, columns), (p.columns * 4, 4))[...] = found

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        p, null = self.p, Value("null", PTR)
        given = [
            *addresses[:3],
            addresses[3] if p.scales else null,
            addresses[3 + p.scales] if p.exact else null,
            addresses[4 + p.scales] if p.adds else null,
            addresses[-1] if p.offset else null,
        ]
        b.emit_void(f"call void @{self.function(functions)}({', '.join(map(str, given))})")

    def function(self, functions: Functions) -> str:
        p, shape, pitch, (rows, columns) = self.p, self.shape, self.pitch, self.extent
        names = ("x", "panel", "out", "scales", "row_scales", "added", "zeros")
        parameters = ", ".join(f"ptr %{name}" for name in names)

        def write(b: Builder) -> None:
            lanes, vector = shape.lanes, shape.vector
            x, _, out, scales, row_scales, added, zeros = (Value(f"%{n}", PTR) for n in names)
            tail = columns % lanes
            count = -(-columns // lanes)
            masks = [*[None] * (columns // lanes), *([tail_mask(b, lanes, tail)] if tail else ())]
            kind = vector.of("i32" if p.exact else "float")
            places, start = [(x, r * pitch) for r in range(rows)], [b.const(kind, 0)] * count
            if self.summed_first:
                held = [b.at(zeros, self.pitch + v * lanes * 4) for v in range(count)]
                start = OutputTile(kind, held).load(b)
            elif p.offset:
                # VNNI multiplies unsigned by signed bytes: rows are stored with 128 added. A row of
                # such zeros, one more row of the tile, gives what that adds to each sum.
                places.append((zeros, 0))
            sums = self.sums(b, places, start * len(places))
            if len(places) > rows:
                sums, offsets = sums[:-count], sums[-count:]
                sums = [b.op("sub", s, offsets[k % count]) for k, s in enumerate(sums)]
            self.finish(b, sums, masks, (out, scales, row_scales, added))

        return functions.add(self, parameters, write)

    def finish(
        self, b: Builder, sums: list[Value], masks: Sequence[Value | None], places: Values
    ) -> None:
        """Add, scale and store the sums of rows at the places of out, scales and what is added."""
        p, lanes, vector, count = self.p, self.shape.lanes, self.shape.vector, len(masks)
        out, scales, row_scales, added = places
        rows = range(len(sums) // count)
        if p.adds:
            at = [b.at(added, v * lanes * 4) for v in range(count)]
            found = OutputTile(vector.of("i32"), at, masks).load(b)
            sums = [b.op("add", s, found[k % count]) for k, s in enumerate(sums)]
        if p.exact:
            # Integers are exact up to here; each sum is rounded once, and then scaled.
            sums = [b.cast("sitofp", s, "float") for s in sums]
            factors = [
                b.splat(read_vector(b, Type("float"), b.at(row_scales, 4 * p.each_row * r)), lanes)
                for r in rows
            ]
            sums = [b.mul(s, factors[k // count]) for k, s in enumerate(sums)]
        if p.scales:
            at = [b.at(scales, v * lanes * 4) for v in range(count)]
            found = OutputTile(vector, at, masks).load(b)
            sums = [b.mul(s, found[k % count]) for k, s in enumerate(sums)]
        goals = [b.at(out, (r * p.columns + v * lanes) * 4) for r in rows for v in range(count)]
        OutputTile(vector, goals, masks).store(b, sums)
