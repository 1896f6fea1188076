"""Builds the MapExpr kernel of a group.

Outputs, reductions, tiled values, and costly values with several readers are materialized: each
gets a statement. Every other value is inlined into the expression trees of its readers, with its
index maps composed with theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from msgspec import Struct
from msgspec.structs import replace
from xdsl.ir import Operation, SSAValue

from pirkit.diag.errors import ConstraintError
from pirkit.diag.once import cached_property
from pirkit.dialect.kinds import COSTLY
from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.kernel_text import print_kernel, remember
from pirkit.dialect.map_expr.specialize import decided, results_at
from pirkit.dialect.map_expr.tiling import Untiled, permutes
from pirkit.dialect.map_expr.tree import (
    Apply,
    Choose,
    Fill,
    Load,
    Node,
    Position,
    Reduction,
    Scatter,
    walk,
)
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.index.expr import Broadcast, Expr, Iter, within
from pirkit.index.extent import is_sized
from pirkit.index.index_maps import Guard, Index, bindings, compose, space
from pirkit.index.substitution import renumber, substitute
from pirkit.lowering.fusion.groups import DEFAULT, Group, Partition, Policy
from pirkit.lowering.fusion.index_equations import Equations, Unit
from pirkit.lowering.fusion.provenance import Origins
from pirkit.lowering.fusion.symbolic_sizes import sized
from pirkit.lowering.fusion.tile_selection import tile_more, with_tiles
from pirkit.runtime.meta import TensorMeta


class Generated(Struct, frozen=True, eq=False, dict=True):
    """A kernel, the SSA values that it reads and defines, and the ops that it replaces."""

    kernel: MapExpr
    inputs: tuple[SSAValue, ...]
    outputs: tuple[SSAValue, ...]
    units: tuple[Unit, ...]
    copies: int = 0
    """Number of ops of other kernels that this kernel recomputes."""

    @cached_property
    def text(self) -> str:
        """The kernel's text form, by which plans and caches know it."""
        text = print_kernel(self.kernel)
        remember(text, self.kernel)
        return text


class UnknownSizes(Struct, frozen=True, eq=False):
    """Ops that cannot be in a kernel: its inputs do not determine all of its dynamic sizes, or give
    one of them two values. The program of the latter is wrong, which its ops say when they run."""

    units: tuple[Unit, ...]


def idle(found: Equations, parts: Partition) -> set[PirOp]:
    """Constant-like ops (`is_free`) whose readers are all in kernels, which rematerialize them."""
    several = {op for op, group in parts.of.items() if len(group.units) > 1}
    free = [u for u in found.units.values() if u.is_free]
    free = [u for u in free if u.result not in parts.sized_by]
    return {u.op for u in free if (readers := _readers(u)) and several.issuperset(readers)}


def generate(
    group: Group,
    found: Equations,
    parts: Partition,
    spare: AbstractSet[PirOp],
    policy: Policy = DEFAULT,
) -> Generated | UnknownSizes | None:
    """The kernel of a group; None if all readers of its values are ``spare`` (dead) ops.

    Raises Untiled if its tiles are incompatible and recomputing instead exceeds the policy.
    """
    units = group.ordered
    own = [u for u in units if u.result not in group.copies]
    wanted = [u for u in own if _is_wanted(u, group, parts, spare)]
    if not wanted:
        return None
    outputs = tuple([u.result for u in wanted])
    chosen = dict(group.tiles)
    if policy.tile:
        tile_more(group, wanted, found.is_free)
    builder, made = _written(group, found, wanted, chosen, policy)
    sizes = found.shapes.sizes
    # with dynamic shapes, tensors that only determine sizes are added as inputs if needed
    kernel = sized(made, sizes) if made.is_sized else made
    if kernel is None and builder.take_shapes():
        kernel = sized(builder.kernel(_name(units), outputs), sizes)
    if kernel is None or (kernel.is_sized and not _fits(kernel, builder.inputs)):
        return UnknownSizes(tuple(units))
    if policy.excess:
        kernel = replace(kernel, excess=True)
    return Generated(kernel, tuple(builder.inputs), outputs, tuple(own), len(group.copies))


