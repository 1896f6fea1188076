"""What windows that overlap would compute several times, if it were not stored.

Several windows read one element of a pooled value. Ops that only move elements are repeated in each
window; ops that compute are stored first, once repeating them costs more than a kernel may spend.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from pirkit.dialect.map_expr.tree import Reduction
from pirkit.index.extent import expected
from pirkit.lowering.fusion.index_conflicts import cost_of
from pirkit.lowering.fusion.index_equations import Equations, Unit

_OFTEN = 1.5
"""How often an element is met where windows overlap; padding meets nothing more."""
_JOINED = 2
"""Additions that choosing between one more tensor costs, as where some are joined."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """A value that a reduction meets several times: ``moves`` are the ops between the two.

    ``cost`` are the additions for each result that computing the value in each window takes more
    than computing it once.
    """

    value: Unit
    moves: tuple[Unit, ...]
    cost: int


def overlap_of(unit: Unit, found: Equations) -> Overlap | None:
    """What a reduction of overlapping windows reads; None for other ops, and for stored values."""
    if not isinstance(unit.value, Reduction) or len(unit.tensors) != 1:
        return None
    moves: list[Unit] = []
    source = found.unit_of(unit.tensors[0])
    while source is not None and not source.computes and len(source.tensors) == 1:
        moves.insert(0, source)
        source = found.unit_of(source.tensors[0])
    if source is None or source.is_reduction or source.is_free or not moves:
        return None
    met, results = expected(prod(unit.value.extents)), max(_size(unit), 1)
    if met * results < _OFTEN * _size(source):
        return None
    cost = (met - _size(source) // results) * sum(_cost(u) for u in _chain(source, found))
    return Overlap(source, tuple(moves), cost)


def _chain(value: Unit, found: Equations) -> Iterator[Unit]:
    """Ops that make a value element by element, but for what is the same for many elements."""
    stack, seen = [value], set[Unit]()
    while stack:
        unit = stack.pop()
        if unit in seen:
            continue
        seen.add(unit)
        yield unit
        sources = (found.unit_of(v) for v in unit.tensors)
        stack += [s for s in sources if s and not s.is_reduction and 2 * _size(s) >= _size(unit)]


def _cost(unit: Unit) -> int:
    return cost_of(unit) + (0 if unit.computes else _JOINED * (len(unit.tensors) - 1))


def _size(unit: Unit) -> int:
    return expected(prod(unit.meta.shape))
