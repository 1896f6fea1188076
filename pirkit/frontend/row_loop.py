"""The loop over rows for an op that has no batching rule."""

from __future__ import annotations

from typing import Any, cast

from msgspec.structs import replace

from pirkit.dialect.types import meta_of
from pirkit.frontend.batched import Batched, OneRow
from pirkit.frontend.control_flow import scan
from pirkit.frontend.tracing import Recorder
from pirkit.runtime.meta import UNKNOWN, TensorMeta


def each_row(one: OneRow) -> Any:
    """The results of all rows, stacked by a `scan`; None if a result's size depends on data."""
    metas = [meta_of(r.type) for r in one.op.results]
    if not metas or not all(isinstance(m, TensorMeta) and UNKNOWN not in m.shape for m in metas):
        return None
    mapped = [v.value for each in one.operands for v in _each(each) if v.rows]

    def iteration(carry: Any, rows: list[Any]) -> tuple[Any, list[Any]]:
        inner, left = cast(Recorder, rows[0].b), iter(rows)

        def single(given: Any) -> Any:
            if given is None:
                return None
            if isinstance(given, list):
                return [single(v) for v in cast("list[Batched]", given)]
            held = cast(Batched, given)
            return Batched(next(left) if held.rows else inner.own(held.value), False)

        operands = tuple([single(v) for v in one.operands])
        slots = zip(one.op.definition.operands, operands, strict=False)
        tensors = [_values(v) for s, v in slots if s.kind is None]
        found = replace(one, b=inner, operands=operands).emit(tensors)
        several = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        return carry, [v for v in several if v is not None]

    stacked = iter(scan(iteration, (), mapped)[1])
    return tuple([None if r is None else next(stacked) for r in one.op.result_slots])


def _each(given: Any) -> list[Batched]:
    """An operand as a list."""
    if given is None:
        return []
    return cast("list[Batched]", given) if isinstance(given, list) else [given]


def _values(given: Any) -> Any:
    """The values of an operand: one, or the elements of a list."""
    values = [v.value for v in _each(given)]
    return values if isinstance(given, list) else (values or [None])[0]
