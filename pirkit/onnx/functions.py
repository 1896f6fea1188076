"""Operators that ONNX defines as functions of other operators, and the attributes it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pirkit.dialect.build import Value
from pirkit.onnx.element_types import TO_ONNX
from pirkit.onnx.libonnx import defs, helper, onnx
from pirkit.runtime.meta import UNKNOWN


def body_of(node: Any, opset: Mapping[str, int], inputs: Sequence[Any]) -> Any:
    """The FunctionProto that defines a node's operator, or None if there is none.

    ``opset`` is the version of each domain. Some bodies depend on the attributes of the node and on
    the types of its ``inputs``.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = opset.get(domain, 1)
    if not defs.has(node.op_type, domain):
        return None
    try:
        schema = defs.get_schema(node.op_type, version, domain)
    except defs.SchemaError:
        return None
    known = [v for v in schema.function_opset_versions if v <= opset.get("", version)]
    if known:
        return _parsed(schema.get_function_with_opset_version(max(known)))
    known = [v for v in schema.context_dependent_function_opset_versions
             if v <= opset.get("", version)]  # fmt: skip
    if not known:
        return None
    types = [_type_of(v) for v in inputs]
    return _parsed(
        schema.get_context_dependent_function_with_opset_version(
            max(known), node.SerializeToString(), types
        )
    )


def is_defined(node: Any, opset: Mapping[str, int]) -> bool:
    """Whether ONNX defines a node's operator by other operators."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    if not defs.has(node.op_type, domain):
        return False
    schema = defs.get_schema(node.op_type, opset.get(domain, 1), domain)
    return bool(schema.has_function or schema.has_context_dependent_function)


def defaults_of(node: Any, opset: Mapping[str, int]) -> dict[str, Any]:
    """The default attributes of a node's operator, by name, as AttributeProtos."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    if not defs.has(node.op_type, domain):
        return {}
    held = defs.get_schema(node.op_type, opset.get(domain, 1), domain).attributes
    return {k: a.default_value for k, a in held.items() if a.default_value.name}


@cache
def kinds_of_attributes(op: str, domain: str) -> dict[str, set[int]]:
    """The types (AttributeProto.AttributeType) of an operator's attributes in all its versions.

    Empty for an unknown operator.

    Rules take the forms of all versions, whatever operator set a model declares.
    """
    found: dict[str, set[int]] = {}
    schema = defs.get_schema(op, domain) if defs.has(op, domain) else None
    while schema is not None:
        for name, declared in schema.attributes.items():
            found.setdefault(name, set()).add(declared.type.value)
        try:
            schema = defs.get_schema(op, schema.since_version - 1, domain)
        except defs.SchemaError:
            schema = None
    return found


def _parsed(data: Any) -> Any:
    if not data:
        return None
    made = onnx.FunctionProto()
    made.ParseFromString(data)
    return made


def _type_of(value: Any) -> bytes:
    if not isinstance(value, Value):
        return onnx.TypeProto().SerializeToString()
    sizes = [None if n == UNKNOWN else n for n in value.shape]
    return helper.make_tensor_type_proto(TO_ONNX[value.dtype], sizes).SerializeToString()
