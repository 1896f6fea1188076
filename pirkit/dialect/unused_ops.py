"""Erases ops that importers of other formats emit and no result needs."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.opdef import PURE
from pirkit.dialect.operation import PirOp, ProgramOp


def erase_unused(program: ProgramOp, weights: dict[str, Any]) -> None:
    """Erase pure ops without users, except inputs, and the ``weights`` of erased parameters."""
    for op in reversed(list(program.walk())):
        if not isinstance(op, PirOp) or op.regions or op.name == "pd_op.data":
            continue
        pure = op.definition.effects == PURE and bool(op.results)
        if pure and not any(r.uses for r in op.results):
            op.detach()
            op.erase()
    used = {o.attribute("parameter_name") for o in program.walk()
            if isinstance(o, PirOp) and o.name == "pir.parameter"}  # fmt: skip
    for name in [n for n in weights if n not in used]:
        del weights[name]
