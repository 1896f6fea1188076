"""The tensors that an op reads, and what it computes of known ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.ir import SSAValue

from pirkit.dialect.infer import constant_array, constant_scalar
from pirkit.dialect.opdef import reference
from pirkit.dialect.operation import PirOp
from pirkit.runtime.binding import KERNEL_FAULTS

Array = np.ndarray[Any, Any]


def operands_of(op: PirOp) -> list[SSAValue]:
    """The tensors that an op reads, those of lists one by one."""
    found: list[SSAValue] = []
    slots = op.definition.operands
    for index, value in enumerate(op.operand_slots):
        if value is None or slots[min(index, len(slots) - 1)].kind is not None:
            continue
        members = _members(value)
        found += [value] if members is None else members
    return found


def _members(value: SSAValue) -> list[SSAValue] | None:
    """The tensors of a list."""
    owner = value.owner
    if isinstance(owner, PirOp) and owner.name == "pir.combine":
        return list(owner.operands)
    return None


def evaluated(op: PirOp, given: Sequence[Any]) -> Array | None:
    """The results of an op for arrays; None if the program does not determine an attribute."""
    rule = reference.get(op.definition)
    if rule is None:
        return None
    keywords, arguments = op.attribute_values(), list[Any]()
    arrays = iter(given)
    for slot, value in zip(op.definition.operands, op.operand_slots, strict=False):
        if slot.kind is None:
            members = None if value is None else _members(value)
            if members is not None:
                arguments.append([next(arrays) for _ in members])
            else:
                arguments.append(None if value is None else next(arrays))
        else:
            read = constant_array if slot.kind == "intarray" else constant_scalar
            known: Any = op.attribute(slot.name) if value is None else read(value)
            if known is None or (isinstance(known, tuple) and None in known):
                return None
            keywords[slot.name] = known
    try:
        found = rule(*arguments, **keywords)
    except KERNEL_FAULTS:
        return None
    first: Any = cast(Any, found)[0] if isinstance(found, tuple) else found
    return np.asarray(first)
