"""The state of the writer of nests: addresses, indices and values at a point of the loops.

Registers that a loop accumulates into are carried through it; addresses are kept per buffer, and
each loop adds its stride.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.emit.vector_emit import argument, split_index
from pirkit.lowering.codegen.ir.call_words import words_of
from pirkit.lowering.codegen.ir.element_types import LINE, types_of
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Value
from pirkit.lowering.codegen.ir.loop_ir import (
    NESTED,
    Bound,
    CallRows,
    Count,
    Images,
    Invoke,
    Iteration,
    Loop,
    Nest,
    Node,
    Number,
    Pack,
    Path,
    PrefetchTile,
    Table,
    Window,
    Word,
)
from pirkit.lowering.codegen.ir.loop_tree import buffers_of, statements, walk
from pirkit.lowering.codegen.ir.loopnest import Index, ReduceKind, reads
from pirkit.lowering.codegen.math.casts import Typed

ZERO: Final = Value("0", I64)

Key = tuple[str, Path]
Stride = int | Word | Table
Move = tuple[Loop, Value, Value | None]
"""A loop, how many iterations further along it, and for a parallel one the number of the block."""


class Point(Struct, frozen=True):
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
    iterations: dict[str, Value] = field(default_factory=dict[str, Value])
    """The number of the present iteration of each loop."""


class NestState:
    """The nest, and what is known at the point that is being written."""

    def __init__(self, b: Builder, nest: Nest, line_aligned: Value | None) -> None:
        self.b, self.nest, self.line_aligned = b, nest, line_aligned
        self.types = types_of(nest.kernel)
        self.arguments: Sequence[Value] = ()
        """The addresses of the operands, where they are no table in memory."""
        self.scratch: int = 0
        self.used: dict[int, set[int]] = {}
        self.bounds = _bounds(nest)
        self.indexed = _indexed(nest, self.bounds)
        self.numbered = _numbered(nest)
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
        """Those of them, maxima and minima, whose NaN operands set a flag of their own."""
        self.tiles: dict[int, list[Typed]] = {}
        """Buffers in registers: their vectors."""
        self.words: dict[Word, Value] = {}
        """What the call gives."""
        self.suspects: dict[str, list[Value]] = {}
        """Operands of maxima and minima that have to be compared with NaN."""

    def start(self) -> Point:
        """Before all loops: the addresses of the buffers."""
        b, address = self.b, list[Value]()
        used = self.used_buffers(self.nest.body)
        for number, buffer in enumerate(self.nest.buffers):
            if buffer.shares is not None:
                address.append(address[buffer.shares])
            elif buffer.space == "memory":
                known = self.arguments
                address.append(known[number] if known else argument(b, number))
            elif buffer.space == "register":
                address.append(ZERO)
            else:
                address.append(b.at(Value("%scratch", PTR), self.scratch))
                # Whole vectors are written: one more line for what is beyond the last element.
                self.scratch += (-(-buffer.size // LINE) + 1) * LINE if number in used else 0
        if self.nest.words is not None:
            self.words = {w: self.word(w, address[self.nest.words]) for w in words_of(self.nest)}
        return Point({}, tuple(address))

    def word(self, word: Word, words: Value) -> Value:
        """Load a number of the call."""
        b, value = self.b, self.int64_at(words, word.number)
        found = self.rounded_down(value, word.multiple)
        return (
            found if not word.least else b.select(b.compare("sge", value, word.least), found, ZERO)
        )

    def int64_at(self, words: Value, number: int) -> Value:
        return self.b.load(I64, self.b.at(words, 8 * number), 8)

    def distance(self, stride: Stride, position: Value, at: Point) -> Value:
        """How far a buffer moves along an axis of such a stride."""
        b = self.b
        if isinstance(stride, int):
            return b.times(position, stride)
        if isinstance(stride, Word):
            return b.emit(I64, f"mul {position}, {self.words[stride].text}")
        assert self.nest.words is not None
        row = b.at(at.address[self.nest.words], b.times(position, 8 * stride.step))
        return self.int64_at(row, stride.first)

    def used_buffers(self, body: tuple[Node, ...]) -> set[int]:
        """The buffers that a body uses; the loops around it and copies of it ask again."""
        found = self.used.get(id(body))
        if found is None:
            inner = [self.used_buffers(n.body) for n in body if isinstance(n, NESTED)]
            found = buffers_of([n for n in body if not isinstance(n, NESTED)]).union(*inner)
            self.used[id(body)] = found
        return found

    def moved(self, at: Point, body: tuple[Node, ...], *moves: Move) -> Point:
        """The point some iterations further along loops; all move an address at once."""
        b, index, linear = self.b, dict(at.index), at.linear
        iterations = dict(at.iterations)
        moved: list[tuple[Move, list[tuple[int, Value]]]] = []
        for move in moves:
            loop, by, _ = move
            if loop.var in self.numbered:
                iterations[loop.var] = b.emit(I64, f"udiv {by}, {loop.step}")
            positions = [(loop.axes[0], by)]
            if len(loop.axes) > 1:
                # The index over several axes is split where no further loop adds to it.
                whole = b.plus(linear.get(loop.axes, ZERO), by)
                linear = {**linear, loop.axes: whole}
                pending = any(isinstance(n, Loop) and n.axes == loop.axes for n in walk(body))
                extents = [self.nest.extents[axis] for axis in loop.axes]
                split = [] if pending else split_index(b, whole, extents)
                positions = list(zip(loop.axes, split, strict=False))
            for axis, position in positions:
                if axis in self.indexed:
                    index[axis] = b.plus(index.get(axis, ZERO), position)
            moved.append((move, positions))
        address, distances = list(at.address), dict[tuple[tuple[str, Stride], ...], Value]()
        for k in self.used_buffers(body):
            buffer, terms = self.nest.buffers[k], list[tuple[Value, Stride]]()
            if buffer.space == "register":
                continue
            for (loop, _, number), positions in moved:
                if loop.var not in buffer.outside:
                    terms += [(position, buffer.strides[axis]) for axis, position in positions]
                    for axis, stride in buffer.dynamic:
                        terms += [(position, stride) for a, position in positions if a == axis]
                    if number is not None:
                        terms += [(number, stride) for _, stride in buffer.blocks_of(loop.var)]
            key = tuple([(position.text, stride) for position, stride in terms if stride])
            if key not in distances:
                total = ZERO
                for position, stride in terms:
                    total = b.plus(total, self.distance(stride, position, at))
                distances[key] = total
            address[k] = b.at(address[k], distances[key])
        return replace(
            at, index=index, address=tuple(address), linear=linear, iterations=iterations
        )

    def with_counts(self, loop: Loop, at: Point, count: Value | None = None) -> Point:
        """The point with the iterations of the block that begins here, for the loops inside."""
        b, counts = self.b, dict(at.counts)
        wanted = self.bounds.get(loop.var)
        if wanted is None:
            return at
        first = at.linear.get(loop.axes, at.index.get(loop.axes[0], ZERO))
        (extent, size, within), *_ = {(x.extent, x.size, x.within) for x in wanted}
        if count is None:
            count = Value(str(size), I64)
            if within is not None:
                # A chunk of a block ends where the block does, which may be before the extent.
                inside = b.emit(I64, f"sub {first}, {at.begins[within.block].text}")
                left = b.emit(I64, f"sub {at.counts[within]}, {inside.text}")
                count = b.binary("smin", left, count)
            elif extent % size:
                left = b.emit(I64, f"sub i64 {extent}, {first.text}")
                count = b.binary("smin", left, count)
        for bound in sorted(wanted, key=lambda x: x.multiple):
            counts[bound] = self.rounded_down(count, bound.multiple)
        return replace(at, counts=counts, begins={**at.begins, loop.var: first})

    def rounded_down(self, count: Value, multiple: int) -> Value:
        b = self.b
        # Lanes and copies are powers of two, panels are not: three vectors of columns, for example.
        if multiple & (multiple - 1) == 0:
            return b.emit(I64, f"and {count}, {-multiple}")
        rest = b.emit(I64, f"urem {count}, {multiple}")
        return b.emit(I64, f"sub {count}, {rest.text}")

    def shift(self, buffer: int, at: Point) -> Value:
        """Iterations before the first one whose vectors do not cross a cache line, as an i64."""
        b, size = self.b, self.nest.buffers[buffer].dtype.itemsize
        lanes = max(n.lanes for n in walk(self.nest.body) if isinstance(n, Loop))
        address = b.cast("ptrtoint", self.address(buffer, at), "i64")
        left = b.op("and", b.emit(I64, f"sub i64 0, {address.text}"), lanes * size - 1)
        return b.emit(I64, f"udiv {left}, {size}")

    def address(self, number: int, at: Point) -> Value:
        """The address of the element of a buffer at a point."""
        return self.b.at(at.address[number], self.nest.buffers[number].offset)

    def bound(self, bound: Bound, at: Point) -> Value:
        if isinstance(bound, Word):
            return self.words[bound]
        return Value(str(bound), I64) if isinstance(bound, int) else at.counts[bound]

    def number(self, number: Number, at: Point) -> Value:
        """A number that a routine gets, as a value."""
        if isinstance(number, Iteration):
            b, found = self.b, at.iterations[number.var]
            if not number.of:
                return found
            last = b.binary("smax", b.plus(found, 2 - number.of), ZERO)
            return b.plus(b.binary("smin", found, Value("1", I64)), last)
        return self.window(number, at) if isinstance(number, Window) else self.bound(number, at)

    def window(self, window: Window, at: Point) -> Value:
        """Taps on the image, as in `Window.at`."""
        b, step = self.b, window.dilation
        top = b.plus(b.times(at.index.get(window.axis, ZERO), window.stride), -window.before)

        def below(end: int) -> Value:
            """Taps before element ``end``."""
            room = b.emit(I64, f"sub i64 {end + step - 1}, {top.text}")
            return b.emit(I64, f"udiv {b.binary('smax', room, ZERO)}, {step}")

        first = below(0)
        if not window.counts:
            return first
        end = b.binary("smin", below(window.length), Value(str(window.taps), I64))
        return b.binary("smax", b.emit(I64, f"sub {end}, {first.text}"), ZERO)

    def row(self, number: int, at: Point) -> int:
        """Which vector of a buffer in registers the copies of unrolled loops read."""
        buffer, rows = self.nest.buffers[number], len(self.tiles[number])
        distance = sum(n * buffer.strides[axis] for axis, n in at.offsets.items())
        return distance * rows // buffer.size

    def value(self, at: Point, name: str) -> Typed:
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

    def broadcast(self, node: Node, at: Point) -> None:
        """Broadcast the scalars that vectors in a loop read, before the loop."""
        known = {name: x for scope in self.scopes for (name, path), x in scope.items() if not path}
        scalars = {name for name in known if not any(name in wide for wide in self.wide)}
        if at.lanes > 1 or not scalars:
            return
        lanes = max((n.lanes for n in walk([node]) if isinstance(n, Loop)), default=1)
        for name in dict.fromkeys(name for s in statements([node]) for name in reads(s)):
            if name in scalars:
                value, dtype = known[name]
                self.wide[-1][name] = self.b.splat(value, lanes), dtype

    def run(self, nodes: Sequence[Node], at: Point) -> None:
        """Write nodes in order."""
        raise NotImplementedError


class Scope:
    """A loop body: what it defines is not known after it."""

    def __init__(self, writer: NestState) -> None:
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
    for n in walk(nest.body):
        bounds: tuple[Bound | None, ...] = ()
        if isinstance(n, Loop):
            bounds = n.start, n.stop
        elif isinstance(n, Pack):
            bounds = n.rows, n.columns
        elif isinstance(n, PrefetchTile):
            bounds = (n.columns,)
        elif isinstance(n, CallRows):
            bounds = (n.count,)
        elif isinstance(n, Invoke):
            bounds = tuple([x for x in n.numbers if isinstance(x, Count)])
        for x in bounds:
            while isinstance(x, Count):
                found.setdefault(x.block, set()).add(x)
                x = x.within
    return found


def _numbered(nest: Nest) -> set[str]:
    """The loops of which routines get the number of the iteration."""
    numbers = [x for n in walk(nest.body) if isinstance(n, Invoke) for x in n.numbers]
    return {x.var for x in numbers if isinstance(x, Iteration)}


def _indexed(nest: Nest, blocks: Collection[str]) -> set[int]:
    """The axes whose indices are used, beside for addresses."""
    found = {s.axis for s in statements(nest.body) if isinstance(s, Index)}
    for n in walk(nest.body):
        if isinstance(n, PrefetchTile):
            found.add(n.column_axis)
        elif isinstance(n, CallRows):
            found |= set(n.axes)
        elif isinstance(n, Invoke):
            found |= {x.axis for x in n.numbers if isinstance(x, Window)}
        elif isinstance(n, Loop) and n.var in blocks:
            found.add(n.axes[0])
        elif isinstance(n, Images):
            found |= set(range(len(n.blocks)))
    return found
