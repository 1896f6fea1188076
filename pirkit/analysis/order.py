"""Order of execution: where operations stand, and which may run between two others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Block, Operation

from pirkit.dialect.operation import PirOp, ProgramOp

LOOPS = frozenset({"pd_op.while"})
"""Ops whose region may run more than once."""


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

    def is_before(self, first: Operation, second: Operation) -> bool:
        """True if ``first`` stands before ``second`` in the text of the program."""
        return self.positions[first] < self.positions[second]

    def may_follow(self, first: Operation, second: Operation) -> bool:
        """True if ``second`` may run at some time after ``first`` has run."""
        return self.is_before(first, second) or bool(_loops(first) & _loops(second))

    def may_come_between(self, first: Operation, middle: Operation, last: Operation) -> bool:
        """True if ``middle`` may run after ``first`` and before ``last``, which it dominates.

        In a loop around the last two but not around the first, what stands behind ``last`` runs
        before it in the next turn.
        """
        if self.is_before(first, middle) and self.is_before(middle, last):
            return True
        return bool((_loops(middle) & _loops(last)) - _loops(first))


def order_of(program: ProgramOp) -> Order:
    """Positions of all operations of a program, in one walk."""
    return Order({op: index for index, op in enumerate(operations(program.block))})


def _loops(op: Operation) -> set[Operation]:
    """The loops around an operation."""
    found: set[Operation] = set()
    parent = op.parent_op()
    while parent is not None:
        if parent.name in LOOPS:
            found.add(parent)
        parent = parent.parent_op()
    return found
