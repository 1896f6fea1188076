"""Writes a nest of the loop IR as LLVM IR.

Nothing is decided here: loops, vectors, copies, masks, prefetches and scratch memory are those of
the nest. Registers that a loop accumulates into are carried through it; addresses are kept per
buffer, and each loop adds its stride.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from math import prod

from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.emit.interleave import interleaved
from pirkit.lowering.codegen.emit.memory_access import Memory
from pirkit.lowering.codegen.emit.nest_blocks import NestBlocks
from pirkit.lowering.codegen.emit.nest_state import ZERO, Move, Point, Scope
from pirkit.lowering.codegen.emit.transpose_tile import pack, transposed
from pirkit.lowering.codegen.emit.vector_emit import (
    VectorEmitter,
    combine,
    lane_indices,
    split_index,
    tail_mask,
    tree_reduce,
)
from pirkit.lowering.codegen.ir.element_types import LINE, compute_type
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.loop_ir import (
    Block,
    Bound,
    CallRows,
    Images,
    Invoke,
    Loop,
    Nest,
    Node,
    NonTemporal,
    OncePerOrbit,
    OnChange,
    Pack,
    Prefetch,
    PrefetchTile,
    Reducing,
    Word,
    is_multiple,
)
from pirkit.lowering.codegen.ir.loop_tree import walk
from pirkit.lowering.codegen.ir.loopnest import Load, Reduce, Statement, Store
from pirkit.lowering.codegen.ir.routine import Functions
from pirkit.lowering.codegen.math.casts import stored, widen


def write_nest(
    b: Builder, nest: Nest, line_aligned: Value | None = None, functions: Functions | None = None
) -> int:
    """Append the code of a nest; returns the bytes of scratch memory that a thread needs.

    ``line_aligned`` (i1) says whether all buffers with non-temporal stores begin at cache lines.
    The routines that the nest calls become ``functions`` of the module.
    """
    writer = _NestWriter(b, nest, line_aligned)
    writer.functions = functions
    writer.run(nest.body, writer.start())
    return writer.scratch


class _NestWriter(NestBlocks):
    def run(self, nodes: Sequence[Node], at: Point) -> None:
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
                case Invoke():
                    self.invoke(node, at)
                case Reducing():
                    self.reducing(node, at)
                case NonTemporal():
                    self.non_temporal(node, at)
                case CallRows():
                    self.call_rows(node, at)
                case OnChange():
                    self.on_change(node, at)
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

    def parallel(self, node: Loop, at: Point) -> None:
        """Perfectly nested parallel loops are one loop over blocks, whose number is split."""
        b, loops = self.b, [node]
        while isinstance(inner := loops[-1].body[0], Loop) and inner.kind == "parallel":
            loops.append(inner)
        aligned = [loop.align for loop in loops if loop.align is not None]
        shift = self.shift(aligned[0], at) if aligned else ZERO
        trips = [-(-_known(loop.stop) // loop.step) for loop in loops]
        first_node = loops[-1].body[0]
        outer = len(first_node.vars) if isinstance(first_node, OnChange) else None

        def block(number: Value, carried: list[Value]) -> Sequence[Value]:
            if outer is not None:
                # The number of the iteration of the outer loops: it differs from the one of the
                # block before if any of these loops has moved.
                standing = b.op("udiv", number, prod(trips[outer:]))
                self.is_other = b.compare("ne", standing, carried[0])
                carried = [standing]
            moves: list[tuple[Move, Value | None]] = []
            for loop, place in zip(loops, split_index(b, number, trips), strict=True):
                first, count = b.times(place, loop.step), None
                if loop.moved_back:
                    last = _known(loop.stop) - loop.step
                    first = b.binary("smin", first, Value(str(last), I64))
                if loop.align is not None:
                    # Block k has the iterations from (k - 1) * step + shift on, within the axis:
                    # after the first, shorter one all vectors are aligned.
                    extent = Value(str(_known(loop.stop) - loop.step), I64)
                    end = b.binary("smin", b.plus(first, shift), extent)
                    first = b.binary("smax", b.plus(b.plus(first, -loop.step), shift), ZERO)
                    first = b.binary("smin", first, extent)
                    count = b.emit(I64, f"sub {end}, {first.text}")
                moves.append(((loop, first, place), count))
            here = self.moved(at, loops[-1].body, *(move for move, _ in moves))
            for move, iterations in moves:
                here = self.with_counts(move[0], here, iterations)
            self.run(loops[-1].body, here)
            return carried

        # No block stands where the loops stood before the first one.
        b.block_loop(block, [] if outer is None else [Value("-1", I64)])

    def serial(self, node: Loop, at: Point) -> None:
        """A loop; the accumulators that it changes are carried."""
        self.broadcast(node, at)
        keys = self.changed_registers(node)

        def body(index: Value, carried: Sequence[Value]) -> list[Value]:
            self.registers.update(zip(keys, carried, strict=True))
            if node.moved_back:
                # The last tile overlaps the one before it, so that none is partial.
                index = self.b.binary("smin", index, self.b.plus(stop, -node.step))
            with Scope(self):
                here = self.with_counts(node, self.moved(at, node.body, (node, index, None)))
                self.run(node.body, here)
            return [self.registers[key] for key in keys]

        start, stop = (self.bound(x, at) for x in (node.start, node.stop))
        carried = [self.registers[key] for key in keys]
        found = self.b.loop(start, stop, node.step, carried, body)
        self.registers.update(zip(keys, found, strict=True))

    def vector(self, node: Loop, at: Point) -> None:
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
            with Scope(self):
                mask = tail_mask(b, node.lanes, rest)
                self.run(node.body, replace(here, mask=mask, active=rest))
            return [self.registers[key] for key in keys]

        before = [self.registers[key] for key in keys]
        found = b.branch(b.compare("sgt", rest, 0), tail, before)
        self.registers.update(zip(keys, found, strict=True))

    def copies(self, node: Loop, at: Point) -> None:
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
                with Scope(self) if node.copies != "own" else nullcontext():
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

    def block(self, node: Block, at: Point) -> None:
        """Statements at a point, then what their reductions accumulate."""
        b = self.b

        def memory(number: int) -> Memory:
            buffer = self.nest.buffers[number]
            step: int | Value = buffer.strides[at.axis] if at.lanes > 1 else 0
            for axis, stride in buffer.dynamic:
                if axis == at.axis and isinstance(stride, Word):
                    step = self.words[stride]
            padded = buffer.space == "scratch"
            lanes = buffer.lanes if at.lanes > 1 else None
            return Memory(self.address(number, at), step, number in at.streams, padded, lanes)

        def position(axis: int) -> Value:
            index = at.index.get(axis, ZERO)
            return lane_indices(b, index, at.lanes) if axis == at.axis else index

        emitter = VectorEmitter(
            b, self.nest.buffers, at.lanes, memory, partial(self.value, at), position, at.mask,
            {},
        )  # fmt: skip
        lines: list[Statement] = []
        held: list[Store] = []
        for s in node.statements:
            if isinstance(s, Load) and s.operand in self.tiles:
                emitter.known[s.name] = self.tiles[s.operand][self.row(s.operand, at)]
            elif isinstance(s, Store) and self.nest.buffers[s.operand].space == "register":
                held.append(s)
            else:
                lines.append(s)
        emitter.run(lines)
        # A store to a register emits nothing: the value becomes a row of the tile.
        for s in held:
            value = emitter.get(s.value)
            count = self.nest.buffers[s.operand].size // (value[0].type.bits // 8 * at.lanes)
            vectors = self.tiles.setdefault(s.operand, [value] * count)
            vectors[self.row(s.operand, at)] = value
        for name, value in emitter.known.items():
            self.scopes[-1][name, at.path] = value
        for statement in node.statements:
            if isinstance(statement, Reduce):
                self.accumulate(statement, emitter, at)

    def prefetch(self, node: Prefetch, at: Point) -> None:
        """One prefetch per cache line, not per copy; a prefetch of any address is valid."""
        buffer = self.nest.buffers[node.buffer]
        if at.offsets.get(at.axis, 0) * buffer.strides[at.axis] % LINE == 0:
            here = self.b.at(self.address(node.buffer, at), node.distance)
            self.b.prefetch(here, 3 if node.near else 2, node.write)

    def prefetch_tile(self, node: PrefetchTile, at: Point) -> None:
        """One prefetch per row, or two per column, whose vector may cross a cache line."""
        b, buffer = self.b, self.nest.buffers[node.buffer]
        begin, count = at.begins[node.columns.block], self.bound(node.columns, at)
        along, across = buffer.strides[node.row_axis], buffer.strides[node.column_axis]
        column = b.plus(b.emit(I64, f"sub {at.index[node.column_axis]}, {begin.text}"), node.ahead)
        # After the last column of the block comes the first one of the next strip of rows.
        over = b.compare("sge", column, count)
        back = b.times(b.select(over, count, ZERO), across)
        here = b.at(self.address(node.buffer, at), node.ahead * across)
        here = b.at(here, b.emit(I64, f"sub i64 0, {back.text}"))
        here = b.at(here, b.times(b.select(over, Value(str(node.rows), I64), ZERO), along))
        size = buffer.dtype.itemsize
        for k in range(node.lanes):
            b.prefetch(b.at(here, k * (across if along == size else along)))
            if along == size:
                b.prefetch(b.at(here, k * across + node.lanes * size - 1))

    def invoke(self, node: Invoke, at: Point) -> None:
        """Call a routine."""
        assert self.functions is not None
        numbers = [self.number(x, at) for x in node.numbers]
        addresses: list[Value] = []
        for k in node.buffers:
            in_registers = [value for value, _ in self.tiles.get(k, ())]
            addresses += in_registers or [self.address(k, at)]
        node.routine.call(self.b, self.functions, addresses, numbers)

    def pack(self, node: Pack, at: Point) -> None:
        """Copy a tile, transposed."""
        b, source, dest = self.b, self.nest.buffers[node.source], self.nest.buffers[node.dest]
        size, distance = source.dtype.itemsize, source.strides[node.column_axis]
        lanes = max(n.lanes for n in walk(self.nest.body) if isinstance(n, Loop))
        if dest.space == "register":
            type_, begin = Type(stored(source.dtype), lanes), self.address(node.source, at)
            starts = [b.at(begin, k * distance) for k in range(lanes)]
            columns = [b.load(type_, s, size) for s in starts]
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

    def non_temporal(self, node: NonTemporal, at: Point) -> None:
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
                with Scope(self):
                    self.run(node.body, replace(at, streams=chosen))
                return [self.registers[key] for key in keys]

            found = self.b.branch(condition, body, before)
            self.registers.update(zip(keys, found, strict=True))


def _known(bound: Bound) -> int:
    if not isinstance(bound, int):
        raise InternalError("loop IR: a bound has to be constant")
    return bound
