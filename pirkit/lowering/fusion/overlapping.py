"""The cost of fusing a producer into overlapping windows, as of pooling.

Several windows read one element of the pooled value, so a fused producer is recomputed in each of
them. Data movement is always repeated; a computing producer is stored first if recomputing it costs
more than the policy allows.
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
"""Reads per element from which windows count as overlapping; padding alone stays below."""
_JOINED = 2
"""Cost, in additions, of a select for each further operand of a `concat`."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """A value that a reduction over windows reads several times, through the ops ``moves``.

    ``cost`` is the cost of recomputing it in each window instead of once, in additions per result.
    """

    value: Unit
    moves: tuple[Unit, ...]
    cost: int


def overlap_of(unit: Unit, found: Equations) -> Overlap | None:
    """The overlap of a windowed reduction; None for other ops, and for materialized operands."""
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
    """The ops that compute a value, without operands that are broadcast (much smaller)."""
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
