"""The costs of saving a value (bytes) and of recomputing an operation (element operations)."""

from __future__ import annotations

from math import isqrt, prod
from typing import Final

from pirkit.analysis.effects import is_pure, is_quiet
from pirkit.dialect.kinds import KINDS, SOURCE, RecomputeCost
from pirkit.dialect.operation import PirOp, bodies, declares
from pirkit.dialect.type_sizes import elements

LIST: Final = "pir.combine"
"""The op that makes a list of tensors; it costs nothing."""


def recompute_cost_of(op: PirOp) -> RecomputeCost:
    """The cost class of recomputing an operation."""
    if op.name == LIST:
        return RecomputeCost.NOTHING
    if bodies(op):
        return RecomputeCost.EXPENSIVE if is_quiet(op) else RecomputeCost.NEVER
    if declares(op, SOURCE) or not is_pure(op):
        return RecomputeCost.NEVER
    definition = op.definition.base
    return KINDS[definition.kind] if definition.cost else RecomputeCost.FREE


def work_of(op: PirOp) -> int:
    """An estimate of the element operations of one run of an operation.

    For an op that is not element-wise, the square root of the sizes of the result and of the two
    largest operands is the number of multiply-adds of a matmul: sqrt(mn * mk * kn) = mnk.
    """
    effort = recompute_cost_of(op)
    made = sum(elements(r.type) for r in op.results)
    if effort <= RecomputeCost.FREE:
        return int(effort)
    if effort is RecomputeCost.CHEAP:
        return 1 + made
    read = sorted((elements(v.type) for v in op.operands), reverse=True)[:2]
    return 1 + made + isqrt(max(made, 1) * prod(max(n, 1) for n in read))
