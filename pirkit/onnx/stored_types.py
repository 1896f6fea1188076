"""Operators on element types that pirkit stores but does not compute with.

For instance uint16 and float8: operands are converted to a wider type (`runtime.dtype.HELD_IN`),
and results are converted back. int64 stands for uint64, which has no wider integer type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from pirkit.dialect.build import Value
from pirkit.dialect.unsigned_words import ordered
from pirkit.onnx.libonnx import defs
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.runtime import dtype as dt

AWARE: Final = frozenset({"Cast", "CastLike", "Identity", "QuantizeLinear"})
"""Operators whose rules handle such types themselves."""
MODULAR: Final = frozenset({
    "Add", "Sub", "Mul", "Neg", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Equal",
    "MatMul", "Where", "Reshape", "Transpose", "Concat", "Slice", "Gather", "Expand", "Squeeze",
    "Unsqueeze",
})  # fmt: skip
"""Operators whose results have the same bits for signed and unsigned integers of 64 bits."""

ORDERED: Final = frozenset({
    "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min", "Clip", "TopK", "ArgMax",
    "ArgMin", "ReduceMax", "ReduceMin",
})  # fmt: skip
"""Operators that compare: they get signed numbers in the order of the unsigned ones."""
WORDS: Final = frozenset({"Div", "Mod", "BitShift", "Pow"})
"""Operators whose rules ask the builder whether int64 stands for uint64 (``b.words``)."""


def computed(
    b: NodeBuilder, node: Any, inputs: Sequence[Any], emit: Callable[[Sequence[Any]], Any]
) -> Any:
    """What ``emit`` returns for the inputs in wider types, with results converted back.

    A result is converted to the type of the inputs whose type variable it has in ONNX's schema. The
    low bits of sums and products of wider integers are right, and each result is narrowed before
    the next operator reads it. Raises UnsupportedError (PK0410) for an operator of uint64 that is
    in none of the tables.
    """
    stored = [v.dtype if isinstance(v, Value) and v.dtype in dt.HELD_IN else None for v in inputs]
    if node.op_type in AWARE or not any(stored):
        return emit(inputs)
    words = dt.uint64 in stored
    if words and node.op_type not in MODULAR | ORDERED | WORDS:
        raise b.unsupported("of uint64 has no rule, as pirkit has only signed integers of 64 bits")
    in_order = words and node.op_type in ORDERED
    wide = [b.cast(v, dt.HELD_IN[v.dtype]) if d else v
            for v, d in zip(inputs, stored, strict=True)]  # fmt: skip
    if in_order:
        wide = [ordered(b, v) if d is dt.uint64 else v
                for v, d in zip(wide, stored, strict=True)]  # fmt: skip
    b.words = words
    try:
        made = emit(wide)
    finally:
        b.words = False
    schema = defs.get_schema(node.op_type, b.opset, node.domain)
    several = cast("tuple[Any, ...]", made) if isinstance(made, tuple) else (made,)
    types = dict[str, dt.DType]()
    for k, dtype in enumerate(stored):
        if dtype is not None:
            types[schema.inputs[min(k, len(schema.inputs) - 1)].type_str] = dtype

    def narrow(k: int, v: Any) -> Any:
        dtype = types.get(schema.outputs[min(k, len(schema.outputs) - 1)].type_str)
        if not isinstance(v, Value) or dtype is None:
            return v
        return b.cast(ordered(b, v) if in_order else v, dtype)

    narrowed = tuple([narrow(k, v) for k, v in enumerate(several)])
    return narrowed if isinstance(made, tuple) else narrowed[0]
