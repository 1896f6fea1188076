"""Order of execution: where operations stand, and which may run between two others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Block, Operation

from pirkit.dialect.kinds import LOOP
from pirkit.dialect.operation import PirOp, ProgramOp, declares


def operations(block: Block) -> Iterator[PirOp]:
    """Every operation of a block and of the regions inside, an operation before its regions.

    The operation that was handed out last may be erased or replaced; what stands in its place is
    not handed out.
    """
    stack = [block.first_op]
    while stack:
        op = stack.pop()
        if op is None:
            continue
        stack.append(op.next_op)
        yield cast(PirOp, op)
        if op.parent is not None:
            stack += [region.block.first_op for region in reversed(op.regions)]


@dataclass(frozen=True)
class Order:
    """Positions of the operations of one program; stays true while operations are only erased."""

    positions: dict[Operation, int]
    ends: dict[Operation, int]
    """Of each loop: the position behind everything inside."""

    def may_come_between(self, first: Operation, middle: Sequence[int], last: Operation) -> bool:
        """True if one of the positions, which ascend, may run after ``first`` and before ``last``.

        ``first`` dominates ``last``. In a loop around the last but not around the first, what
        stands behind the last runs before it in the next turn.
        """
        ranges = [(self.positions[first], self.positions[last])]
        for loop in loops_around(last) - loops_around(first):
            ranges.append((self.positions[loop], self.ends[loop]))
        return any(bisect_right(middle, low) < bisect_left(middle, high) for low, high in ranges)


def order_of(program: ProgramOp) -> Order:
    """Positions of all operations of a program, in one walk."""
    positions: dict[Operation, int] = {}
    ends: dict[Operation, int] = {}
    open_loops: list[Operation] = []
    for index, op in enumerate(operations(program.block)):
        while open_loops and not open_loops[-1].is_ancestor(op):
            ends[open_loops.pop()] = index
        positions[op] = index
        if declares(op, LOOP):
            open_loops.append(op)
    ends.update(dict.fromkeys(open_loops, len(positions)))
    return Order(positions, ends)


def loops_around(op: Operation) -> set[Operation]:
    """The loops in which an operation stands."""
    found: set[Operation] = set()
    parent = op.parent_op()
    while parent is not None:
        if declares(parent, LOOP):
            found.add(parent)
        parent = parent.parent_op()
    return found
