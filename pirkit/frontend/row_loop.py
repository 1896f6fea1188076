"""An op that has no batching rule: a loop that computes one row in a turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from pirkit.dialect.types import meta_of
from pirkit.frontend.batched import Batched, OneRow
from pirkit.frontend.control_flow import scan
from pirkit.frontend.tracing import Recorder
from pirkit.runtime.meta import UNKNOWN, TensorMeta


def each_row(one: OneRow) -> Any:
    """The results of all rows, stacked; None where the size of one follows from the numbers."""
    metas = [meta_of(r.type) for r in one.op.results]
    if not metas or not all(isinstance(m, TensorMeta) and UNKNOWN not in m.shape for m in metas):
        return None
    given = [v if isinstance(v, list) else [v] for v in cast("tuple[Any, ...]", one.operands)]
    mapped = [v.value for each in given for v in each if v is not None and v.rows]

    def turn(carry: Any, rows: list[Any]) -> tuple[Any, list[Any]]:
        inner, left = cast(Recorder, rows[0].b), iter(rows)

        def single(v: Batched | None) -> Batched | None:
            return v and Batched(next(left) if v.rows else inner.own(v.value), False)

        operands = tuple(
            [[single(x) for x in v] if isinstance(v, list) else single(v) for v in one.operands]
        )
        slots = zip(one.op.definition.operands, operands, strict=False)
        tensors = [
            [x.value for x in v] if isinstance(v, list) else v and v.value
            for s, v in slots
            if s.kind is None
        ]
        found = replace(one, b=inner, operands=operands).emit(tensors)
        several = found if isinstance(found, tuple) else (found,)
        return carry, [v for v in cast("tuple[Any, ...]", several) if v is not None]

    stacked = iter(scan(turn, (), mapped)[1])
    return tuple([None if r is None else next(stacked) for r in one.op.result_slots])
