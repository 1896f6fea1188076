"""Filters without infinities and NaN, and flags that say where there were any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.loop_ir import Buffer, Invoke, Loop, Nest
from pirkit.lowering.codegen.ir.plain_loops import task_nest
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values, matrix
from pirkit.lowering.codegen.math.casts import element
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

FLAG: Final = 8
"""Bytes of a flag."""

Body = Callable[[Value, list[Value]], Sequence[Value]]


def flags_of(groups: int, tiles: int) -> Buffer:
    """The flags of the tiles of some groups: along the first axis groups, then tiles."""
    return Buffer(dt.int64, (tiles * FLAG, FLAG), groups * tiles * FLAG)


ONE_FLAG: Final = Buffer(dt.int64, (0, 0), FLAG)
"""A flag that all tiles share."""


def limiting_nest(dtype: DType, lanes: int, count: int) -> Nest:
    """A copy of ``count`` elements; operands are these, the copy, and a flag."""
    filters = Buffer(dtype, (0, 0), count * dtype.itemsize)
    body = (Invoke(LimitTaps(dtype, lanes, count, copies=True), (0, 1, 2), ()),)
    tasks = (Loop("all", (0,), 0, 1, 1, ()),)
    return task_nest((1, 1), (), (filters, filters, ONE_FLAG), tasks, body)


def is_infinite(b: Builder, value: Value, dtype: DType) -> Value:
    """Whether numbers are infinite or NaN."""
    # An unordered comparison also holds for NaN.
    return b.compare("ugt", b.unary("fabs", value), float(np.finfo(dtype.np).max))


class LimitTaps(Struct, frozen=True):
    """Stores finite numbers in place of infinite ones and NaN, and whether there were any.

    Buffers are the source, where to store, and the flag. Without ``copies`` both are the same.
    """

    dtype: DType
    lanes: int
    count: int
    copies: bool = False

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]}, {buffers[2]} = limit {buffers[0]} [{self.count} elements]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        source, goal = (
            matrix(m, self.dtype, (self.count,), (self.dtype.itemsize,)) for m in memory[:2]
        )
        matrix(memory[2], dt.int64, (1,), (FLAG,))[0] = not np.isfinite(source).all()
        goal[...] = np.nan_to_num(source)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        (source, goal, flag), size, lanes = addresses, self.dtype.itemsize, self.lanes
        # No vector may begin before the first element, and the last one ends at the last element.
        while lanes > max(self.count, 1):
            lanes //= 2
        vector = Type(element(self.dtype), lanes)

        def each(first: Value, found: list[Value]) -> Sequence[Value]:
            one = self._load(b, vector, source, first)
            if self.copies:
                b.store(one, b.at(goal, b.times(first, size)), size)
            return [b.op("or", found[0], is_infinite(b, one, self.dtype))]

        def limit(first: Value, _: list[Value]) -> Sequence[Value]:
            one, most = self._load(b, vector, source, first), float(np.finfo(self.dtype.np).max)
            # `minnum` ignores NaN, which so becomes the largest number.
            low = b.binary("minnum", one, b.const(vector, most))
            both = b.binary("maxnum", low, b.const(vector, -most))
            b.store(both, b.at(goal, b.times(first, size)), size)
            return []

        (some,) = self._all(b, lanes, [b.const(vector.mask, False)], each)
        if lanes > 1:
            some = b.call(f"llvm.vector.reduce.or.{some.type.suffix}", Type("i1"), some)
        b.store(b.cast("zext", some, I64.elem), flag, FLAG)
        b.branch(some, lambda: self._all(b, lanes, [], limit))

    def _load(self, b: Builder, vector: Type, base: Value, first: Value) -> Value:
        size = self.dtype.itemsize
        return b.load(vector, b.at(base, b.times(first, size)), size)

    def _all(self, b: Builder, lanes: int, carried: Sequence[Value], body: Body) -> list[Value]:
        """All elements in vectors, of which the last two may overlap."""
        full = self.count // lanes * lanes
        found = b.loop(0, full, lanes, carried, body)
        # Limiting an element twice changes nothing, nor does reading it twice.
        if full == self.count:
            return found
        return list(body(Value(str(self.count - lanes), I64), found))
