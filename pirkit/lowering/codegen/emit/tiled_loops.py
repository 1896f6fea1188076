"""Schedules a `TiledNest` in the loop IR: loops over tiles, their images, and the phases in each.

The lanes lie along the last axis of a phase. An operand that is strided along it, in memory or in a
tile, is first transposed in registers into a scratch tile of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.emit.lane_axis import lanes_for
from pirkit.lowering.codegen.emit.schedule_loops import Stage, Stages
from pirkit.lowering.codegen.ir import loop_rewrites as rewrites
from pirkit.lowering.codegen.ir import memory_rewrites as memory
from pirkit.lowering.codegen.ir.loop_ir import (
    Block,
    Bound,
    Buffer,
    Count,
    Images,
    Loop,
    Nest,
    Node,
    OncePerOrbit,
    Prefetch,
)
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Effect,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Statement,
    Store,
    check,
    renamed,
)
from pirkit.lowering.codegen.ir.tiled_nest import Axes, TileAccess, TiledNest
from pirkit.lowering.codegen.math.casts import element
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

_UNROLL: Final = 2
"""Vectors per iteration of a row, if a tile is long enough."""
_PREFETCH_ROWS: Final = 8
"""Rows of a tile by which prefetches run ahead."""


def lanes_of(tiled: TiledNest, target: Target) -> int:
    """The vector length: the widest element type fills a register."""
    found: set[DType] = {t.dtype for t in tiled.tiles} | {o.dtype for o in tiled.operands}
    found |= {s.dtype for s in tiled.statements() if isinstance(s, (Compute, Constant, Index))}
    # All tiles share one vector length, so their layouts agree.
    widest = max(4 if element(d) == "float" else d.itemsize for d in found)
    return min(max(2, target.vector_bits // (8 * widest)), lanes_for(max(tiled.extents, default=1)))


def tiled_stages(tiled: TiledNest, target: Target) -> list[Stage]:
    """The loops of a tiled nest after each rewrite. Raises InternalError if it is ill formed."""
    lanes = lanes_of(tiled, target)
    made = _Tiles(tiled, lanes)
    s = Stages(made.nest())
    for number in range(len(tiled.phases)):
        along = made.lane_axis(number)
        for source, dest, axis in made.copies(number):
            s.apply(memory.copy_tile, made.first_var(number), source, dest, axis, along)
        var = _var(number, along)
        s.apply(rewrites.vectorize, var, lanes)
        s.apply(rewrites.interleave, var, _UNROLL)
        s.apply(memory.prefetch, var, list(made.prefetches(number)))
    return s.found


def _var(phase: int, axis: int) -> str:
    return f"r{phase}.{axis}"


class _Tiles:
    """The buffers and loops of a tiled nest, all over the axes of its iteration space."""

    def __init__(self, tiled: TiledNest, lanes: int) -> None:
        self.tiled, self.lanes = tiled, lanes
        self.blocks = tuple([f"t{axis}" for axis in range(len(tiled.extents))])
        self.buffers = [Buffer(o.dtype, (), o.size, o.offset) for o in tiled.operands]
        self.tiles: dict[TileAccess, int] = {}
        self.shared: dict[tuple[int, DType], int] = {}
        """Transposed operands: phases run in turn and share scratch memory."""
        for number, tile in enumerate(tiled.tiles):
            self._tile(TileAccess(number, 0), self._layout(tile.axes, tile.dtype))
        self.places = [self._places(number) for number in range(len(tiled.phases))]
        self.staged = [list(self._copies(number)) for number in range(len(tiled.phases))]

    # buffers

    def _layout(self, axes: Axes, dtype: DType, whole: Sequence[int] = ()) -> Buffer:
        """A scratch tile, row-major in the order of ``axes``.

        Its last axis and the axes ``whole`` are padded to whole vectors.
        """
        tiled = self.tiled
        order = [a for a in axes if a >= 0]
        sizes = dict(zip(order, (tiled.block[a] for a in order), strict=True))
        for a in (order[-1], *whole):
            sizes[a] = -(-sizes[a] // self.lanes) * self.lanes
        strides, size = [0] * len(tiled.extents), dtype.itemsize
        for a in reversed(order):
            strides[a], size = size, size * sizes[a]
        return Buffer(dtype, tuple(strides), size, space="scratch", outside=self.blocks)

    def _add(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def _tile(self, access: TileAccess, layout: Buffer) -> int:
        """The buffer of a tile as a phase sees it at an image; all are in the same memory."""
        if access not in self.tiles:
            image = self.tiled.images[access.image]
            strides = [0] * len(layout.strides)
            for a, stride in enumerate(layout.strides):
                strides[image[a]] = stride
            base = self.tiles.get(replace(access, image=0))
            size = layout.size * len(self.tiled.images)
            self.tiles[access] = self._add(
                replace(
                    layout, strides=tuple(strides), size=size, shares=base,
                    image=(access.image, layout.size),
                )
            )  # fmt: skip
        return self.tiles[access]

    def _places(self, number: int) -> list[int]:
        """The buffer of each operand of a phase."""
        tiled, phase = self.tiled, self.tiled.phases[number]
        check(phase.kernel)
        extents = [tiled.extents[a] if a >= 0 else 1 for a in phase.axes]
        if extents != list(phase.kernel.outer):
            raise InternalError(f"tiles: a phase over {phase.kernel.outer}, not {extents}")
        found: list[int] = []
        for operand, place in zip(phase.kernel.operands, phase.places, strict=True):
            if isinstance(place, TileAccess):
                tile = tiled.tiles[place.tile]
                found.append(self._tile(place, self._layout(tile.axes, tile.dtype)))
                continue
            strides = [0] * len(tiled.extents)
            for a, stride in zip(phase.axes, operand.outer, strict=True):
                strides[a] = stride if a >= 0 else strides[a]
            self.buffers[place] = replace(self.buffers[place], strides=tuple(strides))
            found.append(place)
        return found

    def copies(self, number: int) -> list[tuple[int, int, int]]:
        """Operands of a phase that are transposed: the buffer, its copy, its contiguous axis."""
        return self.staged[number]

    def _copies(self, number: int) -> Iterator[tuple[int, int, int]]:
        count = 0
        for source in dict.fromkeys(self.places[number]):
            along = self._contiguous_axis(number, source)
            if along is None:
                continue
            dtype = self.buffers[source].dtype
            layout = self._layout(self.tiled.phases[number].axes, dtype, (along,))
            base = self.shared.get((count, dtype))
            dest = self._add(replace(layout, shares=base))
            if base is None:
                self.shared[count, dtype] = dest
            elif self.buffers[base].size < layout.size:
                self.buffers[base] = replace(self.buffers[base], size=layout.size)
            count += 1
            yield source, dest, along

    def _contiguous_axis(self, number: int, source: int) -> int | None:
        """The axis along which an operand is contiguous, if it must be transposed; else None."""
        phase, lane = self.tiled.phases[number], self.lane_axis(number)
        buffer = self.buffers[source]
        size = buffer.dtype.itemsize
        uses = [
            s for s in phase.kernel.statements()
            if isinstance(s, (Load, *Effect)) and self.places[number][s.operand] == source
        ]  # fmt: skip
        # Gathers and predicated loads go to memory directly: a copy might leave the buffer.
        if not all(isinstance(s, Load) and s.at is None and s.predicate is None for s in uses):
            return None
        # Broadcast along the lanes: a scalar load serves a whole vector.
        if buffer.strides[lane] == size or (buffer.space == "memory" and not buffer.strides[lane]):
            return None
        axes = [a for a in phase.axes if a >= 0 and self.tiled.block[a] > 1]
        return next((a for a in axes if buffer.strides[a] == size), None)

    # loops

    def lane_axis(self, number: int) -> int:
        """The last axis of a phase with more than one element."""
        return [a for a in self.tiled.phases[number].axes if a >= 0][-1]

    def first_var(self, number: int) -> str:
        """The variable of the outermost loop of a phase."""
        return _var(number, next(a for a in self.tiled.phases[number].axes if a >= 0))

    def _bound(self, axis: int) -> Bound:
        extent, size = self.tiled.extents[axis], self.tiled.block[axis]
        return size if extent % size == 0 else Count(self.blocks[axis], extent, size)

    def _statements(self, number: int) -> tuple[Statement, ...]:
        """The statements of a phase over the common axes, with names of their own."""
        phase, found = self.tiled.phases[number], list[Statement]()
        for statement in phase.kernel.statements():
            s = renamed(statement, lambda name: f"{number}.{name}")
            if isinstance(s, (Load, *Effect)):
                s = replace(s, operand=self.places[number][s.operand])
            elif isinstance(s, Index):
                axis = phase.axes[s.axis]
                s = replace(s, axis=axis) if axis >= 0 else Constant(s.name, s.dtype, 0)
            found.append(s)
        return tuple(found)

    def nest(self) -> Nest:
        """The plain loops."""
        tiled, images = self.tiled, self.tiled.images
        statements = [self._statements(number) for number in range(len(tiled.phases))]
        nodes: list[Node] = []
        for number, phase in enumerate(tiled.phases):
            node: Node = Block(statements[number])
            for axis in reversed([a for a in phase.axes if a >= 0]):
                node = Loop(_var(number, axis), (axis,), 0, self._bound(axis), 1, (node,))
            nodes.append(Images(images, self.blocks, (node,)) if len(images) > 1 else node)
        body = (OncePerOrbit(images, tuple(nodes)),) if len(images) > 1 else tuple(nodes)
        for axis, extent in reversed(list(enumerate(tiled.extents))):
            var, step = self.blocks[axis], tiled.block[axis]
            body = (Loop(var, (axis,), 0, extent, step, body, "parallel"),)
        operands = [Operand(x.dtype, x.strides, (), x.size, x.offset) for x in self.buffers]
        phases = tuple([LoopPhase(body=s) for s in statements])
        return Nest(Kernel(tiled.extents, (), tuple(operands), phases), tuple(self.buffers), body)

    def prefetches(self, number: int) -> Iterator[Prefetch]:
        """Prefetches of the loads and stores of a later row of the tile.

        Rows of a tile are too short for the hardware prefetcher to detect their pattern.
        """
        phase, lane = self.tiled.phases[number], self.lane_axis(number)
        rows = [a for a in phase.axes if a >= 0 and a != lane and self.tiled.block[a] > 1]
        stores = {s.operand for s in phase.kernel.statements() if isinstance(s, Store)}
        for operand, k in enumerate(self.places[number] if rows else ()):
            buffer = self.buffers[k]
            distance = buffer.strides[rows[-1]]
            contiguous = buffer.strides[lane] == buffer.dtype.itemsize
            if buffer.space == "memory" and contiguous and distance:
                yield Prefetch(k, _PREFETCH_ROWS * distance, True, operand in stores)
