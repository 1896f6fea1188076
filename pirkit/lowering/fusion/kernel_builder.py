"""The generator: the kernel of a group.

Values that are outputs, reductions, or costly and read by several statements are stored; every
other one is put into the trees of its readers, its indices composed with theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from xdsl.ir import Operation, SSAValue

from pirkit.dialect.kinds import COSTLY
from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.specialize import decided
from pirkit.dialect.map_expr.text import print_kernel
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
from pirkit.index.expr import Expr, Iter, within
from pirkit.index.extent import is_sized
from pirkit.index.index_maps import Guard, Index, bindings, compose, space
from pirkit.index.substitution import renumber, substitute
from pirkit.lowering.fusion.groups import DEFAULT, Group, Partition, Policy
from pirkit.lowering.fusion.index_equations import Equations, Unit
from pirkit.lowering.fusion.provenance import Origins
from pirkit.lowering.fusion.symbolic_sizes import sized
from pirkit.lowering.fusion.tile_selection import tile_more, with_tiles
from pirkit.runtime.meta import TensorMeta


@dataclass(frozen=True, eq=False)
class Generated:
    """A kernel with the values of the program that it reads and gives, and the ops that it stands
    for.
    """

    kernel: MapExpr
    inputs: tuple[SSAValue, ...]
    outputs: tuple[SSAValue, ...]
    units: tuple[Unit, ...]
    copies: int = 0
    """Ops of other kernels that are computed again."""

    @cached_property
    def text(self) -> str:
        """The kernel as the program holds it."""
        return print_kernel(self.kernel)


@dataclass(frozen=True, slots=True, eq=False)
class UnknownSizes:
    """Ops of which no kernel is made, as what it would read does not determine all of its sizes."""

    units: tuple[Unit, ...]


def idle(found: Equations, parts: Partition) -> set[PirOp]:
    """Ops that only kernels of several ops read, all of which make the values anew."""
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
    """The kernel of a group; None if nobody reads what it computes but ops that are ``spare``.

    Raises Untiled for tiles that do not go together, if too much would be computed without them.
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
    kernel = sized(made, sizes) if made.is_sized else made
    if kernel is None and builder.take_shapes():
        kernel = sized(builder.kernel(_name(units), outputs), sizes)
    if kernel is None:
        return UnknownSizes(tuple(units))
    if policy.excess:
        kernel = replace(kernel, excess=True)
    return Generated(kernel, tuple(builder.inputs), outputs, tuple(own), len(group.copies))


