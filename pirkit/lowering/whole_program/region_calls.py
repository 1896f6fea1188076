"""Loops and branches of a plan as native calls of their own, where not all of the plan is one.

A loop is one call with all that is in it, and so is a branch. Where there are calls without native
code in it, native code returns to Python for each of them (`LibraryCall`), and goes on after it.
Loops that share a stack, as a loop and its derivative do, are one call together with what is
between them.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from pirkit.lowering.liveness import with_frees
from pirkit.lowering.whole_program.kernel_sequence import attempted
from pirkit.lowering.whole_program.segment_call import segment_call
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.plan import (
    Call,
    Copy,
    If,
    Instruction,
    Operand,
    Output,
    Plan,
    Port,
    Stack,
    While,
    instructions,
    reads,
    slots_of,
    writes,
)

KnownMetas = Callable[[Plan], Sequence[TensorMeta | None]]
"""For each slot of a plan, the meta that it has for all inputs; None if it depends on them."""


def with_region_calls(
    plan: Plan, reasons: Mapping[int, str], known_metas: KnownMetas
) -> tuple[Plan, dict[int, str]]:
    """The plan with a call for each region that can be one, and the reasons of what is left.

    ``reasons`` has, by the number of an instruction, why that has no native form.
    """
    body, why = list(plan.body), [reasons.get(k, "") for k in range(len(plan.body))]
    constants = {s: i for i, no in zip(body, why, strict=True) if not no and _is_constant(i)
                 for s in writes(i)}  # fmt: skip
    metas = known_metas(plan)
    for part in _parts(plan.body):
        # Calls that replaced earlier regions have made the body shorter.
        begin = len(body) - (len(plan.body) - part.start)
        inside = body[begin : begin + len(part)]
        call = _call(replace(plan, body=tuple(body)), inside, constants, metas)
        if call is not None:
            body[begin : begin + len(part)] = [call]
            why[begin : begin + len(part)] = ["it is a native call already"]
            metas = known_metas(replace(plan, body=tuple(body)))
    if len(body) == len(plan.body) and all(map(operator.is_, body, plan.body)):
        return plan, dict(reasons)
    kept: list[Operand] = [p.slot for p in (*plan.inputs, *plan.params)]
    kept += [o.source for o in plan.outputs]
    read = {*slots_of(kept), *(s for i in instructions(tuple(body)) for s in reads(i))}
    dead = {id(i) for i in constants.values() if read.isdisjoint(writes(i))}
    live = [(i, no) for i, no in zip(body, why, strict=True) if id(i) not in dead]
    left = {k: no for k, (_, no) in enumerate(live) if no}
    return replace(plan, body=with_frees(tuple([i for i, _ in live]), kept)), left


def _is_constant(instruction: Instruction) -> bool:
    return isinstance(instruction, Call) and not list(reads(instruction))


def _parts(body: Sequence[Instruction]) -> Iterator[range]:
    """The instructions of each region, with the copies that set the variables of a loop.

    Regions that share a stack are one, from the first that uses it on: the bytes of a stack are
    memory of one native call.
    """
    found: list[range] = []
    stacks: dict[int, int] = {}
    for k, instruction in enumerate(body):
        inside = list(instructions((instruction,)))
        begin = k
        if isinstance(instruction, While) and k and isinstance(body[k - 1], Copy):
            begin = k - 1
        for each in inside:
            if isinstance(each, Stack):
                begin = min(begin, stacks.setdefault(each.slot, k))
        if isinstance(instruction, While | If | Stack):
            while found and found[-1].stop > begin:
                begin = min(begin, found.pop().start)
            found.append(range(begin, k + 1))
    yield from found


def _call(
    plan: Plan,
    inside: Sequence[Instruction],
    constants: Mapping[int, Instruction],
    metas: Sequence[TensorMeta | None],
) -> Call | None:
    """Some instructions of a plan as a native call; None if they have no such form."""
    every = list(instructions(tuple(inside)))
    made = {s for i in every for s in writes(i)}
    read = dict.fromkeys(s for i in every for s in reads(i))
    # Constants have no operands, so the call gets its own copies of those that it reads.
    own = [i for s in read if s not in made and (i := constants.get(s)) is not None]
    own = list({id(i): i for i in own}.values())
    made |= {s for i in own for s in writes(i)}
    inputs = [s for s in read if s not in made]
    ports = (*plan.inputs, *plan.params)
    stated = {p.slot for p in ports if isinstance(p.meta, TensorMeta) and p.meta.is_static}
    if not all(s in stated or metas[s] == plan.slots[s] for s in inputs):
        return None
    # A slot that is written outside too is a variable of the plan, which a call cannot own.
    written = {s for i in every for s in writes(i)}
    beside = Counter(s for i in instructions(plan.body) for s in writes(i))
    beside.subtract(s for i in every for s in writes(i))
    if any(beside[s] for s in written) or not written.isdisjoint(p.slot for p in ports):
        return None
    asked = Counter(s for i in instructions(plan.body) for s in reads(i))
    asked.subtract(s for i in every for s in reads(i))
    asked.update(slots_of(o.source for o in plan.outputs))
    outputs = sorted(s for s in written if asked[s])
    part = replace(
        plan,
        inputs=tuple([Port(f"${s}", s, plan.slots[s]) for s in inputs]),
        params=(),
        outputs=tuple([Output(f"${s}", s, plan.slots[s]) for s in outputs]),
        body=(*own, *inside),
        written=(),
    )
    found = attempted(part)
    if not isinstance(found, NativeProgram):
        found = attempted(part, calls_libraries=True)
    if not isinstance(found, NativeProgram):
        return None
    return segment_call(found, inputs, outputs, [i for i in every if isinstance(i, Call)])
