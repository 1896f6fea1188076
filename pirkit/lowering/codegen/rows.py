"""Kernels whose lanes lie along an inner axis: one outer point, one row, at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from pirkit.lowering.codegen.homes import homes
from pirkit.lowering.codegen.ir import I64, Builder, Type, Value
from pirkit.lowering.codegen.loopnest import (
    Compute,
    Constant,
    Fold,
    Gather,
    Index,
    Kernel,
    Load,
    Stage,
    Statement,
    Store,
    kept,
    moving,
    reads,
)
from pirkit.lowering.codegen.points import (
    Memory,
    Points,
    argument,
    combine,
    computed,
    fold_lanes,
    identity,
    load,
    place,
    split_index,
    steps,
    store,
    tail_mask,
    tree,
    types_of,
)
from pirkit.lowering.codegen.primitives import Typed, element, narrow, picked
from pirkit.lowering.codegen.schedule import Schedule, row_unroll
from pirkit.lowering.codegen.scratch import LINE, Scratch
from pirkit.lowering.codegen.vecmath import any_lane
from pirkit.lowering.codegen.zipping import side_by_side

_AHEAD: Final = 1 << 13
"""Bytes to look ahead at least: memory takes longer than a short row does."""
_LONG: Final = 1 << 16
"""Bytes of a row that would not stay in the first-level cache: what is asked for may go there."""


class Rows:
    """Emits the rows of a block range.

    With ``at_lines``, whether results begin at cache lines, stages that store past the caches are
    written twice: as they are for results that do, and with plain stores.
    """

    def __init__(
        self, b: Builder, plan: Schedule, scratch: Scratch, at_lines: Value | None = None
    ) -> None:
        self.b, self.plan, self.kernel, self.scratch = b, plan, plan.kernel, scratch
        self.at_lines = at_lines
        self.types = types_of(plan.kernel)
        self.moving = moving(plan.kernel)
        self.kept = tuple([name for name in kept(plan.kernel) if name in self.moving])
        self.homes = homes(plan.kernel)
        for name in self.kept:
            if name in self.homes:
                continue
            scratch.reserve(name, self.types[name], math.prod(self.kernel.inner), plan.lanes)

    def emit(self) -> None:
        b, kernel = self.b, self.kernel
        pointers = [
            b.at(argument(b, k), operand.offset) for k, operand in enumerate(kernel.operands)
        ]

        def row(point: Value, _: list[Value]) -> Sequence[Value]:
            self._row(pointers, split_index(b, point, kernel.outer))
            return []

        gathers = kernel.gathers()
        if gathers:
            b.over_blocks(lambda number, _: self._part(number, pointers, gathers))
        else:
            b.over_blocks(row)

    def _row(self, pointers: Sequence[Value], positions: list[Value]) -> None:
        bases = [
            place(self.b, pointer, operand.outer, positions)
            for pointer, operand in zip(pointers, self.kernel.operands, strict=True)
        ]
        values: dict[str, Typed] = {}
        for stage in self.kernel.stages:
            _RowStage(self, stage, positions, bases, values).emit()

    def _part(
        self, number: Value, pointers: Sequence[Value], gathers: Sequence[Gather]
    ) -> Sequence[Value]:
        """Some rows in order, and what they gather."""
        b, kernel, block = self.b, self.kernel, self.plan.block
        first = len(kernel.outer) - self.plan.gathered
        others, shared = kernel.outer[:first], kernel.outer[first:]
        count = math.prod(shared)
        *before, part = split_index(b, number, [*others, -(-count // block)])
        moved = list(pointers)
        for gather in {g.operand: g for g in gathers}.values():
            o = kernel.operands[gather.operand]
            moved[gather.operand] = b.at(pointers[gather.operand], b.times(part, gather.apart))
            base = place(b, moved[gather.operand], o.outer[:first], before)
            self._begin(gather, base, kernel.inner, o.inner)
        start = b.times(part, block)
        stop = b.binary("smin", b.plus(start, block), Value(str(count), I64))

        def row(point: Value, _: list[Value]) -> Sequence[Value]:
            self._row(moved, [*before, *split_index(b, point, shared)])
            return []

        b.loop(start, stop, 1, [], row)
        return []

    def _begin(
        self, gather: Gather, base: Value, extents: Sequence[int], strides: Sequence[int]
    ) -> None:
        """Write what a gathered element is before the first row."""
        b, into = self.b, self.kernel.operands[gather.operand].dtype
        loops = [(n, s) for n, s in zip(extents, strides, strict=True) if s]
        worst = identity(gather.kind, computed(into))

        def fill(address: Value, left: Sequence[tuple[int, int]], lanes: int) -> None:
            if not left:
                value = b.const(Type(element(into), lanes), worst)
                store(b, narrow(b, value, into), into, Memory(address, into.itemsize), None)
                return
            (extent, stride), *rest = left
            wide = 1 if rest or stride != into.itemsize else self.plan.lanes

            def one(index: Value, _: list[Value]) -> Sequence[Value]:
                fill(b.at(address, b.times(index, stride)), rest, 1)
                return []

            def many(index: Value, _: list[Value]) -> Sequence[Value]:
                fill(b.at(address, b.times(index, stride)), rest, wide)
                return []

            full = extent // wide * wide
            b.loop(0, full, wide, [], many)
            if full < extent:
                b.loop(full, extent, 1, [], one)

        fill(base, loops, 1)


class _RowStage:
    def __init__(
        self,
        rows: Rows,
        stage: Stage,
        positions: list[Value],
        bases: list[Value],
        values: dict[str, Typed],
    ) -> None:
        self.rows, self.stage, self.values = rows, stage, values
        self.positions, self.bases = positions, bases
        self.b, self.kernel = rows.b, rows.kernel
        self.lanes = rows.plan.lanes
        self.folds = [s for s in stage.body if isinstance(s, Fold)]
        self.spread: dict[str, Typed] = {}
        self.streams: frozenset[int] = frozenset()
        self.body = [
            s for s in stage.body if isinstance(s, Constant) or not self._is_still(s)
        ]  # fmt: skip
        self.unroll = row_unroll(rows.kernel, self.body)
        self.watched = [
            f for f in self.folds if f.kind in ("max", "min") and rows.types[f.name].is_float
        ]
        """Folds that note beside them whether they met NaN: faster than to hand it on."""

    def emit(self) -> None:
        b = self.b
        if self.stage.body:
            self._once()
            for name in _outside(self.body, self.values):
                value, dtype = self.values[name]
                self.spread[name] = b.splat(value, self.lanes), dtype
            start = [
                self._identity(fold) for fold in self.folds for _ in range(self.unroll)
            ]  # fmt: skip
            start += [Value("zeroinitializer", Type("i1", self.lanes)) for _ in self.watched]
            sums = self._swept(start)
            for k, fold in enumerate(self.folds):
                dtype = self.rows.types[fold.name]
                some = sums[k * self.unroll : (k + 1) * self.unroll]
                total = fold_lanes(b, fold.kind, tree(b, fold.kind, some, dtype), dtype)
                if fold in self.watched:
                    bad = any_lane(b, sums[self._watch(fold)])
                    total = b.select(bad, b.like(total, math.nan), total)
                self.values[fold.name] = total, dtype
        if self.stage.after:
            points = self._points(1, None, self.bases, Value("0", I64), [], None)
            points.known = self.values
            points.run(self.stage.after)

    def _once(self) -> None:
        """What is the same all along the row is computed before it."""
        points = self._points(1, None, self.bases, Value("0", I64), [], None)
        points.known = self.values
        points.run([s for s in self.stage.body if self._is_still(s)])

    def _is_still(self, statement: Statement) -> bool:
        told = isinstance(statement, (Load, Compute, Index, Constant))
        return told and statement.name not in self.rows.moving

    def _watch(self, fold: Fold) -> int:
        """Where it is noted that a fold has met NaN."""
        return len(self.folds) * self.unroll + self.watched.index(fold)

    def _identity(self, fold: Fold) -> Value:
        dtype = self.rows.types[fold.name]
        type_ = Type(element(dtype), self.lanes)
        return self.b.const(type_, identity(fold.kind, dtype))

    def _swept(self, start: Sequence[Value]) -> list[Value]:
        """All points of the stage: what its folds become."""
        b, at_lines = self.b, self.rows.at_lines
        self.streams = self._streamed()
        if at_lines is None or not self.streams:
            return self._nest([], start)
        found = b.branch(at_lines, lambda: self._nest([], start), start)
        self.streams = frozenset()
        return b.branch(b.op("xor", at_lines, True), lambda: self._nest([], start), found)

    def _streamed(self) -> frozenset[int]:
        """Operands that are stored past the caches."""
        stored = {s.operand for s in self.body if isinstance(s, Store)}
        operands, lanes = self.kernel.operands, self.lanes
        wanted = [k for k in stored if operands[k].stream and _aligned(self.kernel, k, lanes)]
        return frozenset(wanted)

    def _nest(self, inner: list[Value], carried: Sequence[Value]) -> list[Value]:
        """The loops over all inner axes but the last, then the row."""
        *loops, _ = self.kernel.inner
        if len(inner) == len(loops):
            return self._row(inner, carried)
        return self.b.loop(
            0, loops[len(inner)], 1, carried, lambda i, c: self._nest([*inner, i], c)
        )  # fmt: skip

    def _row(self, inner: list[Value], carried: Sequence[Value]) -> list[Value]:
        b, lanes, unroll = self.b, self.lanes, self.unroll
        row = self.kernel.inner[-1]
        bases = [
            place(b, base, operand.inner[:-1], inner)
            for base, operand in zip(self.bases, self.kernel.operands, strict=True)
        ]
        linear = Value("0", I64)
        for extent, position in zip(self.kernel.inner[1:], inner, strict=True):
            linear = b.times(b.plus(linear, position), extent)
        full = row // lanes
        main = full // unroll * unroll

        def several(count: int, index: Value, sums: Sequence[Value]) -> list[Value]:
            result = list(sums)
            met: dict[str, list[Value]] = {fold.name: [] for fold in self.watched}
            places = [b.plus(index, copy * lanes) for copy in range(count)]

            def one(copy: int) -> None:
                at = places[copy]
                points = self._points(lanes, None, bases, at, inner, linear)
                points.run(self.body)
                self._keep(points, bases, at, linear)
                self._add(points, copy, result)
                self._fetch(bases, at, copy)
                for fold in self.watched:
                    met[fold.name].append(points.folded[fold.name][0])

            bodies = [partial(one, copy) for copy in range(count)]
            if any(isinstance(s, Gather) for s in self.body):
                # a vector may add to what the one before has written
                for body in bodies:
                    body()
            else:
                side_by_side(b, bodies)
            for fold in self.watched:
                # one comparison tells of two values
                values = met[fold.name]
                for x, y in zip(values[::2], values[1::2] or values, strict=True):
                    self._note(fold, b.compare("uno", x, y), result)
            return result

        sums = list(carried)
        if main:
            sums = b.loop(0, main * lanes, unroll * lanes, sums, lambda i, c: several(unroll, i, c))
        if full - main == 1:
            sums = several(1, Value(str(main * lanes), I64), sums)
        elif full > main:
            sums = b.loop(main * lanes, full * lanes, lanes, sums, lambda i, c: several(1, i, c))
        if row % lanes:
            at = Value(str(full * lanes), I64)
            mask = tail_mask(b, lanes, row % lanes)
            points = self._points(lanes, mask, bases, at, inner, linear)
            points.run(self.body)
            self._keep(points, bases, at, linear)
            self._add(points, 0, sums)
            for fold in self.watched:
                value = points.folded[fold.name][0]
                self._note(fold, b.op("and", b.compare("uno", value, value), mask), sums)
        return sums

    def _note(self, fold: Fold, bad: Value, sums: list[Value]) -> None:
        slot = self._watch(fold)
        sums[slot] = self.b.op("or", sums[slot], bad)

    def _add(self, points: Points, copy: int, sums: list[Value]) -> None:
        for k, fold in enumerate(self.folds):
            value, dtype = points.folded[fold.name]
            slot = k * self.unroll + copy
            if fold in self.watched:
                total = picked(self.b, sums[slot], value, fold.kind)
            else:
                total = combine(self.b, fold.kind, sums[slot], value, dtype)
            if points.mask is not None:
                total = self.b.select(points.mask, total, sums[slot])
            sums[slot] = total

    def _keep(
        self, points: Points, bases: Sequence[Value], index: Value, linear: Value
    ) -> None:  # fmt: skip
        """Write what later stages read.

        In scratch memory a tail is written in full: what lies beyond it is overwritten by the next
        row, or nobody's.
        """
        b, rows = self.b, self.rows
        for name in rows.kept:
            if any(getattr(s, "name", None) == name for s in self.body):
                value = points.get(name)[0]
                if name in rows.homes:
                    memory = self._home(name, bases, index)
                    store(b, value, rows.types[name], memory, points.mask)
                else:
                    rows.scratch.store(b, name, b.plus(linear, index), value)

    def _home(self, name: str, bases: Sequence[Value], index: Value) -> Memory:
        size = self.rows.types[name].itemsize
        address = self.b.at(bases[self.rows.homes[name]], self.b.times(index, size))
        return Memory(address, size)

    def _fetch(self, bases: Sequence[Value], index: Value, copy: int) -> None:
        """Ask for what the next outer point reads at the same place: memory works meanwhile.

        And for what this one will write, where stores go through the caches.
        """
        plan, b = self.rows.plan, self.b
        if plan.ahead is None or self.stage is not self.kernel.stages[plan.ahead]:
            return
        wanted = [(k, self._ahead(k), False) for k in plan.fetched]
        # what is kept where a result will be is written right here
        at_home = self.rows.homes.values()
        wanted += [(k, 0, True) for k in plan.awaited if k not in at_home]
        for number, distance, write in wanted:
            size = self.kernel.operands[number].dtype.itemsize
            near = 3 if self.kernel.inner[-1] * size >= _LONG else 2
            if copy * self.lanes * size % LINE == 0:
                here = b.at(b.at(bases[number], b.times(index, size)), distance)
                b.prefetch(here, near, write)

    def _ahead(self, number: int) -> int:
        """How far to look ahead: to the next row; past some, if rows are short."""
        operand = self.kernel.operands[number]
        row = self.kernel.inner[-1] * operand.dtype.itemsize
        return operand.outer[-1] * -(-_AHEAD // row)

    def _points(
        self,
        lanes: int,
        mask: Value | None,
        bases: Sequence[Value],
        index: Value,
        inner: Sequence[Value],
        linear: Value | None,
    ) -> Points:
        b, kernel = self.b, self.kernel

        def memory(number: int) -> Memory:
            operand = kernel.operands[number]
            if linear is None:
                return Memory(bases[number], 0)
            step = operand.inner[-1]
            address = b.at(bases[number], b.times(index, step))
            return Memory(address, step, number in self.streams)

        def outside(name: str) -> Typed:
            if name in self.rows.homes and linear is not None:
                dtype = self.rows.types[name]
                memory = self._home(name, bases, index)
                return load(b, dtype, memory, lanes, mask), dtype
            if name in self.rows.kept and linear is not None:
                return self.rows.scratch.load(b, name, b.plus(linear, index), lanes)
            return self.spread[name] if lanes > 1 else self.values[name]

        def position(axis: int) -> Value:
            here = [*self.positions, *inner]
            if axis < len(here):
                return here[axis]
            return steps(b, index, lanes)

        return Points(b, kernel, lanes, memory, outside, position, mask, {}, {})


def _outside(body: Sequence[Statement], values: dict[str, Typed]) -> list[str]:
    """Names of earlier stages that a body reads, in order."""
    return list(dict.fromkeys(n for s in body for n in reads(s) if n in values))


def _aligned(kernel: Kernel, number: int, lanes: int) -> bool:
    """Whether vectors of an operand start at multiples of their size, if its buffer does."""
    operand = kernel.operands[number]
    wide = lanes * operand.dtype.itemsize
    distances = (operand.offset, *operand.outer, *operand.inner[:-1])
    return wide <= 64 and all(d % wide == 0 for d in distances)
