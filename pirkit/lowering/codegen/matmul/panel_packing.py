"""Copies of GEMM operands: packed panels of B, packed tiles of A, scaled rows.

`pack_function` packs a part of B into panels, `pack_tiles_function` a part of a column-major A into
tiles, `scale_function` scales rows in place, `unpack_function` widens panels.
All are functions of the module of the GEMM, as in `macrokernel.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from pirkit.lowering.codegen.emit.vector_emit import reduce_lanes, tail_mask
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Functions
from pirkit.lowering.codegen.math.casts import stored, widen
from pirkit.lowering.codegen.matmul.bfloat16_pairs import (
    TERMS,
    pack_rows_of_pairs,
    pack_terms,
    pack_tiles_of_pairs,
)
from pirkit.lowering.codegen.matmul.blocking import for_tiles, pack_square
from pirkit.lowering.codegen.matmul.macrokernel import Strides, TileShape
from pirkit.lowering.codegen.matmul.output_tile import read_vector, write_vector
from pirkit.runtime.dtype import DType

_COLUMNS_AT_ONCE = 8
"""Columns of A that are packed together: as many streams of reads, and stores of whole lines."""
_MASKS_ARE_FREE = 64
"""Bytes of a vector (AVX-512) whose masked loads cost as much as plain ones."""


def divisibility(shape: TileShape, columns: int, *depths: int) -> tuple[bool, bool]:
    """Whether all depths are multiples of the lanes, and the columns a multiple of a panel."""
    return all(d % (shape.lanes * shape.terms) == 0 for d in depths), columns % shape.columns == 0


def pack_function(
    functions: Functions, shape: TileShape, b_strides: Strides, depth: int,
    divisible: tuple[bool, bool], scales: int = 0,
) -> str:  # fmt: skip
    """The function ``(b, panels, k, n)``: packs k by n elements of B into panels of ``depth`` rows.

    One of the strides of B is the size of an element. Columns beyond n in the last panel are
    undefined. ``divisible`` says whether k is a multiple of the lanes, and n of a panel. With
    ``scales`` B is row-major and its rows are multiplied by scalars, so many bytes apart, at a
    parameter after ``panels``.
    """
    size = shape.dtype.itemsize

    def write(b: Builder) -> None:
        if b_strides[1] == size and shape.terms == 2:
            panel = shape.panel_bytes(depth)
            filled = TERMS // 2 if shape.matrix else 1
            given = shape.lanes, shape.vectors, b_strides[0], panel, divisible[1], filled
            pack_rows_of_pairs(b, *given)
        elif b_strides[1] == size:
            _pack_rows(b, shape, b_strides[0], depth, divisible[1], scales)
        else:
            _pack_columns(b, shape, b_strides[1], depth, divisible)

    parameters = f"ptr %b, ptr %panels,{' ptr %factors,' if scales else ''} i64 %k, i64 %n"
    return functions.add(("pack", shape, b_strides, depth, divisible, scales), parameters, write)


def _pack_rows(
    b: Builder, shape: TileShape, row: int, depth: int, divisible: bool, scales: int
) -> None:  # fmt: skip
    """B is row-major: copy each row in segments as wide as a panel."""
    size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector
    width = shape.columns * size
    n = Value("%n", I64)
    full = b.emit(I64, f"udiv {n}, {shape.columns}")
    rest = Value("0", I64) if divisible else b.emit(I64, f"urem {n}, {shape.columns}")

    def line(number: Value, _: list[Value]) -> Sequence[Value]:
        here = b.at(Value("%b", PTR), b.times(number, row))
        there = b.at(Value("%panels", PTR), b.times(number, width))
        factor = _row_scale(b, shape, number, scales) if scales else None

        # Rows of B are read in order and written to all panels: the writes are far apart, but
        # stores do not wait, and reads of whole rows keep the hardware prefetcher going.
        def part(panel: Value, left: Value | None) -> None:
            base = b.at(here, b.times(panel, width))
            dest = b.at(there, b.times(panel, shape.panel_bytes(depth)))
            for v in range(shape.vectors):
                mask = None
                if left is not None:
                    mask = b.compare(
                        "slt", _lane_offsets(b, v * lanes, lanes), b.splat(left, lanes)
                    )
                value = read_vector(b, vector, b.at(base, v * lanes * size), mask)
                value = value if factor is None else b.mul(value, factor)
                write_vector(b, value, b.at(dest, v * lanes * size))

        def whole(panel: Value, _: list[Value]) -> Sequence[Value]:
            part(panel, None)
            return []

        def ragged() -> Sequence[Value]:
            part(full, rest)
            return []

        b.loop(0, full, 1, [], whole)
        b.branch(b.compare("ne", rest, 0), ragged)
        return []

    b.loop(0, Value("%k", I64), 1, [], line)


def _pack_columns(
    b: Builder, shape: TileShape, column: int, depth: int, divisible: tuple[bool, bool]
) -> None:  # fmt: skip
    """B is column-major: transpose VxV tiles in registers."""
    size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector
    # Pairs of bfloat16 in a column are words.
    terms, read = shape.terms, vector if shape.terms == 1 else Type("i16", 2 * lanes)
    k, n = Value("%k", I64), Value("%n", I64)
    last = b.emit(I64, f"sub {n}, 1")
    panel_count = b.emit(I64, f"udiv {b.plus(n, shape.columns - 1)}, {shape.columns}")

    def columns(number: Value, _: list[Value]) -> Sequence[Value]:
        first = b.times(number, lanes)
        if divisible[1]:
            start = b.at(Value("%b", PTR), b.times(first, column))
            starts = [b.at(start, j * column) for j in range(lanes)]
        else:
            # Columns beyond the last one load the last one again; their products are not stored.
            clamped_rows = [b.binary("smin", b.plus(first, j), last) for j in range(lanes)]
            starts = [b.at(Value("%b", PTR), b.times(line, column)) for line in clamped_rows]
        panel = b.emit(I64, f"udiv {number}, {shape.vectors}")
        vector_in_panel = b.emit(I64, f"urem {number}, {shape.vectors}")
        dest = b.at(Value("%panels", PTR), b.times(panel, shape.panel_bytes(depth)))
        dest = b.at(dest, b.times(vector_in_panel, lanes * shape.sum_bytes))

        def tile(at: Value, mask: Value | None) -> None:
            offset = b.times(at, size)
            pitch = shape.columns * size
            lines = [b.at(s, offset) for s in starts]
            goal = b.at(dest, b.times(at, pitch))
            pack_square(b, read, lines, mask, goal, pitch * terms, as_type=vector)

        def masked(at: Value, _: list[Value]) -> Sequence[Value]:
            tile(at, tail_mask(b, lanes * terms, b.emit(I64, f"sub {k}, {at.text}")))
            return []

        # One loop with masks is smaller code than a loop and a tail.
        if lanes * shape.sum_bytes == _MASKS_ARE_FREE and not divisible[0]:
            b.loop(0, k, lanes * terms, [], masked)
        else:
            _by_vectors(b, k, lanes * terms, divisible[0], tile)
        return []

    b.loop(0, b.times(panel_count, shape.vectors), 1, [], columns)


def unpack_function(
    functions: Functions, shape: TileShape, kind: DType, rest: int, scales: bool
) -> str:
    """The function ``(from, to, scales, k, n)``: k rows of a panel, stored in fewer bits.

    The first n columns exist, which are all of a panel or ``rest``; with ``scales`` these are
    multiplied.
    """
    size, lanes, vector = kind.itemsize, shape.lanes, shape.vector

    def write(b: Builder) -> None:
        def columns(count: int) -> None:
            tail, factors = count % lanes, list[Value]()
            vectors = -(-count // lanes)
            for v in range(vectors) if scales else ():
                mask = tail_mask(b, lanes, tail) if tail and v == vectors - 1 else None
                at = b.at(Value("%scales", PTR), v * lanes * shape.dtype.itemsize)
                factors.append(read_vector(b, vector, at, mask))

            def line(number: Value, _: list[Value]) -> Sequence[Value]:
                here = b.at(Value("%from", PTR), b.times(number, shape.columns * size))
                there = b.at(Value("%to", PTR), b.times(number, shape.columns * vector.bits // 8))
                for v in range(vectors):
                    found = read_vector(b, Type(stored(kind), lanes), b.at(here, v * lanes * size))
                    wide = as_float(b, found, kind)
                    wide = b.mul(wide, factors[v]) if scales else wide
                    write_vector(b, wide, b.at(there, v * lanes * vector.bits // 8))
                return []

            b.loop(0, Value("%k", I64), 1, [], line)

        def whole(_: Value, width: int) -> None:
            columns(width)

        for_tiles(b, Value("%n", I64), shape.columns, rest, whole)

    parameters = "ptr %from, ptr %to, ptr %scales, i64 %k, i64 %n"
    return functions.add(("unpack", shape, kind, rest, scales), parameters, write)


def as_float(b: Builder, value: Value, dtype: DType) -> Value:
    """A number of 8 or 16 bits as a float32."""
    return b.cast("sitofp", value, "float") if dtype.is_integer else widen(b, value, dtype)


def pack_tiles_function(
    functions: Functions, shape: TileShape, strides: Strides, depth: int
) -> str:
    """The function ``(a, tiles, k, rows)``: packs column-major A into tiles of the height of C's.

    A tile holds its rows of ``depth`` columns, one column after the other: a microkernel reads it
    in order, where each column of A is in another cache line, and often in another page. Columns
    of A are ``column`` bytes apart.
    """
    size, height, column = shape.dtype.itemsize, shape.rows, strides[1]
    lanes = 1 << (height - 1).bit_length()
    vector = Type(shape.vector.elem, lanes)

    def write(b: Builder) -> None:
        if shape.terms == 2:
            if shape.matrix:
                pack_terms(b, strides, depth)
            else:
                pack_tiles_of_pairs(b, height, strides[1], depth)
            return
        a, tiles, k, rows = (Value(f"%{n}", t) for n, t in
                             (("a", PTR), ("tiles", PTR), ("k", I64), ("rows", I64)))  # fmt: skip
        full, rest = b.emit(I64, f"udiv {rows}, {height}"), b.emit(I64, f"urem {rows}, {height}")
        even = tail_mask(b, lanes, height) if height < lanes else None
        ragged = tail_mask(b, lanes, rest)

        def columns(count: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
            def some(first: Value, _: list[Value]) -> Sequence[Value]:
                here = b.at(a, b.times(first, column))
                there = b.at(tiles, b.times(first, height * size))

                def tile(number: Value, mask: Value | None) -> None:
                    source = b.at(here, b.times(number, height * size))
                    dest = b.at(there, b.times(number, depth * height * size))
                    for j in range(count):
                        value = read_vector(b, vector, b.at(source, j * column), mask)
                        write_vector(b, value, b.at(dest, j * height * size), mask)

                def whole(number: Value, _: list[Value]) -> Sequence[Value]:
                    tile(number, even)
                    return []

                def last() -> Sequence[Value]:
                    tile(full, ragged)
                    return []

                b.loop(0, full, 1, [], whole)
                b.branch(b.compare("ne", rest, 0), last)
                return []

            return some

        most = b.emit(I64, f"and {k}, {-_COLUMNS_AT_ONCE}")
        b.loop(0, most, _COLUMNS_AT_ONCE, [], columns(_COLUMNS_AT_ONCE))
        b.loop(most, k, 1, [], columns(1))

    parameters = "ptr %a, ptr %tiles, i64 %k, i64 %rows"
    return functions.add(("pack tiles", shape, strides, depth), parameters, write)


def scale_function(functions: Functions, shape: TileShape, row: int, scales: int) -> str:
    """The function ``(rows, scales, count, length)``: multiplies each row by its scalar, in place.

    Rows are ``row`` bytes apart, their scalars ``scales`` bytes.
    """
    size, vector = shape.dtype.itemsize, shape.vector

    def write(b: Builder) -> None:
        def line(number: Value, _: list[Value]) -> Sequence[Value]:
            here = b.at(Value("%rows", PTR), b.times(number, row))
            factor = _row_scale(b, shape, number, scales)

            def copy_vector(at: Value, mask: Value | None) -> None:
                address = b.at(here, b.times(at, size))
                value = b.mul(read_vector(b, vector, address, mask), factor)
                write_vector(b, value, address, mask)

            _by_vectors(b, Value("%length", I64), shape.lanes, False, copy_vector)
            return []

        b.loop(0, Value("%count", I64), 1, [], line)

    parameters = "ptr %rows, ptr %factors, i64 %count, i64 %length"
    return functions.add(("scale", shape, row, scales), parameters, write)


def init_row_max(functions: Functions, shape: TileShape, stride: int) -> str:
    """The function ``(row_max, count)`` that sets the maxima of the rows to -inf."""

    def write(b: Builder) -> None:
        def row(number: Value, _: list[Value]) -> Sequence[Value]:
            place = b.at(Value("%row_max", PTR), b.times(number, stride))
            write_vector(b, b.const(shape.vector, -inf), place)
            return []

        b.loop(0, Value("%count", I64), 1, [], row)

    return functions.add(("init row max", shape, stride), "ptr %row_max, i64 %count", write)


def end_row_max(functions: Functions, shape: TileShape, stride: int) -> str:
    """The function ``(row_max, count)`` that reduces the lanes of each row into its first lane."""
    size = shape.dtype.itemsize

    def write(b: Builder) -> None:
        def row(number: Value, _: list[Value]) -> Sequence[Value]:
            place = b.at(Value("%row_max", PTR), b.times(number, stride))
            vector = read_vector(b, shape.vector, place)
            b.store(reduce_lanes(b, "max", vector, shape.dtype), place, size)
            return []

        b.loop(0, Value("%count", I64), 1, [], row)

    return functions.add(("end row max", shape, stride), "ptr %row_max, i64 %count", write)


def _row_scale(b: Builder, shape: TileShape, number: Value, stride: int) -> Value:
    """The scalar of a row, broadcast."""
    scalar, size = Type(shape.vector.elem), shape.dtype.itemsize
    place = b.at(Value("%factors", PTR), b.times(number, stride))
    return b.splat(b.load(scalar, place, size), shape.lanes)


def _by_vectors(
    b: Builder, length: Value, lanes: int, divisible: bool,
    body: Callable[[Value, Value | None], None],
) -> None:  # fmt: skip
    """Emit ``body(first, mask)`` for all vectors of a length; only a partial one has a mask."""

    def whole(at: Value, _: list[Value]) -> Sequence[Value]:
        body(at, None)
        return []

    left = Value("0", I64) if divisible else b.emit(I64, f"urem {length}, {lanes}")
    full = b.emit(I64, f"sub {length}, {left.text}")

    def last() -> Sequence[Value]:
        body(full, tail_mask(b, lanes, left))
        return []

    b.loop(0, full, lanes, [], whole)
    b.branch(b.compare("ne", left, 0), last)


def copied_row_bytes(shape: TileShape, length: int) -> int:
    """Row stride of a copy: whole vectors plus a cache line, so that rows map to different sets."""
    return -(-length // shape.lanes) * shape.lanes * shape.dtype.itemsize + LINE


def _lane_offsets(b: Builder, first: int, lanes: int) -> Value:
    """The constant ``first, first + 1...``."""
    panel_count = Type("i64", lanes)
    return Value("<" + ", ".join(f"i64 {first + k}" for k in range(lanes)) + ">", panel_count)
