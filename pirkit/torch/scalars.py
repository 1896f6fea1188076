"""Numbers that depend on data: what `item` gives, and arithmetic of Python on it.

In a program they are values without dimensions, of Python's precision (float64, int64), and no
gradient flows through them. In torch's type promotion they count as numbers of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.libtorch import torch

_OPS: Final = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "divide",
    "mod": "remainder",
    "pow": "elementwise_pow",
    "neg": "scale",
    "lt": "less_than",
    "le": "less_equal",
    "gt": "greater_than",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
    "and_": "logical_and",
    "or_": "logical_or",
    "not_": "logical_not",
    "sym_max": "maximum",
    "sym_min": "minimum",
    "_sym_sqrt": "sqrt",
}
_CASTS: Final = ("_local_scalar_dense", "sym_float", "sym_int")


def is_number(fake: Any) -> bool:
    """Whether the ``val`` of a node is a number, known or not."""
    return isinstance(fake, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool)


def computed(b: AtenBuilder, node: Any, args: Sequence[Any]) -> Value:
    """The number that a node computes from others, or reads from a tensor.

    Raises UnsupportedError (PK0409) for an operation that has no rule.
    """
    dtype = _type_of(node.meta["val"])
    if any(name in str(node.target) for name in _CASTS):
        return b.stopped(b.cast(b.reshape(args[0], ()), dtype))
    name = getattr(node.target, "__name__", "")
    op = _OPS.get(name)
    if op is None:
        raise UnsupportedError(
            f"`{node.target}` of a number that depends on data has no rule", code="PK0409",
            help="compute it with tensors, or let the graph break there",
        )  # fmt: skip
    inner = dt.float64 if op == "divide" else _inner(args, dtype)
    typed = [b.cast(a, inner) if isinstance(a, Value) else b.const(a, inner) for a in args]
    emit: Callable[..., Value] = b
    found = typed[0] * -1 if op == "scale" else emit(f"pd_op.{op}", *typed)
    if name == "floordiv":
        found = b.floor(found)
    return b.cast(found, dtype)


def _type_of(number: Any) -> DType:
    if isinstance(number, torch.SymBool | bool):
        return dt.bool_
    return dt.int64 if isinstance(number, torch.SymInt | int) else dt.float64


def _inner(args: Sequence[Any], result: DType) -> DType:
    """The type in which an operation computes: the widest of operands and result."""
    kinds = {result, *(a.dtype if isinstance(a, Value) else _type_of(a) for a in args)}
    return next((d for d in (dt.float64, dt.int64) if d in kinds), dt.bool_)
