"""Plans: the instructions of a program, as plain data over numbered slots.

A slot is the storage of one alias class: the operand and the result of an in-place op have one
slot. An instruction names its op; kernels are bound when the plan runs, so a plan can be printed,
compared and serialized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from pirkit.diag.span import Span
from pirkit.runtime.meta import Meta

SEGMENT: Final = "pir.segment"
"""The kernel of calls that are several calls of a program, in one piece of native code.

Their attributes are the native program and the metas of its ``results``.
"""

REGION: Final = "pir.region"
"""The kernel of calls that are a segment of loops and branches with calls of libraries in it."""
PROGRAMS: Final = (SEGMENT, REGION)

Operand = int | tuple[int, ...] | None
"""A slot, the slots of a list, or None for an absent operand."""


class HostArgument(Struct, frozen=True):
    """An attribute that is computed at run time: it is read from slots before each call.

    ``kind`` is ``array`` (a tuple of ints), ``int`` (one int) or ``scalar`` (one number).
    """

    name: str
    source: Operand
    kind: str


class Call(Struct, frozen=True):
    """Runs one kernel. ``outputs`` are the slots of the results, None for an unused one.

    ``random`` is the call's number among the random calls, which makes its draws reproducible.
    ``origin`` are notes on the source location, for messages.
    """

    kernel: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    host: tuple[HostArgument, ...] = ()
    frees: tuple[int, ...] = ()
    random: int | None = None
    is_ordered: bool = False
    """True for calls with side effects, which must keep the order of the plan."""
    span: Span | None = None
    origin: tuple[str, ...] = ()
    part_of: str = ""
    """The op that was decomposed into this and other calls."""


class Copy(Struct, frozen=True):
    """Assigns the value of each source to its target slot; all sources are read first."""

    sources: tuple[Operand, ...]
    targets: tuple[Operand, ...]
    frees: tuple[int, ...] = ()
    span: Span | None = None


class If(Struct, frozen=True):
    """Runs one of two blocks; each ends in the Copy that sets the results."""

    condition: int
    then: tuple[Instruction, ...]
    orelse: tuple[Instruction, ...]
    frees: tuple[int, ...] = ()
    span: Span | None = None


class While(Struct, frozen=True):
    """Runs the body while the slot ``condition`` is true; the body updates it."""

    condition: int
    body: tuple[Instruction, ...]
    frees: tuple[int, ...] = ()
    span: Span | None = None


class Stack(Struct, frozen=True):
    """An action on the stack, or the tensor array, in ``slot``.

    ``action`` is ``create``, ``push`` (the inputs), ``pop`` or ``test`` (to the outputs) for a
    stack; for an array ``make`` and those of `runtime.arrays`, with ``numbers`` as attributes.
    """

    action: str
    slot: int
    inputs: tuple[Operand, ...] = ()
    outputs: tuple[Operand, ...] = ()
    frees: tuple[int, ...] = ()
    span: Span | None = None
    numbers: tuple[int, ...] = ()


Instruction = Call | Copy | If | While | Stack


class Port(Struct, frozen=True):
    """A named input or parameter of a plan, with its symbolic sizes: "" for any other."""

    name: str
    slot: int
    meta: Meta
    sizes: tuple[str, ...] = ()


class Output(Struct, frozen=True):
    """A named output of a plan."""

    name: str
    source: Operand
    meta: Meta


class Plan(Struct, frozen=True):
    """A lowered program, as the executor runs it.

    ``written`` are the names of parameters and inputs that the program writes in place.
    """

    name: str
    slots: tuple[Meta, ...]
    inputs: tuple[Port, ...]
    params: tuple[Port, ...]
    outputs: tuple[Output, ...]
    body: tuple[Instruction, ...]
    written: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"


_CHANGING: Final = frozenset(
    {"create", "make", "write", "take", "add", "add parts", "cut", "claim", "open", "close"}
)
"""Actions that modify a stack or a tensor array."""


class TypedCall(NamedTuple):
    """A call, and the types of its operands and results."""

    call: Call
    inputs: tuple[Meta, ...]
    outputs: tuple[Meta, ...]


def slots_of(operands: Iterable[Operand]) -> Iterator[int]:
    """The slots of some operands, including those of list elements."""
    for operand in operands:
        if isinstance(operand, int):
            yield operand
        elif operand is not None:
            yield from operand


def reads(instruction: Instruction) -> Iterator[int]:
    """The slots that an instruction itself reads, without its blocks."""
    match instruction:
        case Call():
            yield from slots_of((*instruction.inputs, *(h.source for h in instruction.host)))
        case Copy():
            yield from slots_of(instruction.sources)
        case If() | While():
            yield instruction.condition
        case Stack():
            if instruction.action not in ("create", "make"):
                yield instruction.slot
            yield from slots_of(instruction.inputs)


def writes(instruction: Instruction) -> Iterator[int]:
    """The slots that an instruction itself writes, without its blocks."""
    match instruction:
        case Call() | Stack():
            yield from slots_of(instruction.outputs)
            if isinstance(instruction, Stack) and instruction.action in _CHANGING:
                yield instruction.slot
        case Copy():
            yield from slots_of(instruction.targets)
        case _:
            return


def instructions(body: tuple[Instruction, ...]) -> Iterator[Instruction]:
    """All instructions, including those in blocks, outer ones first."""
    for instruction in body:
        yield instruction
        for block in blocks(instruction):
            yield from instructions(block)


def blocks(instruction: Instruction) -> tuple[tuple[Instruction, ...], ...]:
    """The blocks inside an instruction."""
    match instruction:
        case If():
            return (instruction.then, instruction.orelse)
        case While():
            return (instruction.body,)
        case _:
            return ()


def _lines(plan: Plan) -> Iterator[str]:
    yield f"plan @{plan.name} {{"
    for word, ports in (("input", plan.inputs), ("param", plan.params)):
        for port in ports:
            changed = "  // written" if port.name in plan.written else ""
            yield f'  {word} {show_operand(port.slot)} "{port.name}" : {port.meta}{changed}'
    yield from _block_lines(plan, plan.body, "  ")
    for port in plan.outputs:
        yield f'  output {show_operand(port.source)} "{port.name}" : {port.meta}'
    yield "}"


def _block_lines(plan: Plan, body: tuple[Instruction, ...], indent: str) -> Iterator[str]:
    for instruction in body:
        frees = f"  // frees {show_operand(instruction.frees)}" if instruction.frees else ""
        match instruction:
            case Call():
                # A text of several lines, such as a kernel, comes below.
                texts = {k: v for k, v in instruction.attrs.items() if "\n" in str(v)[:-1]}
                attrs = {k: "..." if k in texts else repr(v) for k, v in instruction.attrs.items()}
                keywords = [f"{k}={v}" for k, v in attrs.items()]
                keywords += [f"{h.name}={show_operand(h.source)}" for h in instruction.host]
                call = ", ".join([*map(show_operand, instruction.inputs), *keywords])
                types = ", ".join(str(_meta(plan, o)) for o in instruction.outputs)
                outputs = ", ".join(map(show_operand, instruction.outputs))
                yield f"{indent}{outputs} = {instruction.kernel}({call}) : {types}{frees}"
                for text in texts.values():
                    yield from (f"{indent}  | {line}" for line in str(text).strip().splitlines())
            case Copy():
                pairs = zip(instruction.targets, instruction.sources, strict=True)
                text = ", ".join(f"{show_operand(t)} = {show_operand(s)}" for t, s in pairs)
                yield f"{indent}{text}{frees}"
            case If():
                yield f"{indent}if {show_operand(instruction.condition)} {{{frees}"
                yield from _block_lines(plan, instruction.then, indent + "  ")
                yield f"{indent}}} else {{"
                yield from _block_lines(plan, instruction.orelse, indent + "  ")
                yield f"{indent}}}"
            case While():
                yield f"{indent}while {show_operand(instruction.condition)} {{{frees}"
                yield from _block_lines(plan, instruction.body, indent + "  ")
                yield f"{indent}}}"
            case Stack():
                inputs = ", ".join(map(show_operand, instruction.inputs))
                outputs = ", ".join(map(show_operand, instruction.outputs))
                left = f"{outputs} = " if outputs else ""
                action = f"stack.{instruction.action} {show_operand(instruction.slot)}({inputs})"
                yield f"{indent}{left}{action}{frees}"


def _meta(plan: Plan, operand: Operand) -> object:
    if isinstance(operand, int):
        return plan.slots[operand]
    if operand is None:
        return "none"
    return "[" + ", ".join(str(plan.slots[i]) for i in operand) + "]"


def show_operand(operand: Operand) -> str:
    """A slot as plans print it."""
    if operand is None:
        return "none"
    if isinstance(operand, int):
        return f"${operand}"
    return "[" + ", ".join(f"${i}" for i in operand) + "]"
