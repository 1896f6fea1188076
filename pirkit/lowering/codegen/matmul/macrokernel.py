"""The macrokernel of a GEMM: register tiles over packed panels (Goto; BLIS).

``C = A B`` is computed in tiles of some rows of A by some vectors of columns of B, with one
register per vector for the accumulators. Elements of A are broadcast, so A may have any strides. B
is read from panels of as many columns as a tile has, packed row by row.

`TileShape` gives the sizes of panels, `panel_packing.py` packs them, `PanelLoop` runs the tiles.
All are functions of one LLVM module; strides are constants of their code, extents are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Functions, Location, matrix
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.blocking import for_tiles
from pirkit.lowering.codegen.matmul.microkernel import Elements, Stride, microkernel
from pirkit.lowering.codegen.matmul.output_tile import L2, OutputTile, prefetch_bytes
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

Strides = tuple[int, int]
"""Bytes from a row to the next one, and from a column to the next one."""


@dataclass(frozen=True, slots=True)
class TileShape:
    """The register tile: ``rows`` of A by ``vectors`` of ``lanes`` columns of B."""

    dtype: DType
    lanes: int
    rows: int
    vectors: int

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors

    @property
    def vector(self) -> Type:
        return Type(element(self.dtype), self.lanes)

    def panel_rows(self, depth: int) -> int:
        """Rows allocated for a panel of ``depth`` rows: packing writes whole VxV transposes."""
        return -(-depth // self.lanes) * self.lanes

    def panel_bytes(self, depth: int) -> int:
        """Bytes of one panel."""
        return self.panel_rows(depth) * self.columns * self.dtype.itemsize

    def panels_bytes(self, depth: int, columns: int) -> int:
        """Bytes of all panels for ``columns`` columns of B."""
        return -(-columns // self.columns) * self.panel_bytes(depth)


def tile_shape_for(dtype: DType, target: Target, columns: int | None = None) -> TileShape:
    """6 x 4 vectors of 32 registers with AVX-512, 8 x 2 for so few ``columns``, else 4 x 3 of 16.

    The rest holds the vectors of B and a broadcast; the accumulators hide the latency of FMA.
    8 x 2 read more for each FMA: they reached 0.9 of the speed on a Cascade Lake.
    """
    lanes = target.vector_bits // (8 * dtype.itemsize)
    narrow = columns is not None and columns <= 2 * lanes
    rows, vectors = ((8, 2) if narrow else (6, 4)) if target.vector_bits == 512 else (4, 3)
    return TileShape(dtype, lanes, rows, vectors)


# --- tiles ---


@dataclass(frozen=True, slots=True)
class PanelLoop:
    """The function ``(a, panels, c, m, n, k, fresh)``: ``C = A B`` of m by n, or ``C += A B`` if
    not fresh.

    ``a`` are the strides of A, ``c_row`` is the row stride of C, ``depth`` the allocated depth of
    panels, ``rest`` the rows and columns beyond full tiles if m and n have such a rest. With
    ``shared`` the tile functions take strides as arguments, so that all GEMMs of a module share
    them. Each of ``prefetch_lines`` adds a parameter: an address
    from which each tile prefetches that many cache lines. With ``row_max_stride`` a last parameter
    points to one vector of maxima per row, so many bytes apart. Without ``accumulates`` C is always
    fresh.
    """

    shape: TileShape
    a: Strides
    depth: int
    c_row: int
    rest: tuple[int, int]
    shared: bool = False
    prefetch_lines: tuple[int, ...] = ()
    row_max_stride: int = 0
    accumulates: bool = True

    def function(self, routines: Routines) -> str:
        """The name of the function."""
        parameters = ["ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k, i1 %fresh"]
        parameters += [f"ptr %ahead{k}" for k in range(len(self.prefetch_lines))]
        parameters += ["ptr %row_max"] * (self.row_max_stride > 0)
        return routines.add(self, ", ".join(parameters), lambda b: self._write(b, routines))

    def _write(self, b: Builder, routines: Routines) -> None:
        """Panel by panel, all rows: a panel stays in the L1 cache, the rows of A in L2."""
        shape = self.shape
        m, n = Value("%m", I64), Value("%n", I64)

        def panel(number: Value, columns: int) -> None:
            here = b.at(Value("%b", PTR), b.times(number, shape.panel_bytes(self.depth)))
            c = b.at(Value("%c", PTR), b.times(number, shape.columns * shape.dtype.itemsize))
            # Tiles are numbered over all panels: each prefetches its own lines.
            position = b.op("mul", number, b.emit(I64, f"udiv {m}, {shape.rows}"))

            def tile(row: Value, rows: int) -> None:
                for k, lines in enumerate(self.prefetch_lines):
                    first = b.times(b.plus(position, row), lines * LINE)
                    prefetch_bytes(b, b.at(Value(f"%ahead{k}", PTR), first), lines * LINE, L2)
                self._call(b, routines, (here, c, row), (rows, columns))

            for_tiles(b, m, shape.rows, self.rest[0], tile)

        for_tiles(b, n, shape.columns, self.rest[1], panel)

    def _call(
        self, b: Builder, routines: Routines, at: tuple[Value, Value, Value],
        extent: tuple[int, int],
    ) -> None:  # fmt: skip
        """Call the function of a tile; ``at`` are panel, columns of C and number of the tile."""
        panel, c, number = at
        distance, by_row = self.row_max_stride, b.times(number, self.shape.rows)
        # A tile that tracks maxima serves one GEMM: constant strides cost nothing.
        strides = (*self.a, self.c_row)
        is_shared = self.shared and not distance
        tile = Tile(
            self.shape, None if is_shared else strides, extent, None, distance, self.accumulates
        )
        a = b.at(Value("%a", PTR), b.times(by_row, self.a[0]))
        given = [a, panel, b.at(c, b.times(by_row, self.c_row)), "i64 %k", "i1 %fresh"]
        if distance:
            given.append(b.at(Value("%row_max", PTR), b.times(by_row, distance)))
        given += [f"i64 {stride}" for stride in strides] * is_shared
        b.emit_void(f"call void @{tile.function(routines)}({', '.join(map(str, given))})")


@dataclass(frozen=True, slots=True)
class Tile:
    """The function ``(a, panel, c, k, fresh)`` of a tile of ``extent`` rows and columns.

    ``strides`` are those of A and the row stride of C; if None, they are last parameters. With
    ``source_row`` B is read from rows so many bytes apart at a last parameter ``source``, and the
    panel is stored from it. With ``row_max_stride`` the maxima of each row are updated at a last
    parameter. If it ``accumulates``, results are added to C unless it is fresh.

    As a routine of the loop IR it has constant strides and no maxima.
    """

    shape: TileShape
    strides: tuple[int, int, int] | None
    extent: tuple[int, int]
    source_row: int | None
    row_max_stride: int
    accumulates: bool

    def function(self, functions: Functions) -> str:
        """The name of the function."""
        parameters = ["ptr %a, ptr %b, ptr %c, i64 %k, i1 %fresh"]
        parameters += ["ptr %row_max"] * (self.row_max_stride > 0)
        parameters += ["i64 %row, i64 %column, i64 %c_row"] * (self.strides is None)
        parameters += ["ptr %source"] * (self.source_row is not None)
        return functions.add(self, ", ".join(parameters), self._write)

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        (rows, columns), (a, panel, c, *source) = self.extent, buffers
        depth, first = numbers
        how = f", added if {first} > 0" if self.accumulates else ""
        packs = f", packs {panel} from {source[0]}" if source else ""
        return f"microkernel {c}[{rows} x {columns}] = {a} {panel}, depth {depth}{how}{packs}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        assert self.strides is not None
        (rows, columns), (depth, first) = self.extent, numbers
        dtype, (a_row, a_column, c_row) = self.shape.dtype, self.strides
        size = dtype.itemsize
        a = matrix(memory[0], dtype, (rows, depth), (a_row, a_column))
        panel = matrix(memory[1], dtype, (depth, columns), (self.shape.columns * size, size))
        if self.source_row is not None:
            panel[...] = matrix(memory[3], dtype, (depth, columns), (self.source_row, size))
        c = matrix(memory[2], dtype, (rows, columns), (c_row, size))
        c[...] = c + a @ panel if self.accumulates and first > 0 else a @ panel

    def call(
        self, b: Builder, functions: Functions, addresses: Sequence[Value], numbers: Sequence[Value]
    ) -> None:
        """Call the function for buffers a, panel, c, perhaps source; numbers are k and its part."""
        depth, first = numbers
        given = [*addresses[:3], depth, b.compare("eq", first, 0), *addresses[3:]]
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
        right = Elements(vector, [(panel, at) for at in offsets], [shape.columns * size])
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
        output.store(b, sums)
        if self.row_max_stride:
            row_max = [b.at(Value("%row_max", PTR), r * self.row_max_stride) for r in range(rows)]
            output.update_row_max(b, row_max, sums, shape.dtype)


def _multiple(b: Builder, stride: Stride, count: int) -> Stride:
    if isinstance(stride, int):
        return stride * count
    return b.emit(I64, f"mul {stride}, {count}")
