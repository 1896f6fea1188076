"""Writes a nest of the loop IR as LLVM IR.

Nothing is decided here: loops, vectors, copies, masks, prefetches and scratch memory are those of
the nest. Registers that a loop accumulates into are carried through it; addresses are kept per
buffer, and each loop adds its stride.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.emit.interleave import interleaved
from pirkit.lowering.codegen.emit.transpose_tile import pack, transposed
from pirkit.lowering.codegen.emit.vector_emit import (
    Memory,
    VectorEmitter,
    argument,
    combine,
    lane_indices,
    reduce_lanes,
    split_index,
    tail_mask,
    tree_reduce,
)
from pirkit.lowering.codegen.ir.element_types import LINE, compute_type, identity, types_of
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.loop_ir import (
    NESTED,
    Block,
    Bound,
    Count,
    Images,
    Loop,
    Nest,
    Node,
    NonTemporal,
    OncePerOrbit,
    Pack,
    Path,
    Prefetch,
    PrefetchTile,
    Reducing,
    buffers_of,
    copies_of,
    inside,
    is_multiple,
    statements,
)
from pirkit.lowering.codegen.ir.loopnest import Index, Load, Reduce, ReduceKind, Statement, reads
from pirkit.lowering.codegen.math.primitives import Typed, element, select_extremum, stored, widen
from pirkit.lowering.codegen.math.vecmath import any_lane

_ZERO: Final = Value("0", I64)

Key = tuple[str, Path]
_Move = tuple[Loop, Value, Value | None]
"""A loop, how many iterations further along it, and for a parallel one the number of the block."""


@dataclass(frozen=True, slots=True)
class _Point:
    """An iteration, or a vector of them along ``axis``: indices, addresses, the active lanes."""

    index: dict[int, Value]
    address: tuple[Value, ...]
    counts: dict[Count, Value] = field(default_factory=dict[Count, Value])
    linear: dict[tuple[int, ...], Value] = field(default_factory=dict[tuple[int, ...], Value])
    """The index over the product of axes of a loop over several of them."""
    lanes: int = 1
    axis: int = -1
    mask: Value | None = None
    path: Path = ()
    offsets: dict[int, int] = field(default_factory=dict[int, int])
    """The constants that unrolled loops add to the indices."""
    streams: frozenset[int] = frozenset()
    active: Value | None = None
    """The number of active lanes of a partial vector."""
    begins: dict[str, Value] = field(default_factory=dict[str, Value])
    """The first iteration of each block, for bounds."""


def write_nest(b: Builder, nest: Nest, line_aligned: Value | None = None) -> int:
    """Append the code of a nest; returns the bytes of scratch memory that a thread needs.

    ``line_aligned`` (i1) says whether all buffers with non-temporal stores begin at cache lines.
    """
    writer = _NestWriter(b, nest, line_aligned)
    writer.run(nest.body, writer.start())
    return writer.scratch


class _NestWriter:
    def __init__(self, b: Builder, nest: Nest, line_aligned: Value | None) -> None:
        self.b, self.nest, self.line_aligned = b, nest, line_aligned
        self.types = types_of(nest.kernel)
        self.scratch = 0
        self.used: dict[int, set[int]] = {}
        self.bounds = _bounds(nest)
        self.indexed = _indexed(nest, self.bounds)
        self.scopes: list[dict[Key, Typed]] = [{}]
        """Values by name and copy; a loop body has a scope of its own."""
        self.wide: list[dict[str, Typed]] = [{}]
        """Scalars that were broadcast to all lanes before a loop."""
        self.registers: dict[Key, Value] = {}
        """Accumulators, by reduction and copy."""
        self.terms: dict[str, list[Value]] | None = None
        """What copies that are reduced as a tree contribute."""
        self.kinds: dict[str, ReduceKind] = {}
        """The reductions whose accumulators are in registers."""
        self.flagged: set[str] = set()
        """Maxima and minima of them that flag NaN operands apart."""
        self.tiles: dict[int, list[Typed]] = {}
        """Buffers in registers: their vectors."""
        self.suspects: dict[str, list[Value]] = {}
        """Operands of maxima and minima that have to be compared with NaN."""

    def start(self) -> _Point:
        """Before all loops: the addresses of the buffers."""
        b, address = self.b, list[Value]()
        used = self.used_buffers(self.nest.body)
        for number, buffer in enumerate(self.nest.buffers):
            if buffer.space == "memory":
                address.append(argument(b, number))
            elif buffer.space == "register":
                address.append(_ZERO)
            elif buffer.shares is not None:
                address.append(address[buffer.shares])
            else:
                address.append(b.at(Value("%scratch", PTR), self.scratch))
                # Whole vectors are written: one more line for what is beyond the last element.
                self.scratch += (-(-buffer.size // LINE) + 1) * LINE if number in used else 0
        return _Point({}, tuple(address))

    def run(self, nodes: Sequence[Node], at: _Point) -> None:
        """Write nodes in order."""
        for node in nodes:
            match node:
                case Block():
                    self.block(node, at)
                case Prefetch():
                    self.prefetch(node, at)
                case PrefetchTile():
                    self.prefetch_tile(node, at)
                case Pack():
                    self.pack(node, at)
                case Reducing():
                    self.reducing(node, at)
                case NonTemporal():
                    self.non_temporal(node, at)
                case OncePerOrbit():
                    self.once_per_orbit(node, at)
                case Images():
                    self.images(node, at)
                case Loop(kind="parallel"):
                    self.parallel(node, at)
                case Loop(kind="vector"):
                    self.vector(node, at)
                case Loop(kind="serial"):
                    self.serial(node, at)
                case Loop():
                    self.copies(node, at)

    # loops

    def parallel(self, node: Loop, at: _Point) -> None:
        """Perfectly nested parallel loops are one loop over blocks, whose number is split."""
        b, loops = self.b, [node]
        while isinstance(inner := loops[-1].body[0], Loop) and inner.kind == "parallel":
            loops.append(inner)
        aligned = [loop.align for loop in loops if loop.align is not None]
        shift = self.shift(aligned[0], at) if aligned else _ZERO

        def block(number: Value, _: list[Value]) -> Sequence[Value]:
            trips = [-(-_known(loop.stop) // loop.step) for loop in loops]
            moves: list[tuple[_Move, Value | None]] = []
            for loop, place in zip(loops, split_index(b, number, trips), strict=True):
                first, count = b.times(place, loop.step), None
                if loop.align is not None:
                    extent = Value(str(_known(loop.stop) - loop.step), I64)
                    end = b.binary("smin", b.plus(first, shift), extent)
                    first = b.binary("smax", b.plus(b.plus(first, -loop.step), shift), _ZERO)
                    first = b.binary("smin", first, extent)
                    count = b.emit(I64, f"sub {end}, {first.text}")
                moves.append(((loop, first, place), count))
            here = self.moved(at, loops[-1].body, *(move for move, _ in moves))
            for move, iterations in moves:
                here = self.with_counts(move[0], here, iterations)
            self.run(loops[-1].body, here)
            return []

        b.block_loop(block)

    def serial(self, node: Loop, at: _Point) -> None:
        """A loop; the accumulators that it changes are carried."""
        self.broadcast(node, at)
        keys = self.changed_registers(node)

        def body(index: Value, carried: Sequence[Value]) -> list[Value]:
            self.registers.update(zip(keys, carried, strict=True))
            with _Scope(self):
                here = self.with_counts(node, self.moved(at, node.body, (node, index, None)))
                self.run(node.body, here)
            return [self.registers[key] for key in keys]

        start, stop = (self.bound(x, at) for x in (node.start, node.stop))
        carried = [self.registers[key] for key in keys]
        found = self.b.loop(start, stop, node.step, carried, body)
        self.registers.update(zip(keys, found, strict=True))

    def vector(self, node: Loop, at: _Point) -> None:
        """A vector of iterations; a partial one under a mask, if it has any."""
        b, (axis,) = self.b, node.axes
        self.broadcast(node, at)
        start = self.bound(node.start, at)
        here = at if start.text == "0" else self.moved(at, node.body, (node, start, None))
        here = replace(here, lanes=node.lanes, axis=axis)
        if node.stop == node.lanes and node.start == 0:
            self.run(node.body, here)
            return
        rest = b.emit(I64, f"sub {self.bound(node.stop, at)}, {start.text}")
        keys = self.changed_registers(node)

        def tail() -> list[Value]:
            with _Scope(self):
                mask = tail_mask(b, node.lanes, rest)
                self.run(node.body, replace(here, mask=mask, active=rest))
            return [self.registers[key] for key in keys]

        before = [self.registers[key] for key in keys]
        found = b.branch(b.compare("sgt", rest, 0), tail, before)
        self.registers.update(zip(keys, found, strict=True))

    def copies(self, node: Loop, at: _Point) -> None:
        """An unrolled loop: one copy of the body after the other, or their instructions mixed."""
        (axis,) = node.axes
        places = range(_known(node.start), _known(node.stop), node.step)
        bodies: list[Callable[[], None]] = []
        for place in places:
            here = self.moved(at, node.body, (node, Value(str(place), I64), None))
            offsets = {**at.offsets, axis: at.offsets.get(axis, 0) + place}
            path = (*at.path, (axis, place)) if node.copies == "own" else at.path
            bodies.append(partial(self.run, node.body, replace(here, offsets=offsets, path=path)))
        if node.copies == "tree":
            self.terms = {}
        if node.kind == "interleave":
            interleaved(self.b, bodies)
        else:
            for body in bodies:
                with _Scope(self) if node.copies != "own" else nullcontext():
                    body()
        if self.terms is not None and node.copies == "tree":
            terms, self.terms = self.terms, None
            for name, values in terms.items():
                kind = self.kinds[name]
                partial_sum = tree_reduce(self.b, kind, values, self.types[name])
                key = self.register(name, at.path)
                self.registers[key] = combine(
                    self.b, kind, self.registers[key], partial_sum, self.types[name]
                )
        if node.copies == "own":
            self.note_nan(None)

    def once_per_orbit(self, node: OncePerOrbit, at: _Point) -> None:
        """The body, if the block is lexicographically not after any of its images."""
        b, holds = self.b, Value("true", I1)
        begin, *others = _images(node.images, at)
        for other in others:
            is_first = Value("true", I1)
            for x, y in reversed(list(zip(begin, other, strict=True))):
                if x.text != y.text:
                    is_same = b.both(b.compare("eq", x, y), is_first)
                    is_first = b.op("or", b.compare("slt", x, y), is_same)
            holds = b.both(is_first, holds)
        self.guarded(holds, node.body, at)

    def guarded(self, condition: Value, nodes: Sequence[Node], at: _Point) -> None:
        """Nodes under a condition."""

        def body() -> list[Value]:
            with _Scope(self):
                self.run(nodes, at)
            return []

        self.b.branch(condition, body)

    def images(self, node: Images, at: _Point) -> None:
        """The body at each image of a block; those that are the same block run once."""
        b, count = self.b, len(node.images)
        begins = _images(node.images, at)
        # The first image that is the same block: on a diagonal several are.
        first = [Value(str(k), I64) for k in range(count)]
        for k, other in itertools.product(range(count), reversed(range(count))):
            if other < k:
                pairs = zip(begins[k], begins[other], strict=True)
                is_same = Value("true", I1)
                for x, y in pairs:
                    if x.text != y.text:
                        is_same = b.both(b.compare("eq", x, y), is_same)
                first[k] = b.select(is_same, Value(str(other), I64), first[k])

        def body(image: Value, _: list[Value]) -> Sequence[Value]:
            moves: list[_Move] = []
            for axis, loop in enumerate(node.moves()):
                begin = b.pick(image, [found[axis] for found in begins])
                by = b.emit(I64, f"sub {begin}, {at.index[axis].text}")
                moves.append((loop, by, None))
            here = self.moved(at, node.body, *moves)
            for loop, _, _ in moves:
                here = self.with_counts(loop, here)
            address = list(here.address)
            for k in self.used_buffers(node.body):
                if (tile := self.nest.buffers[k].image) is not None:
                    slot = b.pick(image, [first[n] for n in node.composed(tile[0])])
                    address[k] = b.at(address[k], b.times(slot, tile[1]))
            is_new = b.compare("eq", b.pick(image, first), image)
            self.guarded(is_new, node.body, replace(here, address=tuple(address)))
            return []

        b.loop(0, count, 1, [], body)

    def used_buffers(self, body: tuple[Node, ...]) -> set[int]:
        """The buffers that a body uses; the loops around it and copies of it ask again."""
        found = self.used.get(id(body))
        if found is None:
            inner = [self.used_buffers(n.body) for n in body if isinstance(n, NESTED)]
            found = buffers_of([n for n in body if not isinstance(n, NESTED)]).union(*inner)
            self.used[id(body)] = found
        return found

    def moved(self, at: _Point, body: tuple[Node, ...], *moves: _Move) -> _Point:
        """The point some iterations further along loops; all move an address at once."""
        b, index, linear = self.b, dict(at.index), at.linear
        moved: list[tuple[_Move, list[tuple[int, Value]]]] = []
        for move in moves:
            loop, by, _ = move
            positions = [(loop.axes[0], by)]
            if len(loop.axes) > 1:
                # The index over several axes is split where no further loop adds to it.
                whole = b.plus(linear.get(loop.axes, _ZERO), by)
                linear = {**linear, loop.axes: whole}
                pending = any(isinstance(n, Loop) and n.axes == loop.axes for n in inside(body))
                extents = [self.nest.extents[axis] for axis in loop.axes]
                split = [] if pending else split_index(b, whole, extents)
                positions = list(zip(loop.axes, split, strict=False))
            for axis, position in positions:
                if axis in self.indexed:
                    index[axis] = b.plus(index.get(axis, _ZERO), position)
            moved.append((move, positions))
        address, distances = list(at.address), dict[tuple[tuple[str, int], ...], Value]()
        for k in self.used_buffers(body):
            buffer, terms = self.nest.buffers[k], list[tuple[Value, int]]()
            if buffer.space == "register":
                continue
            for (loop, _, number), positions in moved:
                if loop.var not in buffer.outside:
                    terms += [(position, buffer.strides[axis]) for axis, position in positions]
                    if number is not None and buffer.per_block and buffer.per_block[0] == loop.var:
                        terms.append((number, buffer.per_block[1]))
            key = tuple([(position.text, stride) for position, stride in terms if stride])
            if key not in distances:
                total = _ZERO
                for position, stride in terms:
                    total = b.plus(total, b.times(position, stride))
                distances[key] = total
            address[k] = b.at(address[k], distances[key])
        return replace(at, index=index, address=tuple(address), linear=linear)

    def with_counts(self, loop: Loop, at: _Point, count: Value | None = None) -> _Point:
        """The point with the iterations of the block that begins here, for the loops inside."""
        b, counts = self.b, dict(at.counts)
        wanted = self.bounds.get(loop.var)
        if wanted is None:
            return at
        first = at.linear.get(loop.axes, at.index.get(loop.axes[0], _ZERO))
        (extent, size), *_ = {(x.extent, x.size) for x in wanted}
        if count is None:
            count = Value(str(size), I64)
            if extent % size:
                left = b.emit(I64, f"sub i64 {extent}, {first.text}")
                count = b.binary("smin", left, count)
        for bound in sorted(wanted, key=lambda x: x.multiple):
            counts[bound] = b.emit(I64, f"and {count}, {-bound.multiple}")
        return replace(at, counts=counts, begins={**at.begins, loop.var: first})

    def shift(self, buffer: int, at: _Point) -> Value:
        """Iterations before the first one whose vectors do not cross a cache line, as an i64."""
        b, size = self.b, self.nest.buffers[buffer].dtype.itemsize
        lanes = max(n.lanes for n in inside(self.nest.body) if isinstance(n, Loop))
        address = b.cast("ptrtoint", self.address(buffer, at), "i64")
        left = b.op("and", b.emit(I64, f"sub i64 0, {address.text}"), lanes * size - 1)
        return b.emit(I64, f"udiv {left}, {size}")

    def address(self, number: int, at: _Point) -> Value:
        """The address of the element of a buffer at a point."""
        return self.b.at(at.address[number], self.nest.buffers[number].offset)

    def bound(self, bound: Bound, at: _Point) -> Value:
        return Value(str(bound), I64) if isinstance(bound, int) else at.counts[bound]

    # statements

    def block(self, node: Block, at: _Point) -> None:
        """Statements at a point, then what their reductions accumulate."""
        b = self.b

        def memory(number: int) -> Memory:
            buffer = self.nest.buffers[number]
            step = buffer.strides[at.axis] if at.lanes > 1 else 0
            padded = buffer.space == "scratch"
            return Memory(self.address(number, at), step, number in at.streams, padded)

        def position(axis: int) -> Value:
            index = at.index.get(axis, _ZERO)
            return lane_indices(b, index, at.lanes) if axis == at.axis else index

        emitter = VectorEmitter(
            b, self.nest.buffers, at.lanes, memory, partial(self.value, at), position, at.mask,
            {},
        )  # fmt: skip
        lines: list[Statement] = []
        for s in node.statements:
            if isinstance(s, Load) and s.operand in self.tiles:
                emitter.known[s.name] = self.tiles[s.operand][self.row(s.operand, at)]
            else:
                lines.append(s)
        emitter.run(lines)
        for name, value in emitter.known.items():
            self.scopes[-1][name, at.path] = value
        for statement in node.statements:
            if isinstance(statement, Reduce):
                self.accumulate(statement, emitter, at)

    def value(self, at: _Point, name: str) -> Typed:
        """A value that was defined before, for all copies or for this one."""
        if at.lanes > 1:
            for wide in reversed(self.wide):
                if name in wide:
                    return wide[name]
        for scope in reversed(self.scopes):
            for length in range(len(at.path), -1, -1):
                if (name, at.path[:length]) in scope:
                    return scope[name, at.path[:length]]
        raise InternalError(f"loop IR: {name} is not defined")

    def broadcast(self, node: Node, at: _Point) -> None:
        """Broadcast the scalars that vectors in a loop read, before the loop."""
        known = {name: x for scope in self.scopes for (name, path), x in scope.items() if not path}
        scalars = {name for name in known if not any(name in wide for wide in self.wide)}
        if at.lanes > 1 or not scalars:
            return
        lanes = max((n.lanes for n in inside([node]) if isinstance(n, Loop)), default=1)
        if lanes > 1:
            for name in dict.fromkeys(name for s in statements([node]) for name in reads(s)):
                if name in scalars:
                    value, dtype = known[name]
                    self.wide[-1][name] = self.b.splat(value, lanes), dtype

    def prefetch(self, node: Prefetch, at: _Point) -> None:
        """One prefetch per cache line, not per copy; a prefetch of any address is valid."""
        buffer = self.nest.buffers[node.buffer]
        if at.offsets.get(at.axis, 0) * buffer.strides[at.axis] % LINE == 0:
            here = self.b.at(self.address(node.buffer, at), node.distance)
            self.b.prefetch(here, 3 if node.near else 2, node.write)

    def row(self, number: int, at: _Point) -> int:
        """Which vector of a buffer in registers the copies of unrolled loops read."""
        buffer, rows = self.nest.buffers[number], len(self.tiles[number])
        distance = sum(n * buffer.strides[axis] for axis, n in at.offsets.items())
        return distance * rows // buffer.size

    def prefetch_tile(self, node: PrefetchTile, at: _Point) -> None:
        """One prefetch per row, or two per column, whose vector may cross a cache line."""
        b, buffer = self.b, self.nest.buffers[node.buffer]
        begin, count = at.begins[node.columns.block], self.bound(node.columns, at)
        along, across = buffer.strides[node.row_axis], buffer.strides[node.column_axis]
        column = b.plus(b.emit(I64, f"sub {at.index[node.column_axis]}, {begin.text}"), node.ahead)
        over = b.compare("sge", column, count)
        back = b.times(b.select(over, count, _ZERO), across)
        here = b.at(self.address(node.buffer, at), node.ahead * across)
        here = b.at(here, b.emit(I64, f"sub i64 0, {back.text}"))
        here = b.at(here, b.times(b.select(over, Value(str(node.rows), I64), _ZERO), along))
        size = buffer.dtype.itemsize
        for k in range(node.lanes):
            b.prefetch(b.at(here, k * (across if along == size else along)))
            if along == size:
                b.prefetch(b.at(here, k * across + node.lanes * size - 1))

    def pack(self, node: Pack, at: _Point) -> None:
        """Copy a tile, transposed."""
        b, source, dest = self.b, self.nest.buffers[node.source], self.nest.buffers[node.dest]
        size, distance = source.dtype.itemsize, source.strides[node.column_axis]
        lanes = max(n.lanes for n in inside(self.nest.body) if isinstance(n, Loop))
        if dest.space == "register":
            type_, begin = Type(stored(source.dtype), lanes), self.address(node.source, at)
            starts = [b.at(begin, k * distance) for k in range(lanes)]
            columns = [b.emit(type_, f"load {type_}, {s}, align {size}") for s in starts]
            rows = [widen(b, row, source.dtype) for row in transposed(b, columns)]
            self.tiles[node.dest] = [(row, compute_type(source.dtype)) for row in rows]
            return
        active = at.active or Value(str(lanes), I64)
        columns_count = active if node.columns is None else self.bound(node.columns, at)
        pack(
            self.b, source.dtype, lanes,
            (self.address(node.source, at), distance, columns_count),
            (self.address(node.dest, at), dest.strides[node.row_axis] // size),
            self.bound(node.rows, at),
            # Scratch memory is padded to whole vectors.
            source.space == "memory" and not is_multiple(node.rows, lanes),
            node.ahead,
        )  # fmt: skip

    def non_temporal(self, node: NonTemporal, at: _Point) -> None:
        """The body twice: with non-temporal stores if the buffers are aligned, and without."""
        if self.line_aligned is None:
            self.run(node.body, at)
            return
        self.broadcast(node, at)
        keys = self.changed_registers(node)
        streams = frozenset(node.buffers)
        for condition, chosen in (
            (self.line_aligned, streams),
            (self.b.op("xor", self.line_aligned, True), frozenset[int]()),
        ):
            before = [self.registers[key] for key in keys]

            def body(chosen: frozenset[int] = chosen) -> list[Value]:
                with _Scope(self):
                    self.run(node.body, replace(at, streams=chosen))
                return [self.registers[key] for key in keys]

            found = self.b.branch(condition, body, before)
            self.registers.update(zip(keys, found, strict=True))

    # reductions

    def reducing(self, node: Reducing, at: _Point) -> None:
        """Accumulators in registers, one per copy; then one value per iteration outside."""
        b, rank = self.b, self.nest.rank
        loops = [n for n in inside(node.body) if isinstance(n, Loop)]
        # A vector along a reduced axis has to be reduced as well.
        lanes = max([at.lanes, *(n.lanes for n in loops)])
        across = lanes > at.lanes
        self.kinds = {r.name: r.kind for r in node.reductions}
        self.flagged = {
            r.name for r in node.reductions
            if across and r.kind in ("max", "min") and self.types[r.name].is_float
        }  # fmt: skip
        paths = copies_of(node.body, at.path) or [at.path]
        for r in node.reductions:
            dtype = self.types[r.name]
            start = b.const(Type(element(dtype), lanes), identity(r.kind, dtype))
            if node.resumed:
                start = b.splat(self.value(at, r.name)[0], lanes)
            self.registers |= {(r.name, path): start for path in paths}
        for name in sorted(self.flagged):
            self.registers[f"nan {name}", ()] = Value("zeroinitializer", Type("i1", lanes))
        self.run(node.body, at)
        for r in node.reductions:
            dtype, found = self.types[r.name], dict[Path, list[Value]]()
            for path in paths:
                outer = tuple([p for p in path if p[0] < rank])
                found.setdefault(outer, []).append(self.registers.pop((r.name, path)))
            for path, values in found.items():
                total = tree_reduce(b, r.kind, values, dtype)
                total = reduce_lanes(b, r.kind, total, dtype) if across else total
                if r.name in self.flagged:
                    is_nan = any_lane(b, self.registers.pop((f"nan {r.name}", ())))
                    total = b.select(is_nan, b.like(total, math.nan), total)
                self.scopes[-1][r.name, path] = total, dtype

    def accumulate(self, statement: Reduce, emitter: VectorEmitter, at: _Point) -> None:
        """Add the value of a reduction at a point to its accumulator."""
        b, name, kind, dtype = self.b, statement.name, statement.kind, self.types[statement.name]
        key = self.register(name, at.path)
        have = self.registers[key]
        if statement.times is not None:
            x, y = (emitter.get(n)[0] for n in (statement.value, statement.times))
            self.registers[key] = b.muladd(x, y, have)
            return
        value = emitter.get(statement.value)[0]
        if self.terms is not None:
            self.terms.setdefault(name, []).append(value)
            return
        if name in self.flagged:
            total = select_extremum(b, have, value, kind)
            self.suspects.setdefault(name, []).append(value)
            if not at.path:
                self.note_nan(at.mask)
        else:
            total = combine(b, kind, have, value, dtype)
        # Lanes beyond the end keep their accumulators.
        if at.mask is not None and at.axis >= self.nest.rank:
            total = b.select(at.mask, total, have)
        self.registers[key] = total

    def note_nan(self, mask: Value | None) -> None:
        """Flag NaN operands of maxima and minima: a compare and an `or` per two vectors.

        That is cheaper than reduction steps that propagate NaN. `fcmp uno x, y` is true if x or y
        is NaN.
        """
        b = self.b
        for name, values in self.suspects.items():
            for x, y in zip(values[::2], values[1::2] or values, strict=True):
                is_nan = b.compare("uno", x, y)
                is_nan = is_nan if mask is None else b.op("and", is_nan, mask)
                key = f"nan {name}", ()
                self.registers[key] = b.op("or", self.registers[key], is_nan)
        self.suspects = {}

    def register(self, name: str, path: Path) -> Key:
        """The accumulator of a copy; code beside the copies uses that of the first."""
        if (name, path) in self.registers:
            return name, path
        return next(key for key in self.registers if key[0] == name)

    def changed_registers(self, node: Node) -> list[Key]:
        """The accumulators that a node changes, and their NaN flags."""
        if not self.registers:
            return []
        names = {s.name for s in statements([node]) if isinstance(s, Reduce)}
        return [key for key in self.registers if key[0].removeprefix("nan ") in names]


class _Scope:
    """A loop body: what it defines is not known after it."""

    def __init__(self, writer: _NestWriter) -> None:
        self.writer = writer

    def __enter__(self) -> None:
        self.writer.scopes.append({})
        self.writer.wide.append({})

    def __exit__(self, *_: object) -> None:
        self.writer.scopes.pop()
        self.writer.wide.pop()


def _bounds(nest: Nest) -> dict[str, set[Count]]:
    """The bounds that depend on the first iteration of a block, by its loop."""
    found: dict[str, set[Count]] = {}
    for n in inside(nest.body):
        bounds: tuple[Bound | None, ...] = ()
        if isinstance(n, Loop):
            bounds = n.start, n.stop
        elif isinstance(n, Pack):
            bounds = n.rows, n.columns
        elif isinstance(n, PrefetchTile):
            bounds = (n.columns,)
        for x in bounds:
            if isinstance(x, Count):
                found.setdefault(x.block, set()).add(x)
    return found


def _indexed(nest: Nest, blocks: Collection[str]) -> set[int]:
    """The axes whose indices are used, beside for addresses."""
    found = {s.axis for s in statements(nest.body) if isinstance(s, Index)}
    for n in inside(nest.body):
        if isinstance(n, PrefetchTile):
            found.add(n.column_axis)
        elif isinstance(n, Loop) and n.var in blocks:
            found.add(n.axes[0])
        elif isinstance(n, Images):
            found |= set(range(len(n.blocks)))
    return found


def _images(images: Sequence[Sequence[int]], at: _Point) -> list[list[Value]]:
    """Where the images of a block begin along each axis."""
    return [[at.index[axis] for axis in image] for image in images]


def _known(bound: Bound) -> int:
    if not isinstance(bound, int):
        raise InternalError("loop IR: a bound has to be constant")
    return bound
