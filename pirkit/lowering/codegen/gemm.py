"""Products of matrices as native functions, blocked for the caches and shared among threads.

The result is made in blocks of rows and columns, each by one thread: a part of B is packed into
panels, then rows of A, as many as the L2 cache holds, are swept over them, for some of the depth at
a time. An element is a sum of sums over these depths, always in the same order: its bits depend on
the depth of the product, not on the blocks or the threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from pirkit.lowering.codegen.awaiting import Draft, function_of
from pirkit.lowering.codegen.compile import key_of
from pirkit.lowering.codegen.generate import PARAMETERS, SYMBOL, begin
from pirkit.lowering.codegen.ir import I64, PTR, Builder, Value
from pirkit.lowering.codegen.panel_copies import copied, copy_row, evenness, packed
from pirkit.lowering.codegen.panels import Shape, Source, Strides, shape_for, swept
from pirkit.lowering.codegen.points import argument, place, split_index
from pirkit.lowering.codegen.routines import Routines
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import Code, NativeFunction
from pirkit.runtime.native.pool import wanted_threads
from pirkit.runtime.native.target import Target, host

DEPTH: Final = 768
"""Most elements of a sum that is made at once: C is read and written once for so many."""
_WIDEST: Final = 1024
"""Columns of panels that are held at a time."""
_PACKING: Final = 10
"""What packing an element costs, in multiplications."""
_FAR: Final = 2048
"""Rows that lie a multiple of this apart push each other out of the caches."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """Matrices of an operand: bytes from one to the next along each axis of the batch, and in one."""  # noqa: E501

    batch: tuple[int, ...]
    strides: Strides
    size: int


@dataclass(frozen=True, slots=True)
class Product:
    """``c = a b``, of ``rows`` by ``columns``, for each point of the batch.

    Elements of b lie side by side along one of its axes, those of a as well, and those of c along
    rows. Operands are a, b, c.
    """

    batch: tuple[int, ...]
    rows: int
    columns: int
    depth: int
    dtype: DType
    a: Matrices
    b: Matrices
    c: Matrices

    @property
    def multiplications(self) -> int:
        return prod(self.batch) * self.rows * self.columns * self.depth


@dataclass(frozen=True, slots=True)
class Blocking:
    """How much of a product is done at once: a block of the result, and how deep.

    ``inner`` rows of a block are swept over all its panels before the next ones are.
    """

    rows: int
    columns: int
    depth: int
    inner: int


def moves(p: Product) -> bool:
    """Whether rows of a turned A push each other out of the caches, and are read in a copy.

    Where A is not turned, a tile reads whole lines of it and needs none of them for long.
    """
    row, column = p.a.strides
    return row == p.dtype.itemsize and column != row and column % _FAR == 0


def blocking(p: Product, shape: Shape, target: Target, threads: int) -> Blocking:
    """The blocks that cost least; their depth follows from that of the product alone."""
    depth = -(-p.depth // -(-p.depth // DEPTH))
    rows, columns = min(_candidates(p, shape, threads), key=lambda block: _cost(p, *block, threads))
    fitting = target.l2_bytes // 2 // (depth * p.dtype.itemsize)
    inner = _even(rows, max(fitting // shape.rows, 4) * shape.rows, shape.rows)
    return Blocking(rows, columns, depth, inner)


def _candidates(p: Product, shape: Shape, threads: int) -> Iterator[tuple[int, int]]:
    """Rows and columns of blocks, so many that each thread has one to four."""
    widest = _even(p.columns, _WIDEST, shape.columns)
    yield _even(p.rows, p.rows, shape.rows), widest
    if threads == 1:
        return
    for parts in range(-(-p.columns // widest), min(8 * threads, -(-p.columns // 64)) + 1):
        columns = _even(p.columns, -(-p.columns // parts), shape.columns)
        across = prod(p.batch) * -(-p.columns // columns)
        for each in range(1, 5):
            down = -(-threads * each // across)
            yield _even(p.rows, -(-p.rows // down), shape.rows), columns


def _cost(p: Product, rows: int, columns: int, threads: int) -> float:
    """The time of the thread that has most to do; few blocks are hard to share evenly."""
    count = _count(p, rows, columns)
    packing = _PACKING / rows + moves(p) * _PACKING / columns
    uneven = 1 + 0.1 * threads / count if threads > 1 else 1
    return -(-count // threads) * rows * columns * (1 + packing) * uneven


def _count(p: Product, rows: int, columns: int) -> int:
    return prod(p.batch) * -(-p.rows // rows) * -(-p.columns // columns)


def _even(extent: int, most: int, unit: int) -> int:
    """Pieces of an extent that are about equal: multiples of a unit, about ``most`` long."""
    pieces = -(-extent // max(most, unit))
    return -(-extent // pieces // unit) * unit


@dataclass(frozen=True, slots=True)
class Written:
    """The text of a module with one kernel (see `generate.Generated`)."""

    text: str
    blocks: int
    scratch: int
    work: int


def native_product(p: Product) -> NativeFunction:
    """The function of a product of matrices, with a, b and c for operands."""
    threads = wanted_threads()
    return function_of(key_of((p, threads), host()), lambda: drafted(p, host(), threads))


def drafted(p: Product, target: Target, threads: int) -> Draft:
    """The function of a product for so many threads, not yet compiled."""
    made = generate_product(p, target, threads)
    sizes = (p.a.size, p.b.size, p.c.size)
    return Draft(made.text, Code(b"", SYMBOL, made.blocks, made.scratch, made.work, sizes))


def generate_product(p: Product, target: Target, threads: int) -> Written:
    """The module of a product."""
    shape = shape_for(p.dtype, target)
    at_once = blocking(p, shape, target, threads)
    made = Routines()
    b = made.builder()
    writer = _Writer(p, shape, at_once, made, b)
    writer.emit()
    made.define(f"void @{SYMBOL}({PARAMETERS})", b, begin(3, writer.scratch))
    blocks = _count(p, at_once.rows, at_once.columns)
    work = int(p.multiplications / shape.lanes / 3)
    return Written(made.text(), blocks, writer.scratch, work)


class _Writer:
    def __init__(
        self, p: Product, shape: Shape, at_once: Blocking, made: Routines, b: Builder
    ) -> None:  # fmt: skip
        self.p, self.shape, self.at_once, self.made, self.b = p, shape, at_once, made, b
        size = p.dtype.itemsize
        self.panels = shape.panels_bytes(at_once.depth, at_once.columns)
        self.moves = moves(p)
        self.held = copy_row(shape, at_once.inner)
        self.scratch = self.panels + self.moves * self.held * at_once.depth
        self.seen: Strides = (size, self.held) if self.moves else p.a.strides

    def emit(self) -> None:
        p, b, at_once = self.p, self.b, self.at_once
        pointers = [argument(b, k) for k in range(3)]
        across = -(-p.columns // at_once.columns)
        down = -(-p.rows // at_once.rows)

        def block(number: Value, _: list[Value]) -> Sequence[Value]:
            *batch, right, below = split_index(b, number, [*p.batch, across, down])
            bases = [
                place(b, pointer, m.batch, batch)
                for pointer, m in zip(pointers, (p.a, p.b, p.c), strict=True)
            ]
            row, column = b.times(below, at_once.rows), b.times(right, at_once.columns)
            rows = self._left(p.rows, row, at_once.rows)
            columns = self._left(p.columns, column, at_once.columns)
            a = b.at(bases[0], b.times(row, p.a.strides[0]))
            other = b.at(bases[1], b.times(column, p.b.strides[1]))
            c = b.at(
                bases[2], b.plus(b.times(row, p.c.strides[0]), b.times(column, p.c.strides[1]))
            )
            self._depths(a, other, c, rows, columns)
            return []

        b.loop(Value("%lo", I64), Value("%hi", I64), 1, [], block)

    def _left(self, extent: int, first: Value, most: int) -> Value:
        b = self.b
        if extent % most == 0:
            return Value(str(most), I64)
        return self._least(most, b.emit(I64, f"sub i64 {extent}, {first.text}"))

    def _least(self, most: int, left: Value) -> Value:
        return self.b.binary("smin", Value(str(most), I64), left)

    def _depths(self, a: Value, other: Value, c: Value, rows: Value, columns: Value) -> None:
        p, b, step, inner = self.p, self.b, self.at_once.depth, self.at_once.inner

        def depths(k: Value, _: list[Value]) -> Sequence[Value]:
            deep = self._left(p.depth, k, step)
            fresh = b.compare("eq", k, 0)
            left = b.at(a, b.times(k, p.a.strides[1]))
            right = b.at(other, b.times(k, p.b.strides[0]))

            def some(first: Value, _: list[Value]) -> Sequence[Value]:
                here = b.at(left, b.times(first, p.a.strides[0]))
                into = b.at(c, b.times(first, p.c.strides[0]))
                count = self._least(inner, b.emit(I64, f"sub {rows}, {first.text}"))
                if self.moves:
                    here = self._moved(here, count, deep)
                self._panels(here, right, into, (count, columns, deep), fresh, first)
                return []

            b.loop(0, rows, inner, [], some)
            return []

        b.loop(0, p.depth, step, [], depths)

    def _panels(
        self, left: Value, right: Value, c: Value, extents: tuple[Value, Value, Value],
        fresh: Value, row: Value,
    ) -> None:  # fmt: skip
        """Some rows times all panels, which are packed when the first rows meet them."""
        p, b, shape, made, step = self.p, self.b, self.shape, self.made, self.at_once.depth
        rows, columns, deep = extents
        rest = (p.rows % shape.rows, p.columns % shape.columns)
        tiles = max(1, self.at_once.inner // shape.rows)
        packs = p.b.strides[1] == p.dtype.itemsize and self._fewest() >= shape.rows
        again, anew = (
            swept(made, shape, self.seen, step, p.c.strides[0], rest, source, grows=p.depth > step)
            for source in (None, Source(p.b.strides, tiles, packs))
        )
        is_first = b.compare("eq", row, 0)
        is_later = b.compare("ne", row, 0)

        def panel(number: Value, _: list[Value]) -> Sequence[Value]:
            column = b.times(number, shape.columns)
            held = b.at(Value("%scratch", PTR), b.times(number, shape.panel_bytes(step)))
            into = b.at(c, b.times(column, p.c.strides[1]))
            some = self._left_of(columns, column)
            given = f"{left}, {held}, {into}, {rows}, {some}, {deep}, {fresh}"

            def first() -> Sequence[Value]:
                source = b.at(right, b.times(column, p.b.strides[1]))
                if not packs:
                    even = evenness(shape, p.columns, p.depth, step)
                    pack = packed(made, shape, p.b.strides, step, even)
                    b.do(f"call void @{pack}({source}, {held}, {deep}, {some})")
                b.do(f"call void @{anew}({given}, {source})")
                return []

            def later() -> Sequence[Value]:
                b.do(f"call void @{again}({given})")
                return []

            b.branch(is_first, first)
            b.branch(is_later, later)
            return []

        panels = b.emit(I64, f"udiv {b.plus(columns, shape.columns - 1)}, {shape.columns}")
        b.loop(0, panels, 1, [], panel)

    def _fewest(self) -> int:
        """Rows of the smallest block."""
        return self.p.rows % self.at_once.rows or self.at_once.rows

    def _left_of(self, columns: Value, column: Value) -> Value:
        if self.p.columns % self.shape.columns == 0:
            return Value(str(self.shape.columns), I64)
        return self._least(self.shape.columns, self.b.emit(I64, f"sub {columns}, {column.text}"))

    def _moved(self, left: Value, rows: Value, deep: Value) -> Value:
        b = self.b
        into = b.at(Value("%scratch", PTR), self.panels)
        copy = copied(self.made, self.shape, self.p.a.strides[1], self.held)
        b.do(f"call void @{copy}({left}, {into}, {deep}, {rows})")
        return into
