"""The discriminator: does one evaluation of each value serve all that read it?

Where an op reads one value of the group by two derivations with different indices, the equations
have no single solution: the value has to be computed twice, or stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from xdsl.ir import SSAValue

from pirkit.index.index_maps import Index, bindings, compose, space
from pirkit.lowering.fusion.index_equations import Unit

_Point = tuple[SSAValue, Index]

VISIT_LIMIT: Final = 512
"""Pairs of value and index that are followed before a conflict is given up as too large."""


@dataclass(frozen=True, slots=True)
class Step:
    """A value on the way from a reader to what it needs, and the index at which it is needed."""

    unit: Unit
    index: Index


Derivation = tuple[Step, ...]
"""From the reader, at its own iterators, op by op to a value."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A value that is needed at two indices, and how each of them comes about."""

    unit: Unit
    first: Derivation
    second: Derivation
    instances: int


def conflicts(unit: Unit, members: Mapping[SSAValue, Unit]) -> list[Conflict] | None:
    """Values of a group that an op needs at several indices; None if there are too many to tell."""
    reached: dict[SSAValue, list[Index]] = {}
    readers: dict[_Point, _Point | None] = {}
    stack: list[tuple[_Point, _Point | None]] = [((r.source, r.index), None) for r in unit.reads]
    while stack:
        place, reader = stack.pop()
        value, index = place
        member = members.get(value)
        if member is None or member.is_reduction or place in readers:
            continue
        if len(readers) == VISIT_LIMIT:
            return None
        readers[place] = reader
        reached.setdefault(value, []).append(index)
        at = bindings(space(member.meta.shape), index)
        stack.extend(((r.source, compose(r.index, at)), place) for r in member.reads)

    def derivation(value: SSAValue, index: Index) -> Derivation:
        steps: list[Step] = []
        place: _Point | None = (value, index)
        while place is not None:
            steps.append(Step(members[place[0]], place[1]))
            place = readers[place]
        return (Step(unit, space(unit.meta.shape)), *reversed(steps))

    found: list[Conflict] = []
    for value, indices in reached.items():
        if len(indices) > 1 and members[value].computes:
            first, second = (derivation(value, index) for index in indices[:2])
            found.append(Conflict(members[value], first, second, len(indices)))
    return found


def recompute_cost(found: Iterable[Conflict]) -> int:
    """Scalar ops per element that computing again costs, in additions."""
    return sum(cost_of(c.unit) * (c.instances - 1) for c in found)


def cost_of(unit: Unit) -> int:
    """What computing an element costs, in additions."""
    if not unit.computes:
        return 0
    return unit.op.definition.base.cost
