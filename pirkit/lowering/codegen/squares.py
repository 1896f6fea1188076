"""What lies the other way, read square by square: turned in registers, and used there.

Rows whose distance is a power of two share few sets of the caches, so only some dozens of them may
wait there. Of the turned rows a strip of few lines is read at a time, from one to the next, and
memory is asked for those that come soon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pirkit.lowering.codegen.ir import I1, I64, Builder, Type, Value
from pirkit.lowering.codegen.loopnest import Load, Stage
from pirkit.lowering.codegen.pack import transposed
from pirkit.lowering.codegen.points import computed, place
from pirkit.lowering.codegen.primitives import Typed, stored, widen
from pirkit.lowering.codegen.schedule import Schedule

_STRIP: Final = 256
"""Bytes of a row that are read at once: some lines, as neighbours come from memory sooner."""
_AHEAD: Final = 32
"""Columns to look ahead."""


class Squares:
    """Reads the squares of a block of columns."""

    def __init__(
        self, plan: Schedule, b: Builder, bases: Sequence[Value], count: Value,
        inner: Sequence[Value],
    ) -> None:  # fmt: skip
        self.plan, self.b, self.count = plan, b, count
        self.lanes, operands = plan.lanes, plan.kernel.operands
        self.operands = operands
        self.bases = [
            place(b, base, o.inner[:-1], inner)
            for base, o in zip(bases, operands, strict=True)
        ]  # fmt: skip
        self.strip = max(_STRIP // min(operands[k].dtype.itemsize for k in plan.packed), self.lanes)

    def sweep(
        self, inside: Callable[[Value, Value], Sequence[Value]],
        edge: Callable[[Value, Value], Sequence[Value]],
    ) -> None:  # fmt: skip
        """Go through all squares, by their first row and column."""
        b, lanes, last = self.b, self.lanes, self.plan.kernel.inner[-1]

        def strip(first: Value, _: list[Value]) -> Sequence[Value]:
            stop = b.plus(first, self.strip)
            if last % self.strip:
                stop = b.binary("smin", stop, Value(str(last), I64))

            def square(at: Value, index: Value) -> Sequence[Value]:
                self._ask(at, index)
                whole = self._inside(at, index)
                b.branch(whole, lambda: inside(at, index))
                if whole.text != "true":
                    b.branch(b.op("xor", whole, True), lambda: edge(at, index))
                return []

            def columns(index: Value, _: list[Value]) -> Sequence[Value]:
                b.loop(first, stop, lanes, [], lambda at, _: square(at, index))
                return []

            b.loop(0, self.count, lanes, [], columns)
            return []

        b.loop(0, last, self.strip, [], strip)

    def _inside(self, at: Value, index: Value) -> Value:
        """Whether all rows and columns of a square exist."""
        b, lanes, kernel = self.b, self.lanes, self.plan.kernel
        holds = Value("true", I1)
        if kernel.inner[-1] % lanes:
            holds = b.compare("sle", at, kernel.inner[-1] - lanes)
        if kernel.outer[-1] % lanes:
            left = b.emit(I64, f"sub {self.count}, {index.text}")
            fits = b.compare("sge", left, lanes)
            holds = fits if holds.text == "true" else b.op("and", holds, fits)
        return holds

    def turned(
        self, stage: Stage, packed: Sequence[int], at: Value, index: Value
    ) -> list[dict[str, Typed]]:  # fmt: skip
        """What is loaded from turned operands at each row of a square."""
        b = self.b
        found: list[dict[str, Typed]] = [{} for _ in range(self.lanes)]
        for number in packed:
            names = [s.name for s in stage.body if isinstance(s, Load) and s.operand == number]
            operand = self.operands[number]
            dtype, distance = operand.dtype, operand.outer[-1]
            type_ = Type(stored(dtype), self.lanes)
            base = b.at(self.bases[number], b.times(at, dtype.itemsize))
            first = b.at(base, b.times(index, distance))
            starts = [b.at(first, k * distance) for k in range(self.lanes)]
            columns = [b.emit(type_, f"load {type_}, {s}, align {dtype.itemsize}") for s in starts]
            for known, vector in zip(found, transposed(b, columns), strict=True):
                known.update(dict.fromkeys(names, (widen(b, vector, dtype), computed(dtype))))
        return found

    def _ask(self, at: Value, index: Value) -> None:
        """Ask memory for a later square: of the next strip where the block ends."""
        b, plan = self.b, self.plan
        if not plan.fetched:
            return
        column = b.plus(index, _AHEAD)
        over = b.compare("sge", column, self.count)
        zero = Value("0", I64)
        column = b.emit(I64, f"sub {column}, {b.select(over, self.count, zero).text}")
        row = b.plus(at, b.select(over, Value(str(self.strip), I64), zero))
        for number in plan.fetched:
            operand = self.operands[number]
            here = b.at(self.bases[number], b.times(column, operand.outer[-1]))
            here = b.at(here, b.times(row, operand.inner[-1]))
            step = operand.outer[-1] if number in plan.packed else operand.inner[-1]
            for k in range(self.lanes):
                b.prefetch(b.at(here, k * step))
