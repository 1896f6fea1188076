"""Partitions the ops of a block into kernels, greedily and in one pass over the block.

Each kernel has a *level*, which is larger than that of every kernel that it reads: kernels on one
level are independent, so joining them cannot create a cycle. An op joins the kernels of its
operands on the highest level (a kernel below may be raised if its readers allow), all of them or
none. If it cannot, it starts a new kernel one level higher, and a `Refusal` records why. Afterwards
kernels that read the same tensors are joined (`horizontal.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from msgspec import Struct
from xdsl.ir import Operation, SSAValue

from pirkit.dialect.opdef import PURE
from pirkit.dialect.operation import PirOp, with_nested
from pirkit.index.index_maps import space, witness
from pirkit.lowering.fusion.groups import DEFAULT, Group, Pair, Partition, Policy, too_large
from pirkit.lowering.fusion.index_conflicts import Conflict, conflicts, recompute_cost
from pirkit.lowering.fusion.index_equations import Equations, Unit
from pirkit.lowering.fusion.loop_solver import JoinedLoops, elements, gathered, propagate, solve
from pirkit.lowering.fusion.materialize import Choice, choose
from pirkit.lowering.fusion.overlapping import (
    BROADCAST_SHARE,
    Overlap,
    broadcasts_of,
    overlap_of,
    shifts_of,
)
from pirkit.lowering.fusion.recompute import again
from pirkit.lowering.fusion.refusal import Refusal
from pirkit.lowering.fusion.split_axes import splits_axes
from pirkit.lowering.fusion.turned_rows import turns_rows
from pirkit.lowering.fusion.uses import Reader


def partition(found: Equations, policy: Policy = DEFAULT, forced: Iterable[Pair] = ()) -> Partition:
    """Partition the ops with index maps into kernels.

    Pairs in ``forced`` are fused regardless of cost, if that is possible at all.
    """
    return _Partitioner(found, policy, frozenset(forced)).run()


class _Materialized(Struct, frozen=True):
    """The tiles of a kernel after an op has joined it, and the choice made for that op."""

    tiles: dict[SSAValue, int]
    choice: Choice | None = None


class _Partitioner:
    def __init__(self, found: Equations, policy: Policy, forced: frozenset[Pair]) -> None:
        self.equations = found
        self.policy = policy
        self.forced = forced
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
                if op.definition.effects != PURE:  # ops with effects keep their order
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
        free = self.equations.unit_of(value)
        if free is not None and free.is_free:  # kernels recompute it from its operands
            return max((self.of(v) + (self.at(v) is not None) for v in free.tensors), default=0)
        return self.level.get(value.owner, 0) if isinstance(value.owner, PirOp) else 0

    def at(self, value: SSAValue) -> Group | None:
        """The kernel that computes a value."""
        return self.group.get(value.owner) if isinstance(value.owner, PirOp) else None

    def is_read(self, values: Iterable[SSAValue], level: int, by: Group | None = None) -> None:
        """Record that values are read on a level: their kernels must stay below it."""
        for value in values:
            group = self.at(value)
            if group is not None and group is not by:
                group.ceiling = min(group.ceiling, level)
            free = self.equations.unit_of(value) if group is None else None
            if free is not None and free.is_free:
                self.is_read(free.tensors, level, by)

    def place(self, unit: Unit) -> None:
        """Let an op join the kernels of its operands, or start a new one, and note why."""
        broadcasts = self.broadcasts(unit)
        moves = [u for o in broadcasts.values() for u in o.moves]
        stored = {self.at(o.value.result) for o in broadcasts.values()}
        # indices that the recomputed moves read must be complete before, too
        stored |= {self.at(r.source) for u in moves for r in u.reads if r.decides}
        level = max(
            self.base(v for v in unit.tensors if v not in broadcasts),
            self.base(v for u in moves for v in u.tensors if v not in {m.result for m in moves}),
            max((g.level + 1 for g in stored if g is not None), default=0),
        )
        groups = dict.fromkeys(g for v in unit.tensors if (g := self.at(v)) is not None)
        groups = {g: None for g in groups if g not in stored}
        same = [g for g in groups if g.level == level]
        near = [g for g in groups if g.level == level or g.ceiling > level]
        overlap = self.overlap(unit)
        refusal = self.join(unit, near, level) if near and overlap is None else None
        is_in = bool(near) and refusal is None and overlap is None
        # if raising lower kernels is not possible, those on the op's own level may still join
        if not is_in and same and same != near and overlap is None:
            is_in = self.join(unit, same, level) is None
        if overlap is not None:
            refusal = _overlaps(unit, overlap)
        if not is_in:
            self.start(unit, refusal, overlap, broadcasts)
        own = self.group[unit.op]
        for operand, broadcast in broadcasts.items():
            self.copy(broadcast.moves, own)
            self.is_read([broadcast.value.result], own.level, by=own)
            origin = cast(PirOp, operand.owner)
            if origin not in self.group:  # each reader recomputes it
                origin = broadcast.value.op
            if origin in self.group:
                self.refusals[origin, unit.op] = _broadcast(unit, broadcast)
        if is_in:
            outside = [v for v in unit.tensors if self.at(v) is not own and v not in broadcasts]
            self.copy(
                again(unit, outside, own.inputs, self.equations, self.policy.recompute, own), own
            )
            self.is_read(own.inputs, own.level, by=own)
        self.is_read(unit.tensors, own.level, by=own)
        for value in unit.tensors if refusal is not None else ():
            if self.at(value) in near and self.at(value) is not own:
                self.refusals[cast(PirOp, value.owner), unit.op] = cast(Refusal, refusal)

    def overlap(self, unit: Unit) -> Overlap | None:
        """The value that overlapping windows would recompute beyond the policy's limit, if any."""
        found = overlap_of(unit, self.equations)
        if found is None or found.cost <= self.policy.recompute:
            return None
        chain = (*found.moves, found.value)
        return None if any((u.op, unit.op) in self.forced for u in chain) else found

    def broadcasts(self, unit: Unit) -> dict[SSAValue, Overlap]:
        """Operand -> the value to store first, as recomputing it for each reader costs too much."""
        most = self.policy.recompute
        several = [
            (o, s, most // BROADCAST_SHARE) for o, s in broadcasts_of(unit, self.equations).items()
        ]
        several += [(o, s, most) for o, s in shifts_of(unit, self.equations).items()]
        return {
            operand: found
            for operand, found, limit in several
            if found.cost > limit
            and self.at(found.value.result) is not None
            and not any((u.op, unit.op) in self.forced for u in (*found.moves, found.value))
        }

    def start(
        self,
        unit: Unit,
        refusal: Refusal | None,
        overlap: Overlap | None,
        broadcasts: Mapping[SSAValue, Overlap],
    ) -> None:
        """Start a kernel with an op and the producers that it is cheaper to recompute."""
        group = Group()
        for broadcast in broadcasts.values():
            self.copy(broadcast.moves, group)
        if overlap is not None:
            self.copy(overlap.moves, group)
        elif refusal is None or refusal.kind == "stage":
            most = self.policy.recompute
            others = [v for v in unit.tensors if v not in broadcasts]
            self.copy(again(unit, others, {}, self.equations, most, group), group)
        reads = [v for v in (*group.inputs, *unit.tensors) if v not in group.units]
        group.level = max((self.of(v) + (self.at(v) is not None) for v in reads), default=0)
        self.is_read(group.inputs, group.level, by=group)
        self.enter(unit, group, solve(unit, ()))

    def copy(self, units: Iterable[Unit], group: Group) -> None:
        """Add ops of other kernels to a group, which recomputes them."""
        for unit in units:
            if unit.result not in group.units:
                group.units[unit.result] = unit
                group.copies[unit.result] = None
                group.is_straight = False
                group.inputs.pop(unit.result, None)
                self.reads(unit, group)

    def reads(self, unit: Unit, group: Group) -> None:
        """Record the inputs of a group that an op adds."""
        group.places.update(r.source for r in unit.reads if r.decides)
        for value in unit.tensors:
            source = self.equations.unit_of(value)
            if value not in group.units and not (source is not None and source.is_free):
                group.inputs[value] = None

    def enter(self, unit: Unit, group: Group, joined: JoinedLoops) -> None:
        """Add an op to a group, which gets the loops that were solved for it."""
        group.units[unit.result] = unit
        self.reads(unit, group)
        group.loops.extents = joined.extents
        group.loops.work = joined.work
        if joined.rows is not None:
            group.loops.rows[unit.result] = joined.rows
            if joined.new:
                propagate(unit, joined.rows, group.units, group.loops)
        self.group[unit.op] = group

    def join(self, unit: Unit, groups: list[Group], level: int) -> Refusal | None:
        """Join an op with groups; if that is not possible, change nothing and return a refusal."""
        members = groups[0].units
        if len(groups) > 1:
            members = {v: u for g in groups for v, u in g.units.items()}
        # No option allows this: values that are indices must be complete before any is looked up.
        places = {r.source for r in unit.reads if r.decides}
        if len(groups) > 1:
            places.update(*(g.places for g in groups))
        decides = next((members[v] for v in places if v in members), None)
        if decides is not None:
            reason = "its elements decide where others are read: they have to be stored first"
            return Refusal("stage", (decides.op, unit.op), reason)
        sink = next((members[v] for v in unit.tensors if v in members and members[v].is_sink), None)
        if sink is not None:
            reason = "it writes at data-dependent indices: what reads it waits until all is written"
            return Refusal("stage", (sink.op, unit.op), reason)
        joined: JoinedLoops | None = None
        materialized: _Materialized | None = None
        if not any((members[v].op, unit.op) in self.forced for v in unit.tensors if v in members):
            refusal = self.limits(unit, groups)
            if refusal is None:
                found = self.materialized(unit, groups, members)
                refusal, materialized = (
                    (None, found) if isinstance(found, _Materialized) else (found, None)
                )
            for refuses in (splits_axes, turns_rows):
                refusal = refusal or refuses(
                    unit, members, self.equations.is_free, self.policy.recompute
                )
            if refusal is not None:
                return refusal
            joined = solve(unit, [g.loops for g in groups], members)
            refusal = self.serial(unit, groups, joined)
            if refusal is not None:
                joined = _serialized(unit, groups, joined)
            if joined is None:
                return refusal
        joined = joined or solve(unit, [g.loops for g in groups], members)
        group = self.merged(groups, joined, level)
        group.tiles = {} if materialized is None else materialized.tiles
        group.choices += (
            [] if materialized is None or materialized.choice is None else [materialized.choice]
        )
        group.is_straight = all(g.is_straight for g in groups) and _reads_straight(unit, members)
        self.enter(unit, group, joined)
        return None

    def merged(self, groups: list[Group], joined: JoinedLoops, level: int) -> Group:
        """One group on a level with all ops of some groups, with their loops under common names."""
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
        """The refusal of an op with which the kernel would exceed a limit of the policy."""
        held = [*(v for g in groups for v in g.inputs), *unit.tensors]
        inputs = {v for v in held if not any(v in g.units for g in groups)}
        count = 1 + sum(len(g.units) for g in groups)
        limit = too_large(len(inputs), count, self.policy)
        if limit is None:
            return None
        return Refusal("limit", (_first(unit, groups), unit.op), limit[0], remedy=limit[1])

    def materialized(
        self, unit: Unit, groups: list[Group], members: dict[SSAValue, Unit]
    ) -> _Materialized | Refusal:
        """How the kernel provides members that an op needs at several indices; or a refusal."""
        tiled = {v: cost for g in groups for v, cost in g.tiles.items()}
        inside = [r for r in unit.reads if r.source in members]
        at = {r.index for r in inside if not members[r.source].is_reduction}
        is_straight = all(g.is_straight for g in groups)
        if not tiled and (len(inside) < 2 or (len(at) < 2 and is_straight)):
            return _Materialized({})
        reader = Reader(unit, members, tiled, self.equations.is_free)
        needs = reader.needs()
        if tiled and needs is not None and not reader.reads_tiles_directly(needs):
            return self.without_tiles(unit, members, tiled)
        if needs is None:
            op = members[inside[0].source].op
            return Refusal("limit", (op, unit.op), "too many derivations of indices to follow")
        again = reader.additions(needs)
        if not again:
            return _Materialized(tiled)
        choice = choose(reader, needs, self.policy.recompute, self.policy.tile)
        if choice.way == "cut":
            return self.unsolvable(unit, members, tiled, choice)
        if choice.way == "tile":
            first, *others = [u.result for u in choice.values]
            tiled |= {first: again, **dict.fromkeys(others, 0)}
        return _Materialized(tiled, choice)

    def without_tiles(
        self, unit: Unit, members: dict[SSAValue, Unit], tiled: dict[SSAValue, int]
    ) -> _Materialized | Refusal:
        """Recompute all tiled values, as the joining op cannot read tiles; a refusal if that costs
        more than the policy allows.
        """
        reader = Reader(unit, members, (), self.equations.is_free)
        needs = reader.needs()
        cost = max(sum(tiled.values()), 0 if needs is None else reader.additions(needs))
        if needs is not None and cost <= self.policy.recompute:
            return _Materialized({})
        source = members[next(iter(tiled))]
        reason = f"computing again what is held in tiles would cost {cost} additions per element"
        return Refusal("cost", (source.op, unit.op), reason, remedy=f"fuse{{recompute={cost}}}")

    def unsolvable(
        self,
        unit: Unit,
        members: dict[SSAValue, Unit],
        tiled: dict[SSAValue, int],
        choice: Choice,
    ) -> Refusal:
        """The refusal of an op whose operands would have to be computed several times."""
        found = conflicts(unit, {v: u for v, u in members.items() if v not in tiled})
        ops = (choice.values[0].op, unit.op)
        if found is None:
            return Refusal("limit", ops, "too many derivations of indices to follow")
        remedy = f"fuse{{recompute={recompute_cost(found)}}}"
        for conflict in found:
            if (refusal := self.conflict(unit, conflict, remedy, choice)) is not None:
                return refusal
        reason = "one evaluation of a value does not serve all that read it"
        return Refusal("cost", ops, reason, remedy=remedy, costs=choice.costs)

    def conflict(
        self, unit: Unit, found: Conflict, remedy: str, choice: Choice
    ) -> Refusal | None:  # fmt: skip
        """The refusal of an index conflict; None if no witness of it is found."""
        point = witness(found.first[-1].index, found.second[-1].index)
        if point is None:
            return None
        reason = f"one evaluation of `{found.unit.op.name}` does not serve all that read it"
        ops = (found.unit.op, unit.op)
        tensor = found.unit.result
        paths = (found.first, found.second)
        return Refusal(
            "index-conflict", ops, reason, tensor, *paths, point, remedy, choice.costs
        )  # fmt: skip

    def serial(self, unit: Unit, groups: list[Group], joined: JoinedLoops) -> Refusal | None:
        """The refusal of an op that would leave too few iterations of common loops for threads."""
        parallel_iterations = elements(joined.extents.values())
        before = max((g.loops.parallel_iterations for g in groups if g.loops.rows), default=0)
        own = elements(unit.meta.shape) if unit.is_reduction else 0
        if (
            parallel_iterations >= min(max(before, own), self.policy.parallel_iterations)
            or joined.work <= self.policy.small_work
        ):
            return None
        if not before:
            return None
        common = (
            f"loops of only {parallel_iterations} iterations"
            if parallel_iterations > 1
            else "no loops"
        )
        reason = f"they have {common} in common: one waits for all of the other"
        ops = (_first(unit, groups), unit.op)
        return Refusal(
            "stage", ops, reason, remedy=f"fuse{{parallel-iterations={parallel_iterations}}}"
        )


def _reads_straight(unit: Unit, members: Mapping[SSAValue, Unit]) -> bool:
    """True if an op reads members only elementwise, or as materialized reductions."""
    if unit.is_reduction:
        return True
    here = space(unit.meta.shape)
    inside = [r for r in unit.reads if r.source in members]
    return all(r.index == here or members[r.source].is_reduction for r in inside)


def _serialized(unit: Unit, groups: list[Group], joined: JoinedLoops) -> JoinedLoops | None:
    """The loops after joining a reduction that accumulates over them; None if it cannot."""
    held = [g.loops for g in groups if g.loops.rows]
    rows = gathered(unit, held[0]) if len(held) == 1 else None
    if rows is None:
        return None
    return JoinedLoops(rows, {}, dict(held[0].extents), False, joined.work)


def _overlaps(unit: Unit, found: Overlap) -> Refusal:
    reason = f"windows overlap: each would compute again what costs {found.cost} additions"
    remedy = f"fuse{{recompute={found.cost}}}"
    return Refusal("cost", (found.value.op, unit.op), reason, remedy=remedy)


def _broadcast(unit: Unit, found: Overlap) -> Refusal:
    reason = f"its elements are read several times: each would compute again {found.cost} additions"
    remedy = f"fuse{{recompute={found.cost * BROADCAST_SHARE}}}"
    return Refusal("cost", (found.value.op, unit.op), reason, remedy=remedy)


def _first(unit: Unit, groups: list[Group]) -> PirOp:
    """The first op that defines an operand in one of the groups; else the op itself."""
    found = (g.units[v].op for v in unit.tensors for g in groups if v in g.units)
    return next(found, unit.op)


def sources_of(op: Operation) -> Iterator[SSAValue]:
    """The operands of an op and of ops in its regions; a list stands for its elements."""
    for inner in with_nested(op):
        for value in inner.operands:
            owner = value.owner
            if isinstance(owner, Operation) and owner.name == "pir.combine":
                yield from owner.operands
            else:
                yield value
