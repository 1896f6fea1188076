"""The cost of fusing a producer into readers that read its elements several times.

Several windows, as of pooling, read one element of the pooled value, and so do the elements of a
row that a value is broadcast along, and the points of a stencil: a fused producer is recomputed for
each of them. Data movement is always repeated; a computing producer is stored first if recomputing
it costs more than the policy allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import prod
from typing import Final, cast

from msgspec import Struct
from xdsl.ir import SSAValue

from pirkit.dialect.map_expr.tree import Reduction
from pirkit.dialect.operation import PirOp
from pirkit.index.extent import expected
from pirkit.lowering.fusion.index_conflicts import cost_of
from pirkit.lowering.fusion.index_equations import Equations, Unit
from pirkit.runtime.machine_costs import CONCAT_SELECT_ADDS, LAUNCH_ADDS, LOOKUP_ADDS
from pirkit.runtime.meta import TensorMeta

_OFTEN = 1.5
"""Reads per element from which windows count as overlapping; padding alone stays below."""
BROADCAST_SHARE: Final = 3
"""A value that is broadcast is stored if recomputing it costs more than the limit divided by this
number: it is then read in the order of its elements, which costs less than strided windows do."""

_NEAR: Final = 64
"""Ops before a concatenation that are searched for lookups: with a limit, fusion stays linear in
the length of a program."""


class Overlap(Struct, frozen=True):
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
    source, moves = _moved(unit.tensors[0], found)
    if source is None or not moves:
        return None
    met, results = expected(prod(unit.value.extents)), max(_size(unit), 1)
    if met * results < _OFTEN * _size(source):
        return None
    cost = (met - _size(source) // results) * sum(_cost(u) for u in _chain(source, found))
    return Overlap(source, tuple(moves), cost)


def broadcasts_of(unit: Unit, found: Equations) -> dict[SSAValue, Overlap]:
    """Operand -> the smaller value that an op reads several times: along more axes than it has, or
    by moving it to more places, as interpolation does.

    Values as small as a reduction that they depend on are left out: they are computed once in each
    row of a kernel that has the loops of the reduction. Single elements are computed before the
    loops.
    """
    if unit.is_reduction or (unit.computes and len(unit.tensors) < 2):
        return {}
    overlaps: dict[SSAValue, Overlap] = {}
    # Index tensors are stored anyway, and no kernel recomputes them.
    decide = {r.source for r in unit.reads if r.decides}
    read = [v for v in unit.tensors if v not in decide]
    joins = not unit.computes and len(read) > 1
    for operand in read:
        source, moves = _moved(operand, found)
        if source is None or (size := _size(source)) < 2:
            continue
        # A concatenation looks up the elements of all of its operands for each of its own.
        looks_up = joins and any(r.decides for u in islice(_chain(source, found), _NEAR)
                                 for r in u.reads)  # fmt: skip
        results = _elements(operand, found) if joins and not looks_up else _size(unit)
        if not looks_up and 2 * size > results:
            continue
        chain = list(_chain(source, found))
        if any((s := found.unit_of(v)) is not None and s.is_reduction and size <= 2 * _size(s)
               for u in chain for v in u.tensors):  # fmt: skip
            continue
        adds = sum(_cost(u) for u in chain) + (LOOKUP_ADDS if looks_up else 0)
        cost = adds * (results - size) // max(results, 1)
        if cost * results > LAUNCH_ADDS:
            overlaps[operand] = Overlap(source, moves, cost)
    return overlaps


def shifts_of(unit: Unit, found: Equations) -> dict[SSAValue, Overlap]:
    """Operand -> the value of which an op reads a shifted copy, where others read more of them.

    The points of a stencil are shifts of one value: each of them would compute it again. Slices
    that do not overlap compute nothing twice.
    """
    overlaps: dict[SSAValue, Overlap] = {}
    for operand in unit.tensors:
        source, moves = _moved(operand, found)
        if source is None or not moves:
            continue
        size = max(_size(source), 1)
        users = (found.units.get(cast(PirOp, u.operation)) for u in source.result.uses)
        read = sum(_size(u) for u in islice(users, _NEAR) if u is not None and _shifts(u, source))
        if read <= 2 * size:
            continue
        chain = list(islice(_chain(source, found), _NEAR))  # the cost of more of them is too much
        reads = sum(len(u.tensors) for u in chain if not u.computes)
        cost = (sum(_cost(u) for u in chain) + reads) * (read - size) // size
        if cost * size > LAUNCH_ADDS:
            overlaps[operand] = Overlap(source, moves, cost)
    return overlaps


def _shifts(unit: Unit, source: Unit) -> bool:
    """Whether an op reads a part of a value, or reads it at other positions along an axis."""
    if unit.computes or len(unit.tensors) != 1 or _size(unit) > _size(source):
        return False
    here = [e for r in unit.reads for e in r.index if not e.is_constant]
    return _size(unit) < _size(source) or any(e.iter is None for e in here)


def _moved(value: SSAValue, found: Equations) -> tuple[Unit | None, tuple[Unit, ...]]:
    """The op that computes a value's elements, or None if no kernel can recompute them, and the ops
    that move them, the first one first.
    """
    moves: list[Unit] = []
    source = found.unit_of(value)
    while source is not None and not source.computes:
        places = {r.source for r in source.reads if r.decides}
        moved = [v for v in source.tensors if v not in places]
        if len(moved) != 1:
            break
        moves.insert(0, source)
        source = found.unit_of(moved[0])
    computes = source is not None and not source.is_reduction and not source.is_free
    return (source if computes else None), tuple(moves)


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
    return cost_of(unit) + (0 if unit.computes else CONCAT_SELECT_ADDS * (len(unit.tensors) - 1))


def _size(unit: Unit) -> int:
    return expected(prod(unit.meta.shape))


def _elements(value: SSAValue, found: Equations) -> int:
    return expected(prod(cast(TensorMeta, found.shapes.named(value)).shape))
