"""Liveness of slots: removes dead calls, and frees slots after their last use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set

from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.runtime.plan import (
    Call,
    If,
    Instruction,
    Operand,
    While,
    blocks,
    instructions,
    reads,
    show_operand,
    slots_of,
    writes,
)

Body = tuple[Instruction, ...]


def without_dead_calls(
    body: Body,
    live_out: Iterable[Operand],
    droppable: Collection[str],
    skippable: Mapping[str, Collection[int]],
) -> Body:
    """The body without calls of ``droppable`` (pure) kernels whose results are dead.

    ``skippable`` are the positions of the results that a kernel does not compute if they are dead.
    Raises InternalError if an instruction then reads what nothing computes.
    """
    pinned = set(slots_of(live_out))
    needed = Counter(s for i in instructions(body) for s in reads(i))

    def is_dead(operand: Operand) -> bool:
        return not any(needed[s] or s in pinned for s in slots_of((operand,)))

    def visit(body: Body) -> Body:
        live: list[Instruction] = []
        # backwards: removing a call may leave the calls that it reads from dead
        for instruction in reversed(body):
            if isinstance(instruction, Call):
                if instruction.kernel in droppable and all(map(is_dead, instruction.outputs)):
                    needed.subtract(reads(instruction))
                    continue
                skipped = skippable.get(instruction.kernel)
                if skipped:
                    outputs = [
                        None if k in skipped and is_dead(o) else o
                        for k, o in enumerate(instruction.outputs)
                    ]
                    instruction = replace(instruction, outputs=tuple(outputs))
            live.append(_map_blocks(instruction, visit))
        return tuple(reversed(live))

    found = visit(body)
    made, written = (set[int]().union(*map(writes, instructions(b))) for b in (body, found))
    missing = made - written
    for instruction in instructions(found) if missing else ():
        _refuse_reads(instruction, missing, "but no instruction computes it")
    return found


def _refuse_reads(instruction: Instruction, slots: Set[int], why: str) -> None:
    """Raise InternalError if an instruction reads one of these slots.

    Every backend shares the plan: no comparison of backends finds this.
    """
    wrong = slots & set(reads(instruction))
    if wrong:
        name = instruction.kernel if isinstance(instruction, Call) else "an instruction"
        raise InternalError(
            f"`{name}` reads {show_operand(min(wrong))}, {why}: the liveness of the"
            " plan (pirkit/lowering/liveness.py) is wrong",
            span=instruction.span,
        )


def with_frees(body: Body, live_out: Iterable[Operand]) -> Body:
    """The body with each slot freed after its last use, in the block that first writes it.

    Raises InternalError if an instruction reads a slot that was freed before.
    """
    pinned = frozenset(slots_of(live_out))
    freed = _free_block(body, pinned)
    _require_live(freed, set())
    return freed


def _require_live(body: Body, given: Set[int]) -> set[int]:
    """Check that no instruction reads a slot of ``given``, or one freed before; returns the dead.

    The memory planner would give its bytes to another value.
    """
    dead = set(given)
    for instruction in body:
        _refuse_reads(instruction, dead, "after it was freed")
        held = dead
        if isinstance(instruction, While):  # the second iteration
            held = dead.union(_after(instruction.body, dead))
        after = [_require_live(block, held) for block in blocks(instruction)]
        # A slot that a block writes is alive after it, also if an earlier iteration has freed it.
        dead = after[0].union(*after[1:]) if after else dead
        dead.difference_update(writes(instruction))
        dead.update(instruction.frees)
    return dead


def _after(body: Body, dead: Set[int]) -> set[int]:
    """The dead slots after a body that begins with ``dead`` ones."""
    written, freed = _effect(body)
    return {*(dead - written), *freed}


def _effect(body: Body) -> tuple[set[int], set[int]]:
    """The slots that a body leaves alive, whatever was dead before it, and those that it frees.

    It stands for the first iteration of a loop, so that only the second one is checked: checking
    both would double the work at each level of nested loops.
    """
    written, freed = set[int](), set[int]()
    for instruction in body:
        inner = [_effect(block) for block in blocks(instruction)]
        if inner:
            alive = set[int].intersection(*[w for w, _ in inner])
            freed = (freed - alive).union(*[f for _, f in inner])
            written |= alive
        direct = set(writes(instruction))
        written |= direct
        freed = (freed - direct).union(instruction.frees)
    return written, freed


def _free_block(body: Body, outer: frozenset[int]) -> Body:
    last: dict[int, int] = {}
    first_written: set[int] = set()
    for index, instruction in enumerate(body):
        direct = {*reads(instruction), *writes(instruction)}
        first_written |= direct - outer
        for slot in {*direct, *_touched_inside(instruction)} - outer:
            if slot in last:  # a slot that two instructions touch outlives the blocks inside them
                first_written.add(slot)
            last[slot] = index
    frees: dict[int, list[int]] = {}
    for slot in first_written:
        frees.setdefault(last[slot], []).append(slot)
    inner = outer | first_written
    return tuple(
        replace(
            _map_blocks(instruction, lambda b: _free_block(b, inner)),
            frees=tuple(sorted(frees.get(index, ()))),
        )
        for index, instruction in enumerate(body)
    )


def _touched_inside(instruction: Instruction) -> Iterator[int]:
    for block in blocks(instruction):
        for nested in instructions(block):
            yield from reads(nested)
            yield from writes(nested)


def _map_blocks(instruction: Instruction, change: Callable[[Body], Body]) -> Instruction:
    match instruction:
        case If():
            return replace(
                instruction, then=change(instruction.then), orelse=change(instruction.orelse)
            )
        case While():
            return replace(instruction, body=change(instruction.body))
        case _:
            return instruction
