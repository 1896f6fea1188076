"""Ops that only move elements: where each element of the result was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pirkit.analysis.constant_operands import evaluated, operands_of
from pirkit.analysis.derivative_sums import Form, shape_of, static
from pirkit.dialect.kinds import MOVEMENT, RESHAPE, VIEW
from pirkit.dialect.operation import PirOp, declares

_SHIFT: Final = 1 << 40


def moves(op: PirOp) -> bool:
    """True for ops that may only move elements; `moved` finds out whether one does."""
    return op.definition.kind in (VIEW, MOVEMENT) or declares(op, RESHAPE)


def moved(op: PirOp, given: Sequence[Form]) -> Form | None:
    """The form of what only moves elements, by moving their numbers; None if it mixes rows."""
    lead = given[0].lead
    if lead > 1:
        if not declares(op, RESHAPE):  # those have one operand that is a tensor
            return None
        return given[0] if shape_of(op.results[0]) == shape_of(op.operands[0]) else None
    everything = [e for form in given for e in form.elements.flat]
    numbers, start = list[Any](), 0
    for form, value in zip(given, operands_of(op), strict=True):
        row: Any = np.arange(start, start + form.elements.size, dtype=np.int64)
        row = row.reshape(form.elements.shape)
        start += form.elements.size
        if lead:
            rows = static(shape_of(value)[:1])[0]
            row = row + np.arange(rows).reshape(-1, *[1] * row.ndim) * len(everything)
        numbers.append(row)
    found: Any = evaluated(op, numbers)
    again: Any = evaluated(op, [n + _SHIFT for n in numbers])
    if found is None or again is None or not (again - found == _SHIFT).all():
        return None  # some element is a constant, as of padding
    if lead:
        result = static(shape_of(op.results[0]))
        rows: int = numbers[0].shape[0]
        own: Any = np.arange(rows).reshape(-1, *[1] * (found.ndim - 1)) * len(everything)
        if found.shape != result or found.ndim < 1 or found.shape[0] != rows:
            return None
        found = found - own
        if not (found == found[:1]).all() or found.min() < 0 or found.max() >= len(everything):
            return None
        found = found[0]
    elements = np.empty(found.shape, object)
    for place in np.ndindex(found.shape):
        elements[place] = everything[int(found[place])]
    return Form(lead, elements)
