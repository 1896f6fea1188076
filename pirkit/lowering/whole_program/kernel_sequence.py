"""Lowers a plan of fused kernels to a sequence of native functions over one planned arena."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from pirkit.diag.gc_pause import imported
from pirkit.lowering.native_ops import MATMUL
from pirkit.lowering.whole_program.control_flow import without_idle_copies
from pirkit.lowering.whole_program.conv_kernels import transposed_slots
from pirkit.lowering.whole_program.in_place_steps import write_in_place
from pirkit.lowering.whole_program.loop_functions import with_loop_functions
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.lowering.whole_program.sequence_builder import SequenceBuilder
from pirkit.runtime.arena import Arena
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.program_data import Content, ProgramStep
from pirkit.runtime.plan import Call, Plan, instructions, reads

if TYPE_CHECKING:
    from pirkit.lowering.whole_program.attention_groups import RowGroup

PLAN: Final = -1
"""The number under which `attempted` says what is wrong with a plan and no instruction of it."""


def sequence_program(plan: Plan) -> NativeProgram:
    """The native program of a plan. Raises NotNativeError for a plan that has none."""
    found = attempted(plan)
    if isinstance(found, NativeProgram):
        return found
    raise NotNativeError(next(iter(found.values())))


def attempted(plan: Plan, *, calls_libraries: bool = False) -> NativeProgram | dict[int, str]:
    """The native program of a plan, or why there is none, by the numbers of its instructions.

    Where it ``calls_libraries``, calls without native code are no reason.
    """
    reasons: dict[int, str] = {}
    if plan.written:
        reasons[PLAN] = f"the program writes `{plan.written[0]}` in place: functionalize it"
    wrong = [o.name for o in plan.outputs if not isinstance(o.meta, TensorMeta)]
    if wrong:
        reasons.setdefault(PLAN, f"output `{wrong[0]}` is no tensor")
    made = SequenceBuilder(plan, calls_libraries=calls_libraries)
    try:
        for port in (*plan.inputs, *plan.params):
            made.meta(port.slot)
    except NotNativeError as reason:
        reasons.setdefault(PLAN, str(reason))
    is_flat = all(isinstance(i, Call) for i in plan.body)
    for instruction in plan.body:
        if isinstance(instruction, Call):
            made.alias(instruction)
    try:
        groups = _row_groups(made, is_flat and not reasons)
        members = {k for group in groups.values() for k in group.members}
        if is_flat and not reasons:
            made.transposed = transposed_slots(plan, made.meta, members)
    except NotNativeError:  # the loop below finds the call
        groups, members, made.transposed = _row_groups(made, False), set[int](), {}
    read = {slot for i in instructions(plan.body) for slot in reads(i)}
    results = frozenset(o.source for o in plan.outputs if isinstance(o.source, int))
    made.live_out = results - read - set(made.transposed.values())
    for number, instruction in enumerate(plan.body):
        if number in groups:
            made.rows(groups[number], cast("tuple[Call, ...]", plan.body))
        elif number not in members:
            try:
                made.flow.add(instruction)
            except NotNativeError as reason:
                reasons[number] = str(reason)
    if reasons:
        return reasons
    without_idle_copies(made, made.flow)
    made.current = ()
    return _with_results(made)


def _row_groups(made: SequenceBuilder, allowed: bool) -> Mapping[int, RowGroup]:
    """The calls that run together on blocks of rows; the module is imported for matmuls alone."""
    if not allowed or not any(isinstance(i, Call) and i.kernel == MATMUL for i in made.plan.body):
        return {}
    groups = imported("pirkit.lowering.whole_program.attention_groups")
    return groups.find_row_groups(made.plan, made.meta, made.aliases)


def _with_results(made: SequenceBuilder) -> NativeProgram:
    """Give each result a buffer of its own; those that are inputs or constants are copied."""
    plan = made.plan
    ports = (*plan.inputs, *plan.params)
    made.outputs = [cast(int, o.source) for o in plan.outputs]
    bound = {p.slot for p in ports} | made.constants.keys()
    buffers: list[int] = []
    for output in plan.outputs:
        source = made.buffer(cast(int, output.source))
        if source in bound:
            source = made.copy(source, cast(TensorMeta, output.meta))
        bound.add(source)
        buffers.append(source)
    return _allocated(made, [p.slot for p in ports], buffers)


def _allocated(made: SequenceBuilder, inputs: list[int], results: list[int]) -> NativeProgram:
    """Allocate all buffers except inputs and results in one arena, by live range.

    Constants and assertion flags live for the whole program. The flags are contiguous, so that a
    step can be checked by looking at a range of bytes.
    """
    number = {slot: k for k, slot in enumerate((*inputs, *results))}
    if made.products or made.convolutions:  # the module is imported for these alone
        epilogues = imported("pirkit.lowering.whole_program.epilogues")
        epilogues.fuse_epilogues(made, results)
    updated = {results[k] for k, _ in _in_place(made, inputs, results)}
    write_in_place(made, results, updated)
    with_loop_functions(made, made.flow.loops)
    last = _last_steps(made)
    arena, offsets, steps = Arena(), list[int](), list[ProgramStep]()
    contents: list[Content] = []
    for b in sorted({b for _, buffers in made.steps for b in buffers} & made.constants.keys()):
        number[b] = len(inputs) + len(results) + len(offsets)
        offsets.append(arena.take(made.bytes_of(b)))
        contents.append(Content(offsets[-1], made.constants[b].tobytes()))
        # A constant lives to the end: the next call of the program reads it again.
        last[b] = len(made.steps)
    flags = [b for b in made.assertions if b in last]
    begin = arena.take(len(flags))
    for k, b in enumerate(flags):
        number[b] = len(inputs) + len(results) + len(offsets)
        offsets.append(begin + k)
        last[b] = len(made.steps)
    for k, (function, buffers) in enumerate(made.steps):
        for b in buffers:
            if b not in number:
                number[b] = len(inputs) + len(results) + len(offsets)
                offsets.append(arena.take(made.bytes_of(b)))
        seen = [begin + flags.index(b) for b in buffers if b in made.assertions]
        looked_at = range(min(seen), max(seen) + 1) if seen else range(0)
        operands = tuple([number[b] for b in buffers])
        calls = tuple(map(made.source, made.sources[k]))
        steps.append(ProgramStep(function, operands, looked_at, calls))
        for b in dict.fromkeys(buffers):
            place = number[b] - len(inputs) - len(results)
            # Memory is free after the step, not before it, since a step may read and write at once.
            if place >= 0 and last[b] == k:
                arena.give(offsets[place], made.bytes_of(b))
    plan = made.plan
    ports = (*plan.inputs, *plan.params)
    return NativeProgram(
        tuple([made.meta(slot) for slot in inputs]),
        tuple([cast(TensorMeta, o.meta) for o in plan.outputs]),
        tuple(steps),
        tuple(offsets),
        arena.size,
        (tuple([p.name for p in ports]), tuple([o.name for o in plan.outputs])),
        f"functions: {len(steps)}, with {arena.size:,} bytes between them",
        frozenset(_in_place(made, inputs, results)),
        tuple(contents),
        begin,
        tuple([made.assertions[b] for b in flags]),
        tuple([offsets[number[b] - len(inputs) - len(results)] for b in made.stacks]),
    )


def _last_steps(made: SequenceBuilder) -> dict[int, int]:
    """The last step that needs each buffer. A loop needs what it reads until its last iteration."""
    steps = [buffers for _, buffers in made.steps]
    last = {b: k for k, buffers in enumerate(steps) for b in buffers}
    first = {b: k for k in reversed(range(len(steps))) for b in steps[k]}
    for loop in made.flow.loops:
        for b in {b for k in loop for b in steps[k] if first[b] < loop.start}:
            last[b] = max(last[b], loop.stop - 1)
    return last


def _in_place(
    made: SequenceBuilder, inputs: Sequence[int], results: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Pairs of a result and an input that may share one array.

    No step after the one that writes the result reads the input, and that step reads each element
    only in the iteration that overwrites it.
    """
    last = _last_steps(made)
    writers = {b: k for k in reversed(range(len(made.steps))) for b in made.steps[k][1]}
    for number, result in enumerate(results):
        step = writers[result]
        for position, source in enumerate(inputs):
            # An array can be handed over only with the shape and element type of the result.
            if made.plan.slots[source] != made.plan.slots[made.outputs[number]]:
                continue
            read = last.get(source, -1)
            if read < step or (read == step and made.is_in_place(step, result, source)):
                yield number, position
