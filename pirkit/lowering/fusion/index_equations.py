"""The index equations of a block: for each op, which operand elements a result element reads.

The index of the result is given and those of the operands are functions of it (index maps), so
solving the equations along a chain of ops is substitution.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final, cast

from msgspec import Struct, field
from xdsl.ir import Block, SSAValue

from pirkit.analysis.alias import AliasClasses
from pirkit.diag.once import cached_property
from pirkit.dialect.kinds import STACK
from pirkit.dialect.map_expr.call import UNKNOWN_SIZE, maps_of, tensors_of
from pirkit.dialect.map_expr.tree import (
    Apply,
    Choose,
    Fill,
    Load,
    Node,
    Opaque,
    Position,
    Reduction,
    Scatter,
    Value,
    roots,
    walk,
)
from pirkit.dialect.opdef import IO, PURE, RANDOM
from pirkit.dialect.operation import PirOp, bodies, declares, with_nested
from pirkit.index.index_maps import Index, bindings, compose, space
from pirkit.index.substitution import reads_of
from pirkit.lowering.fusion.shapes import Shapes
from pirkit.runtime.meta import TensorMeta


class Read(Struct, frozen=True, eq=False):
    """An element of an operand that a result's element reads. With ``decides`` it is used as an
    index (data-dependent addressing), not as a value. ``shape`` is that of the operand.
    """

    source: SSAValue
    index: Index
    shape: tuple[int, ...]
    decides: bool = False


class Unit(Struct, frozen=True, eq=False, dict=True):
    """An op with index maps and one result. What follows from its value is computed once."""

    op: PirOp
    value: Value
    tensors: tuple[SSAValue, ...]
    meta: TensorMeta
    reads: tuple[Read, ...]
    order: int
    _reads_at: dict[Index, tuple[Index, ...]] = field(
        default_factory=dict[Index, tuple[Index, ...]]
    )

    def reads_at(self, index: Index) -> tuple[Index, ...]:
        """For each of `reads`, the index that the element of the result at ``index`` reads.

        The answer is cached, as each op that may join a kernel asks the members that it reads.
        """
        found = self._reads_at.get(index)
        if found is None:
            held = bindings(space(self.meta.shape), index)
            found = self._reads_at[index] = tuple([compose(r.index, held) for r in self.reads])
        return found

    @property
    def result(self) -> SSAValue:
        return self.op.results[0]

    @cached_property
    def roots(self) -> tuple[Node, ...]:
        """The expression trees of its value."""
        return roots(self.value)

    @property
    def is_reduction(self) -> bool:
        """True for a reduction or scatter, whose result must be materialized."""
        return isinstance(self.value, Reduction | Scatter)

    @property
    def is_sink(self) -> bool:
        """True for a scatter: no element of the result is final before all are written."""
        return isinstance(self.value, Scatter)

    @property
    def is_free(self) -> bool:
        """True if the value reads no tensor (a fill or an index): each reader rematerializes it."""
        return isinstance(self.value, Fill | Position)

    @cached_property
    def computes(self) -> bool:
        """False for an op that only moves elements."""
        return self.is_reduction or any(
            isinstance(n, Apply) for root in self.roots for n in walk(root)
        )


class Equations(Struct):
    """The ops of a block: those with index maps (``units``), and for the others the reason."""

    units: dict[PirOp, Unit] = field(default_factory=dict[PirOp, Unit])
    opaque: dict[PirOp, Opaque] = field(default_factory=dict[PirOp, Opaque])
    ops: list[PirOp] = field(default_factory=list[PirOp])
    shapes: Shapes = field(default_factory=Shapes)

    def unit_of(self, value: SSAValue) -> Unit | None:
        """The unit that defines a value, if any."""
        owner = value.owner
        return self.units.get(owner) if isinstance(owner, PirOp) else None

    def is_free(self, value: SSAValue) -> bool:
        """True if a value is defined by a unit that reads no tensor."""
        unit = self.unit_of(value)
        return unit is not None and unit.is_free


UNKNOWN_SIZES: Final = Opaque(
    "what a kernel would read does not determine all of its sizes", "guard"
)


AFTER_IN_PLACE: Final = Opaque("it follows an op that writes in place", "alias")
SHARED: Final = Opaque("its storage is written later", "alias")
RENAMES: Final = Opaque("it is another name for what a kernel stores anyway")
MISMATCHED: Final = Opaque("a type is not the one that the program states")
PLACES: Final = Opaque("its elements are places that others look up: they have to be in memory")
LOOKED_UP: Final = Opaque("it is read at places from data, which are compared with its bounds")
PRESERVES_STORAGE: Final = frozenset({PURE, IO, RANDOM})


def _keeps_order(op: PirOp) -> bool:
    """True for an op that has effects for its order only, and writes no storage itself."""
    return bool(bodies(op)) or declares(op, STACK)


def writes(op: PirOp) -> bool:
    """True if an op, or one in its regions, writes storage."""
    inner = (o for o in with_nested(op) if isinstance(o, PirOp) and not _keeps_order(o))
    return any(o.definition.effects not in PRESERVES_STORAGE for o in inner)


def equations(
    block: Block,
    unknown_sizes: AbstractSet[PirOp] = frozenset(),
    storage: AliasClasses | None = None,
    mismatched_values: AbstractSet[SSAValue] = frozenset(),
) -> Equations:
    """The equations of the ops of a block, without inner blocks.

    Opaque (never fused) are ops in ``unknown_sizes``, ops that read or define a value in
    ``mismatched_values``, and, if the program writes in place, ops after the first write and ops
    whose result is written later: kernels do not preserve the order of accesses to shared storage,
    which ``storage`` describes.
    """
    has_written = False
    found = Equations()
    for order, op in enumerate(cast("Iterator[PirOp]", block.ops)):
        found.ops.append(op)
        guard = found.shapes.visit(op)
        shapes = found.shapes
        values = maps_of(op, shapes.named, shapes.inferred, shapes.numbers, shapes.sizes)
        if guard is not None and (values is UNKNOWN_SIZE or not isinstance(values, Opaque)):
            values = guard
        if op in unknown_sizes:
            values = UNKNOWN_SIZES
        if mismatched_values and not mismatched_values.isdisjoint((*op.operands, *op.results)):
            values = MISMATCHED
        if storage is not None:
            has_written = has_written or writes(op)
            if has_written and not isinstance(values, Opaque):
                values = AFTER_IN_PLACE
        if isinstance(values, Opaque):
            found.opaque[op] = values
        elif len(op.results) != 1 or len(values) != 1 or values[0] is None:
            found.opaque[op] = Opaque("it has several results")
        elif storage is not None and storage.is_written(op.results[0]):
            found.opaque[op] = SHARED
        else:
            found.units[op] = _unit(op, values[0], order, found.shapes)
    for op in [op for op in found.units if _renames(op, found)]:
        del found.units[op]
        found.opaque[op] = RENAMES
    lookup_result = {r.source for u in found.units.values() for r in u.reads if r.decides}
    for op in [op for op, u in found.units.items() if u.is_free and u.result in lookup_result]:
        del found.units[op]
        found.opaque[op] = PLACES
    for read in [r for u in found.units.values() for r in u.reads]:
        looked_up = [axis for axis, e in enumerate(read.index) if reads_of(e)]
        source = found.unit_of(read.source)
        if source is not None and not all(_is_bounded(read.source, a, found) for a in looked_up):
            del found.units[source.op]
            found.opaque[source.op] = LOOKED_UP
    return found


def _is_bounded(value: SSAValue, axis: int, found: Equations) -> bool:
    """Whether an index from data on an axis would still be compared with its bounds in a kernel.

    The comparison is a part of the index of a load, a guard or a position, and a fused broadcast
    or fill, which have none on that axis, would drop it.
    """
    stack, seen = [(value, axis)], set[tuple[SSAValue, int]]()
    while stack:
        place = stack.pop()
        unit = found.unit_of(place[0])
        if unit is None or unit.is_reduction:
            return True
        own = space(unit.meta.shape)[place[1]].iter
        if place in seen or own is None:
            continue
        seen.add(place)
        for node in (n for root in unit.roots for n in walk(root)):
            if isinstance(node, Position) and own in node.index.iters:
                return True
            if isinstance(node, Choose) and any(own in g.value.iters for g in node.guards):
                return True
        reads = [r for r in unit.reads if not r.decides]
        stack += [(r.source, a) for r in reads for a, e in enumerate(r.index) if own in e.iters]
    return False


def _renames(op: PirOp, found: Equations) -> bool:
    """Whether fusing a reshape would only store a copy of what is in memory anyway: no kernel
    reads the reshape, and its operand is materialized for other readers.
    """
    if op.name != "pd_op.reshape" or not op.results[0].uses:
        return False
    if any(use.operation in found.units for use in op.results[0].uses):
        return False
    source = op.operands[0]
    return found.unit_of(source) is None or any(
        use.operation is not op and use.operation not in found.units for use in source.uses
    )


def _unit(op: PirOp, value: Value, order: int, shapes: Shapes) -> Unit:
    tensors = tuple(tensors_of(op))
    reads: dict[tuple[SSAValue, Index, bool], Read] = {}

    def enter(source: SSAValue, index: Index, decides: bool) -> None:
        shape = cast(TensorMeta, shapes.named(source)).shape
        reads[source, index, decides] = Read(source, index, shape, decides)

    for node in (n for root in roots(value) for n in walk(root)):
        if isinstance(node, Load):
            for held in (r for e in node.index for r in reads_of(e)):
                enter(tensors[held.source], held.index, True)
            enter(tensors[node.source], node.index, False)
    for held in (r for e in value.index for r in reads_of(e)) if isinstance(value, Scatter) else ():
        enter(tensors[held.source], held.index, True)
    meta = cast(TensorMeta, shapes.named(op.results[0]))
    return Unit(op, value, tensors, meta, tuple(reads.values()), order)
