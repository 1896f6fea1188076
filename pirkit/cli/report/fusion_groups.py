"""The fusion decisions of a block: the kernel of each operation, and why neighbours differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from xdsl.ir import Operation

from pirkit.cli.report.snapshots import Interned, Snapshots
from pirkit.dialect.operation import PirOp
from pirkit.lowering.fusion.explain import Explainer
from pirkit.lowering.fusion.fuse_pass import Decision

_UNPROFITABLE: Final = "cost: a kernel of the two saves nothing, or has no native code"


def fusion_facts(decision: Decision, snapshots: Snapshots) -> dict[str, Any]:
    """Kernels, the kernel of each row, and the reason at each edge that is not inside of one."""
    found, rows = decision.found, snapshots.row_of
    kernel_of: dict[Operation, int] = {
        unit.op: k for k, kernel in enumerate(found.kernels) for unit in kernel.units
    }
    reasons = Interned()
    return {
        "kernels": [kernel.kernel.name for kernel in found.kernels],
        "kernelOf": [(rows[op], k) for op, k in kernel_of.items() if op in rows],
        "edges": [
            (rows[one], rows[other], reasons(why))
            for one, other, why in _refused(decision, snapshots, kernel_of)
            if one in rows and other in rows
        ],
        "reasons": reasons.items,
    }


def _refused(
    decision: Decision, snapshots: Snapshots, kernel_of: dict[Operation, int]
) -> Iterator[tuple[PirOp, PirOp, str]]:
    """Producer, consumer, and why they are not in one kernel."""
    found = decision.found
    explainer = Explainer(found.equations, found.partition, snapshots.names, decision.policy)
    for reader in found.equations.ops:
        makers = dict.fromkeys(v.owner for v in reader.operands)
        for maker in makers:
            if not isinstance(maker, PirOp) or maker not in explainer.order:
                continue
            kernels = kernel_of.get(maker), kernel_of.get(reader)
            if kernels[0] is not None and kernels[0] == kernels[1]:
                continue
            refusal = explainer.refusal(maker, reader)
            if refusal is not None:
                # the first line of its text names the two, which the page does anyway
                _, _, details = str(refusal).partition("\n")
                yield maker, reader, f"{refusal.kind}: {refusal.reason}\n{details}".strip()
            elif kernels == (None, None) and not found.spare & {maker, reader}:
                yield (maker, reader, _UNPROFITABLE)
