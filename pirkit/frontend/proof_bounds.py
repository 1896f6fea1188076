"""Proves that no access of a loop nest leaves its buffer, for `proof_check.py`.

The nest is the scheduled one, which `nest_writer.py` writes as LLVM IR: with its tiles, vectors and
masked tails, packed panels, predicates and routines. Loop variables are unknown integers between
their bounds. For each load, store and copy z3 looks for an iteration and an active lane whose
element lies outside of the buffer. If there is none, no run has one; if there is one, its loop
variables are the counterexample.

Integers that are computed from positions are known terms as long as they cannot overflow; elements
of memory are unknown, and gathers are clamped as in generated code. Scratch memory is read and
written in whole vectors, its lanes beyond the tail included, and has one cache line of padding. A
routine accesses what its numpy form accesses, and in scratch memory whole rows of a panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from pirkit.frontend.proof_questions import (
    Accesses,
    BoundsQuestions,
    ProofPoint,
    Refuted,
    Term,
    divided,
)
from pirkit.lowering.codegen.ir.loop_ir import (
    Block,
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
    Window,
)
from pirkit.lowering.codegen.ir.loop_tree import rows_of, walk
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


def prove_bounds(z3: Any, nest: Nest) -> Accesses:
    """Prove the accesses of a nest, up to the first one that leaves its buffer."""
    proof = _Proof(z3, nest)
    try:
        proof.run(nest.body, ProofPoint({}, tuple([b.offset for b in nest.buffers])))
    except Refuted as found:
        proof.found.outside = found.outside
    return proof.found


class _Proof(BoundsQuestions):
    """Walks a nest as `interpret_loops.py` does, with terms for integers."""

    # loops

    def run(self, nodes: Sequence[Node], at: ProofPoint) -> None:
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

    def loop(self, node: Loop, at: ProofPoint) -> None:
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
                by = self.least(by, stop - node.step) if node.moved_back else by
                self.names.append((node.var, by))
                here = self.moved(node, here, by, number + divided(start, node.step))
            self.run(node.body, here)
        del self.names[known:]

    def _aligned(self, node: Loop, at: ProofPoint, stop: Term) -> ProofPoint:
        """A loop whose first block may be shorter, to align the others (see `Loop.align`)."""
        number, at = self.fresh(f"block of {node.var}", at)
        shift, at = self.fresh("iterations before a line", at)
        extent = stop - node.step
        end = self.least(number * node.step + shift, extent)
        first = self.least(self.most(number * node.step - node.step + shift, 0), extent)
        holds = (*at.holds, shift < self.lanes, number * node.step < stop)
        at = replace(at, holds=holds, ends={**at.ends, node.var: end})
        return self.moved(node, at, first, number)

    def moved(self, loop: Loop, at: ProofPoint, by: Term, number: Term) -> ProofPoint:
        """The point ``by`` iterations further along a loop, in its block ``number``."""
        index, address, linear = dict(at.index), list(at.address), at.linear
        positions = {loop.axes[0]: by}
        if len(loop.axes) > 1:
            whole = linear.get(loop.axes, 0) + by
            linear = {**linear, loop.axes: whole}
            pending = any(isinstance(n, Loop) and n.axes == loop.axes for n in walk(loop.body))
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
                        offset, at = self._offset(table.offsets, at)
                        address[k] = address[k] + offset
                for _, stride in buffer.blocks_of(loop.var):
                    address[k] = address[k] + number * stride
        first = linear.get(loop.axes, 0)
        if loop.axes not in linear:
            first = index[next(iter(positions))]
        return replace(
            at, index=index, address=tuple(address), linear=linear,
            blocks={**at.blocks, loop.var: first}, iterations={**at.iterations, loop.var: number},
        )  # fmt: skip

    def _offset(self, offsets: Sequence[int], at: ProofPoint) -> tuple[Term, ProofPoint]:
        """An unknown offset between the smallest and the largest of the given ones."""
        low, high = min(offsets, default=0), max(offsets, default=0)
        beyond, at = self.fresh("offset", at, shown=False)
        return low + beyond, replace(at, holds=(*at.holds, beyond <= high - low))

    def _split(
        self, axes: Sequence[int], whole: Term, at: ProofPoint
    ) -> tuple[dict[int, Term], ProofPoint]:
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

    def call_rows(self, node: CallRows, at: ProofPoint) -> None:
        """The accesses of another nest that runs some rows, from the present one on.

        A buffer that this nest passes has the size that it has here, also where it holds those
        rows only.
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
        here = ProofPoint({}, (*places, *[b.offset for b in own[len(given) :]]), at.holds)
        proof.run(loop.body, proof.moved(loop, here, first + number, number))
        del self.names[-1]

    def images(self, node: Images, at: ProofPoint) -> None:
        """The accesses of the body at each image of the present block."""
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

    def statement(self, s: Statement, at: ProofPoint) -> None:
        """The access of a statement, and the value that it defines."""
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

    def _clamped(self, name: str, limit: int, at: ProofPoint) -> tuple[Term, ProofPoint]:
        """An index that was read from memory, clamped to 0..``limit`` as in generated code."""
        z3, found = self.z3, self.values.integer(name)
        clamped, at = self.fresh("index of data", at, shown=False)
        given = z3.Implies(z3.And(found >= 0, found <= limit), clamped == found)
        return clamped, replace(at, holds=(*at.holds, clamped <= limit, given))

    def element(self, number: int, s: Statement, at: ProofPoint, further: Term = 0) -> None:
        """The access of one element by each active lane; in scratch memory by all lanes."""
        buffer = self.nest.buffers[number]
        place, holds = at.address[number], at.holds
        size = 1 if isinstance(s, RuntimeAssert) else buffer.dtype.itemsize
        if at.lanes > 1 and buffer.lanes is not None:
            offset, at = self._offset([o for o in buffer.lanes if o is not None], at)
            place, holds = place + offset, at.holds
        elif at.lanes > 1:
            place = place + buffer.strides[at.axis] * at.lane
            if buffer.space == "memory":
                holds = (*holds, at.lane < at.active)
        shown = statement_line(s, self.buffer_names, self.axes)
        self.require(number, place + further * buffer.dtype.itemsize, size, holds, shown)

    def pack(self, node: Pack, at: ProofPoint) -> None:
        """Both sides of a copy, in the whole vectors in which `transpose_tile.py` makes it."""
        source, dest = self.nest.buffers[node.source], self.nest.buffers[node.dest]
        shown = f"pack b{node.dest} = b{node.source}"
        row, at = self.fresh("row", at)
        column, at = self.fresh("column", at)
        if dest.space == "register":
            here = replace(at, holds=(*at.holds, row < self.lanes, column < self.lanes))
            self._copied(node.source, node, row, column, here, shown)
            return
        rows, at = self.bound(node.rows, at)
        columns = at.active if at.lanes > 1 else self.lanes
        if node.columns is not None:
            columns, at = self.bound(node.columns, at)
        whole_rows, at = self._whole(rows, at)
        whole_columns, at = self._whole(columns, at)
        read = rows if source.space == "memory" else whole_rows
        here = replace(at, holds=(*at.holds, row < read, column < columns))
        self._copied(node.source, node, row, column, here, shown)
        here = replace(at, holds=(*at.holds, row < whole_rows, column < whole_columns))
        self._copied(node.dest, node, row, column, here, shown)

    def _whole(self, count: Term, at: ProofPoint) -> tuple[Term, ProofPoint]:
        """A count rounded up to whole vectors."""
        vectors, at = self.fresh("vectors", at, shown=False)
        whole = vectors * self.lanes
        return whole, replace(at, holds=(*at.holds, whole >= count, whole < count + self.lanes))

    def _copied(
        self, number: int, node: Pack, row: Term, column: Term, at: ProofPoint, shown: str
    ) -> None:
        buffer = self.nest.buffers[number]
        place = at.address[number] + row * buffer.strides[node.row_axis]
        place = place + column * buffer.strides[node.column_axis]
        self.require(number, place, buffer.dtype.itemsize, at.holds, shown)

    # routines

    def invoke(self, node: Invoke, at: ProofPoint) -> None:
        """The accesses of a routine for each combination of numbers that it may get."""
        if isinstance(node.routine, PrefetchRoutine):
            return
        numbers: list[Term] = []
        for x in node.numbers:
            if isinstance(x, Iteration):
                numbers.append(x.at(at.iterations[x.var], self.least, self.most))
            elif isinstance(x, Window):
                index = at.index.get(x.axis, 0)
                numbers.append(x.at(index, self.least, self.most, divided))
            else:
                number, at = self.bound(x, at)
                numbers.append(number)
        names = [f"b{k}" for k in node.buffers]
        for given in self.calls(numbers, at.holds):
            shown = node.routine.show(names, [str(n) for n in given])
            reached = [Reach() for _ in node.buffers]
            try:
                with np.errstate(all="ignore"):
                    node.routine.run([(r, 0) for r in reached], given)
            except (TypeError, ValueError, IndexError) as error:
                self.found.open.append(f"{shown}: its reach is not known ({error})")
                continue
            same = [n == g for n, g in zip(numbers, given, strict=True)]
            holds = (*at.holds, *[h for h in same if not isinstance(h, bool)])
            for number, reach in zip(node.buffers, reached, strict=True):
                scratch = self.nest.buffers[number].space == "scratch"
                for low, high in reach.spans(scratch):
                    self.require(number, at.address[number] + low, high - low, holds, shown)
