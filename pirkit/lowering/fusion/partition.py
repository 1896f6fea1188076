"""The partitioner: which ops become one kernel.

Ops are looked at once, in order. Each has a *level*: kernels of one level do not depend on each
other, and an op that joins the kernels of its operands stays on theirs, so that no cycle can come
about. A kernel that nobody else waits for yet rises to the level of an op that wants to join it. An
op joins all kernels of its operands that are on its level, or none of them: then it starts a new
one, a level higher, and a `Refusal` says why. Afterwards kernels that read the same tensors are
joined too (`merging.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Final, cast

from xdsl.ir import Operation, SSAValue

from pirkit.dialect.opdef import PURE
from pirkit.dialect.operation import PirOp
from pirkit.index.maps import space, witness
from pirkit.lowering.fusion.equations import Equations, Unit
from pirkit.lowering.fusion.recomputing import again
from pirkit.lowering.fusion.refusal import Refusal
from pirkit.lowering.fusion.solvability import Conflict, conflicts, recompute_cost
from pirkit.lowering.fusion.solver import Joined, Loops, elements, gathered, solve, spread

Pair = tuple[PirOp, PirOp]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a kernel may be."""

    recompute: int = 16
    """Scalar additions per element that computing values again may cost; 0 forbids it."""
    inputs: int = 64
    """Tensors that a kernel may read."""
    ops: int = 512
    """Ops of a kernel."""
    turns: int = 64
    """Turns of the common loops that keep processors busy; fewer are fine for little work."""
    little: int = 1 << 16
    """Elements that one processor reduces in no time."""
    horizontal: bool = True
    """Whether kernels that only share inputs are joined."""
    gain: bool = False
    """Whether ops and kernels that native code does not run, or that save nothing, are left out."""


DEFAULT: Final = Policy()


@dataclass(eq=False)
class Group:
    """The ops of one kernel so far."""

    level: int
    units: dict[SSAValue, Unit] = field(default_factory=dict[SSAValue, Unit])
    inputs: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    copies: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    """Values that another kernel gives, too: this one computes them again for itself."""
    loops: Loops = field(default_factory=Loops)
    is_straight: bool = True
    """Whether its ops read each other point by point: what an op needs of them, at one index."""
    ceiling: float = inf
    """The lowest level of what reads the kernel: it can rise to below that."""

    @property
    def ordered(self) -> list[Unit]:
        """The ops in the order of the program."""
        return sorted(self.units.values(), key=lambda u: u.order)

    @property
    def own(self) -> list[Unit]:
        """The ops that no other kernel is given for."""
        return [u for v, u in self.units.items() if v not in self.copies]

    def take(self, other: Group, of: dict[PirOp, Group]) -> None:
        """Take the ops of another kernel over."""
        for unit in other.own:
            of[unit.op] = self
        self.units |= other.units
        copies = (*self.copies, *other.copies)
        self.copies = {v: None for v in copies if of[self.units[v].op] is not self}
        inputs = (*self.inputs, *other.inputs)
        self.inputs = {v: None for v in inputs if v not in self.units}
        self.ceiling = min(self.ceiling, other.ceiling)


@dataclass
class Partition:
    """Groups of ops, and why ops that could have been fused were not."""

    groups: list[Group]
    of: dict[PirOp, Group]
    refusals: dict[Pair, Refusal]
    effects: Mapping[PirOp, PirOp]
    """Of each op that acts on the world, or draws numbers, the one before it: their order stays."""

    @cached_property
    def read_again(self) -> frozenset[SSAValue]:
        """What kernels read, once all are made, that compute values of other kernels again."""
        return frozenset(v for g in self.groups if g.copies for v in g.inputs)


def partition(
    found: Equations, policy: Policy = DEFAULT, together: Iterable[Pair] = ()
) -> Partition:
    """Divide the ops with index maps into kernels.

    Pairs of ops that are to be ``together`` are put into one kernel whatever it costs, where that
    is possible at all.
    """
    return _Partitioner(found, policy, frozenset(together)).run()


