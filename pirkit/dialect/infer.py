"""Result types of an operation, from its operands and attributes.

Results are cached: a program repeats the same call with the same types many times, and a rule is a
pure function of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, Final, cast

from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.attrs import KINDS, decode, encode
from pirkit.dialect.element_types import check_element_types
from pirkit.dialect.opdef import OpDef, RuleTable, infer_meta
from pirkit.dialect.signature import INT_KINDS, REQUIRED, Operand
from pirkit.dialect.types import meta_of, type_of
from pirkit.runtime.convert import rounded
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta

Rule = Callable[..., Any]
RULE_FAULTS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions that Python raises if a rule computes with arguments that do not fit together."""
Constant = Any
"""A Python number, a tuple of numbers with None for unknown elements, or None if unknown."""


def infer_result_types(
    definition: OpDef,
    operands: Sequence[SSAValue | None],
    properties: Mapping[str, Attribute],
    table: RuleTable = infer_meta,
) -> tuple[Attribute | None, ...]:
    """Types of all result slots; None for a slot that stays empty.

    Raises ConstraintError if a constraint of the op does not hold, UnsupportedError if the op has
    no ``infer_meta`` rule.
    """
    rule = table.of(definition)
    metas = tuple([None if v is None else meta_of(v.type) for v in operands])
    constants = constants_of(definition, operands, properties)
    return infer_call(definition, rule, metas, constants, tuple(properties.items()))


def constants_of(
    definition: OpDef, operands: Sequence[SSAValue | None], properties: Mapping[str, Attribute]
) -> tuple[tuple[str, Constant], ...]:
    """The values of operands that Paddle may pass in place of an attribute, by name."""
    if definition.takes_tensors_alone:
        return ()
    return tuple(
        [
            (slot.name, _constant_slot(slot, value, properties))
            for slot, value in zip(definition.operands, operands, strict=False)
            if slot.kind is not None
        ]
    )


@lru_cache(maxsize=2048)
def infer_call(
    definition: OpDef,
    rule: Rule,
    metas: tuple[Meta | None, ...],
    constants: tuple[tuple[str, Constant], ...],
    properties: tuple[tuple[str, Attribute], ...],
) -> tuple[Attribute | None, ...]:
    """Like `infer_result_types`, for operands of which only the metas are given."""
    results = metas_of_call(definition, rule, metas, constants, properties)
    return tuple([None if m is None else type_of(m) for m in results])


def metas_of_call(
    definition: OpDef,
    rule: Rule,
    metas: tuple[Meta | None, ...],
    constants: tuple[tuple[str, Constant], ...],
    properties: tuple[tuple[str, Attribute], ...],
) -> tuple[Meta | None, ...]:
    """Like `infer_call`, but returns metas, whose sizes are not limited by memory."""
    keywords = dict(constants)
    held = dict(properties)
    for attr in definition.attrs:
        if attr.name in held:
            keywords[attr.name] = decode(attr.kind, held[attr.name])
        elif attr.default is not REQUIRED:
            keywords[attr.name] = default_value(attr.kind, attr.default)
        else:
            raise ConstraintError(
                "attributes",
                f"`{definition.name}` lacks its attribute `{attr.name}`",
                help=f"its signature is: {definition.signature_text}",
            )
    slots = definition.operands
    last = len(slots) - 1
    tensors = [m for i, m in enumerate(metas) if slots[min(i, last)].kind is None]
    return infer_metas(definition, rule, tensors, keywords)


def infer_metas(
    definition: OpDef, rule: Rule, tensors: Sequence[Meta | None], keywords: Mapping[str, Any]
) -> tuple[Meta | None, ...]:
    """The metas of all results.

    Raises ConstraintError for a call that the op does not allow, or that its rule cannot follow.
    """
    try:
        found = rule(*tensors, **keywords)
    except RULE_FAULTS as error:
        raise ConstraintError("arguments", _why(definition, tensors, keywords, error)) from error
    check_element_types(definition, tensors)  # the op's own constraints say more
    results = cast("tuple[Meta | None, ...]", found if isinstance(found, tuple) else (found,))
    for meta in results:
        if isinstance(meta, TensorMeta) and cast(Any, meta.dtype) is None:
            raise ConstraintError("arguments", _untyped(definition))
        if isinstance(meta, TensorMeta) and min(meta.shape, default=0) < UNKNOWN:
            raise ConstraintError(
                "arguments", f"a result of `{definition.name}` would have the shape {meta.shape}"
            )
    return results


