"""Emits `TiledNest`: elementwise phases over tiles and their images.

The lanes lie along the last axis of a phase. An operand that is strided along it, in memory or in a
tile, is first transposed in registers into a tile of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.emit.scratch import Scratch
from pirkit.lowering.codegen.emit.tiled_nest import Axes, TileAccess, TiledNest, TilePhase
from pirkit.lowering.codegen.emit.transpose_tile import pack
from pirkit.lowering.codegen.emit.vector_emit import (
    Memory,
    VectorEmitter,
    address_at,
    argument,
    lane_indices,
    split_index,
    tail_mask,
)
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, Builder, Value
from pirkit.lowering.codegen.ir.loopnest import (
    Load,
    Store,
    check,
)
from pirkit.lowering.codegen.math.primitives import Typed
from pirkit.runtime.dtype import DType

_UNROLL: Final = 2
"""Vectors per step of a row, if a tile is long enough."""
_PREFETCH_ROWS: Final = 8
"""Rows of a tile by which prefetches run ahead."""


class TiledNestEmitter:
    """Emits a range of tiles, each with its images."""

    def __init__(self, b: Builder, tiled: TiledNest, lanes: int, scratch: Scratch) -> None:
        self.b, self.tiled, self.lanes, self.scratch = b, tiled, lanes, scratch
        for phase in tiled.phases:
            check(phase.kernel)
            extents = [tiled.extents[a] if a >= 0 else 1 for a in phase.axes]
            if extents != list(phase.kernel.outer):
                raise InternalError(f"tiles: a phase over {phase.kernel.outer}, not {extents}")
        self.tiles = [_TileLayout(tiled, t.axes, lanes, t.dtype) for t in tiled.tiles]
        for k, layout in enumerate(self.tiles):
            scratch.reserve(f"tile {k}", layout.dtype, layout.size * len(tiled.images), lanes)
        self.phases = [_TilePhaseEmitter(self, phase) for phase in tiled.phases]
        for name, (dtype, size) in self._reserve_transposed().items():
            scratch.reserve(name, dtype, size, lanes)
        self.first: list[Value] = []
        self.equal_tiles: list[Value] = []

    def _reserve_transposed(self) -> dict[str, tuple[DType, int]]:
        """Transposed operands by name; phases run in turn and share scratch."""
        found: dict[str, tuple[DType, int]] = {}
        for phase in self.phases:
            for name, layout in phase.transposed.values():
                size = max(layout.size, found.get(name, (layout.dtype, 0))[1])
                found[name] = layout.dtype, size
        return found

    def emit(self) -> None:
        """The loop over tiles; each runs with its images."""
        b, tiled = self.b, self.tiled
        pointers = [argument(b, k) for k in range(len(tiled.operands))]

        def run(number: Value, _: list[Value]) -> Sequence[Value]:
            at = split_index(b, number, tiled.counts)
            seen = [[at[a] for a in image] for image in tiled.images]
            # Of a tile and its images only the lexicographically first processes the group.
            is_canonical: Value | None = None
            for other in seen[1:]:
                holds = self._is_canonical(at, other)
                is_canonical = holds if is_canonical is None else b.op("and", is_canonical, holds)
            self.first = [b.times(p, n) for p, n in zip(at, tiled.block, strict=True)]
            if is_canonical is None:
                self.equal_tiles = [Value("0", I64)]
                self._turn(pointers)
                return []
            self.equal_tiles = [self._first_equal(seen, k) for k in range(len(seen))]

            def iteration() -> Sequence[Value]:
                self._turn(pointers)
                return []

            b.branch(is_canonical, iteration)
            return []

        b.block_loop(run)

    def _is_canonical(self, at: Sequence[Value], other: Sequence[Value]) -> Value:
        """Whether a tile is lexicographically not after its image, as an i1."""
        b, holds = self.b, Value("true", I1)
        for own_index, other_index in reversed(list(zip(at, other, strict=True))):
            if own_index.text == other_index.text:
                continue
            before, is_same = (
                b.compare("slt", own_index, other_index),
                b.compare("eq", own_index, other_index),
            )
            holds = b.op(
                "or", before, is_same if holds.text == "true" else b.op("and", is_same, holds)
            )
        return holds

    def _first_equal(self, seen: list[list[Value]], image: int) -> Value:
        """The first image that is the same tile as ``image``: on a diagonal several are."""
        b, found = self.b, Value(str(image), I64)
        for other in reversed(range(image)):
            is_same = Value("true", I1)
            for own_index, other_index in zip(seen[image], seen[other], strict=True):
                if own_index.text != other_index.text:
                    equal = b.compare("eq", own_index, other_index)
                    is_same = equal if is_same.text == "true" else b.op("and", is_same, equal)
            found = b.select(is_same, Value(str(other), I64), found)
        return found

    def _turn(self, pointers: list[Value]) -> None:
        """All phases at one tile and its images; images that are equal run once."""
        b, count = self.b, len(self.tiled.images)
        for phase in self.phases:

            def at(
                image: Value, _: list[Value], phase: _TilePhaseEmitter = phase
            ) -> Sequence[Value]:
                def once() -> Sequence[Value]:
                    phase.run(image, pointers)
                    return []

                tile_number = self.pick(image, self.equal_tiles)
                b.branch(b.compare("eq", tile_number, image), once) if count > 1 else once()
                return []

            b.loop(0, count, 1, [], at)

    def pick(self, image: Value, values: Sequence[Value]) -> Value:
        """``values[image]``, by selects if the image is not a constant."""
        if image.text.isdigit():
            return values[int(image.text)]
        found = values[0]
        for k, value in enumerate(values[1:], 1):
            if value.text != found.text:
                found = self.b.select(self.b.compare("eq", image, k), value, found)
        return found


class _TileLayout:
    """The layout of a scratch tile: row-major in the order of ``axes``, in elements.

    The last axis with more than one element and the axes ``whole`` are padded to whole vectors.
    """

    def __init__(
        self, tiled: TiledNest, axes: Axes, lanes: int, dtype: DType, whole: Sequence[int] = ()
    ) -> None:  # fmt: skip
        self.axes, self.dtype = axes, dtype
        self.lane = _lane_axis(axes)
        sizes = [tiled.block[a] if a >= 0 else 1 for a in axes]
        for k in (self.lane, *whole):
            sizes[k] = -(-sizes[k] // lanes) * lanes
        self.steps = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
        self.size = prod(sizes)


def _lane_axis(axes: Axes) -> int:
    """The last axis with more than one element."""
    return max(k for k, a in enumerate(axes) if a >= 0)


class _TilePhaseEmitter:
    """One phase: the transposes of its operands, then its loops."""

    def __init__(self, whole: TiledNestEmitter, phase: TilePhase) -> None:
        self.whole, self.phase, self.kernel = whole, phase, phase.kernel
        self.b, self.lanes, self.tiled = whole.b, whole.lanes, whole.tiled
        self.lane = _lane_axis(phase.axes)
        self.block = [self.tiled.block[a] if a >= 0 else 1 for a in phase.axes]
        self.transposed: dict[int, tuple[str, _TileLayout]] = {}
        """Operands that are transposed: name and layout of the scratch tile."""
        self.along: dict[int, int] = {}
        """The axis along which such an operand is contiguous at its source."""
        for number in range(len(phase.places)):
            along = self._transposed_axis(number)
            if along is None:
                continue
            dtype = self.kernel.operands[number].dtype
            layout = _TileLayout(self.tiled, phase.axes, self.lanes, dtype, (along,))
            self.transposed[number] = f"transposed {len(self.transposed)} {dtype.name}", layout
            self.along[number] = along

    def tile_number(self, access: TileAccess) -> list[int]:
        """For each axis of a tile, the axis of the phase that it follows; -1 for none."""
        image, layout = self.tiled.images[access.image], self.whole.tiles[access.tile].axes
        return [self.phase.axes.index(image[a]) if a >= 0 else -1 for a in layout]

    def strides_of(self, access: TileAccess) -> list[int]:
        """The strides of a tile along the axes of the phase, in elements."""
        layout = self.whole.tiles[access.tile]
        found = [0] * len(self.phase.axes)
        for step, k in zip(layout.steps, self.tile_number(access), strict=True):
            if k >= 0:
                found[k] = step
        return found

    def _transposed_axis(self, number: int) -> int | None:
        """The axis along which an operand is contiguous, if it must be transposed; else None."""
        source = self.phase.places[number]
        loads = [s for s in self.kernel.statements() if getattr(s, "operand", None) == number]
        # Gathers and predicated loads go to memory directly: a copy might leave the buffer.
        if not all(isinstance(s, Load) and s.at is None and s.predicate is None for s in loads):
            return None
        if isinstance(source, TileAccess):
            strides = self.strides_of(source)
        else:
            operand = self.kernel.operands[number]
            size = operand.dtype.itemsize
            strides = [n // size if n % size == 0 else 0 for n in operand.outer]
            # Broadcast along the lanes: a scalar load serves a whole vector.
            if strides[self.lane] == 0:
                return None
        if strides[self.lane] == 1:
            return None
        nearest = [k for k, n in enumerate(strides) if n == 1 and self.block[k] > 1]
        return nearest[0] if nearest else None

    def run(self, image: Value, pointers: list[Value]) -> None:
        """The phase at one image: clip the tile to the iteration space, transpose, loop."""
        b, tiled = self.b, self.tiled
        first = self.whole.first
        self.start = [
            self.whole.pick(image, [first[i[a]] for i in tiled.images]) if a >= 0
            else Value("0", I64)
            for a in self.phase.axes
        ]  # fmt: skip
        extents = [tiled.extents[a] if a >= 0 else 1 for a in self.phase.axes]
        self.count = [
            Value(str(n), I64) if extent % n == 0
            else b.binary("smin", b.emit(I64, f"sub i64 {extent}, {start.text}"),
                          Value(str(n), I64))
            for n, extent, start in zip(self.block, extents, self.start, strict=True)
        ]  # fmt: skip
        self.bases = [self._base(k, image, pointers) for k in range(len(self.phase.places))]
        for number in self.transposed:
            self._turn(number)
        self._loops([])

    def _base(self, number: int, image: Value, pointers: list[Value]) -> Value:
        """The address of the first element of an operand's tile."""
        b, source = self.b, self.phase.places[number]
        if not isinstance(source, TileAccess):
            operand = self.kernel.operands[number]
            return address_at(b, b.at(pointers[source], operand.offset), operand.outer, self.start)
        # The image of an image: compose the two permutations.
        images = self.tiled.images
        seen = [images.index(tuple([i[a] for a in images[source.image]])) for i in images]
        layout = self.whole.pick(image, [self.whole.equal_tiles[k] for k in seen])
        at = b.times(layout, self.whole.tiles[source.tile].size)
        return self.whole.scratch.memory(b, f"tile {source.tile}", at).address

    def _steps(self, number: int) -> list[int]:
        """The strides of an operand along the axes of the phase, in bytes."""
        operand, source = self.kernel.operands[number], self.phase.places[number]
        if isinstance(source, TileAccess):
            return [n * operand.dtype.itemsize for n in self.strides_of(source)]
        return list(operand.outer)

    def _turn(self, number: int) -> None:
        """Transpose what the phase reads of an operand into scratch, contiguous along the lanes."""
        b, along = self.b, self.along[number]
        name, layout = self.transposed[number]
        dtype = self.kernel.operands[number].dtype
        strides = self._steps(number)
        base = self.bases[number]
        dest = self.whole.scratch.memory(b, name, Value("0", I64)).address
        outer = [k for k in range(len(strides)) if k not in (along, self.lane)]
        inside = isinstance(self.phase.places[number], TileAccess)
        extent = self.tiled.extents[self.phase.axes[along]]
        # A scratch tile is padded to whole vectors, so only memory needs a mask.
        ragged = not inside and bool(extent % self.lanes or self.block[along] % self.lanes)

        def nest(axes: Sequence[int], source: Value, target: Value) -> Sequence[Value]:
            if axes:
                k, *rest = axes

                def one(at: Value, _: list[Value]) -> Sequence[Value]:
                    next_dest = b.at(target, b.times(at, layout.steps[k] * dtype.itemsize))
                    return nest(rest, b.at(source, b.times(at, strides[k])), next_dest)

                b.loop(0, self.count[k], 1, [], one)
                return []
            columns = (source, strides[self.lane], self.count[self.lane])
            pack(
                b, dtype, self.lanes, columns, (target, layout.steps[along]), self.count[along],
                ragged,
            )  # fmt: skip
            return []

        nest(outer, base, dest)

    def _loops(self, at: list[Value]) -> None:
        """The loops over the axes before the lanes' axis; those behind it have one iteration."""
        if len(at) == self.lane:
            self._row(at)
            return

        def body(index: Value, _: list[Value]) -> Sequence[Value]:
            self._loops([*at, index])
            return []

        self.b.loop(0, self.count[len(at)], 1, [], body)

    def _row(self, at: list[Value]) -> None:
        """One row of the tile: unrolled vectors, single vectors, a masked tail."""
        b, lanes, count = self.b, self.lanes, self.count[self.lane]
        length = self.block[self.lane]
        extent = self.tiled.extents[self.phase.axes[self.lane]]
        full = b.emit(I64, f"and {count}, {-lanes}")

        def vector(index: Value, mask: Value | None) -> None:
            if mask is None:
                self._prefetch(at, index)
            self._vector_at(at, index, mask).run(self.kernel.loop_phases[0].body)

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

    def _prefetch(self, at: list[Value], index: Value) -> None:
        """Prefetch what a later row of the tile loads and stores.

        Rows of a tile are too short for the hardware prefetcher to detect their pattern.
        """
        b = self.b
        nearest = next((k for k in reversed(range(self.lane)) if self.block[k] > 1), None)
        if nearest is None:
            return
        stored = {s.operand for s in self.kernel.statements() if isinstance(s, Store)}
        for number, source in enumerate(self.phase.places):
            operand = self.kernel.operands[number]
            step = operand.outer[self.lane]
            if (
                isinstance(source, TileAccess)
                or step != operand.dtype.itemsize
                or not operand.outer[nearest]
            ):
                continue
            base = address_at(b, self.bases[number], operand.outer[: self.lane], at)
            here = b.at(b.at(base, b.times(index, step)), _PREFETCH_ROWS * operand.outer[nearest])
            b.prefetch(here, 3, number in stored)

    def _vector_at(self, at: list[Value], index: Value, mask: Value | None) -> VectorEmitter:
        """The emitter for a vector of iterations of one row."""
        b, kernel, lanes = self.b, self.kernel, self.lanes

        def memory(number: int) -> Memory:
            if number in self.transposed:
                name, layout = self.transposed[number]
                begin = Value("0", I64)
                for step, position in zip(layout.steps, at, strict=False):
                    begin = b.plus(begin, b.times(position, step))
                return self.whole.scratch.memory(b, name, b.plus(begin, index))
            strides = self._steps(number)
            base = address_at(b, self.bases[number], strides[: self.lane], at)
            step = strides[self.lane]
            return Memory(b.at(base, b.times(index, step)), step)

        def outside(name: str) -> Typed:
            raise InternalError(f"tiles: {name} is not defined")

        def position(axis: int) -> Value:
            if axis == self.lane:
                return lane_indices(b, b.plus(self.start[axis], index), lanes)
            return b.plus(self.start[axis], at[axis]) if axis < self.lane else Value("0", I64)

        return VectorEmitter(b, kernel.operands, lanes, memory, outside, position, mask, {})
