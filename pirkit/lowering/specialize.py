"""Programs made special: inputs of known shapes, and of known content where they are attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue

from pirkit.analysis.alias import alias_classes
from pirkit.analysis.order import operations
from pirkit.dialect.build import Builder
from pirkit.dialect.infer import is_open
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.types import meta_of
from pirkit.passes import run_pipeline
from pirkit.passes.naming import sources
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import Meta, TensorMeta

Array = np.ndarray[Any, Any]

LARGEST_STATIC = 64
"""Elements of an input whose content may be an attribute: an axis, a shape, a number."""


def static_inputs(program: ProgramOp) -> tuple[str, ...]:
    """The inputs that tell attributes of operations, and that nothing writes."""
    names = {value: name for name, value in sources(program).items() if _is_input(value)}
    classes = alias_classes(program)
    found: dict[str, None] = {}
    for op in operations(program.block):
        for slot, value in zip(op.definition.operands, op.operand_slots, strict=False):
            if slot.kind is None or value is None or not is_open(value):
                continue
            for source in _origins(value):
                if source in names and not classes.is_written(source) and _is_small(source):
                    found[names[source]] = None
    return tuple(found)


def specialized(
    module: ModuleOp, entry: str, shapes: Mapping[str, Meta], values: Mapping[str, Array]
) -> ModuleOp:
    """A copy in which inputs of ``entry`` have these shapes, and those of ``values`` are constants.

    Raises PassError for shapes that do not fit together.
    """
    copy = module.clone()
    held = next(op for op in copy.ops if isinstance(op, ProgramOp) and op.symbol == entry)
    inputs = sources(held)
    b = Builder(held.block, held.block.first_op)
    for name, array in values.items():
        value = inputs[name]
        if isinstance(value.owner, PirOp):
            b.before = value.owner.next_op
        value.replace_all_uses_with(_constant(b, array))
    bound = [
        f"{name}:{'x'.join(map(str, meta.shape))}"
        for name, meta in shapes.items()
        if isinstance(meta, TensorMeta) and not _is_unset(inputs[name], meta)
    ]
    pipeline = f"infer-meta{{bind={','.join(bound)}}}," if bound else ""
    run_pipeline(copy, pipeline + "constant-fold,dce")
    return copy


def _constant(b: Builder, array: Array) -> SSAValue:
    dtype = dt.of_array(array)
    if array.ndim == 1 and array.dtype.kind in "iu":
        return b.full_int_array(value=tuple(array.tolist()), dtype=dtype).ssa
    if array.size == 1:
        return b.full(shape=array.shape, value=array.item(), dtype=dtype).ssa
    return b.assign_value(shape=array.shape, dtype=dtype, values=tuple(array.ravel().tolist())).ssa


def _origins(value: SSAValue) -> list[SSAValue]:
    """The values without operands that a value is computed from."""
    found: list[SSAValue] = []
    seen: set[SSAValue] = set()
    todo = [value]
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        owner = each.owner
        if isinstance(owner, PirOp) and owner.operands and not owner.regions:
            todo += owner.operands
        else:
            found.append(each)
    return found


def _is_input(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(value, BlockArgument) or getattr(owner, "name", "") in (
        "pd_op.data",
        "pd_op.feed",
    )


def _is_small(value: SSAValue) -> bool:
    meta = meta_of(value.type)
    return isinstance(meta, TensorMeta) and meta.rank <= 1 and abs(meta.numel) <= LARGEST_STATIC


def _is_unset(value: SSAValue, actual: TensorMeta) -> bool:
    """True for a buffer that was never filled: Paddle declares it without dimensions."""
    declared = meta_of(value.type)
    return isinstance(declared, TensorMeta) and declared.rank != actual.rank
