"""Finds which versions of forward values the backward reads, and whether as data or as shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct
from xdsl.ir import Operation, SSAValue

from pirkit.dialect.kinds import ALIAS, LOOP
from pirkit.dialect.operation import PirOp, declares
from pirkit.split.joint import Joint
from pirkit.split.storage_versions import Contents, Need, with_inner

Place: TypeAlias = tuple[PirOp, int]
"""An operation and the index of an operand."""


class Demand(Struct, frozen=True):
    """The values that the backward reads: each version once, in the order of the first read."""

    data: tuple[Need, ...]
    """Versions of which some operation reads the data."""
    shapes: tuple[Need, ...]
    """Versions of which only shape and dtype are read."""
    uses: dict[Place, Need]
    """Operand of a backward operation -> the version of the forward value that it reads."""
    given: dict[str, Need]
    """Input or parameter -> its gradient, if that is a forward value."""


def demand_of(joint: Joint, contents: Contents) -> Demand:
    """Find what the backward of a joint program reads.

    Raises PassError (PK0806) for a read whose version is ambiguous.
    """
    forward = forward_values(joint)
    uses: dict[Place, Need] = {}
    found: dict[Need, bool] = {}
    for op in joint.backward:
        for inner in with_inner(op):
            for index, value in enumerate(inner.operands):
                if value in forward:
                    need = uses[inner, index] = contents.meant(inner, index)
                    found[need] = found.get(need, False) or reads_data(inner, index)
    lent = {need: Need(need.value) for need, is_data in found.items() if need.stale and not is_data}
    uses = {place: lent.get(need, need) for place, need in uses.items()}
    for need, shape in lent.items():  # a later write changes the data, but not the shape
        del found[need]
        found.setdefault(shape, False)
    given = {n: contents.made(v) for n, v in joint.gradients.items() if v in forward}
    found.update(dict.fromkeys(given.values(), True))
    data = tuple(need for need, is_data in found.items() if is_data)
    shapes = tuple(need for need, is_data in found.items() if not is_data)
    return Demand(data, shapes, uses, given)


def forward_values(joint: Joint) -> set[SSAValue]:
    """The values of the forward program: inputs, parameters and results of its operations."""
    made = {r for op in joint.forward for r in op.results}
    return {*joint.inputs.values(), *joint.params.values(), *made}


def read_by(contents: Contents, op: PirOp, index: int) -> Need:
    """The version that a forward operand reads; the last one if only its shape is read."""
    return contents.read(op, index) if reads_data(op, index) else Need(op.operands[index])


def captured(op: PirOp) -> Iterator[Place]:
    """The operands of an operation, and the operands in its regions that come from outside."""
    for inner in with_inner(op):
        for index, value in enumerate(inner.operands):
            if inner is op or not op.is_ancestor(_parent_operation(value)):
                yield inner, index


def reads_data(op: PirOp, index: int) -> bool:
    """True if the data of an operand is read, not only its shape and dtype, also through aliases.

    The analysis follows aliases, yields and loop arguments: an operand that a loop or branch only
    passes on counts as read if a user of the result reads it.
    """
    pending, seen = [(op, index)], {(op, index)}
    while pending:
        user, at = pending.pop()
        follows = _becomes(user, at)
        if follows is None:
            return True
        for value in follows:
            for use in value.uses:
                user = use.operation
                if isinstance(user, PirOp) and (step := (user, use.index)) not in seen:
                    seen.add(step)
                    pending.append(step)
    return False


def _becomes(op: PirOp, index: int) -> list[SSAValue] | None:
    """The values that alias an operand after the op; None if the op reads its data."""
    if declares(op, ALIAS):
        return list(op.results)
    if op.name == "pir.yield":
        around = op.parent_op()
        if not isinstance(around, PirOp) or (declares(around, LOOP) and index == 0):
            return None
        if declares(around, LOOP):
            return [around.results[index - 1], around.regions[0].block.args[index - 1]]
        return [around.results[index]]
    if declares(op, LOOP):
        return None if index == 0 else [op.results[index - 1], op.regions[0].block.args[index - 1]]
    definition, name = op.definition, _slot_name(op, index)
    if definition.writes and name in definition.inplace.values():
        return None  # the op writes the storage, so it needs the storage itself
    return [] if name in definition.reads_meta_only else None


def _slot_name(op: PirOp, index: int) -> str:
    """The name of the operand at an index among the operands that are given."""
    filled = [
        slot.name
        for slot, value in zip(op.definition.operands, op.operand_slots, strict=False)
        if value is not None
    ]
    return filled[index] if index < len(filled) else ""


def _parent_operation(value: SSAValue) -> Operation:
    owner = value.owner
    if isinstance(owner, Operation):
        return owner
    around = owner.parent_op()
    assert around is not None, "a block of a program stands in an operation"
    return around
