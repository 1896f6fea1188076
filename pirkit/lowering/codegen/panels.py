"""Products of matrices out of pieces that lie in the caches.

``C = A B`` is made of tiles: some rows of A by some vectors of columns of B, with an accumulator in
a register for each. An element of A is spread over a vector, so A may lie in any order. B is read
from panels: as many columns as a tile has, side by side, row after row.

`panel_bytes` says how large panels are, `packed` copies a part of B into them, `copied` a part of A
to where rows do not push each other out of the cache, and `swept` adds all tiles of a part. All are
functions of a module; strides are numbers in their code, extents are given when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pirkit.lowering.codegen.ir import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.pack import transposed
from pirkit.lowering.codegen.points import masked_load, tail_mask
from pirkit.lowering.codegen.primitives import element
from pirkit.lowering.codegen.routines import Routines
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

Strides = tuple[int, int]
"""Bytes from a row to the next one, and from a column to the next one."""

_LINE = 64
_AHEAD = 4
"""Rows ahead that are asked for while one is copied."""
_FIRST, _SECOND = 3, 2
"""Levels of the cache, as LLVM counts them; CPUs drop what the first one cannot wait for."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Elements of a tile: ``rows`` of A, ``vectors`` of ``lanes`` columns of B."""

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
        """Rows of a panel of ``depth`` rows, with those that a turned square writes beyond."""
        return -(-depth // self.lanes) * self.lanes

    def panel_bytes(self, depth: int) -> int:
        return self.panel_rows(depth) * self.columns * self.dtype.itemsize

    def panels_bytes(self, depth: int, columns: int) -> int:
        """All panels of a part of B."""
        return -(-columns // self.columns) * self.panel_bytes(depth)


def shape_for(dtype: DType, target: Target) -> Shape:
    """A tile that leaves registers for what is read; enough accumulators to hide their latency."""
    lanes = target.vector_bits // (8 * dtype.itemsize)
    rows, vectors = (8, 2) if target.vector_bits == 512 else (4, 3)
    return Shape(dtype, lanes, rows, vectors)


# --- tiles ---


@dataclass(frozen=True, slots=True)
class Source:
    """Where B lies that a new panel is made of: its strides, and how many tiles are to be made.

    ``packs`` says that the first tile, which is a full one, copies the panel while it reads it.
    """

    strides: Strides
    tiles: int
    packs: bool


def swept(
    made: Routines, shape: Shape, a: Strides, depth: int, c_row: int, rest: tuple[int, int],
    source: Source | None = None,
) -> str:  # fmt: skip
    """The function ``(a, panels, c, m, n, k, fresh)``: C of m by n is A times panels, or grows by it.

    ``depth`` is that of panels; ``rest`` are the rows and columns beyond full tiles that m and n
    have, unless they have none. With a ``source`` there is one new panel, which lies at a last
    parameter ``source``; memory is asked for the panel behind it.
    """  # noqa: E501
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
                    _ask_for_some(b, shape, source, depth, number)
                row = source.strides[0] if source is not None and packs else None
                name = _tile(made, shape, a, c_row, (rows, columns), row)
                first = b.at(pa, b.times(number, shape.rows * a[0]))
                into = b.at(target, b.times(number, shape.rows * c_row))
                given = f"{first}, {here}, {into}, i64 %k, i1 %fresh"
                b.do(f"call void @{name}({given}{', ptr %source' if packs else ''})")

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
    return made.add(("sweep", shape, a, depth, c_row, rest, source), parameters, write)


def _ask_for_some(b: Builder, shape: Shape, source: Source, depth: int, tile: Value) -> None:
    """Ask memory for the part of the next panel that falls to a tile."""
    row, column = source.strides
    size = shape.dtype.itemsize
    straight = column == size
    lines = depth if straight else shape.columns
    length = (shape.columns if straight else depth) * size
    each = -(-lines // source.tiles)
    ahead = b.at(Value("%source", PTR), shape.columns * column)

    def line(k: Value, _: list[Value]) -> Sequence[Value]:
        _ask(b, b.at(ahead, b.times(k, row if straight else column)), length, _SECOND)
        return []

    first = b.times(tile, each)
    last = b.binary("smin", b.plus(first, each), Value(str(lines), I64))
    b.loop(first, last, 1, [], line)


def _tile(
    made: Routines, shape: Shape, a: Strides, c_row: int, extent: tuple[int, int],
    b_row: int | None,
) -> str:  # fmt: skip
    """The function ``(a, panel, c, k, fresh)`` for a tile of ``extent`` rows and columns.

    With B in rows ``b_row`` bytes apart at a last parameter ``source``, the panel is made of it.
    """
    rows, columns = extent
    size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector
    scalar = Type(vector.elem)
    vectors = -(-columns // lanes)

    def write(b: Builder) -> None:
        pa, pb, pc = (Value(f"%{name}", PTR) for name in "abc")
        mask = tail_mask(b, lanes, columns % lanes) if columns % lanes else None
        masks = [None] * (vectors - 1) + [mask]

        def factors(k: Value) -> list[Value]:
            right = b.at(pb, b.times(k, shape.columns * size))
            places = [b.at(right, v * lanes * size) for v in range(vectors)]
            if b_row is None:
                return [_read(b, vector, place, size, None) for place in places]
            here = b.at(Value("%source", PTR), b.times(k, b_row))
            found: list[Value] = []
            for v, place in enumerate(places):
                found.append(_read(b, vector, b.at(here, v * lanes * size), size, masks[v]))
                _write(b, found[v], place, size, None)
            return found

        def step(k: Value, sums: list[Value]) -> Sequence[Value]:
            left = b.at(pa, b.times(k, a[1]))
            right = factors(k)
            result: list[Value] = []
            for r in range(rows):
                one = b.emit(scalar, f"load {scalar}, {b.at(left, r * a[0])}, align {size}")
                spread = b.splat(one, lanes)
                result += [b.fma(spread, right[v], sums[r * vectors + v]) for v in range(vectors)]
            return result

        for r in range(rows):
            _ask(b, b.at(pc, r * c_row), vectors * lanes * size, to_write=True)
        start = [b.const(vector, 0.0)] * (rows * vectors)
        sums = b.loop(0, Value("%k", I64), 1, start, step)
        places = [
            (b.at(pc, r * c_row + v * lanes * size), masks[v])
            for r in range(rows)
            for v in range(vectors)
        ]

        def grown() -> Sequence[Value]:
            return [
                b.add(_read(b, vector, where, size, lanes_on), total)
                for (where, lanes_on), total in zip(places, sums, strict=True)
            ]

        grows = b.emit(Type("i1"), "xor i1 %fresh, true")
        for (where, lanes_on), total in zip(places, b.branch(grows, grown, sums), strict=True):
            _write(b, total, where, size, lanes_on)

    parameters = "ptr %a, ptr %b, ptr %c, i64 %k, i1 %fresh"
    if b_row is not None:
        parameters += ", ptr %source"
    return made.add(("tile", shape, a, c_row, extent, b_row), parameters, write)


# --- copies ---


def packed(
    made: Routines, shape: Shape, b_strides: Strides, depth: int, even: bool = False
) -> str:  # fmt: skip
    """The function ``(b, panels, k, n)``: k by n elements of B into panels of ``depth`` rows.

    One of the strides is that of an element. Columns beyond n in the last panel are of no use.
    ``even`` says that k and n are multiples of vectors and of panels.
    """
    size = shape.dtype.itemsize

    def write(b: Builder) -> None:
        if b_strides[1] == size:
            _pack_rows(b, shape, b_strides[0], depth, even)
        else:
            _pack_columns(b, shape, b_strides[1], depth, even)

    parameters = "ptr %b, ptr %panels, i64 %k, i64 %n"
    return made.add(("pack", shape, b_strides, depth, even), parameters, write)


def _pack_rows(b: Builder, shape: Shape, row: int, depth: int, even: bool) -> None:
    """B lies in rows: pieces of them as long as a panel is wide."""
    size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector
    width = shape.columns * size
    n = Value("%n", I64)
    full = b.emit(I64, f"udiv {n}, {shape.columns}")
    rest = Value("0", I64) if even else b.emit(I64, f"urem {n}, {shape.columns}")

    def line(number: Value, _: list[Value]) -> Sequence[Value]:
        here = b.at(Value("%b", PTR), b.times(number, row))
        there = b.at(Value("%panels", PTR), b.times(number, width))

        def part(panel: Value, left: Value | None) -> None:
            base = b.at(here, b.times(panel, width))
            into = b.at(there, b.times(panel, shape.panel_bytes(depth)))
            for v in range(shape.vectors):
                mask = None
                if left is not None:
                    mask = b.compare("slt", _steps(b, v * lanes, lanes), b.splat(left, lanes))
                value = _read(b, vector, b.at(base, v * lanes * size), size, mask)
                _write(b, value, b.at(into, v * lanes * size), size, None)

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


def _pack_columns(b: Builder, shape: Shape, column: int, depth: int, even: bool) -> None:
    """B lies in columns: squares of them are turned."""
    size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector
    k, n = Value("%k", I64), Value("%n", I64)
    last = b.emit(I64, f"sub {n}, 1")
    wide = b.emit(I64, f"udiv {b.plus(n, shape.columns - 1)}, {shape.columns}")

    def columns(number: Value, _: list[Value]) -> Sequence[Value]:
        first = b.times(number, lanes)
        starts = [
            b.at(Value("%b", PTR), b.times(b.binary("smin", b.plus(first, j), last), column))
            for j in range(lanes)
        ]
        panel = b.emit(I64, f"udiv {number}, {shape.vectors}")
        beside = b.emit(I64, f"urem {number}, {shape.vectors}")
        into = b.at(Value("%panels", PTR), b.times(panel, shape.panel_bytes(depth)))
        into = b.at(into, b.times(beside, lanes * size))

        def square(at: Value, mask: Value | None) -> None:
            offset = b.times(at, size)
            lines = [_read(b, vector, b.at(s, offset), size, mask) for s in starts]
            for j, value in enumerate(transposed(b, lines)):
                place = b.at(into, b.times(b.plus(at, j), shape.columns * size))
                _write(b, value, place, size, None)

        _by_vectors(b, k, lanes, even, square)
        return []

    b.loop(0, b.times(wide, shape.vectors), 1, [], columns)


def copied(made: Routines, shape: Shape, from_row: int, to_row: int) -> str:
    """The function ``(from, to, rows, length)``: rows of so many elements, side by side."""
    size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector

    def write(b: Builder) -> None:
        length = Value("%length", I64)

        def line(number: Value, _: list[Value]) -> Sequence[Value]:
            here = b.at(Value("%from", PTR), b.times(number, from_row))
            there = b.at(Value("%to", PTR), b.times(number, to_row))

            def some(at: Value, mask: Value | None) -> None:
                where = b.at(here, b.times(at, size))
                _ask(b, b.at(where, _AHEAD * from_row), lanes * size)
                value = _read(b, vector, where, size, mask)
                _write(b, value, b.at(there, b.times(at, size)), size, None)

            _by_vectors(b, length, lanes, False, some)
            return []

        b.loop(0, Value("%rows", I64), 1, [], line)

    parameters = "ptr %from, ptr %to, i64 %rows, i64 %length"
    return made.add(("copy", shape, from_row, to_row), parameters, write)


def _by_vectors(
    b: Builder, length: Value, lanes: int, even: bool,
    body: Callable[[Value, Value | None], None],
) -> None:  # fmt: skip
    """``body(first, mask)`` for all vectors of a length; only one that is not full has a mask."""

    def whole(at: Value, _: list[Value]) -> Sequence[Value]:
        body(at, None)
        return []

    left = Value("0", I64) if even else b.emit(I64, f"urem {length}, {lanes}")
    full = b.emit(I64, f"sub {length}, {left.text}")

    def last() -> Sequence[Value]:
        body(full, tail_mask(b, lanes, left))
        return []

    b.loop(0, full, lanes, [], whole)
    b.branch(b.compare("ne", left, 0), last)


def copy_row(shape: Shape, length: int) -> int:
    """Bytes between copied rows: whole vectors, and rows do not meet in one set of the cache."""
    return -(-length // shape.lanes) * shape.lanes * shape.dtype.itemsize + _LINE


def _ask(
    b: Builder, where: Value, nbytes: int, level: int = _FIRST, to_write: bool = False
) -> None:
    """Ask memory for what will be needed soon: rows are too short for the CPU to see a pattern."""
    for line in range(0, nbytes, _LINE):
        b.prefetch(b.at(where, line), level, to_write)


def _steps(b: Builder, first: int, lanes: int) -> Value:
    wide = Type("i64", lanes)
    return Value("<" + ", ".join(f"i64 {first + k}" for k in range(lanes)) + ">", wide)


def _read(b: Builder, vector: Type, where: Value, size: int, mask: Value | None) -> Value:
    if mask is None:
        return b.emit(vector, f"load {vector}, {where}, align {size}")
    return masked_load(b, vector, where, size, mask)


def _write(b: Builder, value: Value, where: Value, size: int, mask: Value | None) -> None:
    if mask is None:
        b.do(f"store {value}, {where}, align {size}")
        return
    b.invoke(f"llvm.masked.store.{value.type.suffix}.p0", value, where, f"i32 {size}", mask)
