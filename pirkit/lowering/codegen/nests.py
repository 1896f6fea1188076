"""One loop nest of some statements of a MapExpr.

The loops that the statements share become the outer axes, what is left of their spaces the inner
ones; a reduction ends a sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf, prod
from typing import Final, cast

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.needs import needs
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position, walk
from pirkit.dialect.opdef import lookup
from pirkit.index.change import reads_of
from pirkit.index.expr import Expr, Iter
from pirkit.index.maps import flat, space
from pirkit.lowering.codegen import loopnest
from pirkit.lowering.codegen.landing import Landing
from pirkit.lowering.codegen.loopnest import Constant, Fold, FoldKind, Gather, Kernel, Stage
from pirkit.lowering.codegen.places import Indexing, Places
from pirkit.lowering.codegen.points import computed
from pirkit.lowering.codegen.scalars import apply
from pirkit.lowering.codegen.tile_turns import TileTurns
from pirkit.lowering.codegen.writing import Demanded, Lines, Unknown
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType


def combiner_of(reduction: str) -> FoldKind | None:
    """How a reduction combines elements, or None if native code has no reduction of that name."""
    return cast("FoldKind | None", lookup(reduction).combiner or None)


PLACES: Final[dict[str, FoldKind]] = {"pd_op.argmax": "max", "pd_op.argmin": "min"}


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest, or one that goes through tiles, or what puts elements where the data say; and
    for each of its operands the number of the array.

    Inputs come first, then values (those of `laid_out`), then one flag of a byte for each of
    ``demands``: what is 0 before a run is 1 after it if the data do not keep to the demand.
    """

    kernel: Kernel | Landing | TileTurns
    arrays: tuple[int, ...]
    demands: tuple[Demanded, ...] = ()


class Sweep:
    """A stage in the making."""

    def __init__(self, numbers: count[int], places: Places) -> None:
        excess = places.kernel.excess
        self.body = Lines(numbers, places.flag, excess=excess)
        self.after = Lines(numbers, places.flag, excess=excess)
        self.closed: set[int] = set()
        """Values that are known only when the sweep is over."""


