"""Products of matrices out of pieces that lie in the caches.

``C = A B`` is made of tiles: some rows of A by some vectors of columns of B, with an accumulator in
a register for each. An element of A is spread over a vector, so A may lie in any order. B is read
from panels: as many columns as a tile has, side by side, row after row.

`panel_bytes` says how large panels are, `packed` copies a part of B into them, `copied` a part of A
to where rows do not push each other out of the cache, and `swept` adds all tiles of a part. All are
functions of a module; strides are numbers in their code, extents are given when they are called.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def shape_for(dtype: DType, target: Target, vectors: int = 2) -> Shape:
    """A tile that leaves registers for what is read; enough accumulators to hide their latency."""
    lanes = target.vector_bits // (8 * dtype.itemsize)
    return (
        Shape(dtype, lanes, 8, vectors) if target.vector_bits == 512 else Shape(dtype, lanes, 4, 3)
    )


# --- tiles ---


def swept(
    made: Routines, shape: Shape, a: Strides, depth: int, c_row: int, rest: tuple[int, int]
) -> str:  # fmt: skip
    """The function ``(a, panels, c, m, n, k, fresh)``: C of m by n is A times panels, or grows by it.

    ``depth`` is that of panels; ``rest`` are the rows and columns beyond full tiles that m and n
    have, unless they have none.
    """  # noqa: E501
    rows_left, columns_left = rest

    def write(b: Builder) -> None:
        pa, pb, pc = (Value(f"%{name}", PTR) for name in "abc")
        m, n = Value("%m", I64), Value("%n", I64)
        full = b.times(b.emit(I64, f"udiv {n}, {shape.columns}"), 1)

        def column_of_tiles(panel: Value, columns: int) -> None:
            here = b.at(pb, b.times(panel, shape.panel_bytes(depth)))
            target = b.at(pc, b.times(panel, shape.columns * shape.dtype.itemsize))
            whole = b.emit(I64, f"udiv {m}, {shape.rows}")

            def call(number: Value, rows: int) -> None:
                name = _tile(made, shape, a, c_row, (rows, columns))
                first = b.at(pa, b.times(number, shape.rows * a[0]))
                into = b.at(target, b.times(number, shape.rows * c_row))
                b.do(f"call void @{name}({first}, {here}, {into}, i64 %k, i1 %fresh)")

            def one(number: Value, _: list[Value]) -> Sequence[Value]:
                call(number, shape.rows)
                return []

            b.loop(0, whole, 1, [], one)
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
    return made.add(("sweep", shape, a, depth, c_row, rest), parameters, write)


def _tile(
    made: Routines, shape: Shape, a: Strides, c_row: int, extent: tuple[int, int]
) -> str:  # fmt: skip
    """The function ``(a, panel, c, k, fresh)`` for a tile of ``extent`` rows and columns."""
    rows, columns = extent
    size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector
    scalar = Type(vector.elem)
    vectors = -(-columns // lanes)

    def write(b: Builder) -> None:
        pa, pb, pc = (Value(f"%{name}", PTR) for name in "abc")

        def step(k: Value, sums: list[Value]) -> Sequence[Value]:
            left = b.at(pa, b.times(k, a[1]))
            right = b.at(pb, b.times(k, shape.columns * size))
            factors = [
                b.emit(vector, f"load {vector}, {b.at(right, v * lanes * size)}, align {size}")
                for v in range(vectors)
            ]
            result: list[Value] = []
            for r in range(rows):
                one = b.emit(scalar, f"load {scalar}, {b.at(left, r * a[0])}, align {size}")
                spread = b.splat(one, lanes)
                result += [b.fma(spread, factors[v], sums[r * vectors + v]) for v in range(vectors)]
            return result

        start = [b.const(vector, 0.0)] * (rows * vectors)
        sums = b.loop(0, Value("%k", I64), 1, start, step)
        mask = tail_mask(b, lanes, columns % lanes) if columns % lanes else None
        places = [
            (b.at(pc, r * c_row + v * lanes * size), mask if v == vectors - 1 else None)
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
    return made.add(("tile", shape, a, c_row, extent), parameters, write)


# --- copies ---


def packed(made: Routines, shape: Shape, b_strides: Strides, depth: int) -> str:
    """The function ``(b, panels, k, n)``: k by n elements of B into panels of ``depth`` rows.

    One of the strides is that of an element. Columns beyond n in the last panel are of no use.
    """
    row, column = b_strides
    size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector
    width = shape.columns * size

    def write(b: Builder) -> None:
        source, panels = Value("%b", PTR), Value("%panels", PTR)
        k, n = Value("%k", I64), Value("%n", I64)
        count = b.emit(I64, f"udiv {b.plus(n, shape.columns - 1)}, {shape.columns}")

        def turned(base: Value, into: Value, left: Value) -> None:
            last = b.emit(I64, f"sub {left}, 1")
            for v in range(shape.vectors):
                starts = [
                    b.at(
                        base,
                        b.times(b.binary("smin", Value(str(v * lanes + j), I64), last), column),
                    )
                    for j in range(lanes)
                ]

                def square(
                    number: Value, _: list[Value], v: int = v, starts: list[Value] = starts
                ) -> Sequence[Value]:
                    mask = tail_mask(b, lanes, b.emit(I64, f"sub {k}, {number.text}"))
                    offset = b.times(number, size)
                    lines = [masked_load(b, vector, b.at(s, offset), size, mask) for s in starts]
                    for j, value in enumerate(transposed(b, lines)):
                        place = b.at(into, b.times(b.plus(number, j), width))
                        _write(b, value, b.at(place, v * lanes * size), size, None)
                    return []

                b.loop(0, k, lanes, [], square)

        def straight(number: Value, _: list[Value]) -> Sequence[Value]:
            here, there = b.at(source, b.times(number, row)), b.at(panels, b.times(number, width))

            def part(panel: Value, _: list[Value]) -> Sequence[Value]:
                first = b.times(panel, shape.columns)
                left = b.emit(I64, f"sub {n}, {first.text}")
                base = b.at(here, b.times(first, size))
                into = b.at(there, b.times(panel, shape.panel_bytes(depth)))
                _ask(b, b.at(base, _AHEAD * row), shape.columns * size)
                for v in range(shape.vectors):
                    mask = b.compare("slt", _steps(b, v * lanes, lanes), b.splat(left, lanes))
                    value = masked_load(b, vector, b.at(base, v * lanes * size), size, mask)
                    _write(b, value, b.at(into, v * lanes * size), size, None)
                return []

            b.loop(0, count, 1, [], part)
            return []

        def panel(number: Value, _: list[Value]) -> Sequence[Value]:
            first = b.times(number, shape.columns)
            base = b.at(source, b.times(first, column))
            into = b.at(panels, b.times(number, shape.panel_bytes(depth)))
            turned(base, into, b.emit(I64, f"sub {n}, {first.text}"))
            return []

        if column == size:
            b.loop(0, k, 1, [], straight)
        else:
            b.loop(0, count, 1, [], panel)

    parameters = "ptr %b, ptr %panels, i64 %k, i64 %n"
    return made.add(("pack", shape, b_strides, depth), parameters, write)


def copied(made: Routines, shape: Shape, from_row: int, to_row: int) -> str:
    """The function ``(from, to, rows, length)``: rows of so many elements, side by side."""
    size, lanes, vector = shape.dtype.itemsize, shape.lanes, shape.vector

    def write(b: Builder) -> None:
        length = Value("%length", I64)

        def line(number: Value, _: list[Value]) -> Sequence[Value]:
            here = b.at(Value("%from", PTR), b.times(number, from_row))
            there = b.at(Value("%to", PTR), b.times(number, to_row))

            def some(at: Value, _: list[Value]) -> Sequence[Value]:
                mask = tail_mask(b, lanes, b.emit(I64, f"sub {length}, {at.text}"))
                _ask(b, b.at(b.at(here, b.times(at, size)), _AHEAD * from_row), lanes * size)
                value = masked_load(b, vector, b.at(here, b.times(at, size)), size, mask)
                _write(b, value, b.at(there, b.times(at, size)), size, None)
                return []

            b.loop(0, length, lanes, [], some)
            return []

        b.loop(0, Value("%rows", I64), 1, [], line)

    parameters = "ptr %from, ptr %to, i64 %rows, i64 %length"
    return made.add(("copy", shape, from_row, to_row), parameters, write)


def copy_row(shape: Shape, length: int) -> int:
    """Bytes between copied rows: whole vectors, and rows do not meet in one set of the cache."""
    return -(-length // shape.lanes) * shape.lanes * shape.dtype.itemsize + _LINE


def _ask(b: Builder, where: Value, nbytes: int) -> None:
    """Ask memory for what will be read soon: rows are too short for the CPU to see a pattern."""
    for line in range(0, nbytes, _LINE):
        b.invoke("llvm.prefetch.p0", b.at(where, line), "i32 0", "i32 3", "i32 1")


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
