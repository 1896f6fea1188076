"""Runs nests of the loop IR with numpy: the oracle of the rewrites and of the LLVM writer.

Loops run as they are written, vectors as arrays of their lanes, masked lanes included. Accesses are
checked: none may leave its buffer. So each stage of a schedule can be executed and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.interpret import COMBINE, computed, widened
from pirkit.lowering.codegen.ir.call_words import bound_nest, offsets_of
from pirkit.lowering.codegen.ir.element_types import identity, types_of
from pirkit.lowering.codegen.ir.loop_ir import (
    Block,
    Bound,
    CallRows,
    Count,
    Images,
    Invoke,
    Iteration,
    Loop,
    Nest,
    Node,
    NonTemporal,
    Number,
    OncePerOrbit,
    OnChange,
    Pack,
    Path,
    Reducing,
    Window,
)
from pirkit.lowering.codegen.ir.loop_tree import copies_of, rows_of, walk
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Index,
    LaneConstants,
    Load,
    Reduce,
    ReduceKind,
    RuntimeAssert,
    Scatter,
    Statement,
    Store,
)

Array = np.ndarray[Any, Any]
_PADDING: Final = 64
"""Bytes after scratch memory: whole vectors are written."""


class _Point(Struct, frozen=True):
    """An iteration, or a vector of them along ``axis``."""

    index: dict[int, int]
    address: tuple[int, ...]
    linear: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    blocks: dict[str, int] = field(default_factory=dict[str, int])
    """The first iteration of each loop."""
    iterations: dict[str, int] = field(default_factory=dict[str, int])
    """The number of the present iteration of each loop."""
    lanes: int = 1
    axis: int = -1
    active: int = 1
    path: Path = ()
    row: dict[int, int] = field(default_factory=dict[int, int])
    """The constants that unrolled loops add to indices."""


def run_loops(nest: Nest, buffers: Sequence[Array]) -> None:
    """Run a nest over the buffers of its operands; scratch memory begins as poison.

    Aligned blocks begin with the first iteration. Raises InternalError for an access outside of a
    buffer.
    """
    if nest.words is not None:
        nest = bound_nest(nest, buffers[nest.words].reshape(-1).view(np.int64).tolist())
    with np.errstate(all="ignore"):
        _Run(nest, buffers).run(nest.body, _Point({}, tuple(b.offset for b in nest.buffers)))


class _Run:
    def __init__(self, nest: Nest, buffers: Sequence[Array]) -> None:
        self.nest, self.types = nest, types_of(nest.kernel)
        self.end = 0
        self.standing: list[int] | None = None
        """Where the loops of `OnChange` stood at the block before."""
        self.memory = [buffer.reshape(-1).view(np.uint8) for buffer in buffers]
        for x in nest.buffers[len(buffers) :]:
            own = np.full(x.size + _PADDING, 0xA5, np.uint8)
            self.memory.append(own if x.shares is None else self.memory[x.shares])
        self.values: dict[tuple[str, Path], Array] = {}
        self.registers: dict[tuple[str, Path], Array] = {}
        self.kinds: dict[str, ReduceKind] = {}
        self.terms: dict[str, list[Array]] | None = None

    def run(self, nodes: Sequence[Node], at: _Point) -> None:
        for node in nodes:
            match node:
                case Block():
                    for statement in node.statements:
                        self.statement(statement, at)
                case Loop():
                    self.loop(node, at)
                case Reducing():
                    self.reducing(node, at)
                case NonTemporal():
                    self.run(node.body, at)
                case OnChange():
                    standing = [at.blocks[var] for var in node.vars]
                    if standing != self.standing:
                        self.standing = standing
                        self.run(node.body, at)
                case CallRows():
                    self.call_rows(node, at)
                case OncePerOrbit():
                    begin, *others = _images(node.images, at)
                    if all(begin <= other for other in others):
                        self.run(node.body, at)
                case Images():
                    self.images(node, at)
                case Pack():
                    self.pack(node, at)
                case Invoke():
                    self.invoke(node, at)
                case _:
                    continue

    def bound(self, bound: Bound, at: _Point) -> int:
        if isinstance(bound, int):
            return bound
        assert isinstance(bound, Count)
        first, extent = at.blocks[bound.block], bound.extent
        if bound.within is not None:
            extent = at.blocks[bound.within.block] + self.bound(bound.within, at)
        end = self.end if bound.aligned else min(first + bound.size, extent)
        count = max(end - first, 0)
        return count // bound.multiple * bound.multiple

    def number(self, number: Number, at: _Point) -> int:
        if isinstance(number, Iteration):
            return number.at(at.iterations[number.var])
        if isinstance(number, Window):
            return number.at(at.index.get(number.axis, 0))
        return self.bound(number, at)

    def loop(self, node: Loop, at: _Point) -> None:
        start, stop = self.bound(node.start, at), self.bound(node.stop, at)
        if node.kind == "vector":
            here = replace(self.moved(node, at, start), lanes=node.lanes, axis=node.axes[0])
            here = replace(here, active=stop - start)
            if stop > start:
                self.run(node.body, here)
            return
        if node.copies == "tree":
            self.terms = {}
        for number, first in enumerate(range(start, stop, node.step)):
            # No element comes before the first aligned one here: the first block is empty, and the
            # others follow one step later.
            if node.align is not None:
                extent = stop - node.step
                self.end = min(first, extent)
                first = min(max(first - node.step, 0), extent)
            # A last block that is moved back is whole and repeats iterations of the one before.
            first = min(first, stop - node.step) if node.moved_back else first
            here = self.moved(node, at, first, number)
            if node.kind in ("unroll", "interleave"):
                axis = node.axes[0]
                here = replace(here, row={**at.row, axis: at.row.get(axis, 0) + first})
                if node.copies == "own":
                    here = replace(here, path=(*at.path, (axis, first)))
            self.run(node.body, here)
        if node.copies == "tree":
            terms, self.terms = self.terms or {}, None
            for name, values in terms.items():
                self.add(name, at, self.tree(name, values))

    def call_rows(self, node: CallRows, at: _Point) -> None:
        first, count = 0, self.bound(node.count, at)
        for axis in node.axes:
            first = first * self.nest.extents[axis] + at.index.get(axis, 0)
        # The function reads row r at base + r * pitch, so bases are moved back by the first row.
        operands = zip(node.buffers, node.pitches, strict=True)
        begins = [at.address[k] - first * pitch for k, pitch in operands]
        nest = rows_of(node.nest, first, first + count)
        run = _Run(nest, [self.memory[k] for k in node.buffers])
        own = [buffer.offset for buffer in nest.buffers[len(begins) :]]
        offsets = [buffer.offset for buffer in nest.buffers[: len(begins)]]
        begins = [begin + offset for begin, offset in zip(begins, offsets, strict=True)]
        run.run(nest.body, _Point({}, (*begins, *own)))

    def images(self, node: Images, at: _Point) -> None:
        begins = _images(node.images, at)
        for number, begin in enumerate(begins):
            # On a diagonal, images are the same block: it runs once, in the tile of the first.
            if begin in begins[:number]:
                continue
            here = at
            for axis, loop in enumerate(node.moves()):
                here = self.moved(loop, here, begin[axis] - at.index[axis])
            address = list(here.address)
            for k, buffer in enumerate(self.nest.buffers):
                if buffer.image is not None:
                    tile = begins[node.composed(buffer.image[0])[number]]
                    address[k] += begins.index(tile) * buffer.image[1]
            self.run(node.body, replace(here, address=tuple(address)))

    def moved(self, loop: Loop, at: _Point, by: int, number: int = 0) -> _Point:
        index, address, linear = dict(at.index), list(at.address), at.linear
        positions = {loop.axes[0]: by}
        # Loops over several axes count their iterations in one number, which the innermost splits.
        if len(loop.axes) > 1:
            whole = linear.get(loop.axes, 0) + by
            linear = {**linear, loop.axes: whole}
            pending = any(isinstance(n, Loop) and n.axes == loop.axes for n in walk(loop.body))
            extents = [self.nest.extents[axis] for axis in loop.axes]
            split = [] if pending else [int(x) for x in np.unravel_index(whole, extents)]
            positions = dict(zip(loop.axes, split, strict=False))
        for axis, position in positions.items():
            index[axis] = index.get(axis, 0) + position
        for k, buffer in enumerate(self.nest.buffers):
            if loop.var not in buffer.outside:
                address[k] += sum(buffer.strides[a] * n for a, n in positions.items())
                address[k] += sum(offsets_of(buffer, positions))
                address[k] += sum(number * stride for _, stride in buffer.blocks_of(loop.var))
        first = linear[loop.axes] if loop.axes in linear else next(index[a] for a in loop.axes)
        blocks = {**at.blocks, loop.var: first}
        iterations = {**at.iterations, loop.var: by // loop.step}
        return replace(
            at, index=index, address=tuple(address), linear=linear, blocks=blocks,
            iterations=iterations,
        )  # fmt: skip

    # statements

    def value(self, name: str, at: _Point) -> Array:
        # Copies of an unrolled loop have values of their own, and see those from outside of it.
        for length in range(len(at.path), -1, -1):
            if (name, at.path[:length]) in self.values:
                return self.values[name, at.path[:length]]
        raise InternalError(f"loop IR: {name} is not defined")

    def statement(self, s: Statement, at: _Point) -> None:
        match s:
            case Load(name):
                self.values[name, at.path] = self.load(s, at)
            case Constant(name, dtype, value):
                self.values[name, at.path] = widened(np.array(value, dtype.np), dtype)
            case LaneConstants(name, dtype, values):
                self.values[name, at.path] = np.array(values, dtype.np)
            case Index(name, axis, dtype):
                index = at.index.get(axis, 0) + (np.arange(at.lanes) if axis == at.axis else 0)
                self.values[name, at.path] = np.asarray(index, dtype.np)
            case Compute(name, _, args):
                self.values[name, at.path] = computed(s, [self.value(a, at) for a in args])
            case Reduce(name, _, value, times):
                term = self.value(value, at)
                term = term if times is None else term * self.value(times, at)
                term = np.broadcast_to(term, at.lanes if at.lanes > 1 else ())
                if self.terms is None:
                    self.add(name, at, term)
                else:
                    self.terms.setdefault(name, []).append(term)
            case Store(operand, value):
                self.store(operand, self.value(value, at), at)
            case Accumulate(operand, kind, value):
                self.accumulate(operand, kind, self.value(value, at), at)
            case Scatter(operand, kind, value, index, limit):
                offset = int(self.value(index, at).reshape(-1)[0])  # all lanes share it
                if 0 <= offset <= limit:
                    moved = list(at.address)
                    moved[operand] += offset * self.nest.buffers[operand].dtype.itemsize
                    here = replace(at, address=tuple(moved))
                    self.accumulate(operand, kind, self.value(value, at), here)
            case RuntimeAssert(operand, value):
                holds = np.broadcast_to(self.value(value, at), (at.lanes,))
                self.memory[operand][0] |= not holds[: at.active].all()

    def places(self, number: int, at: _Point, further: Any = 0) -> Array:
        """The address of each lane."""
        buffer = self.nest.buffers[number]
        if at.lanes > 1 and buffer.lanes is not None:
            return at.address[number] + np.array([o or 0 for o in buffer.lanes]) + further
        step = buffer.strides[at.axis] if at.lanes > 1 else 0
        return at.address[number] + step * np.arange(at.lanes) + further

    def active(self, number: int, at: _Point) -> Array:
        buffer = self.nest.buffers[number]
        if at.lanes > 1 and buffer.lanes is not None:
            return np.array([o is not None for o in buffer.lanes])
        padded = buffer.space == "scratch"
        return np.arange(at.lanes) < (at.lanes if padded else at.active)

    def bytes_at(self, number: int, places: Array, active: Array) -> Array:
        """The bytes of elements as indices into memory; those of inactive lanes are the first."""
        size = self.nest.buffers[number].dtype.itemsize
        found = np.where(active, places, 0)[..., None] + np.arange(size)
        if active.any() and not 0 <= found.min() <= found.max() < len(self.memory[number]):
            raise InternalError(f"loop IR: an access leaves buffer {number}")
        return found

    def load(self, load: Load, at: _Point) -> Array:
        number, dtype = load.operand, self.nest.buffers[load.operand].dtype
        active, places = self.active(number, at), self.places(number, at)
        if load.predicate is not None:
            active = active & self.value(load.predicate, at)
        if load.at is not None:
            index = self.value(load.at, at).astype(np.int64)
            index = np.where((index < 0) | (index > load.limit), load.limit, index)
            places = places + index * dtype.itemsize
        if not active.any():
            found = np.zeros(at.lanes, dtype.np)
        else:
            found = self.memory[number][self.bytes_at(number, places, active)]
            found = np.where(active, found.view(dtype.np)[..., 0], np.zeros((), dtype.np))
        return widened(found if at.lanes > 1 else found.reshape(()), dtype)

    def store(self, number: int, value: Array, at: _Point) -> None:
        active, dtype = self.active(number, at), self.nest.buffers[number].dtype
        places = self.bytes_at(number, self.places(number, at), active)
        array = np.ascontiguousarray(np.broadcast_to(value, at.lanes).astype(dtype.np))
        self.memory[number][places[active]] = array[:, None].view(np.uint8)[active]

    def accumulate(self, number: int, kind: ReduceKind | None, value: Array, at: _Point) -> None:
        alone = replace(at, lanes=1, axis=-1, active=1)
        lanes = np.broadcast_to(value, at.lanes)
        for lane in range(at.active):
            step = self.nest.buffers[number].strides[at.axis] if at.lanes > 1 else 0
            address = list(at.address)
            address[number] += lane * step
            here = replace(alone, address=tuple(address))
            total = lanes[lane]
            if kind is not None:
                total = COMBINE[kind](self.load(Load("", number), here), total)
            self.store(number, total, here)

    def pack(self, node: Pack, at: _Point) -> None:
        columns = at.active if at.lanes > 1 else 1
        columns = columns if node.columns is None else self.bound(node.columns, at)
        source, dest = self.nest.buffers[node.source], self.nest.buffers[node.dest]
        lane = dest.strides[node.column_axis]
        size = source.dtype.itemsize
        for row in range(self.bound(node.rows, at)):
            for column in range(columns):
                begin = at.address[node.source] + row * source.strides[node.row_axis]
                begin += column * source.strides[node.column_axis]
                to = at.address[node.dest] + row * dest.strides[node.row_axis] + column * lane
                for k, place in ((node.source, begin), (node.dest, to)):
                    if not 0 <= place <= self.nest.buffers[k].size - size:
                        raise InternalError(f"loop IR: a copy leaves buffer {k}")
                self.memory[node.dest][to : to + size] = self.memory[node.source][begin:][:size]

    def invoke(self, node: Invoke, at: _Point) -> None:
        numbers = [self.number(x, at) for x in node.numbers]
        try:
            node.routine.run([(self.memory[k], at.address[k]) for k in node.buffers], numbers)
        except (TypeError, ValueError) as error:
            raise InternalError(f"loop IR: a routine leaves a buffer ({error})") from error

    # reductions

    def reducing(self, node: Reducing, at: _Point) -> None:
        rank = self.nest.rank
        lanes = max([at.lanes, *(n.lanes for n in walk(node.body) if isinstance(n, Loop))])
        paths = copies_of(node.body, at.path) or [at.path]
        self.kinds = {r.name: r.kind for r in node.reductions}
        for r in node.reductions:
            dtype = self.types[r.name]
            start = np.asarray(identity(r.kind, dtype), dtype.np)
            start = self.value(r.name, at) if node.resumed else start
            start = np.broadcast_to(start, lanes if lanes > 1 else ())
            self.registers |= {(r.name, path): start for path in paths}
        self.run(node.body, at)
        for r in node.reductions:
            found: dict[Path, list[Array]] = {}
            for path in paths:
                outer = tuple([p for p in path if p[0] < rank])
                found.setdefault(outer, []).append(self.registers.pop((r.name, path)))
            for path, values in found.items():
                total = self.tree(r.name, values)
                if lanes > at.lanes:
                    total = self.tree(r.name, list(total))
                self.values[r.name, path] = np.asarray(total)

    def add(self, name: str, at: _Point, term: Array) -> None:
        """Add to the accumulator of a copy; code beside the copies uses that of the first."""
        keys = [key for key in self.registers if key[0] == name]
        key = (name, at.path) if (name, at.path) in self.registers else keys[0]
        total = COMBINE[self.kinds[name]](self.registers[key], term)
        across = at.axis >= self.nest.rank
        active = np.arange(at.lanes) < at.active if across else np.asarray(True)
        self.registers[key] = np.where(active, total, self.registers[key])

    def tree(self, name: str, values: list[Array]) -> Array:
        """Values reduced in pairs."""
        items = list(values)
        while len(items) > 1:
            combine = COMBINE[self.kinds[name]]
            pairs = [combine(x, y) for x, y in zip(items[::2], items[1::2], strict=False)]
            items = pairs + items[len(items) & ~1 :]
        return items[0]


def _images(images: Sequence[Sequence[int]], at: _Point) -> list[list[int]]:
    """The first index of each image of a block along each axis."""
    return [[at.index.get(axis, 0) for axis in image] for image in images]
