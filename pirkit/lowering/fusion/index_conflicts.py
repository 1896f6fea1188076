"""Finds index conflicts: values that an op would need at two different indices.

If an op reaches one value of the group on two paths whose composed indices differ, one evaluation
per element is not enough: the value must be computed twice, or stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from xdsl.ir import SSAValue

from pirkit.index.index_maps import Index, bindings, compose, space
from pirkit.lowering.fusion.index_equations import Unit

_Point = tuple[SSAValue, Index]

VISIT_LIMIT: Final = 512
"""Largest number of (value, index) pairs that are followed."""


class Step(Struct, frozen=True):
    """A value on the path from a reader to a value that it needs, and the index there."""

    unit: Unit
    index: Index


Derivation = tuple[Step, ...]
"""A path from the reader, at its own iterators, op by op to a value."""


class Conflict(Struct, frozen=True):
    """A value needed at several indices (``instances``), and the derivations of two of them."""

    unit: Unit
    first: Derivation
    second: Derivation
    instances: int


def conflicts(unit: Unit, members: Mapping[SSAValue, Unit]) -> list[Conflict] | None:
    """The values of a group that an op needs at several indices; None beyond ``VISIT_LIMIT``."""
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
    """The cost of recomputing conflicting values, in additions per element."""
    return sum(cost_of(c.unit) * (c.instances - 1) for c in found)


def cost_of(unit: Unit) -> int:
    """The cost of computing one element, in additions."""
    if not unit.computes:
        return 0
    return unit.op.definition.base.cost
