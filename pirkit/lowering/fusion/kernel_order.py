"""Orders the ops of a block and the kernels made of some of them: each after what it reads."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from xdsl.ir import Block, Operation, SSAValue

from pirkit.diag.errors import InternalError
from pirkit.dialect.opdef import PURE
from pirkit.dialect.operation import PirOp, with_nested
from pirkit.lowering.fusion.kernel_builder import Generated


def lists_read_by(nodes: AbstractSet[Operation]) -> set[Operation]:
    """Lists (`pir.combine`) that only fused ops read."""
    found: set[Operation] = set()
    for op in nodes:
        for value in op.operands:
            owner = value.owner
            if isinstance(owner, Operation) and owner.name == "pir.combine":
                if all(use.operation in nodes for use in value.uses):
                    found.add(owner)
    return found


def unread_lists(block: Block) -> set[Operation]:
    """Lists without readers; their uses would keep their elements alive."""
    lists = (op for op in block.ops if op.name == "pir.combine")
    return {op for op in lists if op.results[0].first_use is None}


def in_order(
    block: Block, nodes: Mapping[Operation, Generated], gone: AbstractSet[Operation]
) -> Iterator[Operation | Generated]:
    """Ops and kernels in topological order; ties are broken by the order of the program.

    Ops with effects keep their order, and the terminator stays last, as nothing waits for it.
    """
    items: list[Operation | Generated] = []
    number: dict[object, int] = {}
    for op in block.ops:
        item = nodes.get(op, op)
        if item not in number and (op in nodes or op not in gone):
            number[item] = len(items)
            items.append(item)
    last = {nodes.get(op, op): k for k, op in enumerate(block.ops)}
    after: list[set[int]] = [set() for _ in items]
    waits = [0] * len(items)
    effect: int | None = None
    for item in items:
        here = number[item]
        before = {number[nodes.get(o, o)] for o in _owners(item, block)} - {here}
        if isinstance(item, PirOp) and item.definition.effects != PURE:
            before |= {effect} if effect is not None else set()
            effect = here
        for k in before:
            after[k].add(here)
        waits[here] = len(before)
    ready = [(last[item], number[item]) for item in items if not waits[number[item]]]
    heapq.heapify(ready)
    done = 0
    while ready:
        _, here = heapq.heappop(ready)
        done += 1
        yield items[here]
        for k in after[here]:
            waits[k] -= 1
            if not waits[k]:
                heapq.heappush(ready, (last[items[k]], k))
    if done < len(items):
        raise InternalError("a kernel would have to wait for itself")


def _owners(item: Operation | Generated, block: Block) -> Iterator[Operation]:
    values: list[SSAValue] = []
    if isinstance(item, Generated):
        values += item.inputs
    else:
        for op in with_nested(item):
            values += op.operands
    for value in values:
        owner = value.owner
        if isinstance(owner, Operation) and owner.parent is block:
            yield owner
