"""Products of matrices as native functions, blocked for the caches and shared among threads.

The result is made in blocks of rows and columns, each by one thread: a part of B is packed into
panels, then the part of A that belongs to it is swept over them, for some of the depth at a time.
An element is a sum of sums over these depths, always in the same order: its bits depend on the
depth of the product, not on the blocks or the threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from pirkit.lowering.codegen.awaiting import Draft, function_of
from pirkit.lowering.codegen.compile import key_of
from pirkit.lowering.codegen.generate import PARAMETERS, SYMBOL, begin
from pirkit.lowering.codegen.ir import I64, PTR, Builder, Value
from pirkit.lowering.codegen.panels import (
    Shape,
    Strides,
    copied,
    copy_row,
    packed,
    shape_for,
    swept,
)
from pirkit.lowering.codegen.points import argument, place, split_index
from pirkit.lowering.codegen.routines import Routines
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import Code, NativeFunction
from pirkit.runtime.native.pool import wanted_threads
from pirkit.runtime.native.target import Target, host

DEPTH: Final = 384
"""Most rows of a panel: two panels' worth stay in the first-level cache."""
_ROWS: Final = 256
_COLUMNS: Final = 256
_BLOCKS_PER_THREAD: Final = 3
"""Blocks that large products have at least, so that threads share them evenly."""
_NEAR: Final = 1024
"""Bytes between rows of A up to which they are read where they lie."""


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
    """How much of a product is done at once."""

    rows: int
    columns: int
    depth: int


def blocking(p: Product, shape: Shape, threads: int) -> Blocking:
    """Blocks that fit the caches; their depth follows from that of the product alone."""
    pieces = -(-p.depth // DEPTH)
    rows = _even(p.rows, _ROWS, shape.rows)
    columns = _even(p.columns, _COLUMNS, shape.columns)
    while _count(p, rows, columns) < _BLOCKS_PER_THREAD * threads and max(rows, columns) > 64:
        if rows >= columns:
            rows = _even(p.rows, rows // 2, shape.rows)
        else:
            columns = _even(p.columns, columns // 2, shape.columns)
    return Blocking(rows, columns, -(-p.depth // pieces))


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
    at_once = blocking(p, shape, threads)
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
        row, column = p.a.strides
        self.turned = column != size
        far = column if self.turned else row
        self.moves = far > _NEAR and at_once.columns > shape.columns
        self.held = copy_row(shape, at_once.rows if self.turned else at_once.depth)
        lines = at_once.depth if self.turned else at_once.rows
        self.scratch = self.panels + self.moves * self.held * lines
        self.seen: Strides = p.a.strides
        if self.moves:
            self.seen = (size, self.held) if self.turned else (self.held, size)

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
        return b.binary(
            "smin", Value(str(most), I64), b.emit(I64, f"sub i64 {extent}, {first.text}")
        )

    def _depths(self, a: Value, other: Value, c: Value, rows: Value, columns: Value) -> None:
        p, b, shape, made, step = self.p, self.b, self.shape, self.made, self.at_once.depth
        panels = Value("%scratch", PTR)
        pack = packed(made, shape, p.b.strides, step)
        rest = (p.rows % shape.rows, p.columns % shape.columns)
        sweep = swept(made, shape, self.seen, step, p.c.strides[0], rest)

        def one(k: Value, _: list[Value]) -> Sequence[Value]:
            deep = self._left(p.depth, k, step)
            left = b.at(a, b.times(k, p.a.strides[1]))
            right = b.at(other, b.times(k, p.b.strides[0]))
            b.do(f"call void @{pack}({right}, {panels}, {deep}, {columns})")
            if self.moves:
                left = self._moved(left, rows, deep)
            fresh = b.compare("eq", k, 0)
            b.do(f"call void @{sweep}({left}, {panels}, {c}, {rows}, {columns}, {deep}, {fresh})")
            return []

        b.loop(0, p.depth, step, [], one)

    def _moved(self, left: Value, rows: Value, deep: Value) -> Value:
        b, (row, column) = self.b, self.p.a.strides
        into = b.at(Value("%scratch", PTR), self.panels)
        lines, length = (deep, rows) if self.turned else (rows, deep)
        copy = copied(self.made, self.shape, column if self.turned else row, self.held)
        b.do(f"call void @{copy}({left}, {into}, {lines}, {length})")
        return into
