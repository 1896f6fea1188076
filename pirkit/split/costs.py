"""What it costs to keep a value, and to compute an operation again."""

from __future__ import annotations

from enum import IntEnum
from math import isqrt, prod
from typing import Final

from xdsl.ir import Attribute

from pirkit.analysis.effects import SOURCES, is_pure, is_quiet
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import Meta, TensorMeta, TokenMeta, VecMeta


class Effort(IntEnum):
    """How much work an operation is; modes recompute operations up to an effort."""

    NOTHING = 0
    """Making a list: no data moves."""
    FREE = 1
    """Constants, casts, broadcasts, views: as quick as reading the result."""
    CHEAP = 2
    """A pass over the elements, or a few."""
    DEAR = 3
    """Contractions, sorting, regions, and whatever nobody has classified."""
    NEVER = 4
    """Operations with an effect; random ones, because a second draw is another one."""


LIST: Final = "pir.combine"

_FREE_FAMILIES: Final = frozenset({"constants", "copying", "creation", "ranges", "shape"})
_FREE: Final = frozenset(
    {
        "pd_op.broadcast_tensors",
        "pd_op.meshgrid",
        "pd_op.slice",
        "pd_op.split",
        "pd_op.split_with_num",
        "pd_op.strided_slice",
        "pd_op.unbind",
        "pd_op.unstack",
        "pir.slice",
        "pir.split",
    }
)
_CHEAP_FAMILIES: Final = frozenset(
    {
        "activation",
        "affine_grid",
        "arithmetic",
        "batch_norm",
        "bitwise",
        "complexes",
        "diagonals",
        "elementwise",
        "extrema",
        "gathering",
        "indexing",
        "interp",
        "joining",
        "logic",
        "loss",
        "loss_pointwise",
        "loss_scaling",
        "lp_pool",
        "matrices",
        "mixing",
        "movement",
        "norm",
        "padding",
        "picking",
        "piecewise",
        "pool",
        "pool_index",
        "rearranging",
        "reduction",
        "rounding",
        "scan",
        "scatter",
        "selection",
        "sequence",
        "set_value",
        "softmax",
        "special_functions",
        "unary",
        "unfold",
        "unpool",
        "vector_norm",
        "vision",
    }
)


def effort_of(op: PirOp) -> Effort:
    """How much work an operation is."""
    if op.name == LIST:
        return Effort.NOTHING
    if op.regions:
        return Effort.DEAR if is_quiet(op) else Effort.NEVER
    if op.name in SOURCES or not is_pure(op):
        return Effort.NEVER
    family = op.definition.base.family
    if family in _FREE_FAMILIES or op.name in _FREE:
        return Effort.FREE
    return Effort.CHEAP if family in _CHEAP_FAMILIES else Effort.DEAR


def work_of(op: PirOp) -> int:
    """About how many element operations it takes to run the operation once."""
    effort = effort_of(op)
    made = sum(elements(r.type) for r in op.results)
    if effort <= Effort.FREE:
        return int(effort)
    if effort is Effort.CHEAP:
        return 1 + made
    read = sorted((elements(v.type) for v in op.operands), reverse=True)[:2]
    return 1 + made + isqrt(max(made, 1) * prod(max(n, 1) for n in read))


def bytes_of(type_: Attribute) -> int:
    """The memory that a value takes; an unknown dimension counts as 1."""
    return sum(_count(m) * m.dtype.np.itemsize for m in _tensors(type_))


def elements(type_: Attribute) -> int:
    """The number of elements of a value; an unknown dimension counts as 1."""
    return sum(map(_count, _tensors(type_)))


def is_token(type_: Attribute) -> bool:
    """True for what stands for a stack."""
    return isinstance(meta_of(type_), TokenMeta)


def _tensors(type_: Attribute) -> tuple[TensorMeta, ...]:
    meta: Meta = meta_of(type_)
    if isinstance(meta, VecMeta):
        return meta.items
    return (meta,) if isinstance(meta, TensorMeta) else ()


def _count(meta: TensorMeta) -> int:
    return prod(max(d, 1) if d < 0 else d for d in meta.shape)
