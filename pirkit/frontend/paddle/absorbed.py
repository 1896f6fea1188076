"""Restores operands that Paddle expects in place of attributes.

Paddle passes ``axis``, ``shape`` and the like as operands. A program may hold them as attributes
(``absorb-attributes`` turns constant operands into attributes); before a program is written for
Paddle, each such attribute becomes a ``full_int_array`` or ``full`` again.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Operation, SSAValue

from pirkit.dialect.attrs import decode, encode
from pirkit.dialect.op_form import OPERAND_SEGMENTS
from pirkit.dialect.operation import PirOp, create, with_nested
from pirkit.dialect.signature import Operand
from pirkit.dialect.types import meta_of, tensor_type
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import CPU


def with_operands_restored(module: mlir.ModuleOp) -> mlir.ModuleOp:
    """The module itself if no op holds an absorbed attribute, else a copy in which none does."""
    if not any(_absorbed(op) for op in with_nested(module)):
        return module
    copy = module.clone()
    for op in list(with_nested(copy)):
        names = _absorbed(op)
        if names:
            _restore(cast(PirOp, op), names)
    return copy


def _absorbed(op: Operation) -> set[str]:
    if not isinstance(op, PirOp) or not op.definition.signature.has_absent_operands:
        return set()
    slots = {o.name for o in op.definition.operands if o.kind is not None}
    return slots.intersection(op.properties)


def _restore(op: PirOp, names: set[str]) -> None:
    operands: list[SSAValue | None] = []
    properties = {
        k: v for k, v in op.properties.items() if k not in names and k != OPERAND_SEGMENTS
    }
    constants: list[Operation] = []
    for slot, value in zip(op.definition.operands, op.operand_slots, strict=True):
        if value is None and slot.name in names:
            held = decode(slot.kind or "", op.properties[slot.name])
            made = _constant(slot, held, op)
            constants.append(made)
            value = made.results[0]
        operands.append(value)
    types = [None if r is None else r.type for r in op.result_slots]
    new = create(op.definition, operands, types, properties, op.attributes, op.location)
    block = op.parent_block()
    if block is None:
        return
    block.insert_ops_before([*constants, new], op)
    for old, fresh in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(fresh)
    op.detach()
    op.erase()


def _constant(slot: Operand, value: Any, op: PirOp) -> PirOp:
    common = {"stop_gradient": encode("bool[]", (True,))}
    place = encode("place", CPU)
    if slot.kind == "intarray":
        properties = {"value": encode("i64[]", value), "dtype": encode("dtype", dt.int64)}
        return create(
            "pd_op.full_int_array",
            [],
            [tensor_type((len(value),), dt.int64)],
            {**properties, "place": place},
            common,
            op.location,
        )
    dtype = _scalar_dtype(slot, value, op)
    properties = {
        "shape": encode("intarray", (1,)),
        "value": encode("f64", value),
        "dtype": encode("dtype", dtype),
        "place": place,
    }
    return create("pd_op.full", [], [tensor_type((1,), dtype)], properties, common, op.location)


def _scalar_dtype(slot: Operand, value: Any, op: PirOp) -> DType:
    """The element type of the constant: that of the slot, or of the first operand if it fits."""
    if slot.kind in ("i32", "i64"):
        return dt.int32 if slot.kind == "i32" else dt.int64
    first = op.operands[0] if len(op.operands) else None
    meta = meta_of(first.type) if first is not None else None
    if isinstance(meta, TensorMeta) and (meta.dtype.is_float or isinstance(value, int)):
        return meta.dtype
    return dt.int64 if isinstance(value, int) else dt.float32
