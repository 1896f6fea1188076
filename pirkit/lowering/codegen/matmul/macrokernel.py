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
from pirkit.lowering.codegen.emit.vector_emit import masked_load, tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.math.primitives import element, extremum
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

Strides = tuple[int, int]
"""Bytes from a row to the next one, and from a column to the next one."""

_FIRST, _SECOND = 3, 2
"""Locality hints of `llvm.prefetch` for L1 and L2; CPUs drop those beyond L1's pending misses."""


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
                    prefetch_bytes(b, prefetch_address, lines * LINE, _SECOND)
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
            b, b.at(prefetch_lines, b.times(k, row if is_contiguous else column)), length, _SECOND
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
    scalar = Type(vector.elem)
    vectors = -(-columns // lanes)

    def write(b: Builder) -> None:
        pa, pb, pc = (Value(f"%{name}", PTR) for name in "abc")
        mask = tail_mask(b, lanes, columns % lanes) if columns % lanes else None
        masks = [None] * (vectors - 1) + [mask]

        def b_vectors(k: Value) -> list[Value]:
            """The vectors of row ``k`` of B: from the panel, or from B and packed."""
            right = b.at(pb, b.times(k, shape.columns * size))
            places = [b.at(right, v * lanes * size) for v in range(vectors)]
            if b_row is None:
                return [read_vector(b, vector, place, size, None) for place in places]
            here = b.at(Value("%source", PTR), b.times(k, b_row))
            found: list[Value] = []
            for v, place in enumerate(places):
                found.append(read_vector(b, vector, b.at(here, v * lanes * size), size, masks[v]))
                write_vector(b, found[v], place, size, None)
            return found

        def added(k: Value, lines: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
            """One step of the depth: a broadcast and ``vectors`` FMAs per row."""
            right = b_vectors(k)
            result: list[Value] = []
            for r, line in enumerate(lines):
                one = b.emit(scalar, f"load {scalar}, {line}, align {size}")
                broadcast = b.splat(one, lanes)
                result += [
                    b.muladd(broadcast, right[v], sums[r * vectors + v]) for v in range(vectors)
                ]
            return result

        def known(a_row: int, a_column: int) -> list[Value]:
            """The loop over the depth with constant strides."""

            def step(k: Value, sums: list[Value]) -> Sequence[Value]:
                left = b.at(pa, b.times(k, a_column))
                return added(k, [b.at(left, r * a_row) for r in range(rows)], sums)

            return b.loop(0, Value("%k", I64), 1, start, step)

        def tile_sums(a_row: Value, a_column: Value) -> list[Value]:
            # Rows are addressed from two bases, so half as many offsets occupy integer registers.
            """The loop over the depth with strides as arguments."""
            half = rows - rows // 2
            row_offsets = [b.emit(I64, f"mul {a_row}, {r}") for r in range(half + 1)]
            starts = pa, b.at(pa, row_offsets[half])

            def step(k: Value, carried: list[Value]) -> Sequence[Value]:
                column, *sums = carried
                low, high = (b.at(start, column) for start in starts)
                lines = [b.at(low, row_offset) for row_offset in row_offsets[:half]]
                lines += [b.at(high, row_offset) for row_offset in row_offsets[: rows - half]]
                return [b.opaque(b.plus(column, a_column)), *added(k, lines, sums)]

            return b.loop(0, Value("%k", I64), 1, [Value("0", I64), *start], step)[1:]

        start = [b.const(vector, 0.0)] * (rows * vectors)
        if strides is None:
            rows_out = [b.at(pc, b.emit(I64, f"mul i64 %apart, {r}")) for r in range(rows)]
        else:
            rows_out = [b.at(pc, r * strides[2]) for r in range(rows)]
        # The lines of C arrive while the loop over the depth runs.
        for line in rows_out:
            prefetch_bytes(b, line, vectors * lanes * size, to_write=True)
        if strides is None:
            sums = tile_sums(Value("%row", I64), Value("%column", I64))
        else:
            sums = known(*strides[:2])
        places = [
            (b.at(line, v * lanes * size), masks[v]) for line in rows_out for v in range(vectors)
        ]

        def grown() -> Sequence[Value]:
            """The accumulators added to the present C."""
            return [
                b.add(read_vector(b, vector, address, size, lanes_on), total)
                for (address, lanes_on), total in zip(places, sums, strict=True)
            ]

        totals = sums
        if may_grow:
            totals = b.branch(b.emit(Type("i1"), "xor i1 %fresh, true"), grown, sums)
        for (address, lanes_on), total in zip(places, totals, strict=True):
            write_vector(b, total, address, size, lanes_on)
        for r in range(rows) if row_max_stride else ():
            place = b.at(Value("%largest", PTR), r * row_max_stride)
            known_one = read_vector(b, vector, place, size, None)
            for total, lanes_on in zip(totals[r * vectors :], masks, strict=False):
                # Columns beyond the matrix must not count: their lanes keep the old maximum.
                larger = extremum(b, total, known_one, "max", shape.dtype)
                known_one = larger if lanes_on is None else b.select(lanes_on, larger, known_one)
            write_vector(b, known_one, place, size, None)

    parameters = "ptr %a, ptr %b, ptr %c, i64 %k, i1 %fresh"
    parameters += ", ptr %largest" if row_max_stride else ""
    if strides is None:
        parameters += ", i64 %row, i64 %column, i64 %apart"
    if b_row is not None:
        parameters += ", ptr %source"
    return made.add(
        ("tile", shape, strides, extent, b_row, row_max_stride, may_grow), parameters, write
    )


# --- memory ---


def prefetch_bytes(
    b: Builder, address: Value, nbytes: int, level: int = _FIRST, to_write: bool = False
) -> None:
    """Prefetch ``nbytes``: rows of a block are too short for the hardware prefetcher."""
    for line in range(0, nbytes, LINE):
        b.prefetch(b.at(address, line), level, to_write)


def read_vector(b: Builder, vector: Type, address: Value, size: int, mask: Value | None) -> Value:
    """Load a vector; 0 in lanes that the mask excludes."""
    if mask is None:
        return b.emit(vector, f"load {vector}, {address}, align {size}")
    return masked_load(b, vector, address, size, mask)


def write_vector(b: Builder, value: Value, address: Value, size: int, mask: Value | None) -> None:
    """Store the lanes of a vector that the mask includes."""
    if mask is None:
        b.emit_void(f"store {value}, {address}, align {size}")
        return
    b.invoke(f"llvm.masked.store.{value.type.suffix}.p0", value, address, f"i32 {size}", mask)
