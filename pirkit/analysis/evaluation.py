"""Evaluation of an operation whose operands are known, by its reference rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from xdsl.ir import SSAValue

from pirkit.analysis.constants import UNKNOWN_VALUE
from pirkit.diag.errors import ConstraintError, RuntimeFault
from pirkit.dialect.opdef import infer_meta, reference
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.runtime.binding import KERNEL_FAULTS
from pirkit.runtime.meta import TensorMeta

Array = np.ndarray[Any, Any]
Call = tuple[list[Any], dict[str, Any]]


def call_of(
    op: PirOp, elements: Callable[[SSAValue, bool], Any], attribute: Callable[[str, str], Any]
) -> Call | None:
    """Arguments and keywords of an op's reference rule; None without rule, or if one is unknown.

    ``elements`` gives the elements of an operand, None if they are not known; the flag says that
    the rule reads only shape and type. ``attribute`` gives what is an attribute or an operand, by
    name and kind, or UNKNOWN_VALUE.
    """
    definition = op.definition
    if reference.get(definition) is None or infer_meta.get(definition) is None:
        return None
    arguments: list[Any] = []
    given: dict[str, Any] = {}
    slots = definition.operands
    for index, value in enumerate(op.operand_slots):
        slot = slots[min(index, len(slots) - 1)]
        if slot.kind is not None:
            given[slot.name] = attribute(slot.name, slot.kind)
            if given[slot.name] is UNKNOWN_VALUE:
                return None
            continue
        found = None
        if value is not None:
            found = elements(value, slot.name in definition.reads_meta_only)
            if found is None:
                return None
        arguments.append(found)
    return arguments, op.attribute_values() | given


def placeholder(value: SSAValue) -> Array | None:
    """Zeros of the shape and type of a tensor, without memory; None if sizes are unknown."""
    meta = meta_of(value.type)
    if not isinstance(meta, TensorMeta) or not meta.is_static:
        return None
    return np.broadcast_to(np.zeros((), meta.dtype.np), meta.shape)


def results_of(op: PirOp, call: Call) -> tuple[Any, ...] | None:
    """The results of the reference rule, by slot; None if it refuses the operands."""
    arguments, keywords = call
    try:
        with np.errstate(all="ignore"):
            found = reference.of(op.definition)(*arguments, **keywords)
    except (ConstraintError, RuntimeFault, *KERNEL_FAULTS):
        return None  # the program raises the error, but only if it runs the operation
    return cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,)
