"""Persistent numbers of operations, to follow an operation through passes."""

from __future__ import annotations

from typing import Final

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.operation import PirOp, with_nested

OP_ID: Final = "op_id"
"""The attribute with the number. The replacement of an operation takes over its number."""


def give_ids(module: ModuleOp) -> None:
    """Give each operation without a number the next one, in the order of the text."""
    operations = [op for op in with_nested(module) if isinstance(op, PirOp)]
    held = [number for op in operations if (number := id_of(op)) is not None]
    following = max(held, default=-1) + 1
    for op in operations:
        if id_of(op) is None:
            op.attributes[OP_ID] = mlir.IntegerAttr(following, mlir.i64)
            following += 1


def id_of(op: PirOp) -> int | None:
    """The number of an operation, or None if it has none."""
    held = op.attributes.get(OP_ID)
    return held.value.data if isinstance(held, mlir.IntegerAttr) else None
