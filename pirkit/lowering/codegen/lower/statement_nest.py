"""Lowers statements of a MapExpr to one loop nest.

The loops that the statements share become the outer axes, the rest of their iteration spaces the
inner ones. A reduction ends a loop phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from math import inf, prod
from typing import cast

from msgspec import Struct

from pirkit.dialect.map_expr.guarded_nodes import needs
from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position, walk
from pirkit.dialect.opdef import lookup
from pirkit.index.expr import Expr, Iter
from pirkit.index.index_maps import flat, space
from pirkit.index.substitution import reads_of
from pirkit.lowering.codegen.ir import loopnest
from pirkit.lowering.codegen.ir.addressing import IndexLowering, OperandTable
from pirkit.lowering.codegen.ir.element_types import combination, compute_type
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Constant,
    Kernel,
    LoopPhase,
    Reduce,
    ReduceKind,
)
from pirkit.lowering.codegen.ir.nest_builder import (
    DataAssertion,
    NotLowerableError,
    StatementBuilder,
)
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.scalar_ops import apply
from pirkit.lowering.codegen.lower.wrapped_reads import split_wraps
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType


def combiner_of(reduction: str) -> ReduceKind | None:
    """How a reduction combines elements; None if native code has no such reduction."""
    return cast("ReduceKind | None", lookup(reduction).combiner or None)


def extremum_of(reduction: str) -> ReduceKind | None:
    """The extremum whose position a reduction gives; None if it gives another result."""
    return cast("ReduceKind | None", lookup(reduction).extremum or None)


class ArrayNest(Struct, frozen=True):
    """A loop nest or tiled nest over arrays: the number of the array of each operand.

    Inputs come first, then the statements (also those that `without_scatters` adds), then one flag
    byte for each of ``assertions``: 0 before a run, 1 after it if the data violate the assertion.
    """

    kernel: Kernel | TiledNest
    arrays: tuple[int, ...]
    assertions: tuple[DataAssertion, ...] = ()


class PhaseBuilder:
    """A loop phase under construction."""

    def __init__(self, numbers: count[int], places: OperandTable) -> None:
        excess = places.kernel.excess
        self.body = StatementBuilder(numbers, places.assertion_operand, excess=excess)
        self.after = StatementBuilder(numbers, places.assertion_operand, excess=excess)
        self.closed: set[int] = set()
        """Values that exist only after the loops of the phase."""


class StatementNestBuilder:
    """Builds one nest of some statements of a kernel.

    Without ``rows`` there is one statement, and the axes of its result are the outer loops. Values
    of other statements are read from memory. Raises NotLowerableError with the reason.
    """

    def __init__(
        self, kernel: MapExpr, statements: tuple[int, ...], rows: tuple[int, ...] | None
    ) -> None:
        self.kernel = kernel
        self.statements = statements
        self.inputs = len(kernel.inputs)
        self.fuses_by_rows = rows is not None
        self.outer: tuple[int, ...] = ()
        self.inner: tuple[int, ...] = ()
        self.axes: dict[int, dict[Iter, int]] = {}
        self.assign_axes(rows)
        self.places = OperandTable(kernel, len(self.outer), len(self.outer) + len(self.inner))
        self.outputs_needed = set(kernel.outputs)
        """Values that are stored: outputs, and what other nests read."""
        for k, statement in enumerate(kernel.statements):
            if k not in statements:
                self.outputs_needed |= {source - self.inputs for source in source_arrays(statement)}
        self.values: dict[int, str] = {}
        self.constants: dict[int, Constant] = {}
        self.accumulations: dict[int, Accumulate] = {}
        """Values that exist only after the nest."""
        self.numbers = count(1)
        self.phase_builders = [PhaseBuilder(self.numbers, self.places)]

    # --- axes ---

    def assign_axes(self, rows: tuple[int, ...] | None) -> None:
        """Map the iterators of each statement to axes of the nest."""
        if rows is None:
            (only,) = self.statements
            statement = self.kernel.statements[only]
            self.outer, self.inner = statement.meta.shape, statement.extents
            iters = (*space(statement.meta.shape), *space(statement.extents, "r"))
            self.axes[only] = {e.iter: a for a, e in enumerate(iters) if e.iter is not None}
            return
        self.outer = rows
        for number in self.statements:
            self.axes[number] = self.axes_of(self.kernel.statements[number])

    def axes_of(self, statement: Statement) -> dict[Iter, int]:
        """The axes of a statement's iterators: shared loops first, then its own."""
        found: dict[Iter, int] = {}
        for axis, e in enumerate(statement.rows or ()):
            if e.iter is not None and e.iter.extent == self.outer[axis]:
                found[e.iter] = axis
            elif not e.is_constant or self.outer[axis] != 1:
                raise NotLowerableError(
                    "the statement's loop order is incompatible with the kernel's shared loops"
                )
        whole = (*space(statement.meta.shape), *space(statement.extents, "r"))
        left = [e.iter for e in whole if e.iter is not None and e.iter not in found]
        extents = tuple([i.extent for i in left])
        # All phases loop over the same inner axes.
        if extents and self.inner and extents != self.inner:
            raise NotLowerableError("statements traverse different iteration spaces")
        self.inner = self.inner or extents
        # Inner axes of a reduction must be exactly the axes that it reduces.
        folded = not statement.is_gathered and len([n for n in statement.extents if n > 1])
        if statement.reduction and folded is not False and len(left) != folded:
            raise NotLowerableError("a reduction is read inside its own loop")
        return found | {i: axis for axis, i in enumerate(left, len(self.outer))}

    def iterates_inner(self, number: int) -> bool:
        """Whether a statement has inner axes."""
        return any(axis >= len(self.outer) for axis in self.axes[number].values())

    # --- statements ---

    def nest(self) -> ArrayNest:
        """The nest of all statements."""
        for number in self.statements:
            self.statement(number, self.kernel.statements[number])
        loop_phases = tuple(
            [
                LoopPhase(tuple(s.body.statements), tuple(s.after.statements))
                for s in self.phase_builders
            ]
        )
        places = self.places
        common = {
            tuple(map(bool, places.operands[s.operand].outer)) for s in self.accumulations.values()
        }
        if len(common) > 1:
            raise NotLowerableError("accumulations reduce over different shared loops")
        kernel = Kernel(self.outer, self.inner, tuple(places.operands), loop_phases)
        return ArrayNest(kernel, tuple(places.arrays), tuple(places.assertions))

    def statement(self, number: int, statement: Statement) -> None:
        """Lower one statement: its expression, its reduction, its store."""
        # A statement that reads a finished reduction starts the next phase.
        inner = self.iterates_inner(number) or not self.inner
        read = {source - self.inputs for source in source_arrays(statement)}
        if inner and read & self.phase_builders[-1].closed:
            self.phase_builders.append(PhaseBuilder(self.numbers, self.places))
        lines = self.phase_builders[-1].body if inner else self.phase_builders[-1].after
        name = self.tree(number, statement, lines)
        if statement.reduction:
            if self.fuses_by_rows and statement.is_gathered:
                self.accumulate(number, statement, name, lines)
                return
            name = self.reduced(number, statement, name, inner)
            lines = self.phase_builders[-1].after if self.inner else lines
        else:
            name = lines.cast(name, self.dtype_of(statement.body), statement.meta.dtype)
        if lines is self.phase_builders[-1].after:
            self.phase_builders[-1].closed.add(number)
        self.values[number] = name
        for made in lines.statements:
            if isinstance(made, Constant) and made.name == name:
                self.constants[number] = made
        if number in self.outputs_needed:
            index = flat(space(statement.meta.shape), statement.meta.shape)
            operand = self.places.operand(self.inputs + number, self.axes[number], index)
            lines.statements.append(loopnest.Store(operand, lines.wide.get(name, name)))

    def reduced(self, number: int, statement: Statement, name: str, inner: bool) -> str:
        """The result of a reduction, from the name of an element."""
        phase_builder, have, want = (
            self.phase_builders[-1],
            self.dtype_of(statement.body),
            statement.meta.dtype,
        )
        lines = phase_builder.body if inner else phase_builder.after
        if prod(statement.extents) == 1:
            if extremum_of(statement.reduction):
                return lines.constant(0, want)
            if combiner_of(statement.reduction):
                return lines.cast(name, have, want)
        if not inner:
            raise NotLowerableError("a reduction combines values that have no loop of their own")
        extremum = extremum_of(statement.reduction)
        if extremum is not None:
            return self.arg_extremum(number, statement, extremum, name)
        combiner = combination(combiner_of(statement.reduction), want)
        if combiner is None:
            raise NotLowerableError(f"`{statement.reduction}` has no native code as a reduction")
        name = self.reduce(lines, combiner, lines.cast(name, have, want))
        # A sum in fp16 or bf16 is computed in float32 and rounded once.
        exact = combiner in ("max", "min") or compute_type(want) is want
        return name if exact else self.phase_builders[-1].after.rounded(name, want)

    def accumulate(
        self, number: int, statement: Statement, name: str, lines: StatementBuilder
    ) -> None:
        """A reduction across shared loops: its result is in memory after the nest."""
        want = statement.meta.dtype
        kind = combination(combiner_of(statement.reduction), want)
        if kind is None:
            raise NotLowerableError(f"`{statement.reduction}` cannot be accumulated in parts")
        name = lines.cast(name, self.dtype_of(statement.body), want)
        index = flat(space(statement.meta.shape), statement.meta.shape)
        operand = self.places.operand(self.inputs + number, self.axes[number], index)
        self.accumulations[number] = Accumulate(operand, kind, name)
        lines.statements.append(self.accumulations[number])

    def arg_extremum(self, number: int, statement: Statement, kind: ReduceKind, name: str) -> str:
        """The index of the extremum: one phase for the value, one for the first index that has it.

        NaN is never the extremum: it is replaced by the infinity that loses.
        """
        extents, want = statement.extents, statement.meta.dtype
        have = self.dtype_of(statement.body)

        def number_or_worst(lines: StatementBuilder, name: str) -> str:
            if not have.is_float:
                return name
            worst = lines.constant(-inf if kind == "max" else inf, have)
            nan = lines.compute("isnan", [name], dt.bool_)
            return lines.compute("where", [nan, worst, name], have)

        lines = self.phase_builders[-1].body
        extremum = self.reduce(lines, kind, number_or_worst(lines, name))
        self.phase_builders.append(PhaseBuilder(self.numbers, self.places))
        lines = self.phase_builders[-1].body
        # Recompute the element in the second phase rather than save a row of them.
        again = number_or_worst(lines, self.tree(number, statement, lines))
        hit = lines.compute("equal", [again, extremum], dt.bool_)
        indexing = self.indexing(number, lines)
        here, counted = indexing.number(flat(space(extents, "r"), extents), None)
        # No result, as some element is the extremum; one place more need not fit `counted`.
        nowhere = lines.constant(prod(extents) - 1, counted)
        first = self.reduce(lines, "min", lines.compute("where", [hit, here, nowhere], counted))
        return self.phase_builders[-1].after.cast(first, counted, want)

    def reduce(self, lines: StatementBuilder, kind: ReduceKind, name: str) -> str:
        """Emit a `Reduce`; the name of its result."""
        folded = lines.fresh()
        lines.statements.append(Reduce(folded, kind, name))
        return folded

    # --- trees ---

    def tree(self, number: int, statement: Statement, lines: StatementBuilder) -> str:
        """Lower the expression of a statement; the name of its value."""
        names: dict[int, str] = {}
        indexing = self.indexing(number, lines)
        shape = space(statement.meta.shape)
        lanes = shape[-1].iter if shape else None
        body = statement.body if lanes is None else split_wraps(statement.body, lanes)
        needed = needs(body, indexing)
        for node in walk(body):
            names[id(node)] = self.node(node, names, indexing, needed.get(id(node)))
        return names[id(body)]

    def indexing(self, number: int, lines: StatementBuilder) -> IndexLowering:
        """The index arithmetic of a statement, emitted to ``lines``."""

        def value(source: int, index: Sequence[Expr], needed: str | None) -> str:
            return self.load(number, source, index, here, needed)

        here = IndexLowering(self.places, self.axes[number], lines, value)
        return here

    def node(
        self, node: Node, names: Mapping[int, str], indexing: IndexLowering, needed: str | None
    ) -> str:  # fmt: skip
        """Lower one node whose operands have ``names``; the name of its value."""
        lines = indexing.lines
        match node:
            case Load():
                return indexing.value(node.source, node.index, needed)
            case Fill():
                return lines.constant(node.value, node.dtype)
            case Position():
                name, dtype = indexing.number(node.index, needed)
                return lines.cast(name, dtype, node.dtype)
            case Choose():
                both = [names[id(node.yes)], names[id(node.no)]]
                if not node.guards:
                    return both[0]
                holds = indexing.holds(node, needed)
                return lines.compute("where", [holds, *both], self.dtype_of(node))
            case Apply():
                args = [names[id(a)] for a in node.args]
                return apply(node, args, [self.dtype_of(a) for a in node.args], lines, needed)

    def dtype_of(self, node: Node) -> DType:
        """The element type of a node."""
        match node:
            case Load():
                return self.kernel.meta(node.source).dtype
            case Choose():
                return self.dtype_of(node.yes)
            case _:
                return node.dtype

    def load(
        self, number: int, source: int, index: Sequence[Expr], indexing: IndexLowering,
        needed: str | None,
    ) -> str:  # fmt: skip
        """The value of an array at an index: of this nest, or from memory."""
        value = source - self.inputs
        if value in self.accumulations:
            raise NotLowerableError("a value is read inside the shared loops that accumulate it")
        if value not in self.values:
            return indexing.element(source, index, needed)
        self.load_same_iteration(number, value, index)
        for looked_up in (e for e in index if e.has_reads):  # on an axis of one element
            indexing.number(looked_up, needed)  # asserts that it is in bounds
        # A constant is emitted in each phase that uses it.
        if value in self.constants:
            again = self.constants[value]
            return indexing.lines.constant(again.value, again.dtype)
        return self.values[value]

    def load_same_iteration(self, number: int, value: int, index: Sequence[Expr]) -> None:
        """Check that a value of an earlier statement is read in the iteration that computes it."""
        value_axes = {axis: i for i, axis in self.axes[value].items()}
        own = self.axes[number]
        for e, own_extent in zip(
            index, space(self.kernel.statements[value].meta.shape), strict=True
        ):
            if own_extent.iter is None:
                continue
            axis = self.axes[value][own_extent.iter]
            if e.iter is None or own.get(e.iter) != axis or value_axes[axis] is not own_extent.iter:
                raise NotLowerableError(
                    "a value is read in another iteration than it is computed in"
                )


def source_arrays(statement: Statement) -> set[int]:
    """Arrays that a statement reads, including index tensors."""
    found: set[int] = set()
    for node in walk(statement.body):
        match node:
            case Load(source, index):
                found |= {source, *(r.source for e in index for r in reads_of(e))}
            case Position(index):
                found |= {r.source for r in reads_of(index)}
            case Choose(guards):
                found |= {r.source for g in guards for r in reads_of(g.value)}
            case _:
                continue
    return found