class _Partitioner:
    def __init__(self, found: Equations, policy: Policy, together: frozenset[Pair]) -> None:
        self.equations = found
        self.policy = policy
        self.together = together
        self.level: dict[Operation, int] = {}
        self.group: dict[PirOp, Group] = {}
        self.refusals: dict[Pair, Refusal] = {}
        self.last_effect = 0

    def run(self) -> Partition:
        for op in self.equations.ops:
            unit = self.equations.units.get(op)
            if unit is not None:
                if not unit.is_free:
                    self.place(unit)
            elif op.name != "pir.combine":
                values = list(sources_of(op))
                level = self.base(values) + 1
                if op.definition.effects != PURE:  # what acts on the world keeps its order
                    level = self.last_effect = max(level, self.last_effect)
                self.level[op] = level
                self.is_read(values, level)
        groups = list(dict.fromkeys(self.group.values()))
        acting = [op for op in self.equations.ops if op.definition.effects != PURE]
        effects = dict(zip(acting[1:], acting, strict=False))
        return Partition(groups, self.group, self.refusals, effects)

    def base(self, values: Iterable[SSAValue]) -> int:
        """The highest level of some values."""
        return max(map(self.of, values), default=0)

    def of(self, value: SSAValue) -> int:
        group = self.at(value)
        if group is not None:
            return group.level
        return self.level.get(value.owner, 0) if isinstance(value.owner, PirOp) else 0

    def at(self, value: SSAValue) -> Group | None:
        """The kernel that makes a value."""
        return self.group.get(value.owner) if isinstance(value.owner, PirOp) else None

    def is_read(self, values: Iterable[SSAValue], level: int, by: Group | None = None) -> None:
        """Note that something on a level reads values."""
        for value in values:
            group = self.at(value)
            if group is not None and group is not by:
                group.ceiling = min(group.ceiling, level)

    def place(self, unit: Unit) -> None:
        level = self.base(unit.tensors)
        groups = dict.fromkeys(g for v in unit.tensors if (g := self.at(v)) is not None)
        same = [g for g in groups if g.level == level]
        near = [g for g in groups if g.level == level or g.ceiling > level]
        refusal = self.join(unit, near, level) if near else None
        is_in = bool(near) and refusal is None
        if not is_in and same and same != near:
            is_in = self.join(unit, same, level) is None
        if not is_in:
            self.start(unit, refusal)
        own = self.group[unit.op]
        if is_in:
            outside = [v for v in unit.tensors if self.at(v) is not own]
            self.copy(again(unit, outside, own.inputs, self.equations, self.policy.recompute), own)
            self.is_read(own.inputs, own.level, by=own)
        self.is_read(unit.tensors, own.level, by=own)
        for value in unit.tensors if refusal is not None else ():
            if self.at(value) in near and self.at(value) is not own:
                self.refusals[cast(PirOp, value.owner), unit.op] = cast(Refusal, refusal)

    def start(self, unit: Unit, refusal: Refusal | None) -> None:
        """Begin a kernel with an op, and with what it had better compute again."""
        group = Group(0)
        if refusal is None or refusal.kind == "stage":
            most = self.policy.recompute
            self.copy(again(unit, unit.tensors, {}, self.equations, most), group)
        reads = [v for v in (*group.inputs, *unit.tensors) if v not in group.units]
        group.level = max((self.of(v) + (self.at(v) is not None) for v in reads), default=0)
        self.is_read(group.inputs, group.level, by=group)
        self.enter(unit, group, solve(unit, ()))

    def copy(self, units: Iterable[Unit], group: Group) -> None:
        """Let a kernel compute what others compute, too."""
        for unit in units:
            if unit.result not in group.units:
                group.units[unit.result] = unit
                group.copies[unit.result] = None
                group.is_straight = False
                group.inputs.pop(unit.result, None)
                self.reads(unit, group)

    def reads(self, unit: Unit, group: Group) -> None:
        """Note what an op of a kernel reads from outside."""
        for value in unit.tensors:
            source = self.equations.unit_of(value)
            if value not in group.units and not (source is not None and source.is_free):
                group.inputs[value] = None

    def enter(self, unit: Unit, group: Group, joined: Joined) -> None:
        group.units[unit.result] = unit
        self.reads(unit, group)
        group.loops.extents = joined.extents
        group.loops.work = joined.work
        if joined.rows is not None:
            group.loops.rows[unit.result] = joined.rows
            if joined.new:
                spread(unit, joined.rows, group.units, group.loops)
        self.group[unit.op] = group

    def join(self, unit: Unit, groups: list[Group], level: int) -> Refusal | None:
        """Put an op and groups together; or say why not, and change nothing."""
        members = groups[0].units
        if len(groups) > 1:
            members = {v: u for g in groups for v, u in g.units.items()}
        joined: Joined | None = None
        if not any((members[v].op, unit.op) in self.together for v in unit.tensors if v in members):
            refusal = self.limits(unit, groups) or self.unsolvable(unit, groups, members)
            if refusal is not None:
                return refusal
            joined = solve(unit, [g.loops for g in groups], members)
            refusal = self.serial(unit, groups, joined)
            if refusal is not None:
                joined = _by_turns(unit, groups, joined)
            if joined is None:
                return refusal
        if any(r.decides and r.source in members for r in unit.reads):
            return self.waits_for_indices(unit, members)
        sink = next((members[v] for v in unit.tensors if v in members and members[v].is_sink), None)
        if sink is not None:
            reason = "it writes where the data say: what reads it waits until all is written"
            return Refusal("stage", (sink.op, unit.op), reason)
        joined = joined or solve(unit, [g.loops for g in groups], members)
        group = self.merged(groups, joined, level)
        group.is_straight = all(g.is_straight for g in groups) and _reads_straight(unit, members)
        self.enter(unit, group, joined)
        return None

    def merged(self, groups: list[Group], joined: Joined, level: int) -> Group:
        into = max(groups, key=lambda g: len(g.units))
        into.level = level
        for group in groups:
            if group is into:
                continue
            into.take(group, self.group)
            into.loops.rows |= group.loops.rows
            into.loops.seen = group.loops.seen | into.loops.seen
        into.loops.rename(joined.same)
        return into

    def limits(self, unit: Unit, groups: list[Group]) -> Refusal | None:
        held = [*(v for g in groups for v in g.inputs), *unit.tensors]
        inputs = {v for v in held if not any(v in g.units for g in groups)}
        count = 1 + sum(len(g.units) for g in groups)
        told = too_large(len(inputs), count, self.policy)
        if told is None:
            return None
        return Refusal("limit", (_first(unit, groups), unit.op), told[0], remedy=told[1])

    def waits_for_indices(self, unit: Unit, members: dict[SSAValue, Unit]) -> Refusal:
        decides = next(r.source for r in unit.reads if r.decides and r.source in members)
        reason = "its elements decide where others are read: they have to be stored first"
        return Refusal("stage", (members[decides].op, unit.op), reason)

    def unsolvable(
        self, unit: Unit, groups: list[Group], members: dict[SSAValue, Unit]
    ) -> Refusal | None:
        inside = [r for r in unit.reads if r.source in members]
        at = {r.index for r in inside if not members[r.source].is_reduction}
        if len(inside) < 2 or (len(at) < 2 and all(g.is_straight for g in groups)):
            return None
        found = conflicts(unit, members)
        if found is None:
            op = members[inside[0].source].op
            return Refusal("limit", (op, unit.op), "too many derivations of indices to follow")
        cost = recompute_cost(found)
        if cost <= self.policy.recompute:
            return None
        remedy = f"fuse{{recompute={cost}}}"
        for conflict in found:
            if (refusal := self.conflict(unit, conflict, remedy)) is not None:
                return refusal
        reason = f"computing again would cost {cost} additions per element"
        return Refusal("cost", (found[0].unit.op, unit.op), reason, remedy=remedy)

    def conflict(self, unit: Unit, found: Conflict, remedy: str) -> Refusal | None:
        """The refusal of a conflict; None if no point is found that shows it."""
        point = witness(found.first[-1].index, found.second[-1].index)
        if point is None:
            return None
        reason = f"one evaluation of `{found.unit.op.name}` does not serve all that read it"
        ops = (found.unit.op, unit.op)
        tensor = found.unit.result
        return Refusal(
            "index-conflict", ops, reason, tensor, found.first, found.second, point, remedy
        )

    def serial(self, unit: Unit, groups: list[Group], joined: Joined) -> Refusal | None:
        turns = elements(joined.extents.values())
        had = max((g.loops.turns for g in groups if g.loops.rows), default=0)
        own = elements(unit.meta.shape) if unit.is_reduction else 0
        if turns >= min(max(had, own), self.policy.turns) or joined.work <= self.policy.little:
            return None
        if not had:
            return None
        common = f"loops of only {turns} turns" if turns > 1 else "no loops"
        reason = f"they have {common} in common: one waits for all of the other"
        ops = (_first(unit, groups), unit.op)
        return Refusal("stage", ops, reason, remedy=f"fuse{{turns={turns}}}")


