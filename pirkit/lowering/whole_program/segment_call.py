"""Native programs as calls of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pirkit.diag.span import lines_of
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.plan import REGION, SEGMENT, Call, Plan


def plan_of(plan: Plan, program: NativeProgram) -> Plan:
    """The plan whose one call is a native program, for the inputs and outputs of another plan."""
    inputs = [p.slot for p in (*plan.inputs, *plan.params)]
    outputs = range(len(plan.slots), len(plan.slots) + len(program.results))
    made = [
        replace(o, source=slot, meta=meta)
        for o, slot, meta in zip(plan.outputs, outputs, program.results, strict=True)
    ]
    call = segment_call(program, inputs, outputs, [c for c in plan.body if isinstance(c, Call)])
    slots = (*plan.slots, *program.results)
    return replace(plan, slots=slots, outputs=tuple(made), body=(call,))


def segment_call(
    program: NativeProgram, inputs: Sequence[int], outputs: Sequence[int], calls: Sequence[Call]
) -> Call:
    """The call of a native program, with the lines of the calls that it stands for."""
    attrs = {"program": program, "results": program.results}
    spans = [c.span for c in calls if c.span is not None]
    origin = (f"calls from {lines_of(spans)}",) if spans else ()
    span = spans[0] if spans else None
    kernel = REGION if program.calls_libraries else SEGMENT
    return Call(kernel, tuple(inputs), tuple(outputs), attrs, span=span, origin=origin)
