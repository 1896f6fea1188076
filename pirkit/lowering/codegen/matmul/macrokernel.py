"""The macrokernel of a GEMM: register tiles over packed panels (Goto; BLIS).

``C = A B`` is computed in tiles of some rows of A by some vectors of columns of B, with one
register per vector for the accumulators. Elements of A are broadcast, so A may have any strides. B
is read from panels of as many columns as a tile has, packed row by row.

`TileShape` gives the sizes of panels, `panel_packing.py` packs them, `panel_loop` runs the tiles.
All are functions of one LLVM module; strides are constants of their code, extents are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.scratch import LINE
from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.math.primitives import element
from pirkit.lowering.codegen.matmul.microkernel import (
    L2,
    Elements,
    OutputTile,
    Stride,
    microkernel,
    prefetch_bytes,
)
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


def tile_shape_for(dtype: DType, target: Target) -> TileShape:
    """8 x 2 vectors of 32 registers with AVX-512, else 4 x 3 of 16.

    The rest holds the vectors of B and a broadcast; the accumulators hide the latency of FMA.
    """
    lanes = target.vector_bits // (8 * dtype.itemsize)
    rows, vectors = (8, 2) if target.vector_bits == 512 else (4, 3)
    return TileShape(dtype, lanes, rows, vectors)


# --- tiles ---


@dataclass(frozen=True, slots=True)
class PackSource:
    """The part of B from which a new panel is packed: its strides, and the number of tiles of the
    panel.

    With ``packs`` the first tile, which has all rows, stores the panel while it reads B.
    """

    strides: Strides
    tiles: int
    packs: bool


def panel_loop(
    made: Routines, shape: TileShape, a: Strides, depth: int, c_row: int, rest: tuple[int, int],
    source: PackSource | None = None, shared: bool = False, prefetch_lines: Sequence[int] = (),
    row_max_stride: int = 0, accumulates: bool = True,
) -> str:  # fmt: skip
    """The function ``(a, panels, c, m, n, k, fresh)``: ``C = A B`` of m by n, or ``C += A B`` if
    not fresh.

    ``depth`` is the allocated depth of panels, ``rest`` the rows and columns beyond full tiles if m
    and n have such a rest. With a ``source`` there is one panel, packed from a last parameter
    ``source``, and tiles prefetch what the next panel is packed from. With ``shared`` the tile
    functions take strides as arguments, so that all GEMMs of a module share them. Each of
    ``prefetch_lines`` adds a parameter: an address from which each tile prefetches that many cache
    lines. With ``row_max_stride`` a last parameter points to one vector of maxima per row, so many
    bytes apart. Without ``accumulates`` C is always fresh.
    """
    rows_left, columns_left = rest
    packs = source is not None and source.packs

    def write(b: Builder) -> None:
        pa, pb, pc = (Value(f"%{name}", PTR) for name in "abc")
        m, n = Value("%m", I64), Value("%n", I64)
        full = b.times(b.emit(I64, f"udiv {n}, {shape.columns}"), 1)

        def column_of_tiles(panel: Value, columns: int) -> None:
            here = b.at(pb, b.times(panel, shape.panel_bytes(depth)))
            target = b.at(pc, b.times(panel, shape.columns * shape.dtype.itemsize))
            whole = b.emit(I64, f"udiv {m}, {shape.rows}")

            def call(number: Value, rows: int, packs: bool = False) -> None:
                if source is not None:
                    _prefetch_share(b, shape, source, depth, number)
                # Tiles are numbered over all panels: each prefetches its own lines.
                position = b.plus(b.op("mul", panel, whole), number) if prefetch_lines else number
                for k, lines in enumerate(prefetch_lines):
                    prefetch_address = b.at(
                        Value(f"%ahead{k}", PTR), b.times(position, lines * LINE)
                    )
                    prefetch_bytes(b, prefetch_address, lines * LINE, L2)
                row = source.strides[0] if source is not None and packs else None
                # A tile that packs or tracks maxima serves one GEMM: constant strides cost nothing.
                strides = None if shared and not packs and not row_max_stride else (*a, c_row)
                name = _tile_function(
                    made, shape, strides, (rows, columns), row, row_max_stride, accumulates
                )
                first = b.at(pa, b.times(number, shape.rows * a[0]))
                rows_out = b.at(target, b.times(number, shape.rows * c_row))
                given = f"{first}, {here}, {rows_out}, i64 %k, i1 %fresh"
                if row_max_stride:
                    place = b.at(
                        Value("%largest", PTR), b.times(number, shape.rows * row_max_stride)
                    )
                    given += f", {place}"
                if strides is None:
                    given += f", i64 {a[0]}, i64 {a[1]}, i64 {c_row}"
                b.emit_void(f"call void @{name}({given}{', ptr %source' if packs else ''})")

            def one(number: Value, _: list[Value]) -> Sequence[Value]:
                call(number, shape.rows)
                return []

            if packs:
                call(Value("0", I64), shape.rows, packs)
            b.loop(int(packs), whole, 1, [], one)
            if rows_left:
                left = b.emit(I64, f"urem {m}, {shape.rows}")

                def last() -> Sequence[Value]:
                    call(whole, rows_left)
                    return []

                b.branch(b.compare("ne", left, 0), last)

        def panel(number: Value, _: list[Value]) -> Sequence[Value]:
            column_of_tiles(number, shape.columns)
            return []

        b.loop(0, full, 1, [], panel)
        if columns_left:
            left = b.emit(I64, f"urem {n}, {shape.columns}")

            def ragged() -> Sequence[Value]:
                column_of_tiles(full, columns_left)
                return []

            b.branch(b.compare("ne", left, 0), ragged)

    parameters = "ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k, i1 %fresh"
    if source is not None:
        parameters += ", ptr %source"
    parameters += "".join([f", ptr %ahead{k}" for k in range(len(prefetch_lines))])
    parameters += ", ptr %largest" if row_max_stride else ""
    key = (
        "sweep",
        shape,
        a,
        depth,
        c_row,
        rest,
        source,
        shared,
        tuple(prefetch_lines),
        row_max_stride,
        accumulates,
    )
    return made.add(key, parameters, write)


def _prefetch_share(
    b: Builder, shape: TileShape, source: PackSource, depth: int, tile: Value
) -> None:
    """Prefetch the tile's share of the source of the next panel."""
    row, column = source.strides
    size = shape.dtype.itemsize
    is_contiguous = column == size
    lines = depth if is_contiguous else shape.columns
    length = (shape.columns if is_contiguous else depth) * size
    lines_per_tile = -(-lines // source.tiles)
    prefetch_lines = b.at(Value("%source", PTR), shape.columns * column)

    def line(k: Value, _: list[Value]) -> Sequence[Value]:
        prefetch_bytes(
            b, b.at(prefetch_lines, b.times(k, row if is_contiguous else column)), length, L2
        )
        return []

    first = b.times(tile, lines_per_tile)
    last = b.binary("smin", b.plus(first, lines_per_tile), Value(str(lines), I64))
    b.loop(first, last, 1, [], line)


def _tile_function(
    made: Routines, shape: TileShape, strides: tuple[int, int, int] | None, extent: tuple[int, int],
    b_row: int | None, row_max_stride: int, may_grow: bool,
) -> str:  # fmt: skip
    """The function ``(a, panel, c, k, fresh)`` of a tile of ``extent`` rows and columns: the
    microkernel.

    ``strides`` are those of A and the row stride of C; if None, they are last parameters. With
    ``b_row`` B is read from rows so many bytes apart at a last parameter ``source``, and the panel
    is stored from it. With ``row_max_stride`` the maxima of each row are updated at a last
    parameter.
    """
    rows, columns = extent
    size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector
    vectors = -(-columns // lanes)

    def write(b: Builder) -> None:
        pa, panel, pc = (Value(f"%{name}", PTR) for name in "abc")
        mask = tail_mask(b, lanes, columns % lanes) if columns % lanes else None
        masks = [None] * (vectors - 1) + [mask]
        a_row, a_column, c_row = strides or [
            Value(f"%{n}", I64) for n in ("row", "column", "c_row")
        ]
        # Rows are addressed from two bases if their distance is a register: half as many multiples
        # of it occupy integer registers.
        half = rows if strides else rows - rows // 2
        distances = [_multiple(b, a_row, r) for r in range(half + 1)]
        bases = [pa, *([b.at(pa, distances[half])] if half < rows else ())]
        places = [(bases[r // half], distances[r % half]) for r in range(rows)]
        left = Elements(Type(vector.elem), places, [a_column])
        offsets = [v * lanes * size for v in range(vectors)]
        right = Elements(vector, [(panel, at) for at in offsets], [shape.columns * size])
        if b_row is not None:
            source = [(Value("%source", PTR), at) for at in offsets]
            right = Elements(vector, source, [b_row], masks, packed=right)
        lines = [b.at(pc, _multiple(b, c_row, r)) for r in range(rows)]
        # The lines of C arrive while the loop over the depth runs.
        for line in lines:
            prefetch_bytes(b, line, vectors * lanes * size, to_write=True)
        zeros = [b.const(vector, 0.0)] * (rows * vectors)
        sums = microkernel(b, left, right, [Value("%k", I64)], zeros)
        output = OutputTile(vector, [b.at(line, at) for line in lines for at in offsets], masks)
        if may_grow:
            sums = output.added(b, sums, b.emit(Type("i1"), "xor i1 %fresh, true"))
        output.store(b, sums)
        if row_max_stride:
            row_max = [b.at(Value("%largest", PTR), r * row_max_stride) for r in range(rows)]
            output.update_row_max(b, row_max, sums, shape.dtype)

    parameters = "ptr %a, ptr %b, ptr %c, i64 %k, i1 %fresh"
    parameters += ", ptr %largest" if row_max_stride else ""
    if strides is None:
        parameters += ", i64 %row, i64 %column, i64 %c_row"
    if b_row is not None:
        parameters += ", ptr %source"
    return made.add(
        ("tile", shape, strides, extent, b_row, row_max_stride, may_grow), parameters, write
    )


def _multiple(b: Builder, stride: Stride, count: int) -> Stride:
    if isinstance(stride, int):
        return stride * count
    return b.emit(I64, f"mul {stride}, {count}")
