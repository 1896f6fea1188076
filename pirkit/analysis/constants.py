"""Values and attributes that are constant in the program."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from xdsl.ir import Operation, SSAValue

from pirkit.analysis.alias import AliasClasses
from pirkit.analysis.effects import is_variable
from pirkit.dialect.infer import constant_array, constant_scalar
from pirkit.dialect.kinds import CONSTANT_LIKE, VIEW
from pirkit.dialect.opdef import reference
from pirkit.dialect.operation import PirOp, declares
from pirkit.dialect.signature import REQUIRED
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import TensorMeta

Array = np.ndarray[Any, Any]


class _Unknown:
    def __repr__(self) -> str:
        return "unknown"


UNKNOWN_VALUE: Final = _Unknown()
"""Marks an attribute whose value is known only at run time."""


def is_constant(value: SSAValue, classes: AliasClasses) -> bool:
    """True if the value comes from a constant op, nothing writes its storage, and no recorded
    derivative is taken by it."""
    is_fixed = declares(value.owner, CONSTANT_LIKE) and not classes.is_written(value)
    return is_fixed and not is_variable(value)


def array_of(value: SSAValue, classes: AliasClasses, max_elements: int) -> Array | None:
    """The content of a constant of at most ``max_elements`` elements, else None."""
    meta = meta_of(value.type)
    if not is_constant(value, classes) or not isinstance(meta, TensorMeta):
        return None
    owner = value.owner
    if not isinstance(owner, PirOp) or not 0 <= meta.numel <= max_elements:
        return None
    attributes = owner.attribute_values()
    return reference.of(owner.definition)(**attributes)


def splat_of(value: SSAValue, classes: AliasClasses) -> Array | None:
    """The element that a constant repeats, as a 0-D array; None if it has several elements or none.

    Views of a constant, such as a broadcast or a reshape, repeat the same element.
    """
    owner = value.owner
    while isinstance(owner, PirOp) and owner.definition.kind == VIEW and owner.operands:
        if classes.is_written(value) or is_variable(value):
            return None
        value = owner.operands[0]
        owner = value.owner
    if not is_constant(value, classes) or not isinstance(owner, PirOp):
        return None
    attributes = owner.attribute_values()
    if owner.name == "pd_op.full":
        return reference.of(owner.definition)(**{**attributes, "shape": ()})
    meta = meta_of(value.type)
    if isinstance(meta, TensorMeta) and meta.numel == 1:
        return reference.of(owner.definition)(**attributes).reshape(())
    return None


def attribute_of(op: PirOp, name: str, classes: AliasClasses) -> Any:
    """The value of an attribute that may be an operand, or UNKNOWN_VALUE.

    A list is a tuple of numbers; the attribute is unknown if one of them is.
    """
    slot = next(o for o in op.definition.operands if o.name == name)
    value = op.operand_named(name)
    if value is None:
        absent = name not in op.properties and slot.default is REQUIRED
        return UNKNOWN_VALUE if absent else op.attribute(name)
    parts = [value]
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "pir.combine":
        parts = list(owner.operands)
    if not all(is_constant(part, classes) for part in parts):
        return UNKNOWN_VALUE
    found = constant_array(value) if slot.kind == "intarray" else constant_scalar(value)
    if found is None or (isinstance(found, tuple) and None in found):
        return UNKNOWN_VALUE
    return found  # pyright: ignore[reportUnknownVariableType]
