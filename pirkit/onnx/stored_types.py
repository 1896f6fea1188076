"""Operators on element types that pirkit only stores: computed in the type that stands for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from pirkit.dialect.build import Value
from pirkit.onnx.libonnx import defs
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.runtime import dtype as dt

AWARE: Final = frozenset({"Cast", "CastLike", "Identity", "QuantizeLinear"})
"""Operators whose rules take such types themselves."""
MODULAR: Final = frozenset({
    "Add", "Sub", "Mul", "Neg", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Equal",
    "Where", "Reshape", "Transpose", "Concat", "Slice", "Gather", "Expand", "Squeeze", "Unsqueeze",
})  # fmt: skip
"""Operators to which it makes no difference whether 64 bits have a sign."""


def computed(
    b: NodeBuilder, node: Any, inputs: Sequence[Any], emit: Callable[[Sequence[Any]], Any]
) -> Any:
    """What ``emit`` makes of inputs in wider types, narrowed where ONNX says it has their type.

    Sums and products of what stands for unsigned integers have the right low bits, and each result
    is narrowed before the next operator reads it.
    """
    stored = [v.dtype if isinstance(v, Value) and v.dtype in dt.HELD_IN else None for v in inputs]
    if node.op_type in AWARE or not any(stored):
        return emit(inputs)
    if dt.uint64 in stored and node.op_type not in MODULAR:
        raise b.unsupported("of uint64 has no rule, as pirkit has only signed integers of 64 bits")
    wide = [b.cast(v, dt.HELD_IN[v.dtype]) if d else v
            for v, d in zip(inputs, stored, strict=True)]  # fmt: skip
    made = emit(wide)
    schema = defs.get_schema(node.op_type, b.opset, node.domain)
    several = cast("tuple[Any, ...]", made) if isinstance(made, tuple) else (made,)
    types = dict[str, dt.DType]()
    for k, dtype in enumerate(stored):
        if dtype is not None:
            types[schema.inputs[min(k, len(schema.inputs) - 1)].type_str] = dtype
    narrowed = tuple([
        b.cast(v, types[schema.outputs[min(k, len(schema.outputs) - 1)].type_str])
        if isinstance(v, Value)
        and schema.outputs[min(k, len(schema.outputs) - 1)].type_str in types
        else v
        for k, v in enumerate(several)
    ])  # fmt: skip
    return narrowed if isinstance(made, tuple) else narrowed[0]