def _fits(kernel: MapExpr, inputs: Iterable[SSAValue]) -> bool:
    """Whether the shapes of the inputs, as far as they are known, agree with a kernel's sizes."""
    try:
        results_at(kernel, [cast(TensorMeta, meta_of(v.type)).shape for v in inputs])
    except ConstraintError:
        return False
    return True


def _written(
    group: Group,
    found: Equations,
    wanted: Sequence[Unit],
    chosen: Mapping[SSAValue, int],
    policy: Policy,
) -> tuple[_Builder, MapExpr]:
    """The kernel with all its tiles; if these are incompatible, with the ``chosen`` ones only; else
    with none, if the policy allows the recomputation.
    """
    units, outputs = group.ordered, tuple([u.result for u in wanted])
    needed = _needed(wanted, group)
    if any(u.is_reduction for u in units):
        group.tiles = chosen = {}
    for tiles in (group.tiles, chosen):
        group.tiles = {v: cost for v, cost in tiles.items() if v in needed}
        builder = _built(units, found, group, outputs)
        made = builder.kernel(_name(units), outputs)
        if not group.tiles:
            return builder, made
        try:
            return builder, with_tiles(made, {-1 - builder.places[v] for v in group.tiles})
        except Untiled:
            continue
    if sum(group.tiles.values()) > policy.recompute:
        raise Untiled("the tiles of a kernel do not go together")
    group.tiles = {}
    builder = _built(units, found, group, outputs)
    return builder, builder.kernel(_name(units), outputs)


def _built(
    units: list[Unit], found: Equations, group: Group, outputs: Sequence[SSAValue]
) -> _Builder:
    """A builder with the statements of a kernel, including those of tiled values."""
    stored = _stored(units, {*outputs, *group.tiles}, group)
    builder = _Builder(group, found, stored, group.tiles.keys())
    for unit in units:
        if unit.result in stored:
            builder.store(unit)
    return builder


def _needed(wanted: Sequence[Unit], group: Group) -> set[SSAValue]:
    """The values of a kernel on which the ``wanted`` ones depend."""
    found = {u.result for u in wanted}
    stack = list(wanted)
    while stack:
        for value in stack.pop().tensors:
            if value in group.units and value not in found:
                found.add(value)
                stack.append(group.units[value])
    return found


def _is_wanted(unit: Unit, group: Group, parts: Partition, spare: AbstractSet[PirOp]) -> bool:
    """True if a value has a reader outside of the kernel that does not recompute it."""
    value = unit.result
    if value in parts.read_again or value in parts.sized_by:
        return True
    for reader in _readers(unit):
        if reader in spare:
            continue
        other = parts.of.get(reader) if isinstance(reader, PirOp) else None
        if other is not group and (other is None or value not in other.copies):
            return True
    return False


def _readers(unit: Unit) -> list[Operation]:
    """The ops that read a result, directly or as an element of a list."""
    found: list[Operation] = []
    for use in unit.result.uses:
        reader = use.operation
        if reader.name == "pir.combine":
            of_list = [u.operation for u in reader.results[0].uses]
            # one that nothing reads is removed from this block, but stays in those inside
            found += of_list or ([reader] if reader.parent is not unit.op.parent else [])
        else:
            found.append(reader)
    return found


def _name(units: Sequence[Unit]) -> str:
    words = [u.op.name.partition(".")[2] for u in units if u.computes][:4] or ["move"]
    return "fn_" + "_".join(f"{w}_{k}" for k, w in enumerate(words))


def _stored(units: list[Unit], outputs: set[SSAValue], group: Group) -> set[SSAValue]:
    """Values that are materialized, at least for one iteration of the common loops."""
    # in reverse order, so that the statements that read a value are known when it is visited; a
    # costly value is stored only within an iteration of common loops, where that is cheap
    stored = {u.result for u in units if u.is_reduction} | outputs
    by_value = {u.result: u for u in units}
    readers: dict[SSAValue, set[SSAValue]] = {}
    for unit in reversed(units):
        value = unit.result
        costly = unit.op.definition.base.cost >= COSTLY and value in group.loops.rows
        if costly and len(readers.get(value, ())) > 1:
            stored.add(value)
        mine = {value} if value in stored else readers.get(value, set())
        for read in unit.reads:
            if read.source in by_value:
                readers.setdefault(read.source, set()).update(mine)
    return stored


