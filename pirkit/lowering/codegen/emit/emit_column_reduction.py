"""Emits the ``flat`` and ``columns`` strategies: lanes along an outer axis, a block of outer
iterations (columns) that loops over the inner axes together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from pirkit.lowering.codegen.emit.interleave import interleaved
from pirkit.lowering.codegen.emit.register_transpose import RegisterTiles, columns_before_line
from pirkit.lowering.codegen.emit.schedule import PREFETCH_DISTANCE, TRANSPOSE_TILE, Schedule
from pirkit.lowering.codegen.emit.scratch import Scratch
from pirkit.lowering.codegen.emit.transpose_tile import pack
from pirkit.lowering.codegen.emit.vector_emit import (
    Memory,
    VectorEmitter,
    address_at,
    argument,
    combine,
    lane_indices,
    split_index,
    tail_mask,
    tree_reduce,
)
from pirkit.lowering.codegen.ir.element_types import identity, types_of
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.loopnest import (
    Kernel,
    Load,
    LoopPhase,
    Reduce,
    defines,
    reads,
    saved_values,
)
from pirkit.lowering.codegen.math.primitives import Typed, element


class ColumnEmitter:
    """Emits a range of blocks. The vectorized axis is the last outer one."""

    def __init__(self, b: Builder, plan: Schedule, scratch: Scratch) -> None:
        self.b, self.plan, self.kernel, self.scratch = b, plan, plan.kernel, scratch
        self.lanes, self.block = plan.lanes, plan.block
        self.types = types_of(plan.kernel)
        self.saved = saved_values(plan.kernel)
        self.shared = _spilled_values(plan.kernel)
        inner = math.prod(plan.kernel.inner)
        # Register tiles shift blocks to a vector boundary, so the first one may be a vector wider.
        self.room = self.block + (self.lanes if plan.register_tiles else 0)
        for name in self.shared:
            scratch.reserve(name, self.types[name], self.room, self.lanes)
        for name in self.saved:
            scratch.reserve(name, self.types[name], inner * self.block, self.lanes)
        # A tile of one VxV square per operand, or of all columns of the block.
        rows, self.tile = (
            (self.lanes, self.lanes) if plan.register_tiles else (TRANSPOSE_TILE, self.block)
        )
        for number in plan.packed:
            dtype = plan.kernel.operands[number].dtype
            scratch.reserve(f"tile {number}", dtype, rows * self.tile, self.lanes)

    def emit(self) -> None:
        """The loop over blocks; in each all phases, one after the other."""
        b, kernel = self.b, self.kernel
        pointers = [argument(b, k) for k in range(len(kernel.operands))]
        shift = columns_before_line(b, self.plan, pointers) if self.plan.register_tiles else None

        def run(number: Value, _: list[Value]) -> Sequence[Value]:
            if not kernel.outer:
                self._single_point(pointers)
                return []
            *others, extent = kernel.outer
            positions = split_index(b, number, [*others, -(-extent // self.block)])
            first = b.times(positions[-1], self.block)
            count = self._count(extent, first)
            if shift is not None:
                first, count = self._shifted(extent, first, shift)
            bases = [
                address_at(b, b.at(pointer, o.offset), o.outer, [*positions[:-1], first])
                for pointer, o in zip(pointers, kernel.operands, strict=True)
            ]
            block = _Block(self, positions[:-1], first, count, bases, shift)
            if kernel.inner or any(s.after for s in kernel.loop_phases):
                for phase in kernel.loop_phases:
                    block.run_phase(phase)
            else:
                block.flat()
            return []

        b.block_loop(run)

    def _count(self, extent: int, first: Value) -> Value:
        """Columns of the block whose first column is ``first``."""
        block = Value(str(self.block), I64)
        if extent % self.block == 0:
            return block
        left = self.b.emit(I64, f"sub i64 {extent}, {first.text}")
        return self.b.binary("smin", left, block)

    def _shifted(self, extent: int, first: Value, shift: Value) -> tuple[Value, Value]:
        """First column and size of a block, if all blocks but the first begin ``shift`` later."""
        b, zero = self.b, Value("0", I64)
        begin = b.plus(first, b.select(b.compare("sgt", first, 0), shift, zero))
        end = b.plus(b.plus(first, self.block), shift)
        end = b.binary("smin", end, Value(str(extent), I64))
        return begin, b.binary("smax", b.emit(I64, f"sub {end}, {begin.text}"), zero)

    def _single_point(self, pointers: list[Value]) -> None:
        """A kernel without axes: one scalar iteration."""
        b = self.b
        bases = [b.at(p, o.offset) for p, o in zip(pointers, self.kernel.operands, strict=True)]
        block = _Block(self, [], Value("0", I64), Value("1", I64), bases)
        vector = block.vector_at(Value("0", I64), None, [], 1)
        vector.run(self.kernel.loop_phases[0].body)


class _Block:
    """Some adjacent outer iterations: the columns of one block."""

    def __init__(
        self, columns: ColumnEmitter, positions: list[Value], first: Value, count: Value,
        bases: list[Value], shift: Value | None = None,
    ) -> None:  # fmt: skip
        self.columns, self.positions, self.first = columns, positions, first
        self.plan = columns.plan
        self.count, self.bases = count, bases
        self.b, self.kernel, self.scratch = columns.b, columns.kernel, columns.scratch
        self.lanes, self.shift = columns.lanes, shift
        self.full = count
        # Whether the last vector may be partial; otherwise no code for a tail is emitted.
        self.ragged = bool(self.kernel.outer) and self.kernel.outer[-1] % self.lanes != 0
        self.ragged |= shift is not None
        if self.ragged:
            self.full = self.b.emit(I64, f"and {count}, {-self.lanes}")

    def vectors(self, body: Callable[[Value, Value | None], None], unroll: int = 1) -> None:
        """Emit ``body(index, mask)`` for each vector of the block, ``unroll`` at a time."""
        b, lanes = self.b, self.lanes
        start: Value | int = 0

        def several(count: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
            def run(index: Value, _: list[Value]) -> Sequence[Value]:
                places = [b.plus(index, copy * lanes) for copy in range(count)]
                interleaved(b, [partial(body, address_at, None) for address_at in places])
                return []

            return run

        if unroll > 1:
            width = lanes * unroll
            start = b.emit(I64, f"and {self.full}, {-width}")
            b.loop(0, start, width, [], several(unroll))
            # All blocks are multiples of an unrolled step: nothing is left.
            if self.kernel.outer[-1] % width == 0 and self.columns.block % width == 0:
                return
        b.loop(start, self.full, lanes, [], several(1))
        if self.ragged:
            rest = b.emit(I64, f"sub {self.count}, {self.full.text}")

            def tail() -> Sequence[Value]:
                body(self.full, tail_mask(b, lanes, rest))
                return []

            b.branch(b.compare("sgt", rest, 0), tail)

    def flat(self) -> None:
        """All statements of an elementwise kernel, vector by vector."""

        def body(index: Value, mask: Value | None) -> None:
            if mask is None:
                self._prefetch(index)
            self.vector_at(index, mask, [], self.lanes).run(self.kernel.loop_phases[0].body)

        self.vectors(body, self.columns.plan.unroll)

    def _prefetch(self, index: Value) -> None:
        """Prefetch what a later iteration reads; a prefetch beyond the buffer has no effect."""
        b = self.b
        for number in self.columns.plan.prefetched:
            size = self.kernel.operands[number].dtype.itemsize
            b.prefetch(b.at(b.at(self.bases[number], b.times(index, size)), PREFETCH_DISTANCE))

    def run_phase(self, phase: LoopPhase) -> None:
        """One phase: initialize its accumulators, loop over the inner axes, run what follows."""
        reductions = [s for s in phase.body if isinstance(s, Reduce)]
        if reductions:
            self._start(reductions)
        if phase.body:
            self._nest(phase, reductions, [])
        if phase.after:
            self._after(phase)

    def _start(self, reductions: list[Reduce]) -> None:
        """Store the identity of each reduction to its accumulators in scratch."""
        b = self.b

        def body(index: Value, _: list[Value]) -> Sequence[Value]:
            for reduction in reductions:
                dtype = self.columns.types[reduction.name]
                type_ = Type(element(dtype), self.lanes)
                start = b.const(type_, identity(reduction.kind, dtype))
                self.scratch.store(b, reduction.name, index, start)
            return []

        b.loop(0, self.columns.room, self.lanes, [], body)

    def _nest(self, phase: LoopPhase, reductions: list[Reduce], inner: list[Value]) -> None:
        """Loops over the inner axes; along the last one in tiles, if operands are transposed."""
        *loops, last = self.kernel.inner
        if len(inner) < len(loops):

            def body(index: Value, _: list[Value]) -> Sequence[Value]:
                self._nest(phase, reductions, [*inner, index])
                return []

            self.b.loop(0, loops[len(inner)], 1, [], body)
            return
        used = {s.operand for s in phase.body if isinstance(s, Load)}
        tiles = [k for k in self.columns.plan.packed if k in used]
        if not tiles:
            self._inner_loop(phase, reductions, inner, Value("0", I64), Value(str(last), I64))
            return

        def chunk(start: Value, _: list[Value]) -> Sequence[Value]:
            b = self.b
            stop = b.binary("smin", b.plus(start, TRANSPOSE_TILE), Value(str(last), I64))
            length = b.emit(I64, f"sub {stop}, {start.text}")
            for k in tiles:
                self.copy(k, [*inner, start], Value("0", I64), self.count, length)
            self._inner_loop(phase, reductions, inner, start, stop)
            return []

        if self.columns.plan.register_tiles:
            RegisterTiles(self, phase, reductions, inner, tiles).traverse()
        else:
            self.b.loop(0, last, TRANSPOSE_TILE, [], chunk)

    def copy(
        self, number: int, inner: list[Value], index: Value, count: Value, length: Value
    ) -> None:  # fmt: skip
        """Copy some columns of a transposed operand to its tile in scratch."""
        b, operand, plan = self.b, self.kernel.operands[number], self.columns.plan
        source = address_at(b, self.bases[number], operand.inner, inner)
        source = b.at(source, b.times(index, operand.outer[-1]))
        scratch_tile = self.scratch.memory(b, f"tile {number}", Value("0", I64)).address
        prefetch_distance = (
            TRANSPOSE_TILE if number in plan.prefetched and not plan.register_tiles else 0
        )
        pack(
            b,
            operand.dtype,
            self.lanes,
            (source, operand.outer[-1], count),
            (scratch_tile, self.columns.tile),
            length,
            self.kernel.inner[-1] % self.lanes != 0,
            prefetch_distance,
        )

    def _inner_loop(
        self,
        phase: LoopPhase,
        reductions: list[Reduce],
        inner: list[Value],
        start: Value,
        stop: Value,
    ) -> None:
        """The body for ``start .. stop`` of the last inner axis, ``unroll`` iterations a step."""
        b = self.b
        # Each unrolled step loads and stores the accumulators in scratch only once.
        unroll = self.columns.plan.unroll if reductions else 1

        def rows(count: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
            def run(row: Value, _: list[Value]) -> Sequence[Value]:
                at = [[*inner, b.plus(row, copy)] for copy in range(count)]
                self.vectors(lambda v, mask: self._step(phase, reductions, at, start, v, mask))
                return []

            return run

        if unroll > 1:
            length = b.emit(I64, f"sub {stop}, {start.text}")
            even = b.plus(b.emit(I64, f"and {length}, {-unroll}"), start)
            b.loop(start, even, unroll, [], rows(unroll))
            start_rest = even
        else:
            start_rest = start
        b.loop(start_rest, stop, 1, [], rows(1))

    def _step(
        self, phase: LoopPhase, reductions: list[Reduce], rows: list[list[Value]], origin: Value,
        index: Value, mask: Value | None,
    ) -> None:  # fmt: skip
        """The body at some inner iterations and one vector of columns."""
        b = self.b
        for inner in rows:
            self._prefetch_tile(phase, inner, index)
        sums = [
            self.scratch.load(b, reduction.name, index, self.lanes)[0] for reduction in reductions
        ]
        totals = self.reduced(phase, reductions, rows, origin, index, mask, sums)
        for reduction, total in zip(reductions, totals, strict=True):
            self.scratch.store(b, reduction.name, index, total)

    def reduced(
        self, phase: LoopPhase, reductions: list[Reduce], rows: list[list[Value]], origin: Value,
        index: Value, mask: Value | None, sums: Sequence[Value],
        known_values: Sequence[dict[str, Typed]] = (),
    ) -> list[Value]:  # fmt: skip
        """The accumulators ``sums`` after the body at some inner iterations (``rows``).

        ``known_values`` are values per row that are in registers already. The rows are reduced as a
        tree before they are added, which shortens the dependence chain of the accumulators.
        """
        b = self.b
        found: dict[str, list[Value]] = {reduction.name: [] for reduction in reductions}
        # Rows share no values but the accumulators, so their instructions may overlap.
        for k, inner in enumerate(rows):
            known = known_values[k] if known_values else {}
            vector = self.vector_at(index, mask, inner, self.lanes, origin)
            vector.known.update(known)
            vector.run([s for s in phase.body if defines(s) not in known])
            for statement in phase.body:
                name = defines(statement)
                if name in self.columns.saved:
                    self.scratch.store(
                        b, name, self._saved_address(inner, index), vector.get(name)[0]
                    )
            for reduction in reductions:
                found[reduction.name].append(vector.reduced[reduction.name][0])
        totals: list[Value] = []
        for reduction, accumulated in zip(reductions, sums, strict=True):
            dtype = self.columns.types[reduction.name]
            partial = tree_reduce(b, reduction.kind, found[reduction.name], dtype)
            totals.append(combine(b, reduction.kind, accumulated, partial, dtype))
        return totals

    def _prefetch_tile(self, phase: LoopPhase, inner: list[Value], index: Value) -> None:
        """Prefetch the next tile of operands that are read in place."""
        b, plan = self.b, self.columns.plan
        used = {s.operand for s in phase.body if isinstance(s, Load)}
        for number in sorted(used.intersection(plan.prefetched).difference(plan.packed)):
            operand = self.kernel.operands[number]
            row = address_at(b, self.bases[number], operand.inner, inner)
            b.prefetch(
                b.at(
                    b.at(row, b.times(index, operand.outer[-1])), TRANSPOSE_TILE * operand.inner[-1]
                )
            )

    def _after(self, phase: LoopPhase) -> None:
        """The statements after the loops; values that later phases read go to scratch."""

        def body(index: Value, mask: Value | None) -> None:
            vector = self.vector_at(index, mask, None, self.lanes)
            vector.run(phase.after)
            for statement in phase.after:
                if (name := defines(statement)) in self.columns.shared:
                    self.scratch.store(self.b, name, index, vector.get(name)[0])

        self.vectors(body)

    def _saved_address(self, inner: Sequence[Value], index: Value) -> Value:
        """The index in scratch of a saved value: inner iterations by columns of the block."""
        b, linear = self.b, Value("0", I64)
        for extent, position in zip(self.kernel.inner, inner, strict=True):
            linear = b.plus(b.times(linear, extent), position)
        return b.plus(b.times(linear, self.columns.block), index)

    def vector_at(
        self, index: Value, mask: Value | None, inner: list[Value] | None, lanes: int,
        origin: Value | None = None,
    ) -> VectorEmitter:  # fmt: skip
        """The emitter for a vector of columns; without ``inner`` for what follows the loops."""
        b, kernel, columns = self.b, self.kernel, self.columns

        def memory(number: int) -> Memory:
            operand = kernel.operands[number]
            if number in columns.plan.packed and inner and origin is not None:
                # The tile holds rows from `origin` on, each with one element per column.
                row = b.emit(I64, f"sub {inner[-1]}, {origin.text}")
                at = b.times(row, columns.tile)
                at = at if columns.plan.register_tiles else b.plus(at, index)
                return self.scratch.memory(b, f"tile {number}", at)
            step = operand.outer[-1] if operand.outer else 0
            # Read in place: contiguous along the lanes, broadcast, or with a small stride.
            base = address_at(b, self.bases[number], operand.inner, inner) if inner else (
                self.bases[number]
            )  # fmt: skip
            stream = operand.stream and _aligned(kernel, number, lanes, columns.block)
            return Memory(b.at(base, b.times(index, step)), step, stream)

        def outside(name: str) -> Typed:
            if name in columns.saved:
                return self.scratch.load(b, name, self._saved_address(inner or [], index), lanes)
            return self.scratch.load(b, name, index, lanes)

        def position(axis: int) -> Value:
            rank = len(kernel.outer)
            if axis < rank - 1:
                return self.positions[axis]
            if axis == rank - 1:
                return lane_indices(b, b.plus(self.first, index), lanes)
            return (inner or [])[axis - rank]

        return VectorEmitter(b, kernel.operands, lanes, memory, outside, position, mask, {}, {})


def _spilled_values(kernel: Kernel) -> tuple[str, ...]:
    """Accumulators, and values after the loops that later phases read: arrays in scratch."""
    defined: set[str] = set()
    found: list[str] = []
    for phase in kernel.loop_phases:
        later = {n for s in (*phase.body, *phase.after) for n in reads(s)}
        found += [name for name in sorted(later & defined) if name not in found]
        found += [s.name for s in phase.body if isinstance(s, Reduce)]
        defined |= {name for s in phase.after if (name := defines(s)) is not None}
    return tuple(dict.fromkeys(found))


def _aligned(kernel: Kernel, number: int, lanes: int, block: int) -> bool:
    """Whether all vectors of an operand are aligned to their size, provided that its buffer is."""
    operand = kernel.operands[number]
    size = operand.dtype.itemsize
    width = lanes * size
    distances = (operand.offset, *operand.outer[:-1], *operand.inner, block * size)
    return width <= 64 and all(d % width == 0 for d in distances)
