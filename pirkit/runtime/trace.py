"""Traces: one entry for each executed instruction, with its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.diag.span import Span
from pirkit.runtime.meta import Meta, of_value
from pirkit.runtime.native.stepwise import step_times
from pirkit.runtime.plan import SEGMENT, Call, Instruction, Operand, TypedCall, slots_of
from pirkit.runtime.run_block import BlockSteps, execute

if TYPE_CHECKING:
    from pirkit.runtime.native.program import NativeProgram
    from pirkit.runtime.slots import SlotTable


class Entry(Struct, frozen=True):
    """One executed instruction. ``seconds`` of a branch or a loop include its body."""

    what: str
    span: Span | None
    seconds: float
    inputs: tuple[Meta, ...] = ()
    outputs: tuple[Meta, ...] = ()
    depth: int = 0
    origin: tuple[str, ...] = ()
    """Notes on where it comes from, such as the lines of all operations of a fused kernel."""
    calls: tuple[TypedCall, ...] = ()
    """The calls of the plan that it computes: more than one if they share a native function."""
    times: int = 1
    """How often it ran: the functions of loops in native code have one entry for all iterations."""
    nbytes: int = 0
    """Of a native function: the bytes of its operands."""

    def __str__(self) -> str:
        shown = f"{', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}"
        where = f"  {self.span}" if self.span else ""
        where += f" ({'; '.join(self.origin)})" if self.origin else ""
        return f"{self.seconds * 1e6:10.1f} us  {'  ' * self.depth}{self.what}  {shown}{where}"


class Trace(Struct):
    """The entries of one run, in order of their start; ``clock`` tells wall time by default."""

    entries: list[Entry] = field(default_factory=list[Entry])
    depth: int = 0
    clock: Callable[[], float] = time.perf_counter

    def run(self, slot_table: SlotTable, steps: BlockSteps) -> None:
        """Run a block, one step at a time, and record each.

        Native segments run twice: at once, and function by function.
        """
        for call, instruction in zip(steps.calls, steps.instructions, strict=True):
            inputs = operands(instruction)
            before = tuple(_metas(slot_table, inputs))
            called = instruction if isinstance(instruction, Call) else None
            taken: list[np.ndarray[Any, Any]] = []
            if called is not None and called.kernel == SEGMENT:
                # it runs twice, and a result of the first run may lie in memory of an argument
                taken = [np.array(slot_table.value(slot)) for slot in slots_of(called.inputs)]
            place = len(self.entries)
            self.depth += 1
            begin = self.clock()
            execute(slot_table, BlockSteps((call,), (instruction,)))
            seconds = self.clock() - begin
            self.depth -= 1
            after = tuple(_metas(slot_table, results(instruction)))
            origin = called.origin if called is not None else ()
            calls = (TypedCall(called, before, after),) if called is not None else ()
            what, span = _name(instruction), instruction.span
            entry = Entry(what, span, seconds, before, after, self.depth, origin, calls)
            self.entries.insert(place, entry)
            if called is not None and called.kernel == SEGMENT:
                self._segment(called, taken)

    def _segment(self, segment: Call, arrays: Sequence[Any]) -> None:
        """Record the functions of a native segment: those of the same calls as one entry."""
        program: NativeProgram = segment.attrs["program"]
        found: dict[tuple[int, ...], Entry] = {}
        whole = Entry("native function", segment.span, 0.0, origin=segment.origin)
        alone = Entry("copy", None, 0.0) if any(s.calls for s in program.steps) else whole
        times = step_times(program.own_session(), arrays, self.clock)
        for step, (seconds, iterations) in zip(program.steps, times, strict=True):
            nbytes = iterations * sum(size for size in step.function.code.sizes if size > 0)
            key = tuple([id(c.call) for c in step.calls])
            entry = found.get(key) or _inside(step.calls, self.depth + 1, alone)
            found[key] = replace(
                entry,
                seconds=entry.seconds + seconds,
                times=max(entry.times, iterations),
                nbytes=entry.nbytes + nbytes,
            )
        self.entries += [entry for entry in found.values() if entry.times]

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries)) + "\n"


def _inside(calls: tuple[TypedCall, ...], depth: int, alone: Entry) -> Entry:
    """The entry of what native functions compute, before they have run; ``alone`` without calls."""
    if not calls:
        return replace(alone, depth=depth, times=0)
    made = {slot for c in calls for slot in slots_of(c.call.outputs)}
    given = [
        (slot, meta)
        for c in calls
        for slot, meta in zip(slots_of(c.call.inputs), c.inputs, strict=True)
    ]
    inputs = tuple({slot: meta for slot, meta in given if slot not in made}.values())
    span = next((c.call.span for c in calls if c.call.span is not None), None)
    origin = tuple(dict.fromkeys(note for c in calls for note in c.call.origin))
    what = " + ".join(c.call.kernel for c in calls)
    return Entry(what, span, 0.0, inputs, calls[-1].outputs, depth, origin, calls, times=0)


def operands(instruction: Instruction) -> tuple[Operand, ...]:
    """The slots that a call reads; none for other instructions."""
    return instruction.inputs if isinstance(instruction, Call) else ()


def results(instruction: Instruction) -> tuple[Operand, ...]:
    """The slots that a call writes; none for other instructions."""
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