_Point = tuple[SSAValue, Index]


class _Builder:
    """Builds statements. Inputs are numbered in order of first use, materialized values from -1
    downwards until `kernel` renumbers them after the inputs.
    """

    def __init__(
        self, group: Group, found: Equations, stored: set[SSAValue], tiles: AbstractSet[SSAValue]
    ) -> None:
        self.tiles = tiles
        self.reader: tuple[int, ...] = ()
        """The shape of the value whose statement is being built."""
        self.scatters = False
        """Whether that statement scatters, in a loop of its own, which reads what others store."""
        self.group = group
        self.equations = found
        self.stored = stored
        self.inputs: dict[SSAValue, int] = {}
        self.places: dict[SSAValue, int] = {}
        self.statements: list[Statement] = []
        self.stages: dict[SSAValue, int] = {}
        self.known: dict[_Point, Node] = {}
        self.at_most = 0
        self.axes = sorted(group.loops.extents)
        self.origins = Origins(group.units, found)

    def store(self, unit: Unit) -> None:
        """Add the statement of a value."""
        self.at_most = 0
        self.known = {}
        self.reader = unit.meta.shape
        self.scatters = isinstance(unit.value, Scatter)
        loads = self.loads(unit, {})
        *before, body = [self.tree(root, unit, {}, loads) for root in unit.roots]
        value = unit.value
        rows = self.rows(unit, body)
        reduction, extents, attrs, index = "", (), {}, ()
        if isinstance(value, Reduction | Scatter):
            reduction, extents, attrs = value.op, value.extents, dict(value.attrs)
        if isinstance(value, Scatter):
            index = tuple([renumber(e, self.numbers(unit)) for e in value.index])
        self.stages[unit.result] = self.at_most
        self.places[unit.result] = -1 - len(self.statements)
        self.statements.append(
            Statement(
                unit.meta,
                body,
                unit.op.name,
                reduction,
                extents,
                attrs,
                self.at_most,
                rows,
                self.origins.number[unit.result],
                before[0] if before else None,
                index,
            )
        )

    def rows(self, unit: Unit, body: Node) -> tuple[Expr, ...] | None:
        """The iteration mapping of a statement; None if it reads a materialized value at another
        iteration, or if the mapping leaves the range of a loop.
        """
        held = self.group.loops.rows.get(unit.result)
        if held is None or not all(a in held for a in self.axes):
            return None
        rows = tuple([held[a] for a in self.axes])
        if not all(within(held[a], self.group.loops.extents[a]) for a in self.axes):
            return None
        # An axis that is possibly broadcast is in range only where no selection guards its reads.
        may_broadcast = any(isinstance(atom, Broadcast) for e in rows for atom, _ in e.terms)
        for node in walk(body):
            if may_broadcast and isinstance(node, Choose):
                return None
            if isinstance(node, Load) and node.source < 0:
                source = self.statements[-1 - node.source]
                at = bindings(space(source.meta.shape), node.index)
                if source.rows is not None and compose(source.rows, at) != rows:
                    return None
        return rows

    def value(self, value: SSAValue, index: Index) -> Node:
        """The expression of a value at an index. Iterative, as chains of ops may be long."""
        stack = [(value, index)]
        opened: dict[_Point, tuple[Unit, dict[Iter, Expr], dict[int, _Point]]] = {}
        while stack:
            place = stack[-1]
            if place in self.known:
                stack.pop()
            elif place in opened:
                unit, at, loads = opened.pop(place)
                (root,) = unit.roots
                self.known[place] = self.tree(root, unit, at, loads)
            elif (unit := self.expanded(*place)) is None:
                self.known[place] = self.load(*place)
            else:
                at = bindings(space(unit.meta.shape), place[1])
                opened[place] = unit, at, self.loads(unit, at)
                left = [p for p in opened[place][2].values() if p not in self.known]
                stack += reversed(left)
        return self.known[value, index]

    def expanded(self, value: SSAValue, index: Index) -> Unit | None:
        """The op to inline for an element; None if the element is loaded."""
        unit = self.group.units.get(value)
        if unit is None:
            free = self.equations.unit_of(value)
            return free if free is not None and free.is_free else None
        return None if self.is_stored(unit, index) else unit

    def is_stored(self, unit: Unit, index: Index) -> bool:
        """Whether the statement that is being built loads an element instead of inlining its op."""
        held = unit.result in self.places
        if held and unit.result in self.tiles:
            return permutes(self.reader, index, unit.meta.shape)
        return held and (unit.is_reduction or self.scatters or self.is_local(unit, index))

    def load(self, value: SSAValue, index: Index) -> Load:
        """A load from an input or a materialized value."""
        unit = self.group.units.get(value)
        if unit is None:
            return Load(self.inputs.setdefault(value, len(self.inputs)), index)
        # a reduction, what is scattered, or a tile read transposed is complete in the next stage
        waits = (
            unit.is_reduction
            or self.scatters
            or (value in self.tiles and index != space(self.reader))
        )
        later = self.stages[value] + (1 if waits else 0)
        self.at_most = max(self.at_most, later)
        return Load(self.places[value], index)

    def is_local(self, unit: Unit, index: Index) -> bool:
        """True if the reader needs only elements of its own iteration."""
        return unit.result in self.group.loops.rows or index == space(unit.meta.shape)

    def loads(self, unit: Unit, at: Mapping[Iter, Expr]) -> dict[int, _Point]:
        """The value and indices of each load of a unit's tree, with its iterators substituted."""
        return {
            id(n): (
                unit.tensors[n.source],
                compose(tuple([renumber(e, self.numbers(unit)) for e in n.index]), at),
            )
            for root in unit.roots
            for n in walk(root)
            if isinstance(n, Load)
        }

    def numbers(self, unit: Unit) -> Callable[[int], int]:
        """Maps the unit's index tensors to kernel input numbers."""

        def number(source: int) -> int:
            return self.inputs.setdefault(unit.tensors[source], len(self.inputs))

        return number

    def tree(
        self, root: Node, unit: Unit, at: Mapping[Iter, Expr], loads: Mapping[int, _Point]
    ) -> Node:
        """A tree of a unit with its iterators substituted; iterative, as trees may be deep."""
        made: dict[int, Node] = {}
        for node in walk(root):
            if isinstance(node, Load):
                made[id(node)] = self.value(*loads[id(node)])
            else:
                made[id(node)] = self.node(node, unit, at, made)
        return made[id(root)]

    def node(
        self,
        node: Fill | Position | Choose | Apply,
        unit: Unit,
        at: Mapping[Iter, Expr],
        made: Mapping[int, Node],
    ) -> Node:
        match node:
            case Fill():
                return node
            case Position():
                return Position(substitute(node.index, at), node.dtype)
            case Choose():
                guards = [
                    Guard(substitute(renumber(g.value, self.numbers(unit)), at), g.bound)
                    for g in node.guards
                ]
                return decided(guards, made[id(node.yes)], made[id(node.no)], unit.op.location)
            case Apply():
                args = tuple([made[id(a)] for a in node.args])
                return Apply(node.op, args, node.dtype, node.attrs, unit.op.location)

    def take_shapes(self) -> bool:
        """Add inputs that are read only for their dynamic sizes; False if there are none to add."""
        count = len(self.inputs)
        for value in self.origins.outside():
            meta = self.equations.shapes.named(value)
            if isinstance(meta, TensorMeta) and any(map(is_sized, meta.shape)):
                self.inputs.setdefault(value, len(self.inputs))
        return len(self.inputs) > count

    def kernel(self, name: str, outputs: Sequence[SSAValue]) -> MapExpr:
        """The kernel of all statements, whose materialized values are numbered after its inputs."""
        count = len(self.inputs)
        metas = tuple([cast(TensorMeta, self.equations.shapes.named(v)) for v in self.inputs])
        done = [s.with_sources(lambda k: k if k >= 0 else count - 1 - k) for s in self.statements]
        places = tuple([-1 - self.places[v] for v in outputs])
        rows = tuple([self.group.loops.extents[a] for a in self.axes])
        ops = self.origins.listed(self.inputs)
        return MapExpr(name, metas, tuple(done), places, rows, ops=ops)