def _why(
    definition: OpDef, tensors: Sequence[Meta | None], keywords: Mapping[str, Any], error: Exception
) -> str:
    """Why a rule cannot follow a call."""
    held = error.obj if isinstance(error, AttributeError) else definition
    names = [slot.name for slot in definition.operands if slot.kind is None]
    for name, meta in zip(names, tensors, strict=False):
        if meta is held and not isinstance(meta, TensorMeta | None):
            return f"`{name}` of `{definition.name}` is no tensor but {meta}"
    kinds = definition.attr_kinds
    if held is None and None in [v for k, v in keywords.items() if kinds.get(k) == "dtype"]:
        return _untyped(definition)
    fault = f"{type(error).__name__}: {error}"
    return f"the operands and attributes of `{definition.name}` do not fit together: {fault}"


def _untyped(definition: OpDef) -> str:
    return f"the element type of a result of `{definition.name}` is undefined"


@lru_cache(maxsize=4096)
def default_value(kind: str, default: Any) -> Any:
    """A declared default in the form that rules get."""
    return decode(kind, encode(kind, default))


def _constant_slot(
    slot: Operand, value: SSAValue | None, properties: Mapping[str, Attribute]
) -> Constant:
    kind = slot.kind or ""
    if value is not None:
        if kind == "intarray":
            return constant_array(value)
        number = constant_scalar(value)
        return _whole(slot, number) if kind in INT_KINDS and number is not None else number
    if slot.name in properties:
        return decode(kind, properties[slot.name])
    return None if slot.default is REQUIRED else default_value(kind, slot.default)


def _whole(slot: Operand, number: Any) -> int:
    """A number as an integer, as C converts it. Raises ConstraintError for infinities and NaN."""
    try:
        return int(number)
    except (OverflowError, TypeError, ValueError) as error:
        raise ConstraintError("arguments", f"`{slot.name}` is {number}, no integer") from error


def constant_array(value: SSAValue) -> Constant:
    """The integers of a value used as axis or shape, as far as the program determines them.

    A tuple with None for unknown elements; None if even the length is unknown.
    """
    owner = value.owner
    if isinstance(owner, Operation):
        if owner.name == "pd_op.full_int_array":
            return decode("i64[]", owner.properties["value"])
        if owner.name == "pir.combine":
            return tuple([constant_scalar(v) for v in owner.operands])
        if owner.name == "pd_op.concat":
            return _joined(owner)
        if owner.name == "pd_op.full":
            scalar = constant_scalar(value)
            shape = cast(TensorMeta, meta_of(value.type)).shape
            if isinstance(scalar, int | float) and isfinite(scalar) and shape in ((), (1,)):
                return (int(scalar),)
    meta = meta_of(value.type)
    if isinstance(meta, VecMeta):
        return (None,) * len(meta)
    if isinstance(meta, TensorMeta) and meta.rank <= 1 and meta.numel != UNKNOWN:
        return (None,) * meta.numel
    return None


def _joined(concat: Operation) -> Constant:
    """The integers of lists that are concatenated."""
    source = concat.operands[0].owner
    if not isinstance(source, Operation) or source.name != "pir.combine":
        return None
    parts = [constant_array(v) for v in source.operands]
    return None if None in parts else tuple([n for part in parts for n in part])


def is_dynamic(value: SSAValue) -> bool:
    """True if the program does not determine the attribute that a value represents."""
    if constant_scalar(value) is not None:  # which may be no integer
        return False
    array = constant_array(value)
    return array is None or None in array


def fill_value(value: SSAValue) -> Constant:
    """The number that fills a value, if it comes from `full` or `full_like`; else None."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name not in ("pd_op.full", "pd_op.full_like"):
        return None
    number = constant_scalar(value)
    if number is not None or "value" in owner.properties:
        return cast(Any, owner).attribute("value") if number is None else number
    operand = cast(Any, owner).operand_named("value")
    return None if operand is None else constant_scalar(operand)


def constant_scalar(value: SSAValue) -> Constant:
    """The number that a value is full of, or its only element; None if the program does not
    determine it.
    """
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    if owner.name == "pd_op.full" and cast(OpResult, value).index == 0:
        held = owner.properties.get("value")
        if held is None or not KINDS["scalar"].accepts(held):
            return None
        number = decode("scalar", held)
        dtype = cast(TensorMeta, meta_of(value.type)).dtype
        return rounded(number, dtype)
    if owner.name == "pd_op.full_int_array":
        values = decode("i64[]", owner.properties["value"])
        return values[0] if len(values) == 1 else None
    return None
