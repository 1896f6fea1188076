"""Transposes strided operands in registers: VxV tiles are loaded, shuffled and reduced in place.

The transposed tiles never go through memory. Rows whose distance is a power of two map to few cache
sets, so only some dozens of their lines can be resident. The loop therefore reads a strip of a few
lines of each row, row after row, and prefetches the tiles that come `_PREFETCH_TILES` columns
later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from pirkit.lowering.codegen.emit.schedule import Schedule
from pirkit.lowering.codegen.emit.scratch import Scratch
from pirkit.lowering.codegen.emit.transpose_tile import transposed
from pirkit.lowering.codegen.emit.vector_emit import address_at, tail_mask
from pirkit.lowering.codegen.ir.element_types import compute_type
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.loopnest import Load, LoopPhase, Reduce
from pirkit.lowering.codegen.math.primitives import Typed, stored, widen

_STRIP: Final = 256
"""Bytes of a row in a strip: several lines, since memory delivers adjacent lines faster."""
_PREFETCH_TILES: Final = 32
"""Columns by which prefetches run ahead."""


def columns_before_line(b: Builder, plan: Schedule, pointers: Sequence[Value]) -> Value | None:
    """Columns before the first one whose vectors do not cross a cache line, as an i64.

    They are those of an operand that is contiguous along the lanes; None if there is none, or if
    each of its rows needs another number.
    """
    kernel = plan.kernel
    # Non-temporal stores need blocks that begin at multiples of a vector of the result.
    if any(o.stream for o in kernel.operands):
        return None
    for number in plan.prefetched:
        operand = kernel.operands[number]
        size, vector_bytes = operand.dtype.itemsize, plan.lanes * operand.dtype.itemsize
        strides = (*operand.outer[:-1], *operand.inner)
        if operand.outer[-1] == size and all(n % vector_bytes == 0 for n in strides):
            address = b.cast("ptrtoint", b.at(pointers[number], operand.offset), "i64")
            left = b.op("and", b.emit(I64, f"sub i64 0, {address.text}"), vector_bytes - 1)
            return b.emit(I64, f"udiv {left}, {size}")
    return None


class ColumnBlock(Protocol):
    """Columns that loop over the inner axes together; their accumulators are in scratch."""

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
        """Copy some columns of a transposed operand to its tile in scratch."""
        ...

    def reduced(
        self, phase: LoopPhase, reductions: list[Reduce], rows: list[list[Value]], origin: Value,
        index: Value, mask: Value | None, sums: Sequence[Value],
        known_values: Sequence[dict[str, Typed]] = (),
    ) -> list[Value]:  # fmt: skip
        """The accumulators after some rows; ``known_values`` are values in registers, per row."""
        ...


class RegisterTiles:
    """Runs a phase along the last inner axis: strip by strip, in each from column to column."""

    def __init__(
        self, block: ColumnBlock, phase: LoopPhase, reductions: list[Reduce], inner: list[Value],
        packed: Sequence[int],
    ) -> None:  # fmt: skip
        self.block, self.phase, self.reductions, self.inner = block, phase, reductions, inner
        self.plan, self.b, self.count, self.packed = block.plan, block.b, block.count, packed
        self.operands, self.lanes = self.plan.kernel.operands, self.plan.lanes
        self.last = self.plan.kernel.inner[-1]
        self.rows_per_step = min(self.plan.unroll, self.lanes)
        self.bases = [
            address_at(self.b, base, o.inner[:-1], inner)
            for base, o in zip(block.bases, self.operands, strict=True)
        ]
        self.strip = max(_STRIP // min(self.operands[k].dtype.itemsize for k in packed), self.lanes)
        self.start = Value("0", I64) if block.shift is None else self._start(block.shift)

    def _start(self, shift: Value) -> Value:
        """The first column of a tile, at most 0: whole tiles then begin at vector boundaries."""
        b = self.b
        head = b.select(b.compare("eq", self.block.first, 0), shift, Value("0", I64))
        # In block 0 the columns before the boundary are a partial tile that begins before 0.
        missing = b.op("and", b.emit(I64, f"sub i64 0, {head.text}"), self.lanes - 1)
        return b.emit(I64, f"sub i64 0, {missing.text}")

    def traverse(self) -> None:
        """Reduce all tiles."""
        b = self.b

        def strip(first: Value, _: list[Value]) -> Sequence[Value]:
            stop = b.plus(first, self.strip)
            if self.last % self.strip:
                stop = b.binary("smin", stop, Value(str(self.last), I64))

            def columns(address: Value, _: list[Value]) -> Sequence[Value]:
                self._columns(address, first, stop)
                return []

            b.loop(self.start, self.count, self.lanes, [], columns)
            return []

        b.loop(0, self.last, self.strip, [], strip)

    def _columns(self, address: Value, first: Value, stop: Value) -> None:
        """The tiles of a strip at the same columns; the accumulators stay in registers along it."""
        b, lanes, scratch = self.b, self.lanes, self.block.scratch
        index, count = address, Value(str(lanes), I64)
        if not self.has_whole_tiles:
            index = b.binary("smax", address, Value("0", I64))
            end = b.binary("smin", b.plus(address, lanes), self.count)
            count = b.emit(I64, f"sub {end}, {index.text}")

        def square(at: Value, sums: list[Value]) -> Sequence[Value]:
            """One VxV tile: unrolled if it is whole, else through scratch memory."""
            self._prefetch(at, index)
            whole = self._inside(at, count)
            sums = b.branch(whole, lambda: self._whole_tile(at, index, sums), sums)
            if whole.text == "true":
                return sums
            rest = b.op("xor", whole, True)
            return b.branch(rest, lambda: self._edge_tile(at, index, count, sums), sums)

        sums = [scratch.load(b, reduction.name, index, lanes)[0] for reduction in self.reductions]
        totals = b.loop(first, stop, lanes, sums, square)
        for reduction, total in zip(self.reductions, totals, strict=True):
            scratch.store(b, reduction.name, index, total)

    def _whole_tile(self, at: Value, index: Value, sums: list[Value]) -> list[Value]:
        """Reduce a tile whose rows and columns all exist, ``rows_per_step`` rows at a time."""
        known_values, step = self._transposed_rows(at, index), self.rows_per_step
        rows = [[*self.inner, self.b.plus(at, k)] for k in range(self.lanes)]
        for k in range(0, self.lanes, step):
            row_block, known = rows[k : k + step], known_values[k : k + step]
            sums = self.block.reduced(
                self.phase, self.reductions, row_block, at, index, None, sums, known
            )  # fmt: skip
        return sums

    def _edge_tile(self, at: Value, index: Value, count: Value, sums: list[Value]) -> list[Value]:
        """A tile at an edge goes through scratch; the order of the sums is the same."""
        b, step = self.b, self.rows_per_step
        left = b.emit(I64, f"sub i64 {self.last}, {at.text}")
        rows = b.binary("smin", left, Value(str(self.lanes), I64))
        for k in self.packed:
            self.block.copy(k, [*self.inner, at], index, count, rows)
        mask = tail_mask(b, self.lanes, count)

        def several(number: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
            def run(row: Value, sums: list[Value]) -> Sequence[Value]:
                row_block = [[*self.inner, b.plus(row, k)] for k in range(number)]
                return self.block.reduced(
                    self.phase, self.reductions, row_block, at, index, mask, sums
                )

            return run

        even = b.plus(at, b.emit(I64, f"and {rows}, {-step}"))
        totals = b.loop(at, even, step, sums, several(step))
        if self.last % step:
            totals = b.loop(even, b.plus(at, rows), 1, totals, several(1))
        # Masked lanes hold accumulators of other tiles, which must not change.
        return [b.select(mask, new, old) for new, old in zip(totals, sums, strict=True)]

    @property
    def has_whole_tiles(self) -> bool:
        """Whether all tiles have V columns."""
        return self.start.text == "0" and self.plan.kernel.outer[-1] % self.lanes == 0

    def _inside(self, at: Value, count: Value) -> Value:
        """Whether all rows and columns of a tile exist, as an i1."""
        b, lanes, last = self.b, self.lanes, self.last
        holds = Value("true", I1)
        if last % lanes:
            holds = b.compare("sle", at, last - lanes)
        if not self.has_whole_tiles:
            fits = b.compare("eq", count, lanes)
            holds = fits if holds.text == "true" else b.op("and", holds, fits)
        return holds

    def _transposed_rows(self, at: Value, index: Value) -> list[dict[str, Typed]]:
        """The loads from transposed operands: for each row of a tile, its vector by name."""
        b = self.b
        found: list[dict[str, Typed]] = [{} for _ in range(self.lanes)]
        for number in self.packed:
            body = self.phase.body
            names = [s.name for s in body if isinstance(s, Load) and s.operand == number]
            operand = self.operands[number]
            dtype, distance = operand.dtype, operand.outer[-1]
            type_ = Type(stored(dtype), self.lanes)
            base = b.at(self.bases[number], b.times(at, dtype.itemsize))
            first = b.at(base, b.times(index, distance))
            starts = [b.at(first, k * distance) for k in range(self.lanes)]
            columns = [b.emit(type_, f"load {type_}, {s}, align {dtype.itemsize}") for s in starts]
            for known, vector in zip(found, transposed(b, columns), strict=True):
                known.update(dict.fromkeys(names, (widen(b, vector, dtype), compute_type(dtype))))
        return found

    def _prefetch(self, at: Value, index: Value) -> None:
        """Prefetch a later tile of the strip; at the end of a block, the next strip."""
        b, plan = self.b, self.plan
        if not plan.prefetched:
            return
        column = b.plus(index, _PREFETCH_TILES)
        over = b.compare("sge", column, self.count)
        zero = Value("0", I64)
        column = b.emit(I64, f"sub {column}, {b.select(over, self.count, zero).text}")
        row = b.plus(at, b.select(over, Value(str(self.strip), I64), zero))
        for number in plan.prefetched:
            operand = self.operands[number]
            here = b.at(self.bases[number], b.times(column, operand.outer[-1]))
            here = b.at(here, b.times(row, operand.inner[-1]))
            step = operand.outer[-1] if number in plan.packed else operand.inner[-1]
            for k in range(self.lanes):
                b.prefetch(b.at(here, k * step))
                if number in plan.packed:  # its vector may cross a cache line
                    b.prefetch(b.at(here, k * step + self.lanes * operand.dtype.itemsize - 1))
