"""Moves operations that depend on no gradient from the backward to the forward program."""

from __future__ import annotations

from msgspec.structs import replace

from pirkit.analysis.effects import is_pure, is_quiet
from pirkit.dialect.operation import PirOp
from pirkit.dialect.type_sizes import bytes_of
from pirkit.split.backward_reads import Demand, captured
from pirkit.split.joint import Joint, at
from pirkit.split.storage_versions import Contents, Need


def floated(joint: Joint, contents: Contents, demand: Demand) -> Joint:
    """Mark every backward operation that may also run in the forward program as floating.

    Such an operation depends on no gradient, and reads the versions at the end of the forward
    program. No operation changes its place; the choice of saved values decides where it runs.
    """
    floating: set[PirOp] = set()
    for op in joint.backward:
        if is_quiet(op) and all(
            (
                demand.uses[place] == contents.read(*place)
                if place in demand.uses
                else place[0].operands[place[1]].owner in floating
            )
            for place in captured(op)
        ):
            floating.add(op)
    forward = {*joint.forward, *floating}
    return replace(
        joint,
        forward=tuple([op for op in joint.program.operations if op in forward]),
        backward=tuple([op for op in joint.backward if op not in floating]),
        floating=frozenset(floating),
    )


def reordered(joint: Joint, contents: Contents, demand: Demand) -> tuple[Joint, list[str]]:
    """Move some backward operations into the forward program; returns notes about them.

    A version that is overwritten before the backward begins would have to be copied. Instead, its
    readers in the backward run before the write, if all of them depend on no gradient and their
    results are no larger than the version.
    """
    by_need: dict[Need, list[PirOp]] = {}
    for (op, _), need in demand.uses.items():
        if need.stale:
            by_need.setdefault(need, []).append(op)
    moved: dict[PirOp, PirOp] = {}
    notes: list[str] = []
    for need, users in by_need.items():
        writer = contents.overwriter(need)
        if writer is None or need in demand.given.values():
            continue
        if any(op in moved or not _may_move(op, writer, contents, demand) for op in users):
            continue
        if sum(bytes_of(r.type) for op in users for r in op.results) > bytes_of(need.value.type):
            continue
        for op in dict.fromkeys(users):
            moved[op] = writer
            notes.append(f"moved `{op.name}`{at(op)} before `{writer.name}`{at(writer)}")
    return (_moved(joint, moved), notes) if moved else (joint, [])


def _may_move(op: PirOp, writer: PirOp, contents: Contents, demand: Demand) -> bool:
    """True if the operation reads only forward versions that exist before the write."""
    if not is_pure(op) or op.parent is not contents.joint.program.block:
        return False
    needs = [demand.uses.get((op, index)) for index in range(len(op.operands))]
    return all(need is not None and _is_current(need, writer, contents) for need in needs)


def _is_current(need: Need, writer: PirOp, contents: Contents) -> bool:
    """True if the storage holds the version just before the write."""
    owner = need.value.owner
    if isinstance(owner, PirOp) and not owner.is_before_in_block(writer):
        return False
    if need.stale:
        return contents.overwriter(need) is writer
    return not any(e in contents.last for e in contents.versions.classes.of(need.value))


def _moved(joint: Joint, moved: dict[PirOp, PirOp]) -> Joint:
    block = joint.program.block
    for op, writer in moved.items():
        op.detach()
        block.insert_op_before(op, writer)
    forward = {*joint.forward, *moved}
    return replace(
        joint,
        forward=tuple([op for op in joint.program.operations if op in forward]),
        backward=tuple([op for op in joint.backward if op not in moved]),
    )
