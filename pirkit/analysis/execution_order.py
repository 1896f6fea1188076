"""Execution order: positions of operations, and which may run between two others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from xdsl.ir import Block, Operation

from pirkit.dialect.kinds import LOOP
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, declares


def operations(block: Block) -> Iterator[PirOp]:
    """Iterate over the operations of a block and its regions; an operation precedes its regions.

    The caller may erase or replace the operation that was yielded last; its replacement is not
    yielded.
    """
    op: Any = block.first_op
    stack: list[Operation | None] = []
    while op is not None or stack:
        if op is None:
            op = stack.pop()
            continue
        after = op.next_op
        yield op
        if op.parent is not None and (regions := bodies(op)):
            stack.append(after)
            stack += [region.block.first_op for region in reversed(regions)]
            after = stack.pop()
        op = after


class Order(Struct, frozen=True):
    """Positions of the operations of one program; valid while operations are only erased."""

    positions: dict[Operation, int]
    ends: dict[Operation, int]
    """Loop -> the position after everything inside it."""

    def may_come_between(self, first: Operation, middle: Sequence[int], last: Operation) -> bool:
        """True if one of the positions, which ascend, may run after ``first`` and before ``last``.

        ``first`` must dominate ``last``. In a loop that contains ``last`` but not ``first``,
        operations after ``last`` run before it in the next iteration.
        """
        ranges = [(self.positions[first], self.positions[last])]
        # In a loop around `last` only, its whole body may run between `first` and a run of `last`.
        for loop in loops_around(last) - loops_around(first):
            ranges.append((self.positions[loop], self.ends[loop]))
        return any(bisect_right(middle, low) < bisect_left(middle, high) for low, high in ranges)


def order_of(program: ProgramOp) -> Order:
    """Number all operations of a program in one traversal."""
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
    """The loops that contain an operation."""
    found: set[Operation] = set()
    parent = op.parent_op()
    while parent is not None:
        if declares(parent, LOOP):
            found.add(parent)
        parent = parent.parent_op()
    return found
