"""Orders the ops of a block and the kernels made of some of them: each after what it reads."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from xdsl.ir import Block, Operation, SSAValue

from pirkit.diag.errors import InternalError
from pirkit.dialect.opdef import PURE
from pirkit.dialect.operation import PirOp, with_nested
from pirkit.lowering.fusion.index_equations import Equations
from pirkit.lowering.fusion.kernel_builder import Generated


class Cycle(InternalError):
    """Kernels and ops wait for each other.

    A kernel computes its sizes from its inputs, so partitioning ignores the operands that hold the
    shape of a result. The op has to wait for them after all if its kernel is not made, or if the
    sizes come from the result of another kernel.
    """

    def __init__(self, items: Sequence[Operation | Generated]) -> None:
        super().__init__("a kernel would have to wait for itself")
        self.items = items

    def shaped_by_operands(self, found: Equations) -> set[PirOp]:
        """Ops of the cycle whose level ignores an operand: those outside of kernels, if any."""
        outside = [i for i in self.items if isinstance(i, PirOp)]
        inside = [u.op for i in self.items if isinstance(i, Generated) for u in i.units]
        return _shaped(outside, found) or _shaped(inside, found)


def _shaped(ops: Iterable[PirOp], found: Equations) -> set[PirOp]:
    units = (found.units.get(op) for op in ops)
    return {u.op for u in units if u is not None and len(u.op.operands) > len(u.tensors)}


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
) -> list[Operation | Generated]:
    """Ops and kernels in topological order; ties are broken by the order of the program.

    Ops with effects keep their order, and the terminator stays last, as nothing waits for it.
    Raises Cycle if there is no such order.
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
    ordered: list[Operation | Generated] = []
    while ready:
        _, here = heapq.heappop(ready)
        ordered.append(items[here])
        for k in after[here]:
            waits[k] -= 1
            if not waits[k]:
                heapq.heappush(ready, (last[items[k]], k))
    if len(ordered) < len(items):
        raise Cycle([item for item, left in zip(items, waits, strict=True) if left])
    return ordered


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
