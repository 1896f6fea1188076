"""Which values depend on a variable row by row: row i of the value on row i of the variable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from xdsl.ir import Block, SSAValue

from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta


@dataclass(frozen=True)
class Mixed:
    """Rows are mixed, or there is more than one number in a row of the variable."""

    reason: str
    op: PirOp | None = None


def depends_by_rows(root: SSAValue, variable: SSAValue) -> Mixed | None:
    """None if row i of ``root`` depends on the one number in row i of ``variable`` only.

    Rows are numbered by the first axis. A variable without axes has one row, and so does any value
    that depends on it.
    """
    held = meta_of(variable.type)
    assert isinstance(held, TensorMeta)
    if held.numel == 1:
        return None
    if any(size != 1 for size in held.shape[1:]):
        return Mixed(f"a row of the variable, a {held}, has more than one number")
    block = variable.owner.parent if isinstance(variable.owner, PirOp) else variable.owner
    active = {variable}
    for op in cast(Block, block).ops:
        pir = cast(PirOp, op)
        sources = [v for v in pir.operands if v in active]
        if not sources:
            continue
        if pir.name != "pir.gradient" and not _keeps_rows(pir, sources, held.shape[0]):
            if _leads_to(pir, root):
                return Mixed(f"`{pir.name}` mixes rows", pir)
            continue
        active.update(pir.results)
    if root not in active:
        return Mixed("the value does not depend on the variable row by row")
    return None


def _leads_to(op: PirOp, root: SSAValue) -> bool:
    """True if the root is computed from the op."""
    pending, seen = [root], set[SSAValue]()
    results = set(op.results)
    while pending:
        value = pending.pop()
        if value in results:
            return True
        if value in seen or not isinstance(value.owner, PirOp):
            continue
        seen.add(value)
        pending += value.owner.operands
    return False


def _shape(value: SSAValue) -> tuple[int, ...]:
    meta = meta_of(value.type)
    return meta.shape if isinstance(meta, TensorMeta) else ()


def _keeps_rows(op: PirOp, sources: list[SSAValue], rows: int) -> bool:
    meta = meta_of(op.results[0].type) if op.results else None
    if isinstance(meta, VecMeta):
        return all(m.rank > 0 and m.shape[0] == rows for m in meta.items) and (
            op.name == "pir.combine" or _rule(op)(op)
        )
    if not isinstance(meta, TensorMeta) or not meta.rank or meta.shape[0] != rows:
        return False
    if op.name in ("pir.slice", "pir.split"):
        return True
    short = op.name.removeprefix("pd_op.")
    if short in ELEMENTWISE:
        return all(len(_shape(v)) == meta.rank and _shape(v)[0] == rows for v in sources)
    return _rule(op)(op)


def _rule(op: PirOp) -> Callable[[PirOp], bool]:
    return _RULES.get(op.name.removeprefix("pd_op."), lambda op: False)


ELEMENTWISE: Final = frozenset(
    """
    add subtract multiply divide elementwise_pow maximum minimum atan2 pow scale exp expm1 log log1p
    log2 log10 sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh sigmoid sqrt rsqrt square
    reciprocal erf abs sign relu relu6 leaky_relu elu celu selu gelu silu swish mish softplus
    softsign hardswish hardsigmoid hardtanh logsigmoid tanh_shrink stanh cast assign where clip
    """.split()
)


def _axes(op: PirOp) -> tuple[int, ...]:
    rank = len(_shape(op.operands[0]))
    given: Any = op.attribute("axis")
    listed: tuple[int, ...] = (given,) if isinstance(given, int) else tuple(given or range(rank))
    return tuple([a % rank for a in listed]) if rank else ()


def _not_over_rows(op: PirOp) -> bool:
    return 0 not in _axes(op)


def _matmul(op: PirOp) -> bool:
    """The rows of the left factor, times a matrix that does not depend on the variable."""
    x, y = op.operands[:2]
    left = len(_shape(x)) >= 2 and not op.attribute("transpose_x")
    return left and (len(_shape(y)) == 2 or (len(_shape(x)) > 2 and len(_shape(y)) <= 2))


def _reshape(op: PirOp) -> bool:
    x = _shape(op.operands[0])
    return bool(x) and x[0] == _shape(op.results[0])[0] != UNKNOWN


def _join(op: PirOp) -> bool:
    items = meta_of(op.operands[0].type)
    rank = items.items[0].rank if isinstance(items, VecMeta) else len(_shape(op.operands[0]))
    return bool(op.attribute("axis") % rank)


def _slice(op: PirOp) -> bool:
    return 0 not in tuple(op.attribute("axes"))


def _transpose(op: PirOp) -> bool:
    return op.attribute("perm")[0] == 0


_RULES: Final[dict[str, Callable[[PirOp], bool]]] = {
    "sum": _not_over_rows,
    "mean": _not_over_rows,
    "max": _not_over_rows,
    "min": _not_over_rows,
    "softmax": _not_over_rows,
    "log_softmax": _not_over_rows,
    "matmul": _matmul,
    "reshape": _reshape,
    "squeeze": _reshape,
    "unsqueeze": _reshape,
    "flatten": _reshape,
    "expand": _reshape,
    "concat": _join,
    "stack": _join,
    "slice": _slice,
    "strided_slice": _slice,
    "transpose": _transpose,
}
"""Ops other than elementwise ones -> whether this one keeps rows apart."""
