"""Proves that no access of a loop nest leaves its buffer, for `proof_check.py`.

The nest is the scheduled one, which `nest_writer.py` writes as LLVM IR: with its tiles, vectors and
masked tails, packed panels, predicates and routines. Loop variables are unknown integers between
their bounds. For each load, store and copy z3 looks for an iteration and an active lane whose
element lies outside of the buffer; where there is none, no run has one. An answer "there is" gives
the loop variables as a counterexample.

Integers that are computed from positions are known terms as long as they cannot overflow; elements
of memory are unknown, and gathers are clamped as in generated code. Scratch memory is read and
written in whole vectors, its lanes beyond the tail included, and has one line of padding. A routine
reaches what its numpy form does, and in scratch memory whole rows of a panel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from pirkit.frontend.proof_terms import Unprovable
from pirkit.frontend.proof_values import Values
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.loop_ir import (
    Block,
    Bound,
    CallRows,
    Images,
    Invoke,
    Iteration,
    Loop,
    Nest,
    Node,
    NonTemporal,
    OncePerOrbit,
    OnChange,
    Pack,
    Reducing,
    Table,
    Word,
)
from pirkit.lowering.codegen.ir.loop_tree import inside, rows_of
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Load,
    RuntimeAssert,
    Scatter,
    Statement,
    Store,
)
from pirkit.lowering.codegen.ir.routine import PrefetchRoutine, Reach
from pirkit.lowering.codegen.nest_text import statement_line

EFFORT: Final = 2_000_000
"""What z3 may spend on one access, in its own units."""
CALLS: Final = 64
"""Combinations of numbers with which one routine may be called."""

Term = Any
"""A term of z3, whose package has no types, or a Python integer."""


@dataclass(frozen=True)
class Outside:
    """An access that leaves its buffer, and the loop variables at which it does."""

    access: str
    buffer: int
    begin: int
    size: int
    limit: int
    at: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        where = ", ".join(f"{name} = {value}" for name, value in self.at)
        return (
            f"`{self.access}`: {self.size} bytes from byte {self.begin:,} on of buffer"
            f" {self.buffer}, which has {self.limit:,} bytes, where {where or 'no loop runs'}"
        )


@dataclass
class Accesses:
    """What was found for the accesses of a nest: how many are proved, or why one is not."""

    proved: int = 0
    outside: Outside | None = None
    open: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class _Point:
    """An iteration, or a vector of them along ``axis``, in terms of the loop variables."""

    index: dict[int, Term]
    address: tuple[Term, ...]
    holds: tuple[Term, ...] = ()
    """What is known of the variables."""
    linear: dict[tuple[int, ...], Term] = field(default_factory=dict[tuple[int, ...], Term])
    blocks: dict[str, Term] = field(default_factory=dict[str, Term])
    ends: dict[str, Term] = field(default_factory=dict[str, Term])
    iterations: dict[str, Term] = field(default_factory=dict[str, Term])
    lanes: int = 1
    axis: int = -1
    lane: Term = 0
    active: Term = 1


def prove_bounds(z3: Any, nest: Nest) -> Accesses:
    """Prove the accesses of a nest, up to the first one that leaves its buffer."""
    proof = _Proof(z3, nest)
    try:
        proof.run(nest.body, _Point({}, tuple([b.offset for b in nest.buffers])))
    except _Refuted as found:
        proof.found.outside = found.outside
    return proof.found


class _Refuted(Exception):
    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self.outside = outside


class _Proof:
    """Walks a nest as `interpret_loops.py` does, with terms for integers."""

    def __init__(self, z3: Any, nest: Nest) -> None:
        self.z3, self.nest, self.found = z3, nest, Accesses()
        self.values = Values(z3, nest)
        self.lanes = max([n.lanes for n in inside(nest.body) if isinstance(n, Loop)], default=1)
        self.names: list[tuple[str, Term]] = []
        """The loop variables, for counterexamples."""
        self.asked = set[Any]()
        self.axes = [f"i{k}" for k in range(nest.rank)]
        self.axes += [f"r{k}" for k in range(len(nest.extents) - nest.rank)]

    def limit(self, number: int) -> int:
        """The bytes that a buffer has; scratch memory has padding (`NestState.start`)."""
        buffer = self.nest.buffers[number]
        if buffer.space != "scratch":
            return buffer.size
        root = buffer if buffer.shares is None else self.nest.buffers[buffer.shares]
        return (-(-root.size // LINE) + 1) * LINE

    # loops

    def run(self, nodes: Sequence[Node], at: _Point) -> None:
        for node in nodes:
            match node:
                case Block():
                    for statement in node.statements:
                        self.statement(statement, at)
                case Loop():
                    self.loop(node, at)
                case Reducing() | NonTemporal() | OnChange() | OncePerOrbit():
                    self.run(node.body, at)
                case CallRows():
                    self.call_rows(node, at)
                case Images():
                    self.images(node, at)
                case Pack():
                    self.pack(node, at)
                case Invoke():
                    self.invoke(node, at)
                case _:
                    continue  # a prefetch of any address is valid

    def fresh(self, name: str, at: _Point, *, shown: bool = True) -> tuple[Term, _Point]:
        """An unknown integer of at least 0."""
        term = self.values.unknown(name)
        if shown:
            self.names.append((name, term))
        return term, replace(at, holds=(*at.holds, term >= 0))

    def bound(self, bound: Bound, at: _Point) -> tuple[Term, _Point]:
        if isinstance(bound, int):
            return bound, at
        if isinstance(bound, Word):
            raise Unprovable(f"`{bound.name}` is known when the nest is called")
        first, extent = at.blocks[bound.block], bound.extent
        if bound.within is not None:
            count, at = self.bound(bound.within, at)
            extent = at.blocks[bound.within.block] + count
        end = at.ends[bound.block] if bound.aligned else self._least(first + bound.size, extent)
        count = self._most(end - first, 0)
        if bound.multiple == 1:
            return count, at
        times, at = self.fresh("multiples", at, shown=False)
        rounded = bound.multiple * times
        holds = (*at.holds, rounded <= count, count < rounded + bound.multiple)
        return rounded, replace(at, holds=holds)

    def _least(self, a: Term, b: Term) -> Term:
        known = isinstance(a, int) and isinstance(b, int)
        return min(a, b) if known else self.z3.If(a < b, a, b)

    def _most(self, a: Term, b: Term) -> Term:
        known = isinstance(a, int) and isinstance(b, int)
        return max(a, b) if known else self.z3.If(a < b, b, a)

    def loop(self, node: Loop, at: _Point) -> None:
        start, at = self.bound(node.start, at)
        stop, at = self.bound(node.stop, at)
        known = len(self.names)
        with self.values.scope():
            if node.kind == "vector":
                here = self.moved(node, at, start, 0)
                lane, here = self.fresh(f"lane of {node.var}", here)
                here = replace(
                    here, lanes=node.lanes, axis=node.axes[0], lane=lane, active=stop - start,
                    holds=(*here.holds, lane < node.lanes, stop > start),
                )  # fmt: skip
            elif node.align is not None:
                here = self._aligned(node, at, stop)
            else:
                number, here = self.fresh(node.var, at, shown=False)
                by = start + node.step * number
                here = replace(here, holds=(*here.holds, by < stop))
                by = self._least(by, stop - node.step) if node.moved_back else by
                self.names.append((node.var, by))
                here = self.moved(node, here, by, number)
            self.run(node.body, here)
        del self.names[known:]

    def _aligned(self, node: Loop, at: _Point, stop: Term) -> _Point:
        """Blocks of which the first one is shorter: it ends where a line of memory does."""
        number, at = self.fresh(f"block of {node.var}", at)
        shift, at = self.fresh("iterations before a line", at)
        extent = stop - node.step
        end = self._least(number * node.step + shift, extent)
        first = self._least(self._most(number * node.step - node.step + shift, 0), extent)
        holds = (*at.holds, shift < self.lanes, number * node.step < stop)
        at = replace(at, holds=holds, ends={**at.ends, node.var: end})
        return self.moved(node, at, first, number)

    def moved(self, loop: Loop, at: _Point, by: Term, number: Term) -> _Point:
        """The point some iterations further along a loop."""
        index, address, linear = dict(at.index), list(at.address), at.linear
        positions = {loop.axes[0]: by}
        if len(loop.axes) > 1:
            whole = linear.get(loop.axes, 0) + by
            linear = {**linear, loop.axes: whole}
            pending = any(isinstance(n, Loop) and n.axes == loop.axes for n in inside(loop.body))
            positions = dict[int, Term]()
            if not pending:
                positions, at = self._split(loop.axes, whole, at)
        for axis, position in positions.items():
            index[axis] = index.get(axis, 0) + position
        for k, buffer in enumerate(self.nest.buffers):
            if loop.var not in buffer.outside:
                for axis, position in positions.items():
                    if stride := buffer.strides[axis]:
                        address[k] = address[k] + stride * position
                for axis, table in buffer.dynamic:
                    if axis in positions and isinstance(table, Table):
                        offset, at = self._of_table(table, at)
                        address[k] = address[k] + offset
                if buffer.per_block is not None and buffer.per_block[0] == loop.var:
                    address[k] = address[k] + number * buffer.per_block[1]
        first = linear.get(loop.axes, 0)
        if loop.axes not in linear:
            first = index[next(iter(positions))]
        return replace(
            at, index=index, address=tuple(address), linear=linear,
            blocks={**at.blocks, loop.var: first}, iterations={**at.iterations, loop.var: number},
        )  # fmt: skip

    def _of_table(self, table: Table, at: _Point) -> tuple[Term, _Point]:
        """Any offset between the smallest and the largest one of a table."""
        low, high = min(table.offsets, default=0), max(table.offsets, default=0)
        beyond, at = self.fresh("offset", at, shown=False)
        return low + beyond, replace(at, holds=(*at.holds, beyond <= high - low))

    def _split(
        self, axes: Sequence[int], whole: Term, at: _Point
    ) -> tuple[dict[int, Term], _Point]:
        """The coordinates of a linear index along axes, row-major."""
        found, rest = dict[int, Term](), whole
        outermost, *others = axes
        for axis in reversed(others):
            extent = self.nest.extents[axis]
            place, at = self.fresh(f"index {axis}", at, shown=False)
            above, at = self.fresh(f"above {axis}", at, shown=False)
            at = replace(at, holds=(*at.holds, place < extent, rest == above * extent + place))
            found[axis], rest = place, above
        return {**found, outermost: rest}, at

    def call_rows(self, node: CallRows, at: _Point) -> None:
        """The accesses of another nest, for rows from the present one on, in the buffers of this.

        Buffers of operands that have the present rows only end where those do.
        """
        first, (count, at) = 0, self.bound(node.count, at)
        for axis in node.axes:
            first = first * self.nest.extents[axis] + at.index.get(axis, 0)
        given = list(zip(node.buffers, node.pitches, strict=True))
        own, places = node.nest.buffers, list[Term]()
        for (k, pitch), buffer in zip(given, own, strict=False):
            places.append(at.address[k] - first * pitch + buffer.offset)
        limits = [replace(b, size=self.limit(k)) for (k, _), b in zip(given, own, strict=False)]
        nest = replace(node.nest, buffers=(*limits, *own[len(given) :]))
        proof = _Proof(self.z3, nest)
        proof.found, proof.names, proof.values.count = self.found, self.names, self.values.count
        number, at = proof.fresh("row", at)
        at = replace(at, holds=(*at.holds, number < count))
        (loop,) = rows_of(nest, 0, 0).body
        assert isinstance(loop, Loop)
        here = _Point({}, (*places, *[b.offset for b in own[len(given) :]]), at.holds)
        proof.run(loop.body, proof.moved(loop, here, first + number, number))
        del self.names[-1]

    def images(self, node: Images, at: _Point) -> None:
        for number, image in enumerate(node.images):
            here = at
            for loop, by_axis in zip(node.moves(), image, strict=True):
                here = self.moved(loop, here, at.index[by_axis] - at.index[loop.axes[0]], 0)
            address = list(here.address)
            for k, buffer in enumerate(self.nest.buffers):
                if buffer.image is not None:
                    slot, here = self.fresh(f"tile of image {number}", here)
                    here = replace(here, holds=(*here.holds, slot < len(node.images)))
                    address[k] = address[k] + slot * buffer.image[1]
            with self.values.scope():
                self.run(node.body, replace(here, address=tuple(address)))

    # accesses

    def statement(self, s: Statement, at: _Point) -> None:
        match s:
            case Load(operand=operand, limit=limit):
                if self.nest.buffers[operand].space != "register":
                    further, here = 0, at
                    if s.at is not None:
                        further, here = self._clamped(s.at, limit, at)
                    if s.predicate is not None:
                        here = replace(here, holds=(*here.holds, self.values.truth(s.predicate)))
                    self.element(operand, s, here, further)
            case Store(operand) | Accumulate(operand) | RuntimeAssert(operand):
                self.element(operand, s, at)
            case Scatter(operand, at=index, limit=limit):
                further, here = self._clamped(index, limit, at)
                self.element(operand, s, here, further)
            case _:
                pass
        self.values.define(s, at.index, at.axis, at.lane)

    def _clamped(self, name: str, limit: int, at: _Point) -> tuple[Term, _Point]:
        """An index of data, as far as generated code lets it go."""
        z3, found = self.z3, self.values.integer(name)
        clamped, at = self.fresh("index of data", at, shown=False)
        given = z3.Implies(z3.And(found >= 0, found <= limit), clamped == found)
        return clamped, replace(at, holds=(*at.holds, clamped <= limit, given))

    def element(self, number: int, s: Statement, at: _Point, further: Term = 0) -> None:
        """One element at each lane that is active; in scratch memory at all lanes."""
        buffer = self.nest.buffers[number]
        place, holds = at.address[number], at.holds
        size = 1 if isinstance(s, RuntimeAssert) else buffer.dtype.itemsize
        if at.lanes > 1:
            place = place + buffer.strides[at.axis] * at.lane
            if buffer.space == "memory":
                holds = (*holds, at.lane < at.active)
        told = statement_line(s, self.buffer_names, self.axes)
        self.require(number, place + further * buffer.dtype.itemsize, size, holds, told)

    @property
    def buffer_names(self) -> list[str]:
        return [f"b{k}" for k in range(len(self.nest.buffers))]

    def require(
        self, number: int, place: Term, size: Term, holds: Sequence[Term], access: str
    ) -> None:
        """Ask whether some bytes lie in a buffer. Raises _Refuted if they do not."""
        z3, limit = self.z3, self.limit(number)
        place = z3.IntVal(place) if isinstance(place, int) else place
        wrong = z3.simplify(z3.Or(place < 0, place + size > limit))
        key = number, wrong, tuple([h for h in holds if not isinstance(h, bool)])
        if key in self.asked:
            return
        self.asked.add(key)
        if z3.is_false(wrong) or any(h is False for h in holds):
            self.found.proved += 1
            return
        ask = z3.Solver()
        ask.set("rlimit", EFFORT)
        ask.add(wrong, *holds)
        answer = ask.check()
        if answer == z3.unsat:
            self.found.proved += 1
            return
        if answer != z3.sat:
            self.found.open.append(f"{access}: z3 gives up")
            return
        model = ask.model()
        begin, length, *values = [
            model.eval(z3.IntVal(t) if isinstance(t, int) else t, model_completion=True).as_long()
            for t in (place, size, *[term for _, term in self.names])
        ]
        names = [name for name, _ in self.names]
        at = tuple(zip(names, values, strict=True))
        raise _Refuted(Outside(access, number, begin, length, limit, at))

    def pack(self, node: Pack, at: _Point) -> None:
        """Both sides of a copy, in the whole vectors in which `transpose_tile.py` makes it."""
        source, dest = self.nest.buffers[node.source], self.nest.buffers[node.dest]
        told = f"pack b{node.dest} = b{node.source}"
        row, at = self.fresh("row", at)
        column, at = self.fresh("column", at)
        if dest.space == "register":
            here = replace(at, holds=(*at.holds, row < self.lanes, column < self.lanes))
            self._copied(node.source, node, row, column, here, told)
            return
        rows, at = self.bound(node.rows, at)
        columns = at.active if at.lanes > 1 else self.lanes
        if node.columns is not None:
            columns, at = self.bound(node.columns, at)
        whole_rows, at = self._whole(rows, at)
        whole_columns, at = self._whole(columns, at)
        read = rows if source.space == "memory" else whole_rows
        here = replace(at, holds=(*at.holds, row < read, column < columns))
        self._copied(node.source, node, row, column, here, told)
        here = replace(at, holds=(*at.holds, row < whole_rows, column < whole_columns))
        self._copied(node.dest, node, row, column, here, told)

    def _whole(self, count: Term, at: _Point) -> tuple[Term, _Point]:
        """A count rounded up to whole vectors."""
        vectors, at = self.fresh("vectors", at, shown=False)
        whole = vectors * self.lanes
        return whole, replace(at, holds=(*at.holds, whole >= count, whole < count + self.lanes))

    def _copied(
        self, number: int, node: Pack, row: Term, column: Term, at: _Point, told: str
    ) -> None:
        buffer = self.nest.buffers[number]
        place = at.address[number] + row * buffer.strides[node.row_axis]
        place = place + column * buffer.strides[node.column_axis]
        self.require(number, place, buffer.dtype.itemsize, at.holds, told)

    # routines

    def invoke(self, node: Invoke, at: _Point) -> None:
        """What a routine reaches with each combination of numbers that it may get."""
        if isinstance(node.routine, PrefetchRoutine):
            return
        numbers: list[Term] = []
        for x in node.numbers:
            if isinstance(x, Iteration):
                numbers.append(at.iterations[x.var])
            else:
                number, at = self.bound(x, at)
                numbers.append(number)
        names = [f"b{k}" for k in node.buffers]
        for given in self._calls(numbers, at.holds):
            told = node.routine.show(names, [str(n) for n in given])
            reached = [Reach() for _ in node.buffers]
            try:
                with np.errstate(all="ignore"):
                    node.routine.run([(r, 0) for r in reached], given)
            except (TypeError, ValueError, IndexError) as error:
                self.found.open.append(f"{told}: its reach is not known ({error})")
                continue
            same = [n == g for n, g in zip(numbers, given, strict=True)]
            holds = (*at.holds, *[h for h in same if not isinstance(h, bool)])
            for number, reach in zip(node.buffers, reached, strict=True):
                scratch = self.nest.buffers[number].space == "scratch"
                for low, high in reach.spans(scratch):
                    self.require(number, at.address[number] + low, high - low, holds, told)

    def _calls(self, numbers: Sequence[Term], holds: Sequence[Term]) -> Iterator[list[int]]:
        """The combinations of numbers that occur."""
        z3, ask = self.z3, self.z3.Solver()
        ask.set("rlimit", EFFORT)
        unknown = [n for n in numbers if not isinstance(n, int)]
        ask.add(*[h for h in holds if not isinstance(h, bool)])
        for _ in range(CALLS):
            answer = ask.check()
            if answer == z3.unsat:
                return
            if answer != z3.sat:  # there may be calls of which nothing was asked
                raise Unprovable("z3 gives up on the numbers with which a routine is called")
            model = ask.model()
            found = {n.get_id(): model.eval(n, model_completion=True).as_long() for n in unknown}
            yield [n if isinstance(n, int) else found[n.get_id()] for n in numbers]
            if not unknown:
                return
            ask.add(z3.Or(*[n != found[n.get_id()] for n in unknown]))
        raise Unprovable(f"a routine is called with more than {CALLS} combinations of numbers")
