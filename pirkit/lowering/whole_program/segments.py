"""Partitions a plan into native segments and library calls.

A segment is a set of calls with native code, which run as one native call over memory of its own.
No library call has to run between two of them, that is, reads a result of one and gives an operand
to another. The partition follows dependences, not textual order. Views and constants cost a native
call nothing, so they are cloned into each segment that reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from pirkit.diag.span import Span
from pirkit.lowering.liveness import with_frees
from pirkit.lowering.native_ops import FUSED
from pirkit.lowering.whole_program.kernel_sequence import PLAN, attempted, sequence_program
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.lowering.whole_program.region_calls import KnownMetas, with_region_calls
from pirkit.lowering.whole_program.segment_call import plan_of, segment_call
from pirkit.lowering.whole_program.sequence_builder import is_reshape
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.plan import (
    Call,
    Instruction,
    Operand,
    Output,
    Plan,
    Port,
    instructions,
    reads,
    slots_of,
    writes,
)


class Reason(Struct, frozen=True):
    """Why calls of one kind have no native code, how many there are, and where the first one is."""

    why: str
    count: int = 1
    span: Span | None = None

    def __str__(self) -> str:
        places = [f"{self.count} times"] if self.count > 1 else []
        if self.span is not None:
            places.append(f"first at {self.span}" if self.count > 1 else f"at {self.span}")
        return f"{self.why} ({', '.join(places)})" if places else self.why


def segmented(plan: Plan, known_metas: KnownMetas) -> tuple[Plan, tuple[Reason, ...]]:
    """A plan of one native call, or one with native segments and why it is not one call.

    A segment reads and writes only slots whose metas are known whatever the inputs, and are what
    the plan states.
    """
    found = attempted(plan)
    if isinstance(found, NativeProgram):
        return plan_of(plan, found), ()
    reasons = tuple(_summed(plan, found))
    is_flat = all(isinstance(i, Call) for i in plan.body)
    refused = dict(found)
    if not is_flat:
        plan, refused = with_region_calls(plan, refused, known_metas)
    known = _known_slots(plan, known_metas)
    # Each failure leaves more calls to the library, until the others fit together.
    while (parts := _Parts(plan, refused, known)).members:
        try:
            return parts.plan_of_segments(), reasons
        except _NotTogether as reason:
            refused |= dict.fromkeys(reason.numbers, str(reason))
    return plan, reasons


def with_native_calls(plan: Plan, numbers: Sequence[int], known_metas: KnownMetas) -> Plan | None:
    """The plan in which some calls are one native segment; None if it has no native form.

    The segment is in the place of the last call. Nothing between them reads their results.
    """
    body, last = plan.body, max(numbers)
    others = set(range(len(body))).difference(numbers)
    parts = _Parts(plan, others, _known_slots(plan, known_metas))
    if not parts.members.issuperset(numbers):
        return None
    kept = _kept(plan)
    try:
        call = _Segment(plan, numbers, parts.views_before(numbers)).call(parts.outside(kept))
    except _NotTogether:
        return None
    before = [i for n, i in enumerate(body[:last]) if n in others]
    return replace(plan, body=with_frees((*before, call, *body[last + 1 :]), kept))


def _kept(plan: Plan) -> list[Operand]:
    """The slots that the caller passes in and gets back."""
    return [*(p.slot for p in (*plan.inputs, *plan.params)), *(o.source for o in plan.outputs)]


def _known_slots(plan: Plan, known_metas: KnownMetas) -> set[int]:
    ports = (*plan.inputs, *plan.params)
    known = {s for s, meta in enumerate(known_metas(plan)) if meta == plan.slots[s]}
    return known | {p.slot for p in ports if isinstance(p.meta, TensorMeta) and p.meta.is_static}


def _summed(plan: Plan, reasons: Mapping[int, str]) -> Iterator[Reason]:
    """Each reason once, in the order of the calls; a reason of the whole plan has no location."""
    count = Counter(why for number, why in reasons.items() if number != PLAN)
    first: dict[str, Span | None] = {}
    for number, why in sorted(reasons.items()):
        if first.get(why) is None:
            first[why] = plan.body[number].span if number != PLAN else None
    for why, span in first.items():
        yield Reason(why, max(count[why], 1), span)


class _Parts:
    """The calls of a plan that have native code (`members`), and what is between them."""

    def __init__(self, plan: Plan, reasons: Collection[int], known: Collection[int]) -> None:
        self.plan, body, self.known = plan, plan.body, known
        count = Counter(s for i in instructions(body) for s in writes(i))
        count.update(p.slot for p in (*plan.inputs, *plan.params))
        self.once = {s for s, n in count.items() if n == 1}
        """Slots that one instruction or the caller writes: variables have more than one writer."""
        plain = [n for n, i in enumerate(body) if n not in reasons and self._is_plain(i)]
        self.free = {n for n in plain if self._is_free(cast(Call, body[n]))}
        """Views and constants: a segment has its own, others have them where they stand."""
        # A view of a variable stays outside: a segment would return a copy of what it shows.
        self.members = {n for n in plain if n not in self.free and not self._is_view(body[n])}
        self.writer = {s: n for n, i in enumerate(body) for s in writes(i) if s in self.once}
        self.phases = self._phases()

    def _is_plain(self, instruction: Instruction) -> bool:
        if not isinstance(instruction, Call) or not self.once.issuperset(writes(instruction)):
            return False
        slots = [s for s in (*instruction.inputs, *instruction.outputs) if s is not None]
        return all(isinstance(s, int) and s in self.known for s in slots)

    def _is_free(self, call: Call) -> bool:
        if call.kernel == FUSED:
            return False
        return (is_reshape(call) and self.once.issuperset(reads(call))) or not list(reads(call))

    def _is_view(self, instruction: Instruction) -> bool:
        return isinstance(instruction, Call) and is_reshape(instruction)

    def _phases(self) -> dict[int, int]:
        """The phase of each instruction: how many segments have to run before it.

        Within a phase the library calls run first, then the members as one segment. So a member may
        share the phase of what it reads, and a library call that reads a member is in the next one.
        An instruction that writes a variable is a barrier: the order around it stays.
        """
        found: dict[int, int] = {}
        least = 0
        for number, instruction in enumerate(self.plan.body):
            is_member, is_barrier = number in self.members, self._is_barrier(instruction)
            needed = self._needed(number) if is_member else self._writers(instruction)
            before = range(number) if is_barrier else needed
            after = [found[k] + (k in self.members and not is_member) for k in before]
            found[number] = max([least, *after])
            least = found[number] if is_barrier else least
        return found

    def _is_barrier(self, instruction: Instruction) -> bool:
        if not isinstance(instruction, Call) or instruction.is_ordered:
            return True
        return not self.once.issuperset(writes(instruction))

    def _writers(self, instruction: Instruction) -> set[int]:
        return {self.writer[s] for s in reads(instruction) if s in self.writer}

    def _needed(self, number: int) -> set[int]:
        """The dependences of a member, except views and constants, which it can clone."""
        found = self._writers(self.plan.body[number])
        while free := found & self.free:
            found -= free
            found |= {w for k in free for w in self._writers(self.plan.body[k])}
        return found

    def plan_of_segments(self) -> Plan:
        """The plan with a call for each segment. Raises _NotTogether."""
        plan, body = self.plan, self.plan.body
        segments: dict[int, _Segment] = {}
        for phase in dict.fromkeys(self.phases[n] for n in sorted(self.members)):
            members = [n for n in sorted(self.members) if self.phases[n] == phase]
            segments[phase] = _Segment(plan, members, self.views_before(members))
        kept = _kept(plan)
        outside = self.outside(kept)
        asked = {*outside, *(s for segment in segments.values() for s in segment.inputs)}
        others = [n for n in self.phases if n not in self.members]
        live = [n for n in others if n not in self.free or not outside.isdisjoint(writes(body[n]))]
        made: list[tuple[int, int, Instruction]] = [(self.phases[n], n, body[n]) for n in live]
        made += [(phase, len(body), segment.call(asked)) for phase, segment in segments.items()]
        # library calls of a phase in their order, then its segment
        made.sort(key=lambda entry: entry[:2])
        return replace(plan, body=with_frees(tuple([i for *_, i in made]), kept))

    def views_before(self, members: Sequence[int]) -> set[int]:
        """The views and constants that members read, and those that these read."""
        found, stack = set[int](), list(members)
        while stack:
            new = (self._writers(self.plan.body[stack.pop()]) & self.free) - found
            found |= new
            stack += new
        return found

    def outside(self, kept: Sequence[Operand]) -> set[int]:
        """Slots that are read by what is in no segment."""
        found = set(slots_of(kept))
        for number in reversed(range(len(self.plan.body))):
            instruction = self.plan.body[number]
            is_needed = number not in self.free or not found.isdisjoint(writes(instruction))
            if number not in self.members and is_needed:
                found.update(s for i in instructions((instruction,)) for s in reads(i))
        return found


class _NotTogether(Exception):
    """Calls that have native code each, but not as one segment."""

    def __init__(self, numbers: Collection[int], why: NotNativeError) -> None:
        super().__init__(str(why))
        self.numbers = numbers


class _Segment:
    """Members that become one call, with the views and constants that they read."""

    def __init__(self, plan: Plan, members: Sequence[int], free: Collection[int]) -> None:
        self.plan, self.members = plan, members
        self.body = [cast(Call, plan.body[n]) for n in sorted({*members, *free})]
        made = {s for call in self.body for s in writes(call)}
        read = dict.fromkeys(s for call in self.body for s in reads(call))
        self.inputs = [s for s in read if s not in made]

    def call(self, asked: Collection[int]) -> Call:
        """The native call. Raises _NotTogether."""
        body, slots = self.plan.body, self.plan.slots
        outputs = [s for n in self.members for s in writes(body[n]) if s in asked]
        part = replace(
            self.plan,
            inputs=tuple([Port(f"${s}", s, slots[s]) for s in self.inputs]),
            params=(),
            outputs=tuple([Output(f"${s}", s, slots[s]) for s in outputs]),
            body=tuple(self.body),
            written=(),
        )
        try:
            program = sequence_program(part)
        except NotNativeError as reason:
            raise _NotTogether(self.members, reason) from reason
        calls = [cast(Call, body[n]) for n in self.members]
        return segment_call(program, self.inputs, outputs, calls)
