"""Emits the ``tiles`` strategy: reductions whose accumulators stay in registers.

The lanes lie along the last outer axis; a register tile is some vectors of it at some iterations
(rows) of the axis before. What rows or columns of a tile share is loaded once: small matmuls,
convolutions, short sums. A sum of products is accumulated by FMA, rounded once per term.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Final

from pirkit.lowering.codegen.emit.schedule import Schedule
from pirkit.lowering.codegen.emit.scratch import Scratch
from pirkit.lowering.codegen.emit.vector_emit import (
    Memory,
    VectorEmitter,
    address_at,
    argument,
    combine,
    lane_indices,
    split_index,
    tail_mask,
)
from pirkit.lowering.codegen.ir.element_types import identity, types_of
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel, Reduce, Statement, reads
from pirkit.lowering.codegen.math.primitives import Typed, element

_WRITTEN_OUT: Final = 8
"""Tiles with predicated loads up to which each is unrolled: LLVM then folds their predicates."""

Body = Callable[[Value, list[Value]], Sequence[Value]]


class TileEmitter:
    """Emits a range of blocks; a block is a row of register tiles along the vectorized axis."""

    def __init__(self, b: Builder, plan: Schedule, scratch: Scratch) -> None:
        self.b, self.plan, self.kernel = b, plan, plan.kernel
        self.lanes, self.rows, self.vectors = plan.lanes, plan.block, plan.unroll
        self.types = types_of(plan.kernel)
        self.is_guarded = any(getattr(s, "predicate", None) for s in plan.kernel.statements())
        (self.phase,) = plan.kernel.loop_phases
        self.reductions = [s for s in self.phase.body if isinstance(s, Reduce)]
        self.factors = _fused_multiply_adds(plan.kernel, self.reductions)
        # These products exist only inside an FMA; they are not computed by themselves.
        added = {self.reductions[k].value for k in self.factors}
        self.body = [s for s in self.phase.body if getattr(s, "name", None) not in added]

    def emit(self) -> None:
        """The loop over blocks: ``rows`` rows by all columns."""
        b, kernel = self.b, self.kernel
        pointers = [argument(b, k) for k in range(len(kernel.operands))]
        *others, extent, _ = kernel.outer

        def run(number: Value, _: list[Value]) -> Sequence[Value]:
            positions = split_index(b, number, [*others, -(-extent // self.rows)])
            first = b.times(positions[-1], self.rows)
            bases = [
                address_at(b, b.at(pointer, o.offset), o.outer[:-1], [*positions[:-1], first])
                for pointer, o in zip(pointers, kernel.operands, strict=True)
            ]
            before = positions[:-1]
            if extent % self.rows == 0:
                self._columns(before, first, bases, self.rows)
                return []
            # Rows that do not fill a tile run as tiles of one row.
            left = b.emit(I64, f"sub i64 {extent}, {first.text}")
            full = b.compare("sge", left, self.rows)

            def whole() -> Sequence[Value]:
                self._columns(before, first, bases, self.rows)
                return []

            b.branch(full, whole)
            rest = b.select(full, Value("0", I64), left)

            def one(row: Value, _: list[Value]) -> Sequence[Value]:
                moved = [
                    b.at(base, b.times(row, o.outer[-2]))
                    for base, o in zip(bases, kernel.operands, strict=True)
                ]
                self._columns(before, b.plus(first, row), moved, 1)
                return []

            b.loop(0, rest, 1, [], one)
            return []

        b.block_loop(run)

    def _columns(
        self, before: list[Value], row: Value, bases: list[Value], rows: int
    ) -> None:  # fmt: skip
        """All tiles of some rows: whole ones, single vectors, and one masked vector."""
        b, lanes = self.b, self.lanes
        extent = self.kernel.outer[-1]
        full = extent // lanes
        full_width = full // self.vectors * self.vectors

        def tile(vectors: int, mask: Value | None = None) -> Body:
            def run(column: Value, _: list[Value]) -> Sequence[Value]:
                _RegisterTile(self, before, row, column, bases, (rows, vectors), mask).emit()
                return []

            return run

        if full_width:
            self._over(full_width * lanes, self.vectors * lanes, tile(self.vectors))
        if full > full_width:
            b.loop(full_width * lanes, full * lanes, lanes, [], tile(1))
        if extent % lanes:
            mask = tail_mask(b, lanes, extent % lanes)
            tile(1, mask)(Value(str(full * lanes), I64), [])

    def _over(self, end: int, step: int, body: Body) -> None:
        """The tiles of columns ``0 .. end``; unrolled if few of them decide what is loaded."""
        columns = range(0, end, step)
        if len(columns) > _WRITTEN_OUT or not self.is_guarded:
            self.b.loop(0, end, step, [], body)
            return
        for column in columns:
            body(Value(str(column), I64), [])


class _RegisterTile:
    """Some rows by some vectors of columns, with an accumulator per reduction for each."""

    def __init__(
        self,
        tiles: TileEmitter,
        before: list[Value],
        row: Value,
        column: Value,
        bases: list[Value],
        shape: tuple[int, int],
        mask: Value | None,
    ) -> None:
        self.tiles, self.before, self.row, self.column = tiles, before, row, column
        self.bases, self.mask = bases, mask
        self.b, self.kernel, self.lanes = tiles.b, tiles.kernel, tiles.lanes
        self.places = list(product(range(shape[0]), range(shape[1])))

    def emit(self) -> None:
        """The loops over the inner axes, then the statements after them for each vector."""
        sums = self._nest(
            [], [self._start(reduction) for reduction in self.tiles.reductions for _ in self.places]
        )
        count = len(self.places)
        for k, (row, vector) in enumerate(self.places):
            emitter = self._vector_at(row, vector, None)
            for n, reduction in enumerate(self.tiles.reductions):
                emitter.known[reduction.name] = (
                    sums[n * count + k],
                    self.tiles.types[reduction.name],
                )
            emitter.run(self.tiles.phase.after)

    def _start(self, reduction: Reduce) -> Value:
        dtype = self.tiles.types[reduction.name]
        return self.b.const(Type(element(dtype), self.lanes), identity(reduction.kind, dtype))

    def _nest(self, inner: list[Value], sums: Sequence[Value]) -> list[Value]:
        """The loops over the inner axes; short ones are unrolled."""
        extents = self.kernel.inner[len(inner) :]
        if not extents:
            return self._point(inner, sums)
        if math.prod(extents) * len(self.places) <= self.tiles.plan.max_unrolled:
            for at in range(extents[0]):
                sums = self._nest([*inner, Value(str(at), I64)], sums)
            return list(sums)
        return self.b.loop(0, extents[0], 1, sums, lambda i, c: self._nest([*inner, i], c))

    def _point(self, inner: list[Value], sums: Sequence[Value]) -> list[Value]:
        """The body at one inner iteration for all vectors of the tile; the new accumulators."""
        b, result, count = self.b, list(sums), len(self.places)
        for k, (row, vector) in enumerate(self.places):
            emitter = self._vector_at(row, vector, inner)
            emitter.run([s for s in self.tiles.body if not isinstance(s, Reduce)])
            for n, reduction in enumerate(self.tiles.reductions):
                slot, dtype = n * count + k, self.tiles.types[reduction.name]
                # LLVM may not contract a multiply and an add by itself: fuse them here.
                if n in self.tiles.factors:
                    x, y = (emitter.get(name)[0] for name in self.tiles.factors[n])
                    result[slot] = b.muladd(x, y, result[slot])
                else:
                    value = emitter.get(reduction.value)[0]
                    result[slot] = combine(b, reduction.kind, result[slot], value, dtype)
        return result

    def _vector_at(self, row: int, vector: int, inner: list[Value] | None) -> VectorEmitter:
        """The emitter for one vector of the tile; without ``inner`` after the loops."""
        b, kernel, lanes = self.b, self.kernel, self.lanes
        column = b.plus(self.column, vector * lanes)

        def memory(number: int) -> Memory:
            o = kernel.operands[number]
            base = b.at(self.bases[number], row * o.outer[-2])
            if inner is not None:
                base = address_at(b, base, o.inner, inner)
            return Memory(b.at(base, b.times(column, o.outer[-1])), o.outer[-1], o.stream)

        def outside(name: str) -> Typed:
            raise KeyError(name)

        def position(axis: int) -> Value:
            rank = len(kernel.outer)
            if axis < rank - 2:
                return self.before[axis]
            if axis == rank - 2:
                return b.plus(self.row, row)
            return (
                lane_indices(b, column, lanes) if axis == rank - 1 else (inner or [])[axis - rank]
            )

        return VectorEmitter(
            b, kernel.operands, lanes, memory, outside, position, self.mask, {}, {}
        )


def _fused_multiply_adds(
    kernel: Kernel, reductions: Sequence[Reduce]
) -> dict[int, tuple[str, str]]:
    """The factors of sums of float products that nothing else reads, by number of the reduction."""
    used: dict[str, int] = {}
    made: dict[str, Statement] = {}
    for statement in kernel.statements():
        for name in reads(statement):
            used[name] = used.get(name, 0) + 1
        if isinstance(statement, Compute):
            made[statement.name] = statement
    found: dict[int, tuple[str, str]] = {}
    for k, reduction in enumerate(reductions):
        match made.get(reduction.value):
            case Compute(_, "multiply", (x, y), dtype) if (
                reduction.kind == "sum"
                and used[reduction.value] == 1
                and element(dtype) in ("float", "double")
            ):
                found[k] = x, y
            case _:
                continue
    return found
