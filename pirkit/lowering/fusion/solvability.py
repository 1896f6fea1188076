"""The discriminator: does one evaluation of each value serve all that read it?

Where an op reads one value of the group by two derivations with different indices, the equations
have no single solution: the value has to be computed twice, or stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from xdsl.ir import SSAValue

from pirkit.index.maps import Index, bindings, compose, space
from pirkit.lowering.fusion.equations import Unit

LOOKED_AT: Final = 512
"""Pairs of value and index that are followed before a conflict is given up as too large."""

EXPENSIVE: Final = frozenset(
    f"pd_op.{name}"
    for name in (
        *("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
        *("asin", "acos", "atan", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfinv"),
        *("lgamma", "gammaln", "digamma", "polygamma", "gammaincc", "i0e", "i1e", "pow"),
        *("elementwise_pow", "atan2", "nextafter"),
    )
)
"""Ops that cost about as much as ten additions."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A value that is needed at two indices."""

    unit: Unit
    first: Index
    second: Index
    instances: int


def conflicts(unit: Unit, members: Mapping[SSAValue, Unit]) -> list[Conflict] | None:
    """Values of a group that an op needs at several indices; None if there are too many to tell."""
    reached: dict[SSAValue, list[Index]] = {}
    seen: set[tuple[SSAValue, Index]] = set()
    stack: list[tuple[SSAValue, Index]] = [(r.source, r.index) for r in unit.reads]
    while stack:
        value, index = stack.pop()
        member = members.get(value)
        if member is None or member.is_reduction or (value, index) in seen:
            continue
        if len(seen) == LOOKED_AT:
            return None
        seen.add((value, index))
        reached.setdefault(value, []).append(index)
        at = bindings(space(member.meta.shape), index)
        stack.extend((r.source, compose(r.index, at)) for r in member.reads)
    found: list[Conflict] = []
    for value, indices in reached.items():
        if len(indices) > 1 and members[value].computes:
            found.append(Conflict(members[value], indices[0], indices[1], len(indices)))
    return found


def recompute_cost(found: Iterable[Conflict]) -> int:
    """Scalar ops per element that computing again costs, in additions."""
    return sum((10 if c.unit.op.name in EXPENSIVE else 1) * (c.instances - 1) for c in found)
