"""The macrokernel of a GEMM: register tiles over packed panels (Goto; BLIS).

``C = A B`` is computed in tiles of some rows of A by some vectors of columns of B, with one
register per vector for the accumulators. Elements of A are broadcast, so A may have any strides. B
is read from panels of as many columns as a tile has, packed row by row.

`TileShape` gives the sizes of panels, `panel_packing.py` packs them, loops of the loop IR call
`Tile` on them. Tiles and copies are functions of one LLVM module.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values, matrix
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.bfloat16_pairs import has_pairs
from pirkit.lowering.codegen.matmul.microkernel import Elements, Stride, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile, prefetch_bytes, read_vector
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

Strides = tuple[int, int]
"""Bytes from a row to the next one, and from a column to the next one."""


class TileShape(Struct, frozen=True):
    """The register tile: ``rows`` of A by ``vectors`` of ``lanes`` columns of B.

    bfloat16 is added in float32 lanes by pairs of terms (`bfloat16_pairs.py`), with one instruction
    if they are ``native``, or by the tile registers of a ``matrix`` unit (`matrix_tile.py`).
    """

    dtype: DType
    lanes: int
    rows: int
    vectors: int
    native: bool = False
    matrix: bool = False

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors

    @property
    def terms(self) -> int:
        """Terms of a sum that a lane holds."""
        return 2 if self.dtype is dt.bfloat16 else 1

    @property
    def sum_bytes(self) -> int:
        """Bytes of a sum."""
        return self.dtype.itemsize * self.terms

    @property
    def vector(self) -> Type:
        return Type(element(self.dtype), self.lanes)

    def panel_rows(self, depth: int) -> int:
        """Rows allocated for a panel of ``depth`` rows: packing writes whole VxV transposes.

        Panels for tile registers, of 32 KB, are not a power of two apart: the lines that a row of
        pairs fills in all panels are in other sets of the cache.
        """
        lanes = self.lanes * self.terms
        return -(-depth // lanes) * lanes + 32 * self.matrix

    def panel_bytes(self, depth: int) -> int:
        """Bytes of one panel."""
        return self.panel_rows(depth) * self.columns * self.dtype.itemsize

    def panels_bytes(self, depth: int, columns: int) -> int:
        """Bytes of all panels for ``columns`` columns of B."""
        return -(-columns // self.columns) * self.panel_bytes(depth)


def tile_shape_for(dtype: DType, target: Target, columns: int | None = None) -> TileShape:
    """6 x 4 vectors of 32 registers with AVX-512, 8 x 2 for so few ``columns``, else 4 x 3 of 16.

    The rest holds the vectors of B and a broadcast; the accumulators hide the latency of FMA.
    8 x 2 read more for each FMA: they reached 0.9 of the speed on a Cascade Lake. Where a CPU has
    no instruction for pairs of bfloat16, a tile has two vectors, since widening takes registers.
    """
    native = dtype is dt.bfloat16 and has_pairs(target)
    lanes = vector_lanes(dtype, target)
    widens = dtype is dt.bfloat16 and not native
    narrow = widens or (columns is not None and columns <= 2 * lanes)
    rows, vectors = (8, 2) if narrow else (6, 4)
    if target.vector_bits < 512:
        rows, vectors = 4, 2 if widens else 3
    return TileShape(dtype, lanes, rows, vectors, native)


def vector_lanes(dtype: DType, target: Target) -> int:
    """Lanes of a vector of sums."""
    return target.vector_bits // (32 if dtype is dt.bfloat16 else 8 * dtype.itemsize)


# --- tiles ---


class Tile(Struct, frozen=True):
    """The function ``(a, panel, c, k, fresh)`` of a tile of ``extent`` rows and columns.

    Some options add parameters after these, in this order:

    - With ``row_max_stride`` the tile updates the maxima of its rows at a parameter ``row_max``.
    - ``strides`` are the two of A and the row stride of C; None makes them parameters.
    - With ``source_row`` the tile reads B at a parameter ``source``, whose rows are so many bytes
      apart, and packs it into the panel.
    - ``summands`` are the strides of matrices at further parameters, which are added where the tile
      is fresh; a row of one is contiguous or has stride 0.

    If it ``accumulates``, results are added to C unless it is fresh. With ``panel_row``, B is no
    panel but a matrix whose rows are so many bytes apart (0 if all are one) and end with the last
    column.

    As a routine of the loop IR its buffers are a, panel and c, then the maxima or the source, then
    the summands, and its numbers k, the part of the depth, which is fresh if it is the first, then
    the strides.
    """

    shape: TileShape
    strides: tuple[int, int, int] | None
    extent: tuple[int, int]
    source_row: int | None
    row_max_stride: int
    accumulates: bool
    panel_row: int | None = None
    summands: tuple[Strides, ...] = ()

    @property
    def right_row(self) -> int:
        packed = self.shape.columns * self.shape.dtype.itemsize
        return packed if self.panel_row is None else self.panel_row

    def function(self, functions: Functions) -> str:
        """The name of the function."""
        parameters = ["ptr %a, ptr %b, ptr %c, i64 %k, i1 %fresh"]
        parameters += ["ptr %row_max"] * (self.row_max_stride > 0)
        parameters += ["i64 %row, i64 %column, i64 %c_row"] * (self.strides is None)
        parameters += ["ptr %source"] * (self.source_row is not None)
        parameters += [f"ptr %s{k}" for k in range(len(self.summands))]
        return functions.add(self, ", ".join(parameters), self._write)

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        (rows, columns), (a, panel, c, *other) = self.extent, buffers
        depth, first = numbers[:2]
        how = f", added if {first} > 0" if self.accumulates else ""
        packs = f", packs {panel} from {other[0]}" if self.source_row is not None else ""
        packs += f", row maxima in {other[0]}" if self.row_max_stride else ""
        added = other[len(other) - len(self.summands) :]
        packs += f", plus {' and '.join(added)} if {first} = 0" if added else ""
        return f"microkernel {c}[{rows} x {columns}] = {a} {panel}, depth {depth}{how}{packs}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        (rows, columns), (depth, first, *strides) = self.extent, numbers
        dtype, (a_row, a_column, c_row) = self.shape.dtype, self.strides or strides
        size = dtype.itemsize
        a = matrix(memory[0], dtype, (rows, depth), (a_row, a_column))
        padded = self.panel_row is None
        panel = matrix(memory[1], dtype, (depth, columns), (self.right_row, size), panel=padded)
        if self.source_row is not None:
            panel[...] = matrix(memory[3], dtype, (depth, columns), (self.source_row, size))
        c = matrix(memory[2], dtype, (rows, columns), (c_row, size))
        is_fresh = not (self.accumulates and first > 0)
        c[...] = a @ panel if is_fresh else c + a @ panel
        summands = zip(memory[len(memory) - len(self.summands) :], self.summands, strict=True)
        for place, strides in summands if is_fresh else ():
            c += matrix(place, dtype, (rows, columns), strides)
        if self.row_max_stride:
            lanes = self.shape.lanes
            row_max = matrix(memory[3], dtype, (rows, lanes), (self.row_max_stride, size))
            for first in range(0, columns, lanes):
                part = c[:, first : first + lanes]
                row_max[:, : part.shape[1]] = np.maximum(row_max[:, : part.shape[1]], part)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        """Call the function."""
        depth, first, *strides = numbers
        given = [*addresses[:3], depth, b.compare("eq", first, 0), *addresses[3:], *strides]
        b.emit_void(f"call void @{self.function(functions)}({', '.join(map(str, given))})")

    def _write(self, b: Builder) -> None:
        (rows, columns), shape = self.extent, self.shape
        size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector
        pa, panel, pc = (Value(f"%{name}", PTR) for name in "abc")
        tail = columns % lanes
        masks = [*[None] * (columns // lanes), *([tail_mask(b, lanes, tail)] if tail else ())]
        names = ("row", "column", "c_row")
        a_row, a_column, c_row = self.strides or [Value(f"%{name}", I64) for name in names]
        # Rows are addressed from two bases if their distance is a register: half as many multiples
        # of it occupy integer registers.
        half = rows if self.strides else rows - rows // 2
        distances = [_multiple(b, a_row, r) for r in range(half + 1)]
        bases = [pa, *([b.at(pa, distances[half])] if half < rows else ())]
        places = [(bases[r // half], distances[r % half]) for r in range(rows)]
        left = Elements(Type(vector.elem), places, [a_column])
        offsets = [v * lanes * size for v in range(len(masks))]
        right_masks = () if self.panel_row is None else masks
        right = Elements(vector, [(panel, at) for at in offsets], [self.right_row], right_masks)
        if self.source_row is not None:
            source = [(Value("%source", PTR), at) for at in offsets]
            right = Elements(vector, source, [self.source_row], masks, packed=right)
        lines = [b.at(pc, _multiple(b, c_row, r)) for r in range(rows)]
        # The lines of C arrive while the loop over the depth runs.
        for line in lines:
            prefetch_bytes(b, line, len(masks) * lanes * size, to_write=True)
        # C is read after the loop: with its vectors as start values the loop would wait for memory.
        zeros = [b.const(vector, 0.0)] * (rows * len(masks))
        sums = microkernel(b, left, right, [Value("%k", I64)], zeros)
        output = OutputTile(vector, [b.at(line, at) for line in lines for at in offsets], masks)
        if self.accumulates:
            sums = output.added(b, sums, b.emit(I1, "xor i1 %fresh, true"))
        if self.summands:
            when = Value("%fresh" if self.accumulates else "true", I1)
            sums = b.branch(when, lambda: self._with_summands(b, sums, masks), sums)
        output.store(b, sums)
        if self.row_max_stride:
            row_max = [b.at(Value("%row_max", PTR), r * self.row_max_stride) for r in range(rows)]
            output.update_row_max(b, row_max, sums, shape.dtype)

    def _with_summands(
        self, b: Builder, sums: Sequence[Value], masks: Sequence[Value | None]
    ) -> list[Value]:
        (rows, _), vector, lanes = self.extent, self.shape.vector, self.shape.lanes
        found = list(sums)
        for k, (row, column) in enumerate(self.summands):
            for r in range(rows):
                line = b.at(Value(f"%s{k}", PTR), r * row)
                each = read_vector(b, Type(vector.elem), line) if column == 0 else None
                spread = None if each is None else b.splat(each, lanes)
                for v, mask in enumerate(masks):
                    at = r * len(masks) + v
                    value = spread or read_vector(b, vector, b.at(line, v * lanes * column), mask)
                    found[at] = b.add(found[at], value)
        return found


def _multiple(b: Builder, stride: Stride, count: int) -> Stride:
    if isinstance(stride, int):
        return stride * count
    return b.emit(I64, f"mul {stride}, {count}")
