"""What it costs to save a value (bytes), and to recompute an operation (element operations)."""

from __future__ import annotations

from math import isqrt, prod
from typing import Final

from xdsl.ir import Attribute

from pirkit.analysis.effects import is_pure, is_quiet
from pirkit.dialect.kinds import KINDS, SOURCE, RecomputeCost
from pirkit.dialect.operation import PirOp, bodies, declares
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import Meta, TensorMeta, TokenMeta, VecMeta

LIST: Final = "pir.combine"


def recompute_cost_of(op: PirOp) -> RecomputeCost:
    """How expensive recomputing an operation is, as a class."""
    if op.name == LIST:
        return RecomputeCost.NOTHING
    if bodies(op):
        return RecomputeCost.EXPENSIVE if is_quiet(op) else RecomputeCost.NEVER
    if declares(op, SOURCE) or not is_pure(op):
        return RecomputeCost.NEVER
    definition = op.definition.base
    return KINDS[definition.kind] if definition.cost else RecomputeCost.FREE


def work_of(op: PirOp) -> int:
    """About how many element operations running the operation once takes."""
    effort = recompute_cost_of(op)
    made = sum(elements(r.type) for r in op.results)
    if effort <= RecomputeCost.FREE:
        return int(effort)
    if effort is RecomputeCost.CHEAP:
        return 1 + made
    read = sorted((elements(v.type) for v in op.operands), reverse=True)[:2]
    return 1 + made + isqrt(max(made, 1) * prod(max(n, 1) for n in read))


def bytes_of(type_: Attribute) -> int:
    """The size of a value in bytes; an unknown dimension counts as 1."""
    return sum(_count(m) * m.dtype.np.itemsize for m in _tensors(type_))


def elements(type_: Attribute) -> int:
    """The number of elements of a value; an unknown dimension counts as 1."""
    return sum(map(_count, _tensors(type_)))


def is_token(type_: Attribute) -> bool:
    """True for the type of the tokens of a stack."""
    return isinstance(meta_of(type_), TokenMeta)


def _tensors(type_: Attribute) -> tuple[TensorMeta, ...]:
    meta: Meta = meta_of(type_)
    if isinstance(meta, VecMeta):
        return meta.items
    return (meta,) if isinstance(meta, TensorMeta) else ()


def _count(meta: TensorMeta) -> int:
    return prod(max(d, 1) if d < 0 else d for d in meta.shape)
