"""Horizontal fusion: after partitioning, joins independent kernels that read the same tensors.

The common loops of the two kernels must correspond: two loops are one if both kernels read an
element of a shared tensor at the same iteration. A kernel without common loops can iterate in any
order, so it joins one of equal size, or adopts the loops of the other. If loops are dropped, the
same limit applies as in the partitioner: few parallel iterations are accepted only for little work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, cast

from xdsl.ir import Operation, SSAValue

from pirkit.dialect.operation import PirOp
from pirkit.lowering.fusion.groups import Group, Pair, Partition, Policy, too_large
from pirkit.lowering.fusion.loop_solver import Loops, elements, gathered, reading, solve
from pirkit.lowering.fusion.partition import sources_of

TRIED: Final = 4
"""For each tensor, with how many of the latest kernels that read it a join is tried."""


def join_neighbours(parts: Partition, policy: Policy) -> None:
    """Join kernels on one level that share an input."""
    latest: dict[tuple[int, SSAValue], deque[Group]] = {}
    for group in list(parts.groups):
        keys = [(group.level, value) for value in group.inputs]
        near = list(dict.fromkeys(g for k in keys for g in latest.get(k, ())))[:TRIED]
        host = next((g for g in near if _joined(parts, g, group, policy)), group)
        for key in keys:
            held = latest.setdefault(key, deque(maxlen=TRIED))
            if host not in held:
                held.append(host)
    parts.groups = list(dict.fromkeys(parts.of.values()))
    separated = ((p, r) for p, r in parts.refusals.items() if parts.of[p[0]] is not parts.of[p[1]])
    parts.refusals = dict(separated)


def join_pairs(parts: Partition, pairs: Iterable[Pair]) -> None:
    """Join the kernels of pairs of ops regardless of cost, unless that creates a cycle, or a kernel
    that computes its own indices.
    """
    for first, second in pairs:
        one, other = parts.of.get(first), parts.of.get(second)
        if one is None or other is None or one is other or between(parts, one, other):
            continue
        if one.computes_places_of(other) or other.computes_places_of(one):
            continue
        loops = _common(one, other) or Loops({}, {**other.loops.rows, **one.loops.rows})
        _unite(parts, one, other, loops)
    parts.groups = list(dict.fromkeys(parts.of.values()))


def between(parts: Partition, one: Group, other: Group) -> Operation | None:
    """An op outside both kernels on a dependence path between them; None if there is none."""
    return _reached(parts, one, other) or _reached(parts, other, one)


def why_not_joined(one: Group, other: Group, policy: Policy) -> tuple[str, str, str]:
    """Why two independent kernels were not joined: refusal kind, reason, and pass option."""
    inputs = {*one.inputs, *other.inputs} - {*one.units, *other.units}
    reason = too_large(len(inputs), len(one.units) + len(other.units), policy)
    if reason is not None:
        return "limit", *reason
    if {*one.inputs, *one.units}.isdisjoint((*other.inputs, *other.units)):
        return "cost", "they share nothing that one kernel would read once", ""
    if not policy.horizontal:
        return "cost", "kernels that only share inputs are not joined", "fuse{horizontal=true}"
    if one.level != other.level:
        return "cost", "one would wait for what only the other one needs", ""
    return "cost", "they share what they read, but not the loops in which they read it", ""


def _joined(parts: Partition, host: Group, group: Group, policy: Policy) -> bool:
    inputs = len({*host.inputs, *group.inputs})
    if too_large(inputs, len(host.units) + len(group.units), policy) is not None:
        return False
    if host.computes_places_of(group) or group.computes_places_of(host):
        return False
    if _loses_tiles(host, group, policy):
        return False
    if not host.loops.rows and not group.loops.rows:
        loops = Loops() if _largest(host) == _largest(group) else None
    else:
        loops = _common(host, group)
        if loops is not None and not _is_wide(loops, (host, group), policy):
            loops = None
        loops = loops or _gathering(host, group) or _gathering(group, host)
    if loops is None:
        return False
    _unite(parts, host, group, loops)
    return True


def _largest(group: Group) -> tuple[int, ...]:
    return max((u.meta.shape for u in group.units.values()), key=elements)


def _is_wide(loops: Loops, groups: tuple[Group, Group], policy: Policy) -> bool:
    before = max(g.loops.parallel_iterations for g in groups if g.loops.rows)
    return (
        loops.parallel_iterations >= min(before, policy.parallel_iterations)
        or loops.work <= policy.small_work
    )


def _unite(parts: Partition, host: Group, group: Group, loops: Loops) -> None:
    host.take(group, parts.of)
    host.loops = loops
    # a tiled nest has no reductions: their operands are recomputed instead
    if any(u.is_reduction for u in host.units.values()):
        host.tiles = {}


def _loses_tiles(host: Group, group: Group, policy: Policy) -> bool:
    """Whether joining loses tiles (kernels with a reduction have none) and would recompute more
    than the policy allows.
    """
    again = sum(cost for g in (host, group) for cost in g.tiles.values())
    reduces = any(u.is_reduction for g in (host, group) for u in g.units.values())
    return reduces and again > policy.recompute


def _common(one: Group, other: Group) -> Loops | None:
    """The loops of the joined kernel; None if the loops of one cannot serve both.

    The second kernel is solved again, with shared inputs treated as values that the first kernel
    computes at the iterations at which it reads them.
    """
    outer, guest = (one, other) if one.loops.rows else (other, one)
    seeds = {v: outer.loops.seen[v] for v in guest.inputs if v in outer.loops.seen}
    if not seeds:
        return None
    # shared inputs stand for values of the first kernel; they are removed again after solving
    rows = {**outer.loops.rows, **seeds}
    seen = {**guest.loops.seen, **outer.loops.seen}
    work = max(one.loops.work, other.loops.work)
    loops = Loops(dict(outer.loops.extents), rows, seen, work)
    for unit in guest.ordered:
        joined = solve(unit, [loops])
        if joined.new:
            return None
        loops.extents = joined.extents
        loops.rename(joined.same)
        if joined.rows is not None:
            loops.rows[unit.result] = joined.rows
    for value in seeds:
        del loops.rows[value]
    known = loops.extents.keys()
    loops.seen = {v: rows for v, rows in loops.seen.items() if rows.keys() <= known}
    return loops


def _gathering(outer: Group, guest: Group) -> Loops | None:
    """The loops of ``outer``, if the reductions of ``guest`` can accumulate over them."""
    if not outer.loops.extents or not any(u.is_reduction for u in guest.units.values()):
        return None
    seen = reading(outer.ordered, outer.loops)
    seeds = {v: seen[v] for v in guest.inputs if v in seen}
    if not seeds:
        return None
    extents = dict(outer.loops.extents)
    work = max(outer.loops.work, guest.loops.work)
    loops = Loops(dict(extents), {**outer.loops.rows, **seeds}, dict(outer.loops.seen), work)
    for unit in guest.ordered:
        joined = solve(unit, [loops])
        same = joined.extents == extents and not joined.same and not joined.new
        rows = joined.rows if same else gathered(unit, loops)
        if rows is None:
            return None
        loops.rows[unit.result] = rows
    for value in seeds:
        del loops.rows[value]
    return loops


def _reached(parts: Partition, start: Group, end: Group) -> Operation | None:
    """An op outside both groups that depends on ``start`` and on which ``end`` depends.

    Ops with effects depend on the previous op with effects.
    """
    goal = {u.op for u in start.own}
    stack: list[Operation | Group] = [end]
    seen: set[Operation | Group] = {end}
    while stack:
        item = stack.pop()
        made = item.units if isinstance(item, Group) else {}
        for op in [u.op for u in made.values()] or [cast(PirOp, item)]:
            owners = [value.owner for value in sources_of(op) if value not in made]
            for owner in (*owners, parts.effects.get(op)):
                if not isinstance(owner, Operation):
                    continue
                if owner in goal and item is end:
                    continue
                if owner in goal:
                    return op
                found = parts.of.get(owner) if isinstance(owner, PirOp) else None
                node = owner if found is None else found
                if node not in seen:
                    seen.add(node)
                    stack.append(node)
    return None
