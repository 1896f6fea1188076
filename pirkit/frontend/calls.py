"""Python calls of ops: arguments by position or name, sorted into tensors and attributes.

Eager calls (`eager.py`) and recorded ones (`tracing.py`) share these rules.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Mapping, Sequence
from inspect import Parameter
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import ArgumentError, UsageError, VerifyError
from pirkit.diag.shown import shown
from pirkit.dialect.attrs import decode, encode
from pirkit.dialect.infer import default_value
from pirkit.dialect.opdef import OpDef
from pirkit.dialect.signature import INT_KINDS, REQUIRED, Attr, Operand
from pirkit.frontend.python_defaults import EVERYWHERE, filled
from pirkit.runtime.given_arrays import given_array
from pirkit.runtime.tensor.meta_cache import element_type

ABSENT: Final = object()
"""An argument that was not given; None is a value."""


class Arguments(Struct, frozen=True):
    """A call with every slot filled: tensors by operand slot (None, or a list), all attributes."""

    tensors: tuple[Any, ...]
    attrs: dict[str, Any]


def sort_arguments(
    definition: OpDef,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    dynamic: Container[str] = (),
) -> Arguments:
    """Sort the arguments of a Python call by the signature of the op: operands, then attributes.

    Attributes named in ``dynamic`` are omitted: the caller passes them as operands. Tensors are
    returned as they were given; attributes have the Python types of their kinds, and the defaults
    of Paddle's Python functions.

    Raises ArgumentError (PK0701), naming the op and its parameters, for too many, unknown, repeated
    or missing arguments and for an attribute of a wrong type.
    """
    slots: tuple[Operand | Attr, ...] = (*definition.operands, *definition.attrs)
    if definition.operands and definition.operands[-1].variadic:
        return _unpacked(definition, args, keywords)
    names = [s.name for s in slots]
    if len(args) > len(names):
        raise _wrong(definition, f"takes {len(names)} arguments, got {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name, value in keywords.items():
        _check_name(definition, name, names)
        if name in given:
            raise _wrong(definition, f"got `{name}` twice")
        given[name] = value
    return _filled(definition, given, dynamic=dynamic)


def _check_name(definition: OpDef, name: str, names: Sequence[str]) -> None:
    """Raise ArgumentError for a name that is none of these, with the nearest one as hint."""
    if name in names:
        return
    known = {n.lower(): n for n in names}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean `{known[near[0]]}`?" if near else None
    raise _wrong(definition, f"has no parameter `{name}`", hint)


def _unpacked(definition: OpDef, args: Sequence[Any], keywords: Mapping[str, Any]) -> Arguments:
    """The arguments of an op that takes any number of tensors: attributes are given by name."""
    for name in keywords:
        _check_name(definition, name, list(definition.attr_kinds))
    filled = _filled(definition, dict(keywords), skip=True)
    return Arguments(tuple(args), filled.attrs)


def _filled(
    definition: OpDef, given: dict[str, Any], *, skip: bool = False, dynamic: Container[str] = ()
) -> Arguments:
    """Each slot with its argument or default; with ``skip`` only the attributes."""
    tensors: list[Any] = []
    attrs: dict[str, Any] = {}
    given = filled(definition.base.name, given)
    for slot in definition.operands:
        value = given.get(slot.name, ABSENT)
        if slot.name in dynamic:
            continue
        if slot.kind is not None:
            attrs[slot.name] = _attribute(definition, slot, slot.kind, value)
        elif not skip:
            tensors.append(_tensor(definition, slot, value))
    for attr in definition.attrs:
        value = given.get(attr.name, ABSENT)
        attrs[attr.name] = _attribute(definition, attr, attr.kind, value)
    return Arguments(tuple(tensors), attrs)


def _tensor(definition: OpDef, slot: Operand, value: Any) -> Any:
    if value is ABSENT or value is None:
        if not slot.optional:
            raise _wrong(definition, f"lacks the tensor `{slot.name}`")
        return None
    if slot.is_vec != isinstance(value, list | tuple):
        what = "a list of tensors" if slot.is_vec else "one tensor"
        raise _wrong(definition, f"takes {what} as `{slot.name}`")
    return list(cast("Sequence[Any]", value)) if slot.is_vec else value


def _attribute(definition: OpDef, slot: Operand | Attr, kind: str, value: Any) -> Any:
    if value is ABSENT or (value is None and slot.default is not REQUIRED):
        if slot.default is REQUIRED and slot.name in EVERYWHERE:
            return EVERYWHERE[slot.name]
        if slot.default is REQUIRED:
            raise _wrong(definition, f"lacks `{slot.name}`")
        return default_value(kind, slot.default)
    if value is Parameter.empty:  # Paddle's function requires what the op has a default for
        raise _wrong(definition, f"lacks `{slot.name}`")
    plain = _plain(kind, value)
    try:
        return decode(kind, encode(kind, plain))
    except (VerifyError, ValueError, TypeError, OverflowError) as error:
        raise _wrong(
            definition, f"cannot take {shown(value)} as `{slot.name}` of type {kind}"
        ) from error


def _plain(kind: str, given: Any) -> Any:
    """An argument as the Python value that `encode` takes for an attribute of this kind.

    Numpy scalars, dtypes and tensors are converted, and a single value stands for a list of one.
    """
    value: Any = given
    if kind == "dtype":
        return None if value is None else element_type(value)
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        value = given_array(value).tolist()
    elif isinstance(value, np.generic):
        value = cast(Any, value).item()
    if (kind.endswith("[]") or kind == "intarray") and not isinstance(value, list | tuple | str):
        return [value]
    if isinstance(value, list) and kind in ("scalar", *INT_KINDS):
        items = cast("list[Any]", value)
        value = items[0] if len(items) == 1 else items
    return cast(Any, value)


def _wrong(definition: OpDef, problem: str, help: str | None = None) -> UsageError:
    return ArgumentError(
        f"`{definition.name}` {problem}",
        notes=(f"its signature is: {definition.signature_text}",),
        help=help or "pass operands in the order of the signature, attributes by name",
    )