def _reads_straight(unit: Unit, members: Mapping[SSAValue, Unit]) -> bool:
    """True if an op reads members point by point; what was reduced is stored anyway."""
    if unit.is_reduction:
        return True
    here = space(unit.meta.shape)
    inside = [r for r in unit.reads if r.source in members]
    return all(r.index == here or members[r.source].is_reduction for r in inside)


def _by_turns(unit: Unit, groups: list[Group], joined: Joined) -> Joined | None:
    """How a reduction joins that is put together while the common loops turn, if it can."""
    held = [g.loops for g in groups if g.loops.rows]
    rows = gathered(unit, held[0]) if len(held) == 1 else None
    if rows is None:
        return None
    return Joined(rows, {}, dict(held[0].extents), False, joined.work)


def _first(unit: Unit, groups: list[Group]) -> PirOp:
    """An operand's op that is in one of the groups."""
    found = (g.units[v].op for v in unit.tensors for g in groups if v in g.units)
    return next(found, unit.op)


def too_large(inputs: int, ops: int, policy: Policy) -> tuple[str, str] | None:
    """Why a kernel of that size is not made, and the option that allows it."""
    if inputs > policy.inputs:
        reason = f"the kernel would read more than {policy.inputs} tensors"
        return reason, f"fuse{{inputs={inputs}}}"
    if ops > policy.ops:
        return f"the kernel would be of more than {policy.ops} ops", f"fuse{{ops={ops}}}"
    return None


def sources_of(op: Operation) -> Iterator[SSAValue]:
    """What an op reads, also inside of its regions; of a list, its elements."""
    for inner in op.walk():
        for value in inner.operands:
            owner = value.owner
            if isinstance(owner, Operation) and owner.name == "pir.combine":
                yield from owner.operands
            else:
                yield value
