"""The transformations of a tile into Winograd's domain and back, as routines of the loop IR.

Each multiplies a matrix from both sides, one column or row at a time. Rows of the matrices for a
point and its negative differ by the sign of every second element, so they share their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from pirkit.dialect.ops.nn.nchwc_conv import ACTIVATIONS as NUMPY_ACTIVATIONS
from pirkit.dialect.winograd import Matrix
from pirkit.lowering.codegen.conv.nchwc_tile import ACTIVATIONS
from pirkit.lowering.codegen.conv.winograd_blocking import WinogradFrame
from pirkit.lowering.codegen.ir.llvm_text import I1, Builder, Value
from pirkit.lowering.codegen.ir.routine import Array, Functions, Location, Values, matrix
from pirkit.lowering.codegen.matmul.output_tile import read_vector, write_vector

Terms = Sequence[Value | None]
"""Vectors; None stands for 0."""


class InputTransform(Struct, frozen=True):
    """The points of a tile of the image: ``Bᵀ d B`` for a block of channels.

    Columns ``first`` to ``last`` of the tile are in the image. Buffers are the image, at the first
    element of the tile, and the points; numbers are the first row in the image, and how many are.
    """

    frame: WinogradFrame
    first: int
    last: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        high, wide = self.frame.c.size
        rows, columns = f"rows {numbers[0]}, {numbers[1]}", f"columns {self.first}:{self.last}"
        return f"{buffers[1]} = points of {buffers[0]}[{high} x {wide}], {rows}; {columns}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        e, c, (first, count) = self.frame, self.frame.c, numbers
        item, pixel = c.dtype.itemsize, e.pixel
        row, width = c.lengths[1] * pixel, self.last - self.first
        tile = np.zeros((*c.size, c.block), c.dtype.np)
        source, at = memory[0]
        place = source, at + first * row + self.first * pixel
        found = matrix(place, c.dtype, (count, width, c.block), (row, pixel, item))
        tile[first : first + count, self.first : self.last] = found
        known = [np.array(m.input, c.dtype.np) for m in c.transforms]
        shape, strides = (c.points, c.block), (e.point, item)
        points: Array = np.einsum("pi,qj,ijb->pqb", *known, tile)
        matrix(memory[1], c.dtype, shape, strides)[...] = points.reshape(shape)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        e, c = self.frame, self.frame.c
        (high, wide), row = c.size, c.lengths[1] * e.pixel
        down, across = (m.input for m in c.transforms)
        given = {"x": addresses[0], "y": addresses[1], "f": numbers[0], "n": numbers[1]}
        fixed = {name: v for name, v in given.items() if v.text.isdigit()}
        parameters = {name: v for name, v in given.items() if name not in fixed}

        def write(b: Builder) -> None:
            at = {n: fixed.get(n, Value(f"%{n}", v.type)) for n, v in given.items()}
            last = b.plus(at["f"], at["n"])
            for offset in vectors(e):
                source, lines = b.at(at["x"], offset), list[Terms]()
                for k in range(high):
                    lines.append(self._line(b, k, b.at(source, k * row), at["f"], last, across))
                for q in range(wide):
                    found = product(b, down, [line[q] for line in lines])
                    for p, value in enumerate(found):
                        place = b.at(at["y"], (p * wide + q) * e.point + offset)
                        write_vector(b, b.const(e.vector, 0) if value is None else value, place)

        _call(b, functions, (self.first, self.last, str(fixed)), parameters, write)

    def _line(
        self, b: Builder, k: int, row: Value, first: Value, last: Value, known: Matrix
    ) -> Terms:  # fmt: skip
        """A row of the tile, its columns transformed; zeros if it is not in the image."""
        e, size = self.frame, self.frame.c.size[1]

        def read() -> list[Value]:
            given: list[Value | None] = [
                read_vector(b, e.vector, b.at(row, j * e.pixel))
                if self.first <= j < self.last
                else None
                for j in range(size)
            ]
            return [b.const(e.vector, 0) if v is None else v for v in product(b, known, given)]

        exists = b.both(_compare(b, "sle", first, k), _compare(b, "sgt", last, k))
        return b.branch(exists, read, [b.const(e.vector, 0)] * size)


class OutputTransform(Struct, frozen=True):
    """The results of a tile, ``Aᵀ s A`` of the sums at its points, for a block of filters.

    Columns up to ``last`` are in the result. Buffers are the sums, bias, summand and result as far
    as there are any; the number is that of the rows in the result.
    """

    frame: WinogradFrame
    last: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        c = self.frame.c
        more = "".join([f", {name}" for name in buffers[1:-1]])
        extent = f"{numbers[0]} x {self.last} of {c.tile[0]} x {c.tile[1]}"
        return f"{buffers[-1]}[{extent}] = results of {buffers[0]}{more}, {c.activation}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        e, c, (rows,) = self.frame, self.frame.c, numbers
        places = self._named(memory)
        item, line = c.dtype.itemsize, c.positions[1] * e.pixel
        strides = c.size[1] * e.sum_point, e.sum_point, item
        sums = matrix(memory[0], c.dtype, (*c.size, c.block), strides)
        known = [np.array(m.output, c.dtype.np) for m in c.transforms]
        found: Array = np.einsum("ip,jq,pqb->ijb", *known, sums)[:rows, : self.last]
        shape, strides = (rows, self.last, c.block), (line, e.pixel, item)
        if c.bias:
            found = found + matrix(places["s"], c.dtype, (c.block,), (item,))
        if c.residual:
            found = found + matrix(places["r"], c.dtype, shape, strides)
        matrix(places["y"], c.dtype, shape, strides)[...] = NUMPY_ACTIVATIONS[c.activation](found)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        e, c, (rows,) = self.frame, self.frame.c, numbers
        given = {"m": addresses[0], **self._named(addresses)}
        if not rows.text.isdigit():
            given["n"] = rows

        def write(b: Builder) -> None:
            at = {name: Value(f"%{name}", v.type) for name, v in given.items()}
            for offset in vectors(e):
                columns = self._columns(b, b.at(at["m"], offset))
                here = {n: b.at(v, offset) for n, v in at.items() if n not in ("m", "n")}
                for i in range(c.tile[0]):
                    found = [column[i] for column in columns]
                    exists = _compare(b, "sgt", at.get("n", rows), i)
                    b.branch(exists, partial(self._store, b, here, found, i))

        key = "results", self.last, rows.text if rows.text.isdigit() else ""
        _call(b, functions, key, given, write)

    def _columns(self, b: Builder, base: Value) -> list[Terms]:
        """The columns of the results from the sums of a vector of filters."""
        e, (high, wide), lines = self.frame, self.frame.c.size, list[Terms]()
        down, across = (m.output for m in e.c.transforms)
        for p in range(high):
            places = [b.at(base, (p * wide + q) * e.sum_point) for q in range(wide)]
            sums = [read_vector(b, e.vector, place) for place in places]
            lines.append(product(b, across, sums)[: self.last])
        return [product(b, down, column) for column in zip(*lines, strict=True)]

    def _store(self, b: Builder, at: dict[str, Value], row: Terms, number: int) -> list[Value]:
        """Complete and store a row of the results."""
        e, c = self.frame, self.frame.c
        for j, value in enumerate(row):
            assert value is not None
            found = b.add(value, read_vector(b, e.vector, at["s"])) if c.bias else value
            place = (number * c.positions[1] + j) * e.pixel
            if c.residual:
                found = b.add(found, read_vector(b, e.vector, b.at(at["r"], place)))
            write_vector(b, ACTIVATIONS[c.activation](b, found), b.at(at["y"], place))
        return []

    def _named(self, places: Sequence[Any]) -> dict[str, Any]:
        names = [name for name in self.frame.c.operand_bytes if name not in ("x", "w")]
        return dict(zip(names, places[1:], strict=True))


def vectors(e: WinogradFrame) -> Iterator[int]:
    """The bytes at which the vectors of a block begin."""
    step = e.cut.lanes * e.c.dtype.itemsize
    yield from range(0, e.pixel, step)


def product(b: Builder, rows: Matrix, given: Terms) -> list[Value | None]:
    """A matrix of constants times vectors."""
    rows, given = _pairs_of_columns(b, rows, given)
    found: list[Value | None] = [None] * len(rows)
    todo = list(range(len(rows)))
    while todo:
        i = todo.pop(0)
        mirrored = tuple([-a if k % 2 else a for k, a in enumerate(rows[i])])
        j = next((j for j in todo if rows[j] == mirrored), None)
        if j is None:
            found[i] = _sum(b, rows[i], given)
            continue
        todo.remove(j)
        even, odd = (
            _sum(b, [a if k % 2 == side else 0 for k, a in enumerate(rows[i])], given)
            for side in (0, 1)
        )
        found[i] = _added(b, even, odd)
        found[j] = even if odd is None else b.neg(odd) if even is None else b.sub(even, odd)
    return found


def _pairs_of_columns(b: Builder, rows: Matrix, given: Terms) -> tuple[Matrix, Terms]:
    """The same product with the sum and the difference of two vectors whose columns differ by
    signs that alternate.
    """
    columns, operands, todo = list[Sequence[float]](), list[Value | None](), list(range(len(given)))
    every = list(zip(*rows, strict=True))
    while todo:
        k = todo.pop(0)
        mirrored = tuple([-a if r % 2 else a for r, a in enumerate(every[k])])
        other = next((j for j in todo if every[j] == mirrored != every[k]), None)
        x = given[k]
        if other is None or x is None or given[other] is None:
            columns.append(every[k])
            operands.append(x)
            continue
        todo.remove(other)
        y = given[other]
        assert y is not None
        for side, value in ((0, b.add(x, y)), (1, b.sub(x, y))):
            columns.append([a if r % 2 == side else 0 for r, a in enumerate(every[k])])
            operands.append(value)
    return tuple(zip(*columns, strict=True)), operands


def _sum(b: Builder, factors: Sequence[float], given: Terms) -> Value | None:
    """A sum of multiples of vectors; None if there are none."""
    terms = [(a, x) for a, x in zip(factors, given, strict=True) if a and x is not None]
    total: Value | None = None
    for a, x in sorted(terms, key=lambda term: term[0] != 1):
        if total is None:
            total = x if a == 1 else b.mul(x, a)
        else:
            total = b.add(total, x) if a == 1 else b.muladd(x, a, total)
    return total


def _added(b: Builder, x: Value | None, y: Value | None) -> Value | None:
    if x is None or y is None:
        return y if x is None else x
    return b.add(x, y)


def _compare(b: Builder, predicate: str, number: Value, k: int) -> Value:
    """A comparison with a constant, known where the number is."""
    if not number.text.isdigit():
        return b.compare(predicate, number, k)
    holds = int(number.text) <= k if predicate == "sle" else int(number.text) > k
    return Value("true" if holds else "false", I1)


def _call(
    b: Builder, functions: Functions, key: Hashable, given: dict[str, Value],
    write: Callable[[Builder], None],
) -> None:  # fmt: skip
    """Call a function with these arguments, which ``write`` emits."""
    parameters = ", ".join([f"{v.type} %{name}" for name, v in given.items()])
    name = functions.add(key, parameters, write)
    b.emit_void(f"call void @{name}({', '.join(map(str, given.values()))})")
