"""Emits nests that go through tiles.

The lanes lie along the last axis of a phase; what lies the other way, a tile or memory, is turned
in registers before the phase reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.ir import I1, I64, Builder, Value
from pirkit.lowering.codegen.loopnest import (
    Load,
    Store,
    check,
)
from pirkit.lowering.codegen.pack import pack
from pirkit.lowering.codegen.points import (
    Memory,
    Points,
    argument,
    place,
    split_index,
    steps,
    tail_mask,
)
from pirkit.lowering.codegen.primitives import Typed
from pirkit.lowering.codegen.scratch import Scratch
from pirkit.lowering.codegen.tile_turns import Axes, Phase, Spot, TileTurns
from pirkit.runtime.dtype import DType

_UNROLL: Final = 2
_AHEAD: Final = 8
"""Rows of a tile."""


class Turns:
    """Emits the turns of a range of tiles."""

    def __init__(self, b: Builder, turns: TileTurns, lanes: int, scratch: Scratch) -> None:
        self.b, self.turns, self.lanes, self.scratch = b, turns, lanes, scratch
        for phase in turns.phases:
            check(phase.kernel)
            extents = [turns.extents[a] if a >= 0 else 1 for a in phase.axes]
            if extents != list(phase.kernel.outer):
                raise InternalError(f"tiles: a phase over {phase.kernel.outer}, not {extents}")
        self.tiles = [_Strides(turns, t.axes, lanes, t.dtype) for t in turns.tiles]
        for k, held in enumerate(self.tiles):
            scratch.reserve(f"tile {k}", held.dtype, held.size * len(turns.images), lanes)
        self.phases = [_Phase(self, phase) for phase in turns.phases]
        for name, (dtype, size) in self._turned().items():
            scratch.reserve(name, dtype, size, lanes)
        self.first: list[Value] = []
        self.alike: list[Value] = []

    def _turned(self) -> dict[str, tuple[DType, int]]:
        """What is turned for one phase after the other lies in the same memory."""
        found: dict[str, tuple[DType, int]] = {}
        for phase in self.phases:
            for name, held in phase.turned.values():
                size = max(held.size, found.get(name, (held.dtype, 0))[1])
                found[name] = held.dtype, size
        return found

    def emit(self) -> None:
        b, turns = self.b, self.turns
        pointers = [argument(b, k) for k in range(len(turns.operands))]

        def run(number: Value, _: list[Value]) -> Sequence[Value]:
            at = split_index(b, number, turns.counts)
            seen = [[at[a] for a in image] for image in turns.images]
            leads: Value | None = None
            for other in seen[1:]:
                holds = self._not_after(at, other)
                leads = holds if leads is None else b.op("and", leads, holds)
            self.first = [b.times(p, n) for p, n in zip(at, turns.block, strict=True)]
            if leads is None:
                self.alike = [Value("0", I64)]
                self._turn(pointers)
                return []
            self.alike = [self._first_like(seen, k) for k in range(len(seen))]

            def turn() -> Sequence[Value]:
                self._turn(pointers)
                return []

            b.branch(leads, turn)
            return []

        b.over_blocks(run)

    def _not_after(self, at: Sequence[Value], other: Sequence[Value]) -> Value:
        """Whether a tile comes before its image, or is it: it stands for both."""
        b, holds = self.b, Value("true", I1)
        for mine, theirs in reversed(list(zip(at, other, strict=True))):
            if mine.text == theirs.text:
                continue
            before, same = b.compare("slt", mine, theirs), b.compare("eq", mine, theirs)
            holds = b.op("or", before, same if holds.text == "true" else b.op("and", same, holds))
        return holds

    def _first_like(self, seen: list[list[Value]], image: int) -> Value:
        """The first image that is the same tile as one."""
        b, found = self.b, Value(str(image), I64)
        for other in reversed(range(image)):
            same = Value("true", I1)
            for mine, theirs in zip(seen[image], seen[other], strict=True):
                if mine.text != theirs.text:
                    equal = b.compare("eq", mine, theirs)
                    same = equal if same.text == "true" else b.op("and", same, equal)
            found = b.select(same, Value(str(other), I64), found)
        return found

    def _turn(self, pointers: list[Value]) -> None:
        b, count = self.b, len(self.turns.images)
        for phase in self.phases:

            def at(image: Value, _: list[Value], phase: _Phase = phase) -> Sequence[Value]:
                def once() -> Sequence[Value]:
                    phase.run(image, pointers)
                    return []

                own = self.pick(image, self.alike)
                b.branch(b.compare("eq", own, image), once) if count > 1 else once()
                return []

            b.loop(0, count, 1, [], at)

    def pick(self, image: Value, values: Sequence[Value]) -> Value:
        """The value of an image."""
        if image.text.isdigit():
            return values[int(image.text)]
        found = values[0]
        for k, value in enumerate(values[1:], 1):
            if value.text != found.text:
                found = self.b.select(self.b.compare("eq", image, k), value, found)
        return found


class _Strides:
    """How the elements of a tile lie: rows of whole vectors, in the order of some axes.

    ``whole`` are more axes along which there is room for whole vectors.
    """

    def __init__(
        self, turns: TileTurns, axes: Axes, lanes: int, dtype: DType, whole: Sequence[int] = ()
    ) -> None:  # fmt: skip
        self.axes, self.dtype = axes, dtype
        self.lane = _lane(axes)
        sizes = [turns.block[a] if a >= 0 else 1 for a in axes]
        for k in (self.lane, *whole):
            sizes[k] = -(-sizes[k] // lanes) * lanes
        self.steps = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
        self.size = prod(sizes)


def _lane(axes: Axes) -> int:
    """The last axis of more than one element."""
    return max(k for k, a in enumerate(axes) if a >= 0)


class _Phase:
    """One phase: what it turns first, and its loops."""

    def __init__(self, whole: Turns, phase: Phase) -> None:
        self.whole, self.phase, self.kernel = whole, phase, phase.kernel
        self.b, self.lanes, self.turns = whole.b, whole.lanes, whole.turns
        self.lane = _lane(phase.axes)
        self.block = [self.turns.block[a] if a >= 0 else 1 for a in phase.axes]
        self.turned: dict[int, tuple[str, _Strides]] = {}
        """Operands that are turned, where to, and how they lie there."""
        self.along: dict[int, int] = {}
        """The axis along which they lie side by side where they come from."""
        for number in range(len(phase.places)):
            along = self._turned_along(number)
            if along is None:
                continue
            dtype = self.kernel.operands[number].dtype
            held = _Strides(self.turns, phase.axes, self.lanes, dtype, (along,))
            self.turned[number] = f"turned {len(self.turned)} {dtype.name}", held
            self.along[number] = along

    def own(self, spot: Spot) -> list[int]:
        """The axis of the phase that each axis of a tile goes along."""
        image, held = self.turns.images[spot.image], self.whole.tiles[spot.tile].axes
        return [self.phase.axes.index(image[a]) if a >= 0 else -1 for a in held]

    def steps_of(self, spot: Spot) -> list[int]:
        """How far apart neighbours along the axes of the phase are in a tile, in elements."""
        held = self.whole.tiles[spot.tile]
        found = [0] * len(self.phase.axes)
        for step, k in zip(held.steps, self.own(spot), strict=True):
            if k >= 0:
                found[k] = step
        return found

    def _turned_along(self, number: int) -> int | None:
        """The axis along which an operand lies side by side, if it is to be turned."""
        where = self.phase.places[number]
        loads = [s for s in self.kernel.statements() if getattr(s, "operand", None) == number]
        if not all(isinstance(s, Load) and s.at is None and s.where is None for s in loads):
            return None
        if isinstance(where, Spot):
            steps_ = self.steps_of(where)
        else:
            operand = self.kernel.operands[number]
            size = operand.dtype.itemsize
            steps_ = [n // size if n % size == 0 else 0 for n in operand.outer]
            if steps_[self.lane] == 0:
                return None
        if steps_[self.lane] == 1:
            return None
        near = [k for k, n in enumerate(steps_) if n == 1 and self.block[k] > 1]
        return near[0] if near else None

    def run(self, image: Value, pointers: list[Value]) -> None:
        """The phase at an image."""
        b, turns = self.b, self.turns
        first = self.whole.first
        self.start = [
            self.whole.pick(image, [first[i[a]] for i in turns.images]) if a >= 0
            else Value("0", I64)
            for a in self.phase.axes
        ]  # fmt: skip
        extents = [turns.extents[a] if a >= 0 else 1 for a in self.phase.axes]
        self.count = [
            Value(str(n), I64) if extent % n == 0
            else b.binary("smin", b.emit(I64, f"sub i64 {extent}, {start.text}"),
                          Value(str(n), I64))
            for n, extent, start in zip(self.block, extents, self.start, strict=True)
        ]  # fmt: skip
        self.bases = [self._base(k, image, pointers) for k in range(len(self.phase.places))]
        for number in self.turned:
            self._turn(number)
        self._loops([])

    def _base(self, number: int, image: Value, pointers: list[Value]) -> Value:
        """Where the tile of an operand begins."""
        b, where = self.b, self.phase.places[number]
        if not isinstance(where, Spot):
            operand = self.kernel.operands[number]
            return place(b, b.at(pointers[where], operand.offset), operand.outer, self.start)
        images = self.turns.images
        seen = [images.index(tuple([i[a] for a in images[where.image]])) for i in images]
        held = self.whole.pick(image, [self.whole.alike[k] for k in seen])
        at = b.times(held, self.whole.tiles[where.tile].size)
        return self.whole.scratch.memory(b, f"tile {where.tile}", at).address

    def _steps(self, number: int) -> list[int]:
        """How far apart neighbours along the axes of the phase are, in bytes."""
        operand, where = self.kernel.operands[number], self.phase.places[number]
        if isinstance(where, Spot):
            return [n * operand.dtype.itemsize for n in self.steps_of(where)]
        return list(operand.outer)

    def _turn(self, number: int) -> None:
        """Copy what the phase reads of an operand into memory where it lies along the lanes."""
        b, along = self.b, self.along[number]
        name, held = self.turned[number]
        dtype = self.kernel.operands[number].dtype
        steps_ = self._steps(number)
        base = self.bases[number]
        into = self.whole.scratch.memory(b, name, Value("0", I64)).address
        outer = [k for k in range(len(steps_)) if k not in (along, self.lane)]
        inside = isinstance(self.phase.places[number], Spot)
        extent = self.turns.extents[self.phase.axes[along]]
        ragged = not inside and bool(extent % self.lanes or self.block[along] % self.lanes)

        def nest(axes: Sequence[int], source: Value, target: Value) -> Sequence[Value]:
            if axes:
                k, *rest = axes

                def one(at: Value, _: list[Value]) -> Sequence[Value]:
                    further = b.at(target, b.times(at, held.steps[k] * dtype.itemsize))
                    return nest(rest, b.at(source, b.times(at, steps_[k])), further)

                b.loop(0, self.count[k], 1, [], one)
                return []
            columns = (source, steps_[self.lane], self.count[self.lane])
            pack(
                b, dtype, self.lanes, columns, (target, held.steps[along]), self.count[along],
                ragged,
            )  # fmt: skip
            return []

        nest(outer, base, into)

    def _loops(self, at: list[Value]) -> None:
        """The loops over all axes but that of the lanes; behind it there are only single ones."""
        if len(at) == self.lane:
            self._row(at)
            return

        def body(index: Value, _: list[Value]) -> Sequence[Value]:
            self._loops([*at, index])
            return []

        self.b.loop(0, self.count[len(at)], 1, [], body)

    def _row(self, at: list[Value]) -> None:
        b, lanes, count = self.b, self.lanes, self.count[self.lane]
        length = self.block[self.lane]
        extent = self.turns.extents[self.phase.axes[self.lane]]
        full = b.emit(I64, f"and {count}, {-lanes}")

        def vector(index: Value, mask: Value | None) -> None:
            if mask is None:
                self._ask(at, index)
            self._points(at, index, mask).run(self.kernel.stages[0].body)

        def several(number: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
            def run(index: Value, _: list[Value]) -> Sequence[Value]:
                for k in range(number):
                    vector(b.plus(index, k * lanes), None)
                return []

            return run

        start: Value = Value("0", I64)
        if length >= _UNROLL * lanes:
            even = b.emit(I64, f"and {full}, {-_UNROLL * lanes}")
            b.loop(start, even, _UNROLL * lanes, [], several(_UNROLL))
            start = even
        b.loop(start, full, lanes, [], several(1))
        if length % lanes == 0 and extent % lanes == 0:
            return
        rest = b.emit(I64, f"sub {count}, {full.text}")

        def tail() -> Sequence[Value]:
            vector(full, tail_mask(b, lanes, rest))
            return []

        b.branch(b.compare("sgt", rest, 0), tail)

    def _ask(self, at: list[Value], index: Value) -> None:
        """Ask memory for what a row of the tile further on reads and writes: rows are too short for
        the CPU to see where they go.
        """
        b = self.b
        near = next((k for k in reversed(range(self.lane)) if self.block[k] > 1), None)
        if near is None:
            return
        stored = {s.operand for s in self.kernel.statements() if isinstance(s, Store)}
        for number, where in enumerate(self.phase.places):
            operand = self.kernel.operands[number]
            step = operand.outer[self.lane]
            if isinstance(where, Spot) or step != operand.dtype.itemsize or not operand.outer[near]:
                continue
            base = place(b, self.bases[number], operand.outer[: self.lane], at)
            here = b.at(b.at(base, b.times(index, step)), _AHEAD * operand.outer[near])
            b.prefetch(here, 3, number in stored)

    def _points(self, at: list[Value], index: Value, mask: Value | None) -> Points:
        b, kernel, lanes = self.b, self.kernel, self.lanes

        def memory(number: int) -> Memory:
            if number in self.turned:
                name, held = self.turned[number]
                begin = Value("0", I64)
                for step, position in zip(held.steps, at, strict=False):
                    begin = b.plus(begin, b.times(position, step))
                return self.whole.scratch.memory(b, name, b.plus(begin, index))
            steps_ = self._steps(number)
            base = place(b, self.bases[number], steps_[: self.lane], at)
            step = steps_[self.lane]
            return Memory(b.at(base, b.times(index, step)), step)

        def outside(name: str) -> Typed:
            raise InternalError(f"tiles: {name} is not defined")

        def position(axis: int) -> Value:
            if axis == self.lane:
                return steps(b, b.plus(self.start[axis], index), lanes)
            return b.plus(self.start[axis], at[axis]) if axis < self.lane else Value("0", I64)

        return Points(b, kernel, lanes, memory, outside, position, mask, {}, {})
