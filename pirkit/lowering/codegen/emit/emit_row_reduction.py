"""Emits the ``rows`` strategy: lanes along an inner axis, one outer iteration (a row) at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from pirkit.lowering.codegen.emit.interleave import interleaved
from pirkit.lowering.codegen.emit.schedule import Schedule, row_unroll
from pirkit.lowering.codegen.emit.scratch import LINE, Scratch
from pirkit.lowering.codegen.emit.scratch_elision import elided_scratch
from pirkit.lowering.codegen.emit.vector_emit import (
    Memory,
    VectorEmitter,
    address_at,
    argument,
    combine,
    lane_indices,
    load,
    reduce_lanes,
    split_index,
    store,
    tail_mask,
    tree_reduce,
)
from pirkit.lowering.codegen.ir.element_types import compute_type, identity, types_of
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Reduce,
    Statement,
    Store,
    reads,
    saved_values,
    varying_inside,
)
from pirkit.lowering.codegen.math.primitives import Typed, element, narrow, select_extremum
from pirkit.lowering.codegen.math.vecmath import any_lane

_PREFETCH_BYTES: Final = 1 << 13
"""Bytes to prefetch ahead at least: memory latency is longer than a short row."""
_LONG: Final = 1 << 16
"""Bytes of a row that does not stay in the L1 cache: prefetching into L1 then costs nothing."""


class RowEmitter:
    """Emits a range of rows.

    ``line_aligned`` (i1) says whether the results begin at cache lines. Phases with non-temporal
    stores are then emitted twice: with them if it holds, and with ordinary stores.
    """

    def __init__(
        self, b: Builder, plan: Schedule, scratch: Scratch, line_aligned: Value | None = None
    ) -> None:
        self.b, self.plan, self.kernel, self.scratch = b, plan, plan.kernel, scratch
        self.line_aligned = line_aligned
        self.types = types_of(plan.kernel)
        self.moving = varying_inside(plan.kernel)
        self.saved = tuple([name for name in saved_values(plan.kernel) if name in self.moving])
        self.elided = elided_scratch(plan.kernel)
        # A value whose result buffer serves as its storage needs no scratch.
        for name in self.saved:
            if name in self.elided:
                continue
            scratch.reserve(name, self.types[name], math.prod(self.kernel.inner), plan.lanes)

    def emit(self) -> None:
        """The loop over rows, or over blocks of rows that share accumulators."""
        b, kernel = self.b, self.kernel
        pointers = [
            b.at(argument(b, k), operand.offset) for k, operand in enumerate(kernel.operands)
        ]

        def row(point: Value, _: list[Value]) -> Sequence[Value]:
            self._row(pointers, split_index(b, point, kernel.outer))
            return []

        accumulations = kernel.accumulations()
        if accumulations:
            b.block_loop(lambda number, _: self._rows_in_order(number, pointers, accumulations))
        else:
            b.block_loop(row)

    def _row(self, pointers: Sequence[Value], positions: list[Value]) -> None:
        """All phases of one row."""
        bases = [
            address_at(self.b, pointer, operand.outer, positions)
            for pointer, operand in zip(pointers, self.kernel.operands, strict=True)
        ]
        values: dict[str, Typed] = {}
        for phase in self.kernel.loop_phases:
            _RowPhase(self, phase, positions, bases, values).emit()

    def _rows_in_order(
        self, number: Value, pointers: Sequence[Value], accumulations: Sequence[Accumulate]
    ) -> Sequence[Value]:
        """One block of rows that share an accumulator: initialize it, then run them in order."""
        b, kernel, block = self.b, self.kernel, self.plan.block
        first = len(kernel.outer) - self.plan.accumulated
        others, shared = kernel.outer[:first], kernel.outer[first:]
        count = math.prod(shared)
        *before, part = split_index(b, number, [*others, -(-count // block)])
        moved = list(pointers)
        for accumulation in {g.operand: g for g in accumulations}.values():
            o = kernel.operands[accumulation.operand]
            # With partial results each block has its own copy of the accumulator.
            moved[accumulation.operand] = b.at(
                pointers[accumulation.operand], b.times(part, accumulation.block_stride)
            )
            base = address_at(b, moved[accumulation.operand], o.outer[:first], before)
            self._init_accumulator(accumulation, base, kernel.inner, o.inner)
        start = b.times(part, block)
        stop = b.binary("smin", b.plus(start, block), Value(str(count), I64))

        def row(point: Value, _: list[Value]) -> Sequence[Value]:
            self._row(moved, [*before, *split_index(b, point, shared)])
            return []

        b.loop(start, stop, 1, [], row)
        return []

    def _init_accumulator(
        self, accumulation: Accumulate, base: Value, extents: Sequence[int], strides: Sequence[int]
    ) -> None:
        """Store the identity of the reduction to all elements of an accumulator."""
        b, dest = self.b, self.kernel.operands[accumulation.operand].dtype
        loops = [(n, s) for n, s in zip(extents, strides, strict=True) if s]
        identity_value = identity(accumulation.kind, compute_type(dest))

        def fill(address: Value, left: Sequence[tuple[int, int]], lanes: int) -> None:
            """Nested loops over the strided axes; a contiguous innermost one stores vectors."""
            if not left:
                value = b.const(Type(element(dest), lanes), identity_value)
                store(b, narrow(b, value, dest), dest, Memory(address, dest.itemsize), None)
                return
            (extent, stride), *rest = left
            width = 1 if rest or stride != dest.itemsize else self.plan.lanes

            def one(index: Value, _: list[Value]) -> Sequence[Value]:
                fill(b.at(address, b.times(index, stride)), rest, 1)
                return []

            def many(index: Value, _: list[Value]) -> Sequence[Value]:
                fill(b.at(address, b.times(index, stride)), rest, width)
                return []

            full = extent // width * width
            b.loop(0, full, width, [], many)
            if full < extent:
                b.loop(full, extent, 1, [], one)

        fill(base, loops, 1)


class _RowPhase:
    """A phase of one row: hoisted invariants, the loop and its accumulators, what follows it."""

    def __init__(
        self,
        rows: RowEmitter,
        phase: LoopPhase,
        positions: list[Value],
        bases: list[Value],
        values: dict[str, Typed],
    ) -> None:
        self.rows, self.phase, self.values = rows, phase, values
        self.positions, self.bases = positions, bases
        self.b, self.kernel = rows.b, rows.kernel
        self.lanes = rows.plan.lanes
        self.reductions = [s for s in phase.body if isinstance(s, Reduce)]
        self.broadcast: dict[str, Typed] = {}
        self.streams: frozenset[int] = frozenset()
        self.body = [
            s for s in phase.body if isinstance(s, Constant) or not self._is_invariant(s)
        ]  # fmt: skip
        self.unroll = row_unroll(rows.kernel, self.body)
        self.nan_checked = [
            f for f in self.reductions if f.kind in ("max", "min") and rows.types[f.name].is_float
        ]
        """Maxima and minima that track NaN in a flag of their own: a compare and an `or` per two
        vectors are cheaper than a reduction step that propagates NaN.
        """

    def emit(self) -> None:
        """Emit the phase; the reductions become scalars in ``values``."""
        b = self.b
        if self.phase.body:
            self._hoist_invariants()
            for name in _outer_values(self.body, self.values):
                value, dtype = self.values[name]
                self.broadcast[name] = b.splat(value, self.lanes), dtype
            start = [
                self._identity(reduction)
                for reduction in self.reductions
                # One accumulator per unrolled copy, so that consecutive additions are independent.
                for _ in range(self.unroll)
            ]
            start += [Value("zeroinitializer", Type("i1", self.lanes)) for _ in self.nan_checked]
            sums = self._reduce_row(start)
            for k, reduction in enumerate(self.reductions):
                dtype = self.rows.types[reduction.name]
                row_sums = sums[k * self.unroll : (k + 1) * self.unroll]
                total = reduce_lanes(
                    b, reduction.kind, tree_reduce(b, reduction.kind, row_sums, dtype), dtype
                )
                if reduction in self.nan_checked:
                    is_nan = any_lane(b, sums[self._nan_flag(reduction)])
                    total = b.select(is_nan, b.like(total, math.nan), total)
                self.values[reduction.name] = total, dtype
        if self.phase.after:
            vector = self._points(1, None, self.bases, Value("0", I64), [], None)
            vector.known = self.values
            vector.run(self.phase.after)

    def _hoist_invariants(self) -> None:
        """Compute what is constant along the row before its loop."""
        vector = self._points(1, None, self.bases, Value("0", I64), [], None)
        vector.known = self.values
        vector.run([s for s in self.phase.body if self._is_invariant(s)])

    def _is_invariant(self, statement: Statement) -> bool:
        is_pure = isinstance(statement, (Load, Compute, Index, Constant))
        return is_pure and statement.name not in self.rows.moving

    def _nan_flag(self, reduction: Reduce) -> int:
        """The carried value that flags NaN operands of a reduction."""
        return len(self.reductions) * self.unroll + self.nan_checked.index(reduction)

    def _identity(self, reduction: Reduce) -> Value:
        dtype = self.rows.types[reduction.name]
        type_ = Type(element(dtype), self.lanes)
        return self.b.const(type_, identity(reduction.kind, dtype))

    def _reduce_row(self, start: Sequence[Value]) -> list[Value]:
        """The loops of the phase, given the initial accumulators; the final ones."""
        b, line_aligned = self.b, self.rows.line_aligned
        self.streams = self._streamed()
        if line_aligned is None or not self.streams:
            return self._nest([], start)
        # Non-temporal vector stores must be aligned, which is only known at run time.
        found = b.branch(line_aligned, lambda: self._nest([], start), start)
        self.streams = frozenset()
        return b.branch(b.op("xor", line_aligned, True), lambda: self._nest([], start), found)

    def _streamed(self) -> frozenset[int]:
        """Operands with non-temporal stores."""
        stored = {s.operand for s in self.body if isinstance(s, Store)}
        operands, lanes = self.kernel.operands, self.lanes
        requests = [k for k in stored if operands[k].stream and _aligned(self.kernel, k, lanes)]
        return frozenset(requests)

    def _nest(self, inner: list[Value], carried: Sequence[Value]) -> list[Value]:
        """The loops over all inner axes but the last, then the row."""
        *loops, _ = self.kernel.inner
        if len(inner) == len(loops):
            return self._row(inner, carried)
        return self.b.loop(
            0, loops[len(inner)], 1, carried, lambda i, c: self._nest([*inner, i], c)
        )  # fmt: skip

    def _row(self, inner: list[Value], carried: Sequence[Value]) -> list[Value]:
        """The loop along the last inner axis: unrolled vectors, single vectors, a masked tail."""
        b, lanes, unroll = self.b, self.lanes, self.unroll
        row = self.kernel.inner[-1]
        bases = [
            address_at(b, base, operand.inner[:-1], inner)
            for base, operand in zip(self.bases, self.kernel.operands, strict=True)
        ]
        # Saved values are stored by their linear index over all inner axes.
        linear = Value("0", I64)
        for extent, position in zip(self.kernel.inner[1:], inner, strict=True):
            linear = b.times(b.plus(linear, position), extent)
        full = row // lanes
        main = full // unroll * unroll

        def several(count: int, index: Value, sums: Sequence[Value]) -> list[Value]:
            """The body at ``count`` consecutive vectors, with an accumulator for each."""
            result = list(sums)
            found_nan: dict[str, list[Value]] = {
                reduction.name: [] for reduction in self.nan_checked
            }
            places = [b.plus(index, copy * lanes) for copy in range(count)]

            def one(copy: int) -> None:
                """Emit the body of one vector, what it saves, and its prefetches."""
                at = places[copy]
                vector = self._points(lanes, None, bases, at, inner, linear)
                vector.run(self.body)
                self._save(vector, bases, at, linear)
                self._add(vector, copy, result)
                self._prefetch(bases, at, copy)
                for reduction in self.nan_checked:
                    found_nan[reduction.name].append(vector.reduced[reduction.name][0])

            bodies = [partial(one, copy) for copy in range(count)]
            if any(isinstance(s, Accumulate) for s in self.body):
                # A vector may accumulate into elements that the one before stored: keep the order.
                for body in bodies:
                    body()
            else:
                interleaved(b, bodies)
            for reduction in self.nan_checked:
                # `fcmp uno x, y` is true if x or y is NaN: one comparison checks two vectors.
                values = found_nan[reduction.name]
                for x, y in zip(values[::2], values[1::2] or values, strict=True):
                    self._note(reduction, b.compare("uno", x, y), result)
            return result

        sums = list(carried)
        if main:
            sums = b.loop(0, main * lanes, unroll * lanes, sums, lambda i, c: several(unroll, i, c))
        # Vectors that do not fill an unrolled step.
        if full - main == 1:
            sums = several(1, Value(str(main * lanes), I64), sums)
        elif full > main:
            sums = b.loop(main * lanes, full * lanes, lanes, sums, lambda i, c: several(1, i, c))
        # The tail of the row, under a mask.
        if row % lanes:
            at = Value(str(full * lanes), I64)
            mask = tail_mask(b, lanes, row % lanes)
            vector = self._points(lanes, mask, bases, at, inner, linear)
            vector.run(self.body)
            self._save(vector, bases, at, linear)
            self._add(vector, 0, sums)
            for reduction in self.nan_checked:
                value = vector.reduced[reduction.name][0]
                self._note(reduction, b.op("and", b.compare("uno", value, value), mask), sums)
        return sums

    def _note(self, reduction: Reduce, is_nan: Value, sums: list[Value]) -> None:
        """Set the NaN flag of a reduction in some lanes."""
        slot = self._nan_flag(reduction)
        sums[slot] = self.b.op("or", sums[slot], is_nan)

    def _add(self, vector: VectorEmitter, copy: int, sums: list[Value]) -> None:
        """Accumulate the reductions of one vector; lanes beyond the row keep their accumulators."""
        for k, reduction in enumerate(self.reductions):
            value, dtype = vector.reduced[reduction.name]
            slot = k * self.unroll + copy
            if reduction in self.nan_checked:
                total = select_extremum(self.b, sums[slot], value, reduction.kind)
            else:
                total = combine(self.b, reduction.kind, sums[slot], value, dtype)
            if vector.mask is not None:
                total = self.b.select(vector.mask, total, sums[slot])
            sums[slot] = total

    def _save(
        self, vector: VectorEmitter, bases: Sequence[Value], index: Value, linear: Value
    ) -> None:  # fmt: skip
        """Store what later phases read.

        A tail is written to scratch in full: lanes beyond the row are overwritten by the next row
        or never read. In a result buffer it is masked.
        """
        b, rows = self.b, self.rows
        for name in rows.saved:
            if any(getattr(s, "name", None) == name for s in self.body):
                value = vector.get(name)[0]
                if name in rows.elided:
                    memory = self._saved_address(name, bases, index)
                    store(b, value, rows.types[name], memory, vector.mask)
                else:
                    rows.scratch.store(b, name, b.plus(linear, index), value)

    def _saved_address(self, name: str, bases: Sequence[Value], index: Value) -> Memory:
        """The address of a saved value in the result buffer that stores it."""
        size = self.rows.types[name].itemsize
        address = self.b.at(bases[self.rows.elided[name]], self.b.times(index, size))
        return Memory(address, size)

    def _prefetch(self, bases: Sequence[Value], index: Value, copy: int) -> None:
        """Prefetch the same position of the next row, and the lines that this row will store.

        Stores that bypass the caches need no prefetch.
        """
        plan, b = self.rows.plan, self.b
        if (
            plan.prefetch_phase is None
            or self.phase is not self.kernel.loop_phases[plan.prefetch_phase]
        ):
            return
        requests = [(k, self._prefetch_distance(k), False) for k in plan.prefetched]
        # A value saved in a result buffer is stored by this very phase.
        elided_operands = self.rows.elided.values()
        requests += [(k, 0, True) for k in plan.store_prefetched if k not in elided_operands]
        for number, distance, write in requests:
            size = self.kernel.operands[number].dtype.itemsize
            near = 3 if self.kernel.inner[-1] * size >= _LONG else 2
            # One prefetch per cache line, not per vector.
            if copy * self.lanes * size % LINE == 0:
                here = b.at(b.at(bases[number], b.times(index, size)), distance)
                b.prefetch(here, near, write)

    def _prefetch_distance(self, number: int) -> int:
        """Bytes to the row that is prefetched: the next one, or a later one if rows are short."""
        operand = self.kernel.operands[number]
        row = self.kernel.inner[-1] * operand.dtype.itemsize
        return operand.outer[-1] * -(-_PREFETCH_BYTES // row)

    def _points(
        self,
        lanes: int,
        mask: Value | None,
        bases: Sequence[Value],
        index: Value,
        inner: Sequence[Value],
        linear: Value | None,
    ) -> VectorEmitter:
        """The emitter for ``lanes`` iterations; without ``linear`` for code outside of the loop."""
        b, kernel = self.b, self.kernel

        def memory(number: int) -> Memory:
            operand = kernel.operands[number]
            if linear is None:
                return Memory(bases[number], 0)
            step = operand.inner[-1]
            address = b.at(bases[number], b.times(index, step))
            return Memory(address, step, number in self.streams)

        def outside(name: str) -> Typed:
            if name in self.rows.elided and linear is not None:
                dtype = self.rows.types[name]
                memory = self._saved_address(name, bases, index)
                return load(b, dtype, memory, lanes, mask), dtype
            if name in self.rows.saved and linear is not None:
                return self.rows.scratch.load(b, name, b.plus(linear, index), lanes)
            return self.broadcast[name] if lanes > 1 else self.values[name]

        def position(axis: int) -> Value:
            here = [*self.positions, *inner]
            if axis < len(here):
                return here[axis]
            return lane_indices(b, index, lanes)

        return VectorEmitter(b, kernel.operands, lanes, memory, outside, position, mask, {}, {})


def _outer_values(body: Sequence[Statement], values: dict[str, Typed]) -> list[str]:
    """Names of earlier phases that a body reads, in order."""
    return list(dict.fromkeys(n for s in body for n in reads(s) if n in values))


def _aligned(kernel: Kernel, number: int, lanes: int) -> bool:
    """Whether all vectors of an operand are aligned to their size, provided that its buffer is."""
    operand = kernel.operands[number]
    width = lanes * operand.dtype.itemsize
    distances = (operand.offset, *operand.outer, *operand.inner[:-1])
    return width <= 64 and all(d % width == 0 for d in distances)
