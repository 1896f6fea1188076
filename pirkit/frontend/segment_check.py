"""Finds the wrong part of a native segment by experiments: a call, its memory, or its order.

A segment is compiled as a whole, so its calls cannot be compared one by one while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec.structs import replace as changed

from pirkit.lowering.codegen.about import ROOM, native_form_files
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction, requested
from pirkit.lowering.kernel_facts import abouts, function_fault
from pirkit.lowering.kernel_watch import EndedError, Watch, returns_in_child, watched
from pirkit.lowering.native_ops import FUSED
from pirkit.lowering.whole_program.segments import KnownMetas, with_native_calls
from pirkit.runtime.binding import KERNEL_FAULTS
from pirkit.runtime.executor import native_program
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.workspace import lines
from pirkit.runtime.plan import Call, If, Plan, Port, Stack, While, instructions, reads, writes

WRONG_CALL: Final = "its `"
"""Begins the suspect that is a call."""
_FOLDER: Final = "whole_program"
_PATIENCE: Final = 20.0
"""Seconds of wall time that a call of some functions may take."""
_DRIVER: Final = "pirkit/runtime/native/program_session.py and program_ir.py"


def segment_suspects(
    single: Plan, segments: Plan, known_metas: KnownMetas, is_wrong: Callable[[Plan], bool],
    by_bind: Callable[[NativeProgram, Sequence[Port]], bool],
    tried: dict[tuple[int, ...], bool],
) -> Iterator[str]:  # fmt: skip
    """The suspects in the segments of a plan whose calls are right one by one.

    ``single`` is the plan with one kernel for each call; ``is_wrong`` runs a plan and compares.
    ``by_bind`` says whether the functions of a program are right without the driver of programs.
    ``tried`` gets the calls that were compiled as a segment of their own, and whether it is right.
    """
    every = list(instructions(single.body))
    is_flat = not any(isinstance(i, While | If | Stack) for i in every)
    for calls in _suspect_calls(single) if is_flat else ():
        try:
            with requested() as functions:
                made, files = native_form_files(
                    lambda numbers=calls: with_native_calls(single, [*numbers], known_metas)
                )
        except KERNEL_FAULTS:  # the bug breaks the compiler for this call alone
            continue
        if made is None:
            continue
        tried[tuple(calls)] = not is_wrong(made)
        if not tried[tuple(calls)]:
            found = [f"{_FOLDER}/epilogues.py"] if len(calls) > 1 else files[:1]
            found += [about.emitter.removeprefix(ROOM) for about in abouts(functions)]
            names = " with ".join([f"`{call.kernel}`" for call in calls.values()])
            fault = _fault_of(functions)
            yield f"{WRONG_CALL}{names[1:]}: {' and '.join(dict.fromkeys(found))}{fault}"
            return
    if not is_wrong(_with_unshared_memory(segments)):
        yield f"its memory: {_FOLDER}/kernel_sequence.py"
        return
    whole, ports = native_program(segments), (*segments.inputs, *segments.params)
    if whole and not whole.loops and returns_in_child(lambda: by_bind(whole, ports)):
        yield f"its driver: {_DRIVER}"
        return
    yield f"its order: {_FOLDER}/segments.py"
    if any(len({*s.operands}) < len(s.operands) for p in _programs(segments) for s in p.steps):
        yield f"steps in place: {_FOLDER}/in_place_steps.py and sequence_builder.py"
    if any(isinstance(i, While | If) for i in every):
        yield f"its branches: {_FOLDER}/control_flow.py"
    if any(isinstance(i, While) for i in every):
        yield f"its loops: {_FOLDER}/loop_functions.py and codegen/emit/loop_function.py"
    if any(isinstance(i, Stack) for i in every):
        yield "its stacks: codegen/emit/stack_access.py"


def _fault_of(functions: Sequence[LazyFunction]) -> str:
    """`function_fault`, in a process of its own, which the functions may end."""

    def check(watch: Watch) -> str:
        try:
            with watch.running():
                return function_fault(functions)
        except EndedError:
            return ""

    return watched(check, _PATIENCE)


def _suspect_calls(plan: Plan) -> Iterator[dict[int, Call]]:
    """Calls by their numbers: each alone, then each with the only one that reads its results, which
    may be its epilogue. A fused kernel is not wrong alone, and has no epilogue.
    """
    calls = {n: call for n, call in enumerate(plan.body) if isinstance(call, Call)}
    suspects = {n: call for n, call in calls.items() if call.kernel != FUSED}
    yield from ({n: call} for n, call in suspects.items())
    for n, call in suspects.items():
        made = {*writes(call)}
        readers = [k for k, other in calls.items() if not made.isdisjoint(reads(other))]
        if len(readers) == 1:
            yield {n: call, readers[0]: calls[readers[0]]}


def _programs(plan: Plan) -> Iterator[NativeProgram]:
    for call in plan.body:
        if isinstance(call, Call) and isinstance(call.attrs.get("program"), NativeProgram):
            yield call.attrs["program"]


def _with_unshared_memory(plan: Plan) -> Plan:
    """The plan with segments in which no two temporaries share memory."""

    def unshared(program: NativeProgram) -> NativeProgram:
        first = len(program.inputs) + len(program.results)
        sizes = [0] * len(program.temporaries)
        for step in program.steps:
            for operand, size in zip(step.operands, step.function.code.sizes, strict=True):
                if operand >= first:
                    sizes[operand - first] = max(sizes[operand - first], size)
        offsets, end = list[int](), lines(program.memory)
        for offset, size in zip(program.temporaries, sizes, strict=True):
            is_kept = offset < program.kept  # constants and flags
            offsets.append(offset if is_kept else end)
            end += 0 if is_kept else lines(size)
        return replace(program, temporaries=tuple(offsets), memory=end)

    body = [
        changed(i, attrs={**i.attrs, "program": unshared(i.attrs["program"])})
        if isinstance(i, Call) and isinstance(i.attrs.get("program"), NativeProgram)
        else i
        for i in plan.body
    ]
    return changed(plan, body=tuple(body))
