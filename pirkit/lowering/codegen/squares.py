"""What lies the other way, read square by square: turned in registers, and used there.

Rows whose distance is a power of two share few sets of the caches, so only some dozens of them may
wait there. Of the turned rows a strip of few lines is read at a time, from one to the next, and
memory is asked for those that come soon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from pirkit.lowering.codegen.ir import I1, I64, Builder, Type, Value
from pirkit.lowering.codegen.loopnest import Fold, Load, Stage
from pirkit.lowering.codegen.pack import transposed
from pirkit.lowering.codegen.points import computed, place, tail_mask
from pirkit.lowering.codegen.primitives import Typed, stored, widen
from pirkit.lowering.codegen.schedule import Schedule
from pirkit.lowering.codegen.scratch import Scratch

_STRIP: Final = 256
"""Bytes of a row that are read at once: some lines, as neighbours come from memory sooner."""
_AHEAD: Final = 32
"""Columns to look ahead."""


def to_line(b: Builder, plan: Schedule, pointers: Sequence[Value]) -> Value | None:
    """Columns before the first one whose vectors do not cross a cache line.

    That is where an operand that lies right is; None where each of its rows would need another.
    """
    kernel = plan.kernel
    if any(o.stream for o in kernel.operands):
        return None
    for number in plan.fetched:
        operand = kernel.operands[number]
        size, wide = operand.dtype.itemsize, plan.lanes * operand.dtype.itemsize
        apart = (*operand.outer[:-1], *operand.inner)
        if operand.outer[-1] == size and all(n % wide == 0 for n in apart):
            where = b.cast("ptrtoint", b.at(pointers[number], operand.offset), "i64")
            left = b.op("and", b.emit(I64, f"sub i64 0, {where.text}"), wide - 1)
            return b.emit(I64, f"udiv {left}, {size}")
    return None


class Block(Protocol):
    """Some columns that are swept together; their folds are in scratch memory."""

    plan: Schedule
    b: Builder
    bases: list[Value]
    first: Value
    count: Value
    shift: Value | None
    scratch: Scratch

    def copy(
        self, number: int, inner: list[Value], index: Value, count: Value, length: Value
    ) -> None:  # fmt: skip
        """Copy what is turned of some columns to the tile."""
        ...

    def folded(
        self, stage: Stage, folds: list[Fold], rows: list[list[Value]], origin: Value,
        index: Value, mask: Value | None, sums: Sequence[Value],
        held: Sequence[dict[str, Typed]] = (),
    ) -> list[Value]:  # fmt: skip
        """Folds so far and at some rows; ``held`` is what is known at each row."""
        ...


class Squares:
    """Sweeps a stage along the last inner axis: a strip at a time, from column to column."""

    def __init__(
        self, block: Block, stage: Stage, folds: list[Fold], inner: list[Value],
        packed: Sequence[int],
    ) -> None:  # fmt: skip
        self.block, self.stage, self.folds, self.inner = block, stage, folds, inner
        self.plan, self.b, self.count, self.packed = block.plan, block.b, block.count, packed
        self.operands, self.lanes = self.plan.kernel.operands, self.plan.lanes
        self.last = self.plan.kernel.inner[-1]
        self.together = min(self.plan.unroll, self.lanes)
        self.bases = [
            place(self.b, base, o.inner[:-1], inner)
            for base, o in zip(block.bases, self.operands, strict=True)
        ]
        self.strip = max(_STRIP // min(self.operands[k].dtype.itemsize for k in packed), self.lanes)
        self.start = Value("0", I64) if block.shift is None else self._start(block.shift)

    def _start(self, shift: Value) -> Value:
        """The first column of squares, so that whole ones begin at lines: before 0 in one block."""
        b = self.b
        head = b.select(b.compare("eq", self.block.first, 0), shift, Value("0", I64))
        missing = b.op("and", b.emit(I64, f"sub i64 0, {head.text}"), self.lanes - 1)
        return b.emit(I64, f"sub i64 0, {missing.text}")

    def sweep(self) -> None:
        """Fold all squares."""
        b = self.b

        def strip(first: Value, _: list[Value]) -> Sequence[Value]:
            stop = b.plus(first, self.strip)
            if self.last % self.strip:
                stop = b.binary("smin", stop, Value(str(self.last), I64))

            def columns(where: Value, _: list[Value]) -> Sequence[Value]:
                self._columns(where, first, stop)
                return []

            b.loop(self.start, self.count, self.lanes, [], columns)
            return []

        b.loop(0, self.last, self.strip, [], strip)

    def _columns(self, where: Value, first: Value, stop: Value) -> None:
        """The squares of a strip one below the other."""
        b, lanes, scratch = self.b, self.lanes, self.block.scratch
        index, count = where, Value(str(lanes), I64)
        if not self.even:
            index = b.binary("smax", where, Value("0", I64))
            end = b.binary("smin", b.plus(where, lanes), self.count)
            count = b.emit(I64, f"sub {end}, {index.text}")

        def square(at: Value, sums: list[Value]) -> Sequence[Value]:
            self._ask(at, index)
            whole = self._inside(at, count)
            sums = b.branch(whole, lambda: self._whole(at, index, sums), sums)
            if whole.text == "true":
                return sums
            rest = b.op("xor", whole, True)
            return b.branch(rest, lambda: self._edge(at, index, count, sums), sums)

        sums = [scratch.load(b, fold.name, index, lanes)[0] for fold in self.folds]
        totals = b.loop(first, stop, lanes, sums, square)
        for fold, total in zip(self.folds, totals, strict=True):
            scratch.store(b, fold.name, index, total)

    def _whole(self, at: Value, index: Value, sums: list[Value]) -> list[Value]:
        held, step = self._turned(at, index), self.together
        rows = [[*self.inner, self.b.plus(at, k)] for k in range(self.lanes)]
        for k in range(0, self.lanes, step):
            some, known = rows[k : k + step], held[k : k + step]
            sums = self.block.folded(
                self.stage, self.folds, some, at, index, None, sums, known
            )  # fmt: skip
        return sums

    def _edge(self, at: Value, index: Value, count: Value, sums: list[Value]) -> list[Value]:
        """A square of which some rows or columns do not exist, folded in the same order."""
        b, step = self.b, self.together
        left = b.emit(I64, f"sub i64 {self.last}, {at.text}")
        rows = b.binary("smin", left, Value(str(self.lanes), I64))
        for k in self.packed:
            self.block.copy(k, [*self.inner, at], index, count, rows)
        mask = tail_mask(b, self.lanes, count)

        def several(number: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
            def run(row: Value, sums: list[Value]) -> Sequence[Value]:
                some = [[*self.inner, b.plus(row, k)] for k in range(number)]
                return self.block.folded(self.stage, self.folds, some, at, index, mask, sums)

            return run

        even = b.plus(at, b.emit(I64, f"and {rows}, {-step}"))
        totals = b.loop(at, even, step, sums, several(step))
        if self.last % step:
            totals = b.loop(even, b.plus(at, rows), 1, totals, several(1))
        return [b.select(mask, new, old) for new, old in zip(totals, sums, strict=True)]

    @property
    def even(self) -> bool:
        """Whether there are whole squares of columns only."""
        return self.start.text == "0" and self.plan.kernel.outer[-1] % self.lanes == 0

    def _inside(self, at: Value, count: Value) -> Value:
        """Whether all rows and columns of a square exist."""
        b, lanes, last = self.b, self.lanes, self.last
        holds = Value("true", I1)
        if last % lanes:
            holds = b.compare("sle", at, last - lanes)
        if not self.even:
            fits = b.compare("eq", count, lanes)
            holds = fits if holds.text == "true" else b.op("and", holds, fits)
        return holds

    def _turned(self, at: Value, index: Value) -> list[dict[str, Typed]]:
        """What is loaded from turned operands at each row of a square."""
        b = self.b
        found: list[dict[str, Typed]] = [{} for _ in range(self.lanes)]
        for number in self.packed:
            body = self.stage.body
            names = [s.name for s in body if isinstance(s, Load) and s.operand == number]
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
                if number in plan.packed:  # it may cross a line
                    b.prefetch(b.at(here, k * step + self.lanes * operand.dtype.itemsize - 1))
