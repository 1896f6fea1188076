"""Traces: one entry for each executed instruction, with its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pirkit.diag.span import Span
from pirkit.runtime.meta import Meta, of_value
from pirkit.runtime.plan import Call, Instruction, Operand, slots_of
from pirkit.runtime.run_block import BlockSteps, execute

if TYPE_CHECKING:
    from pirkit.runtime.slots import SlotTable


@dataclass(frozen=True)
class Entry:
    """One executed instruction. ``seconds`` of a branch or a loop include its body."""

    what: str
    span: Span | None
    seconds: float
    inputs: tuple[Meta, ...] = ()
    outputs: tuple[Meta, ...] = ()
    depth: int = 0
    origin: tuple[str, ...] = ()
    """Notes on where it comes from, such as the lines of all operations of a fused kernel."""
    call: Call | None = None
    """The call of the plan, if it is one."""

    def __str__(self) -> str:
        shown = f"{', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}"
        where = f"  {self.span}" if self.span else ""
        where += f" ({'; '.join(self.origin)})" if self.origin else ""
        return f"{self.seconds * 1e6:10.1f} us  {'  ' * self.depth}{self.what}  {shown}{where}"


@dataclass
class Trace:
    """The entries of one run, in order of their start; ``clock`` tells wall time by default."""

    entries: list[Entry] = field(default_factory=list[Entry])
    depth: int = 0
    clock: Callable[[], float] = time.perf_counter

    def run(self, slot_table: SlotTable, steps: BlockSteps) -> None:
        """Run a block, one step at a time, and record each."""
        for call, instruction in zip(steps.calls, steps.instructions, strict=True):
            inputs = operands(instruction)
            before = tuple(_metas(slot_table, inputs))
            place = len(self.entries)
            self.depth += 1
            begin = self.clock()
            execute(slot_table, BlockSteps((call,), (instruction,)))
            seconds = self.clock() - begin
            self.depth -= 1
            after = tuple(_metas(slot_table, results(instruction)))
            called = instruction if isinstance(instruction, Call) else None
            origin = called.origin if called is not None else ()
            what, span = _name(instruction), instruction.span
            entry = Entry(what, span, seconds, before, after, self.depth, origin, called)
            self.entries.insert(place, entry)

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries)) + "\n"


def operands(instruction: Instruction) -> tuple[Operand, ...]:
    """What a call reads; nothing for other instructions."""
    return instruction.inputs if isinstance(instruction, Call) else ()


def results(instruction: Instruction) -> tuple[Operand, ...]:
    """What a call writes; nothing for other instructions."""
    return instruction.outputs if isinstance(instruction, Call) else ()


def _metas(slot_table: SlotTable, values: tuple[Operand, ...]) -> Iterator[Meta]:
    for slot in slots_of(values):
        value: Any = slot_table.value(slot)
        if value is not None:
            yield of_value(value)


def _name(instruction: Instruction) -> str:
    return (
        instruction.kernel if isinstance(instruction, Call) else type(instruction).__name__.lower()
    )
