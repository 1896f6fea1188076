"""The partitioner: which ops become one kernel.

Ops are looked at once, in order. Each has a *level*: kernels of one level do not depend on each
other, and an op that joins the kernels of its operands stays on theirs, so that no cycle can come
about. An op joins all kernels of its operands that are on its level, or none of them: then it
starts a new one, a level higher, and a `Refusal` says why. Afterwards kernels of one level that
read the same tensors are joined too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Final

from xdsl.ir import SSAValue

from pirkit.dialect.opdef import PURE
from pirkit.dialect.operation import PirOp, describe
from pirkit.index.maps import witness
from pirkit.lowering.fusion.equations import Equations, Unit
from pirkit.lowering.fusion.refusal import Refusal
from pirkit.lowering.fusion.solvability import conflicts, recompute_cost
from pirkit.lowering.fusion.solver import Joined, Loops, solve, spread


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


DEFAULT: Final = Policy()


@dataclass(eq=False)
class Group:
    """The ops of one kernel so far."""

    level: int
    units: dict[SSAValue, Unit] = field(default_factory=dict[SSAValue, Unit])
    inputs: set[SSAValue] = field(default_factory=set[SSAValue])
    loops: Loops = field(default_factory=Loops)

    @property
    def ordered(self) -> list[Unit]:
        """The ops in the order of the program."""
        return sorted(self.units.values(), key=lambda u: u.order)


@dataclass
class Partition:
    """Groups of ops, and why ops that could have been fused were not."""

    groups: list[Group]
    of: dict[PirOp, Group]
    refusals: dict[tuple[PirOp, PirOp], Refusal]


def partition(found: Equations, policy: Policy = DEFAULT) -> Partition:
    """Divide the ops with index maps into kernels."""
    return _Partitioner(found, policy).run()


class _Partitioner:
    def __init__(self, found: Equations, policy: Policy) -> None:
        self.equations = found
        self.policy = policy
        self.level: dict[PirOp, int] = {}
        self.group: dict[PirOp, Group] = {}
        self.refusals: dict[tuple[PirOp, PirOp], Refusal] = {}
        self.last_effect = 0

    def run(self) -> Partition:
        for op in self.equations.ops:
            unit = self.equations.units.get(op)
            if unit is None:
                level = self.base(_read_by(op)) + 1
                if op.definition.effects != PURE:  # what acts on the world keeps its order
                    level = self.last_effect = max(level, self.last_effect)
                self.level[op] = level
            elif not unit.is_free:
                self.place(unit)
        groups = list(dict.fromkeys(self.group.values()))
        if self.policy.horizontal:
            groups = self.joined_by_inputs(groups)
        return Partition(groups, self.group, self.refusals)

    def base(self, values: Iterable[SSAValue]) -> int:
        """The highest level of some values."""
        return max(map(self.of, values), default=0)

    def of(self, value: SSAValue) -> int:
        owner = value.owner
        return self.level.get(owner, 0) if isinstance(owner, PirOp) else 0

    def place(self, unit: Unit) -> None:
        level = self.base(unit.tensors)
        near: dict[int, Group] = {}
        for value in unit.tensors:
            group = self.group.get(value.owner) if isinstance(value.owner, PirOp) else None
            if group is not None and group.level == level:
                near[id(group)] = group
        candidates = list(near.values())
        refusal = self.join(unit, candidates) if candidates else None
        if not candidates or refusal is not None:
            self.start(unit, level + 1 if candidates else level)
        if refusal is not None:
            for value in unit.tensors:
                if isinstance(value.owner, PirOp) and self.group.get(value.owner) in candidates:
                    self.refusals[value.owner, unit.op] = refusal

    def start(self, unit: Unit, level: int) -> None:
        group = Group(level)
        joined = solve(unit, ())
        self.enter(unit, group, joined)

    def enter(self, unit: Unit, group: Group, joined: Joined) -> None:
        group.units[unit.result] = unit
        free = self.equations.unit_of
        for value in unit.tensors:
            source = free(value)
            if value not in group.units and not (source is not None and source.is_free):
                group.inputs.add(value)
        group.loops.extents = joined.extents
        group.loops.work = joined.work
        if joined.rows is not None:
            group.loops.rows[unit.result] = joined.rows
            if joined.new:
                spread(unit, joined.rows, group.units, group.loops)
        self.group[unit.op] = group
        self.level[unit.op] = group.level

    def join(self, unit: Unit, groups: list[Group]) -> Refusal | None:
        """Put an op and groups together; or say why not, and change nothing."""
        members = groups[0].units
        if len(groups) > 1:
            members = {v: u for g in groups for v, u in g.units.items()}
        refusal = self.limits(unit, groups) or self.unsolvable(unit, members)
        if refusal is not None:
            return refusal
        joined = solve(unit, [g.loops for g in groups])
        refusal = self.serial(unit, groups, joined)
        if refusal is not None:
            return refusal
        self.enter(unit, self.merged(groups, joined), joined)
        return None

    def merged(self, groups: list[Group], joined: Joined) -> Group:
        into = max(groups, key=lambda g: len(g.units))
        for group in groups:
            if group is into:
                continue
            into.units |= group.units
            into.inputs |= group.inputs
            into.loops.rows |= group.loops.rows
            for unit in group.units.values():
                self.group[unit.op] = into
        for value, rows in into.loops.rows.items() if joined.same else ():
            into.loops.rows[value] = {joined.same.get(a, a): e for a, e in rows.items()}
        return into

    def limits(self, unit: Unit, groups: list[Group]) -> Refusal | None:
        inputs = set[SSAValue]().union(*(g.inputs for g in groups), unit.tensors)
        count = sum(len(g.units) for g in groups)
        if len(inputs) > self.policy.inputs + len(groups):
            reason = f"the kernel would read more than {self.policy.inputs} tensors"
        elif count >= self.policy.ops:
            reason = f"the kernel would be of more than {self.policy.ops} ops"
        else:
            return None
        return Refusal("limit", (_first(unit, groups), unit.op), reason)

    def unsolvable(self, unit: Unit, members: dict[SSAValue, Unit]) -> Refusal | None:
        for read in unit.reads:
            if read.decides and read.source in members:
                return Refusal(
                    "index-conflict",
                    (members[read.source].op, unit.op),
                    "its elements decide where others are read: they have to be stored first",
                )
        inside = [r for r in unit.reads if r.source in members]
        if len(inside) < 2:
            return None
        found = conflicts(unit, members)
        if found is None:
            op = members[inside[0].source].op
            return Refusal("limit", (op, unit.op), "too many derivations of indices to follow")
        if not found or recompute_cost(found) <= self.policy.recompute:
            return None
        conflict = found[0]
        point = witness(conflict.first, conflict.second) or {}
        if not point:  # equal at every point that was tried: nothing to compute twice is known
            return None
        return Refusal(
            "index-conflict",
            (conflict.unit.op, unit.op),
            f"one evaluation of `{conflict.unit.op.name}` does not serve all that read it",
            describe(conflict.unit.result),
            conflict.first,
            conflict.second,
            point,
            "compute it again where that is cheap (`fuse{recompute=N}`), or store it",
        )

    def serial(self, unit: Unit, groups: list[Group], joined: Joined) -> Refusal | None:
        turns = prod(joined.extents.values())
        had = max((g.loops.turns for g in groups if g.loops.rows), default=0)
        own = unit.meta.numel if unit.is_reduction else 0
        if turns >= min(max(had, own), self.policy.turns) or joined.work <= self.policy.little:
            return None
        if not had:
            return None
        return Refusal(
            "stage",
            (_first(unit, groups), unit.op),
            f"they have loops of only {turns} turns in common: one waits for all of the other",
            remedy="none is needed for little work; else the first is stored",
        )

    def joined_by_inputs(self, groups: list[Group]) -> list[Group]:
        """Join kernels of one level that read a tensor in common and have equal outputs' shapes."""
        first: dict[tuple[int, SSAValue, tuple[int, ...]], Group] = {}
        left: list[Group] = []
        for group in groups:
            if group.loops.rows:
                left.append(group)
                continue
            shape = max((u.meta.shape for u in group.units.values()), key=prod)
            keys = [(group.level, value, shape) for value in group.inputs]
            other = next((first[k] for k in keys if k in first), None)
            if other is None or not self.small(group, other):
                first.update(dict.fromkeys(keys, group))
                left.append(group)
                continue
            other.units |= group.units
            other.inputs |= group.inputs
            for unit in group.units.values():
                self.group[unit.op] = other
            for value in group.inputs:
                first.setdefault((group.level, value, shape), other)
        return left

    def small(self, one: Group, other: Group) -> bool:
        inputs = len(one.inputs | other.inputs) <= self.policy.inputs
        return inputs and len(one.units) + len(other.units) <= self.policy.ops


def _first(unit: Unit, groups: list[Group]) -> PirOp:
    """An operand's op that is in one of the groups."""
    for value in unit.tensors:
        for group in groups:
            if value in group.units:
                return group.units[value].op
    return unit.op


def _read_by(op: PirOp) -> list[SSAValue]:
    """What an op reads, also inside of its regions."""
    found = list(op.operands)
    for inner in op.walk():
        if inner is not op:
            found += inner.operands
    return found