class Builder:
    """One nest of some statements of a kernel; without ``rows`` a statement has all loops outside.

    Values of other statements are read from memory.
    """

    def __init__(
        self, kernel: MapExpr, statements: tuple[int, ...], rows: tuple[int, ...] | None
    ) -> None:
        self.kernel = kernel
        self.statements = statements
        self.inputs = len(kernel.inputs)
        self.shares = rows is not None
        self.outer: tuple[int, ...] = ()
        self.inner: tuple[int, ...] = ()
        self.axes: dict[int, dict[Iter, int]] = {}
        self.place(rows)
        self.places = Places(kernel, len(self.outer), len(self.outer) + len(self.inner))
        self.wanted = set(kernel.outputs)
        """Values that are stored: outputs, and what other nests read."""
        for k, statement in enumerate(kernel.statements):
            if k not in statements:
                self.wanted |= {source - self.inputs for source in sources(statement)}
        self.values: dict[int, str] = {}
        self.constants: dict[int, Constant] = {}
        self.gathers: dict[int, Gather] = {}
        """Values that are known when the nest is over."""
        self.numbers = count(1)
        self.sweeps = [Sweep(self.numbers, self.places)]

    # --- axes ---

    def place(self, rows: tuple[int, ...] | None) -> None:
        """Give each iterator of each statement its axis of the nest."""
        if rows is None:
            (only,) = self.statements
            statement = self.kernel.statements[only]
            self.outer, self.inner = statement.meta.shape, statement.extents
            iters = (*space(statement.meta.shape), *space(statement.extents, "r"))
            self.axes[only] = {e.iter: a for a, e in enumerate(iters) if e.iter is not None}
            return
        self.outer = rows
        for number in self.statements:
            self.axes[number] = self.within(self.kernel.statements[number])

    def within(self, statement: Statement) -> dict[Iter, int]:
        """The axes of a statement's iterators: those of the common loops, then its own."""
        found: dict[Iter, int] = {}
        for axis, e in enumerate(statement.rows or ()):
            if e.iter is not None and e.iter.extent == self.outer[axis]:
                found[e.iter] = axis
            elif not e.is_constant or self.outer[axis] != 1:
                raise Unknown("a statement turns with the common loops in its own way")
        whole = (*space(statement.meta.shape), *space(statement.extents, "r"))
        left = [e.iter for e in whole if e.iter is not None and e.iter not in found]
        extents = tuple([i.extent for i in left])
        if extents and self.inner and extents != self.inner:
            raise Unknown("statements sweep different spaces")
        self.inner = self.inner or extents
        folded = not statement.is_gathered and len([n for n in statement.extents if n > 1])
        if statement.reduction and folded is not False and len(left) != folded:
            raise Unknown("a fold is made at several points of a sweep")
        return found | {i: axis for axis, i in enumerate(left, len(self.outer))}

    def sweeps_inner(self, number: int) -> bool:
        return any(axis >= len(self.outer) for axis in self.axes[number].values())

    # --- statements ---

    def nest(self) -> Nest:
        for number in self.statements:
            self.statement(number, self.kernel.statements[number])
        stages = tuple(
            [Stage(tuple(s.body.statements), tuple(s.after.statements)) for s in self.sweeps]
        )
        places = self.places
        common = {tuple(map(bool, places.operands[s.operand].outer)) for s in self.gathers.values()}
        if len(common) > 1:
            raise Unknown("sums over different ones of the common loops")
        kernel = Kernel(self.outer, self.inner, tuple(places.operands), stages)
        return Nest(kernel, tuple(places.arrays), tuple(places.demands))

    def statement(self, number: int, statement: Statement) -> None:
        inner = self.sweeps_inner(number) or not self.inner
        read = {source - self.inputs for source in sources(statement)}
        if inner and read & self.sweeps[-1].closed:
            self.sweeps.append(Sweep(self.numbers, self.places))
        lines = self.sweeps[-1].body if inner else self.sweeps[-1].after
        name = self.tree(number, statement, lines)
        if statement.reduction:
            if self.shares and statement.is_gathered:
                self.gathered(number, statement, name, lines)
                return
            name = self.reduced(number, statement, name, inner)
            lines = self.sweeps[-1].after if self.inner else lines
        else:
            name = lines.cast(name, self.dtype_of(statement.body), statement.meta.dtype)
        if lines is self.sweeps[-1].after:
            self.sweeps[-1].closed.add(number)
        self.values[number] = name
        for made in lines.statements:
            if isinstance(made, Constant) and made.name == name:
                self.constants[number] = made
        if number in self.wanted:
            index = flat(space(statement.meta.shape), statement.meta.shape)
            operand = self.places.operand(self.inputs + number, self.axes[number], index)
            lines.statements.append(loopnest.Store(operand, lines.wide.get(name, name)))

    def reduced(self, number: int, statement: Statement, name: str, inner: bool) -> str:
        """What a reduction gives, from the name of an element."""
        sweep, have, want = self.sweeps[-1], self.dtype_of(statement.body), statement.meta.dtype
        lines = sweep.body if inner else sweep.after
        if prod(statement.extents) == 1:
            if statement.reduction in PLACES:
                return lines.constant(0, want)
            if combiner_of(statement.reduction):
                return lines.cast(name, have, want)
        if not inner:
            raise Unknown("a fold is made of a fold")
        if statement.reduction in PLACES:
            return self.found_at(number, statement, name)
        combiner = combiner_of(statement.reduction)
        if combiner is None:
            raise Unknown(f"`{statement.reduction}` is no fold of native code")
        name = self.fold(lines, combiner, lines.cast(name, have, want))
        exact = combiner in ("max", "min") or computed(want) is want
        return name if exact else self.sweeps[-1].after.rounded(name, want)

    def gathered(self, number: int, statement: Statement, name: str, lines: Lines) -> None:
        """A reduction over the common loops: it is in memory when they are over."""
        kind, want = combiner_of(statement.reduction), statement.meta.dtype
        if kind is None:
            raise Unknown(f"`{statement.reduction}` cannot be accumulated in parts")
        name = lines.cast(name, self.dtype_of(statement.body), want)
        index = flat(space(statement.meta.shape), statement.meta.shape)
        operand = self.places.operand(self.inputs + number, self.axes[number], index)
        self.gathers[number] = Gather(operand, kind, name)
        lines.statements.append(self.gathers[number])

    def found_at(self, number: int, statement: Statement, name: str) -> str:
        """Where the extremum is: first its value, then the first place that has it.

        NaN is never an extremum: it counts as the infinity that loses.
        """
        extents, want = statement.extents, statement.meta.dtype
        kind, have = PLACES[statement.reduction], self.dtype_of(statement.body)

        def number_or_worst(lines: Lines, name: str) -> str:
            if not have.is_float:
                return name
            worst = lines.constant(-inf if kind == "max" else inf, have)
            nan = lines.compute("isnan", [name], dt.bool_)
            return lines.compute("where", [nan, worst, name], have)

        lines = self.sweeps[-1].body
        best = self.fold(lines, kind, number_or_worst(lines, name))
        self.sweeps.append(Sweep(self.numbers, self.places))
        lines = self.sweeps[-1].body
        again = number_or_worst(lines, self.tree(number, statement, lines))
        hit = lines.compute("equal", [again, best], dt.bool_)
        indexing = self.indexing(number, lines)
        here, counted = indexing.number(flat(space(extents, "r"), extents), None)
        nowhere = lines.constant(prod(extents), counted)
        first = self.fold(lines, "min", lines.compute("where", [hit, here, nowhere], counted))
        return self.sweeps[-1].after.cast(first, counted, want)

    def fold(self, lines: Lines, kind: FoldKind, name: str) -> str:
        folded = lines.fresh()
        lines.statements.append(Fold(folded, kind, name))
        return folded

    # --- trees ---

    def tree(self, number: int, statement: Statement, lines: Lines) -> str:
        names: dict[int, str] = {}
        indexing = self.indexing(number, lines)
        needed = needs(statement.body, indexing)
        for node in walk(statement.body):
            names[id(node)] = self.node(node, names, indexing, needed.get(id(node)))
        return names[id(statement.body)]

    def indexing(self, number: int, lines: Lines) -> Indexing:
        def value(source: int, index: Sequence[Expr], needed: str | None) -> str:
            return self.load(number, source, index, here, needed)

        here = Indexing(self.places, self.axes[number], lines, value)
        return here

    def node(
        self, node: Node, names: Mapping[int, str], indexing: Indexing, needed: str | None
    ) -> str:  # fmt: skip
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
        match node:
            case Load():
                return self.kernel.meta(node.source).dtype
            case Choose():
                return self.dtype_of(node.yes)
            case _:
                return node.dtype

    def load(
        self, number: int, source: int, index: Sequence[Expr], indexing: Indexing,
        needed: str | None,
    ) -> str:  # fmt: skip
        value = source - self.inputs
        if value in self.gathers:
            raise Unknown("a value is read before the common loops are over")
        if value not in self.values:
            return indexing.element(source, index, needed)
        self.same_point(number, value, index)
        if value in self.constants:
            again = self.constants[value]
            return indexing.lines.constant(again.value, again.dtype)
        return self.values[value]

    def same_point(self, number: int, value: int, index: Sequence[Expr]) -> None:
        """A value of an earlier statement is read where the loops are, or not in this nest."""
        theirs = {axis: i for i, axis in self.axes[value].items()}
        own = self.axes[number]
        for e, mine in zip(index, space(self.kernel.statements[value].meta.shape), strict=True):
            if mine.iter is None:
                continue
            axis = self.axes[value][mine.iter]
            if e.iter is None or own.get(e.iter) != axis or theirs[axis] is not mine.iter:
                raise Unknown("a value is read at another point than it is computed at")


def sources(statement: Statement) -> set[int]:
    """Arrays that a statement reads, those of index tensors too."""
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