def _written(
    group: Group,
    found: Equations,
    wanted: Sequence[Unit],
    chosen: Mapping[SSAValue, int],
    policy: Policy,
) -> tuple[_Builder, MapExpr]:
    """The kernel with its tiles; with those alone that were ``chosen`` before, if they do not go
    together; with none, if what they save may be computed again.
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
    units: list[Unit],
    found: Equations,
    group: Group,
    outputs: Sequence[SSAValue],
) -> _Builder:
    """The statements of a kernel, those of values that are to be held in tiles among them."""
    stored = _stored(units, {*outputs, *group.tiles}, group)
    builder = _Builder(group, found, stored, group.tiles.keys())
    for unit in units:
        if unit.result in stored:
            builder.store(unit)
    return builder


def _needed(wanted: Sequence[Unit], group: Group) -> set[SSAValue]:
    """The values of a kernel that some of them are made of."""
    found = {u.result for u in wanted}
    stack = list(wanted)
    while stack:
        for value in stack.pop().tensors:
            if value in group.units and value not in found:
                found.add(value)
                stack.append(group.units[value])
    return found


def _is_wanted(unit: Unit, group: Group, parts: Partition, spare: AbstractSet[PirOp]) -> bool:
    """True if something reads a value that is not the kernel, and does not make it itself."""
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
    """Ops that read a result; a list counts as the ops that read the list."""
    found: list[Operation] = []
    for use in unit.result.uses:
        reader = use.operation
        if reader.name == "pir.combine":
            found += [u.operation for u in reader.results[0].uses]
        else:
            found.append(reader)
    return found


def _name(units: Sequence[Unit]) -> str:
    words = [u.op.name.partition(".")[2] for u in units if u.computes][:4] or ["move"]
    return "fn_" + "_".join(f"{w}_{k}" for k, w in enumerate(words))


def _stored(units: list[Unit], outputs: set[SSAValue], group: Group) -> set[SSAValue]:
    """Values that get memory, at least for one iteration of the common loops."""
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
    """Inputs are numbered as they are met; stored values, for now, from -1 downwards."""

    def __init__(
        self,
        group: Group,
        found: Equations,
        stored: set[SSAValue],
        tiles: AbstractSet[SSAValue],
    ) -> None:
        self.tiles = tiles
        self.reader: tuple[int, ...] = ()
        """The shape of the value whose statement is made."""
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
        """The iterations of a statement; None if it reads a temporary at other iterations, or if
        some of its elements belong to no iteration.
        """
        held = self.group.loops.rows.get(unit.result)
        if held is None or not all(a in held for a in self.axes):
            return None
        rows = tuple([held[a] for a in self.axes])
        if not all(within(held[a], self.group.loops.extents[a]) for a in self.axes):
            return None
        for node in walk(body):
            if isinstance(node, Load) and node.source < 0:
                source = self.statements[-1 - node.source]
                at = bindings(space(source.meta.shape), node.index)
                if source.rows is not None and compose(source.rows, at) != rows:
                    return None
        return rows

    def value(self, value: SSAValue, index: Index) -> Node:
        """The element of a value at an index; chains of ops may be long, so without recursion."""
        stack = [(value, index)]
        while stack:
            place = stack[-1]
            if place not in self.known:
                unit = self.expanded(*place)
                at = {} if unit is None else bindings(space(unit.meta.shape), place[1])
                loads = {} if unit is None else self.loads(unit, at)
                left = [p for p in loads.values() if p not in self.known]
                if left:
                    stack += reversed(left)
                    continue
                if unit is None:
                    self.known[place] = self.load(*place)
                else:
                    (root,) = unit.roots
                    self.known[place] = self.tree(root, unit, at, loads)
            stack.pop()
        return self.known[value, index]

    def expanded(self, value: SSAValue, index: Index) -> Unit | None:
        """The op whose tree stands for an element; None for one that is read."""
        unit = self.group.units.get(value)
        if unit is None:
            free = self.equations.unit_of(value)
            return free if free is not None and free.is_free else None
        return None if self.is_stored(unit, index) else unit

    def is_stored(self, unit: Unit, index: Index) -> bool:
        held = unit.result in self.places
        if held and unit.result in self.tiles:
            return permutes(self.reader, index, unit.meta.shape)
        return held and (unit.is_reduction or self.is_local(unit, index))

    def load(self, value: SSAValue, index: Index) -> Load:
        """The element of an input, or of a value that is stored."""
        unit = self.group.units.get(value)
        if unit is None:
            return Load(self.inputs.setdefault(value, len(self.inputs)), index)
        waits = unit.is_reduction or (value in self.tiles and index != space(self.reader))
        later = self.stages[value] + (1 if waits else 0)
        self.at_most = max(self.at_most, later)
        return Load(self.places[value], index)

    def is_local(self, unit: Unit, index: Index) -> bool:
        """True if reading the stored value needs no more than the iteration of the reader."""
        return unit.result in self.group.loops.rows or index == space(unit.meta.shape)

    def loads(self, unit: Unit, at: Mapping[Iter, Expr]) -> dict[int, _Point]:
        """What each load of a unit's tree reads, its iterators replaced."""
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
        """The kernel's numbers of the tensors of a unit that decide indices."""

        def number(source: int) -> int:
            return self.inputs.setdefault(unit.tensors[source], len(self.inputs))

        return number

    def tree(
        self, root: Node, unit: Unit, at: Mapping[Iter, Expr], loads: Mapping[int, _Point]
    ) -> Node:
        """A tree of a unit with its iterators replaced; made without recursion over the unit."""
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
                return decided(guards, made[id(node.yes)], made[id(node.no)])
            case Apply():
                args = tuple([made[id(a)] for a in node.args])
                return Apply(node.op, args, node.dtype, node.attrs)

    def take_shapes(self) -> bool:
        """Let the kernel have tensors of which it needs nothing but the sizes that they tell; False
        if there are none.
        """
        count = len(self.inputs)
        for value in self.origins.outside():
            meta = self.equations.shapes.named(value)
            if isinstance(meta, TensorMeta) and any(map(is_sized, meta.shape)):
                self.inputs.setdefault(value, len(self.inputs))
        return len(self.inputs) > count

    def kernel(self, name: str, outputs: Sequence[SSAValue]) -> MapExpr:
        count = len(self.inputs)
        metas = tuple([cast(TensorMeta, self.equations.shapes.named(v)) for v in self.inputs])
        done = [_placed(s, count) for s in self.statements]
        places = tuple([-1 - self.places[v] for v in outputs])
        rows = tuple([self.group.loops.extents[a] for a in self.axes])
        ops = self.origins.listed(self.inputs)
        return MapExpr(name, metas, tuple(done), places, rows, ops=ops)


def _placed(statement: Statement, inputs: int) -> Statement:
    """A statement whose loads of stored values are counted after the inputs."""
    made: dict[int, Node] = {}
    for node in statement.nodes():
        done: Node = node
        if isinstance(node, Load) and node.source < 0:
            done = Load(inputs - 1 - node.source, node.index)
        elif isinstance(node, Choose):
            done = Choose(node.guards, made[id(node.yes)], made[id(node.no)])
        elif isinstance(node, Apply):
            args = tuple([made[id(a)] for a in node.args])
            done = Apply(node.op, args, node.dtype, node.attrs)
        made[id(node)] = done
    start = None if statement.start is None else made[id(statement.start)]
    return replace(statement, body=made[id(statement.body)], start=start)
