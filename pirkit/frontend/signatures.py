"""Python signatures of ``pirkit.ops`` functions."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, Signature
from typing import Any

from pirkit.dialect.infer import default_value
from pirkit.dialect.opdef import OpDef
from pirkit.dialect.signature import REQUIRED, Attr, Operand
from pirkit.frontend.python_defaults import DEFAULTS, EVERYWHERE


def python_default(definition: OpDef, slot: Operand | Attr) -> Any:
    """The default of a parameter; ``Parameter.empty`` if it is required."""
    if isinstance(slot, Operand) and slot.kind is None:
        return None if slot.optional else Parameter.empty
    own = DEFAULTS.get(definition.base.name, {})
    if slot.default is not REQUIRED and slot.name not in own:
        return default_value(slot.kind or "", slot.default)
    return own.get(slot.name, EVERYWHERE.get(slot.name, Parameter.empty))


def signature_of(definition: OpDef) -> Signature:
    """The parameters of an op: operands, then attributes.

    All may be passed by position. A required parameter after an optional one is shown as
    keyword-only, because Python signatures cannot express it otherwise.
    """
    return Signature(list(_parameters(definition)))


def _parameters(definition: OpDef) -> Iterator[Parameter]:
    kind, is_optional = Parameter.POSITIONAL_OR_KEYWORD, False
    for slot in (*definition.operands, *definition.attrs):
        if isinstance(slot, Operand) and slot.variadic:
            yield Parameter(slot.name, Parameter.VAR_POSITIONAL)
            kind = Parameter.KEYWORD_ONLY
            continue
        default = python_default(definition, slot)
        is_optional |= default is not Parameter.empty
        if is_optional and default is Parameter.empty:
            kind = Parameter.KEYWORD_ONLY
        yield Parameter(_spelled(slot.name), kind, default=default)


def _spelled(name: str) -> str:
    """The parameter name; Python keywords can only be passed as ``**{"lambda": 20.0}``."""
    return f"{name}_" if name in ("lambda", "from", "in", "is") else name
