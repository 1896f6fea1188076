"""Says which operands an operation reads when the backward recomputes it.

A batch norm in training reads its running statistics only to update them; its other results do not
depend on them. If the backward recomputes one of those, it passes zeros for the statistics, so that
their old version, which the update has overwritten, need not be saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xdsl.ir import SSAValue

from pirkit.analysis.effects import keeps_statistics
from pirkit.dialect.build import Builder
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import TensorMeta
from pirkit.split.backward_reads import Place, captured

_SAVED_STATISTICS: Final[dict[str, dict[str, str]]] = {
    "pd_op.batch_norm": {"mean": "mean_out", "variance": "variance_out"}
}
"""Op -> operand -> the only result that depends on it in training."""


def reads(op: PirOp) -> Iterator[Place]:
    """The operands that a recomputed operation reads, and the values that its regions capture."""
    idle = {value for value, _ in _updates(op)}
    return (
        place for place in captured(op) if place[0] is not op or op.operands[place[1]] not in idle
    )


def gives(op: PirOp, value: SSAValue) -> bool:
    """True if a recomputed operation computes this result correctly in spite of its zeros."""
    return all(value is not updated for _, updated in _updates(op))


def placeholders(op: PirOp, b: Builder) -> Iterator[tuple[int, SSAValue]]:
    """The positions of operands that a recomputed operation does not read, and zeros for them."""
    idle = {value for value, _ in _updates(op)}
    for index, value in enumerate(op.operands):
        if value in idle:
            meta = meta_of(value.type)
            assert isinstance(meta, TensorMeta), "statistics are tensors"
            yield index, b("pd_op.full", shape=meta.shape, dtype=meta.dtype, value=0.0).ssa


def _updates(op: PirOp) -> Iterator[tuple[SSAValue, SSAValue | None]]:
    """Operands that are not read, each with the only result that would depend on it."""
    named = _SAVED_STATISTICS.get(op.name)
    if named is None or keeps_statistics(op):
        return
    for operand, result in named.items():
        value = op.operand_named(operand)
        uses = sum(1 for v in op.operands if v is value)
        if value is None or uses != 1 or not _is_known(value):
            return
        yield value, op.result_named(result)


def _is_known(value: SSAValue) -> bool:
    meta = meta_of(value.type)
    return isinstance(meta, TensorMeta) and meta.is_static
