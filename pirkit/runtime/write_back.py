"""Finds values that can be computed directly in the buffer of the variable they are stored to.

A functionalized program computes the new content of a parameter or buffer as a separate value and
copies it into the variable at the end. If nothing accesses the variable between the computation and
the copy, the value can have the variable's buffer, and the copy is elided.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Final

from pirkit.runtime.plan import Call, Instruction, Plan, blocks, reads, writes

Access = Callable[[Instruction], Iterator[int]]

WRITE_BACK: Final = "pd_op.assign_out_"
"""The op that copies its first operand into its second."""


def written_back(plan: Plan, pinned: Container[int]) -> dict[int, int]:
    """Maps the slot of a value to the slot of the variable that it is copied into.

    Only values without a use after the copy, for which nothing reads or writes the variable between
    the instruction that computes the value and the copy. Slots in ``pinned`` are excluded.
    """
    # one pass: the last access of each slot, and the single instruction that defines it
    touched: dict[int, int] = {}
    maker: dict[int, int | None] = {}
    found: dict[int, int] = {}
    for index, instruction in enumerate(plan.body):
        pair = copied(instruction)
        if pair is not None:
            value, variable = pair
            made = maker.get(value)
            is_free = value in instruction.frees and value not in pinned
            if is_free and made is not None and touched.get(variable, -1) <= made:
                found[value] = variable
        for slot in _all(reads, instruction):
            touched[slot] = index
        for slot in _all(writes, instruction):
            # A slot written twice, or inside a branch or a loop, has no single definition.
            is_first = slot not in maker and isinstance(instruction, Call)
            maker[slot] = index if is_first else None
            touched[slot] = index + 1
    return found


def copied(instruction: Instruction) -> tuple[int, int] | None:
    """The value and the variable, if the instruction is a write-back; else None."""
    if not isinstance(instruction, Call) or instruction.kernel != WRITE_BACK:
        return None
    match instruction.inputs, instruction.outputs:
        case (int(value), int(variable)), (int(result),) if result == variable != value:
            return value, variable
        case _:
            return None


def _all(access: Access, instruction: Instruction) -> Iterator[int]:
    yield from access(instruction)
    for block in blocks(instruction):
        for inner in block:
            yield from _all(access, inner)
