"""Runs a program op by op on arrays; in-place writes go into the given array.

Much quicker than compiling for programs that run once, and stricter: what shares storage shares
memory. It knows programs without regions and lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from pirkit.dialect.kinds import SINK, SOURCE
from pirkit.dialect.opdef import reference
from pirkit.dialect.operation import PirOp, ProgramOp, declares
from pirkit.passes.symbolic_dims import inputs_of
from tests.ops.calls import as_tuple

Array = np.ndarray[Any, Any]


def interpret(
    program: ProgramOp, given: Mapping[str, Array], *, poison: bool = False
) -> dict[str, Array]:
    """The outputs by name; inputs and parameters that the program writes are written.

    With ``poison``, memory that no value has any more which is read later is filled with what
    spoils every number.
    """
    values: dict[SSAValue, Array] = {v: given[n] for n, v in inputs_of(program).items()}
    host = set(map(id, values.values()))
    outputs: dict[str, Array] = {}
    last = {v: i for i, op in enumerate(program.operations) for v in op.operands}
    for index, op in enumerate(program.operations):
        if declares(op, SINK):
            outputs[op.attribute("output_name")] = values[op.operands[0]]
        elif not declares(op, SOURCE):
            compute(op, values)
        if poison:
            alive = host | {id(a) for v, a in values.items() if last.get(v, -1) > index}
            alive |= set(map(id, outputs.values()))
            for array in values.values():
                if id(array) not in alive:
                    array.fill(np.nan if array.dtype.kind in "fc" else 1)
    return outputs


def compute(op: PirOp, values: dict[SSAValue, Array]) -> None:
    definition = op.definition
    slots = list(zip(definition.operands, op.operand_slots, strict=True))
    tensors = [None if v is None else values[v] for s, v in slots if s.kind is None]
    late = {
        s.name: op.attribute(s.name) if v is None else values[v].tolist()
        for s, v in slots
        if s.kind is not None
    }
    with np.errstate(all="ignore"):
        made = as_tuple(reference.of(definition)(*tensors, **op.attribute_values(), **late))
    written = definition.inplace if definition.writes else {}
    for slot, value, array in zip(definition.results, op.result_slots, made, strict=True):
        shared = written.get(slot.name) or definition.views.get(slot.name)
        target = None if shared is None else op.operand_named(shared)
        if slot.name in written and target is not None:
            values[target][...] = array
        if value is not None:
            values[value] = values[target] if target is not None else np.array(array)
