"""Native programs as JSON data, for the cache, without the code of their functions.

Functions are referenced by their cache keys. Entries are authenticated (see `cache.py`) and still
validated: an inconsistent one counts as a miss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from msgspec import Struct

from pirkit.runtime.native.function import Branch, Control, LibraryCall, NativeFunction, Reserve
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.program_data import ProgramStep
from pirkit.runtime.native.records_ir import STACK_BYTES
from pirkit.runtime.typed_json import INVALID, packed, unpacked

_OWN: Final = (Branch, Reserve, LibraryCall)


class _Step(Struct, frozen=True):
    """A step with the key of its function; those without code of their own have none."""

    function: str | Branch | Reserve | LibraryCall
    operands: tuple[int, ...]
    flags: range


def pack_program(program: NativeProgram, keys: Sequence[str]) -> list[Any]:
    """A program as JSON data; ``keys`` are the cache keys of its steps' functions, if they have
    code of their own.
    """
    steps = [
        _Step(s.function if isinstance(s.function, _OWN) else key, s.operands, s.flags)
        for key, s in zip(keys, program.steps, strict=True)
    ]
    return [packed(NativeProgram, replace(program, steps=())), packed(tuple[_Step, ...], steps)]


def unpack_program(
    data: Any, function_of: Callable[[str], NativeFunction | None]
) -> NativeProgram | None:
    """The inverse of `pack_program`; None for invalid data, or if a function is missing."""
    try:
        rest, held = data
        steps: list[ProgramStep] = []
        for step in unpacked(tuple[_Step, ...], held):
            function = function_of(step.function) if type(step.function) is str else step.function
            if function is None:
                return None
            steps.append(ProgramStep(function, step.operands, step.flags))
        program = replace(unpacked(NativeProgram, rest), steps=tuple(steps))
    except INVALID:
        return None
    return program if _is_consistent(program) else None


def _is_consistent(program: NativeProgram) -> bool:
    """Whether all operands and offsets are in range, and operand counts match the functions."""
    count = len(program.inputs) + len(program.results) + len(program.temporaries)
    places = [(offset, 0) for offset in program.temporaries]
    places += [(c.offset, len(c.content)) for c in program.contents]
    places += [(s.flags.start, len(s.flags)) for s in program.steps]
    places.append((program.flags, len(program.assertions)))
    places += [(offset, STACK_BYTES) for offset in program.stacks]
    inside = all(0 <= offset <= program.memory - size for offset, size in places)
    flow = [s.function for s in program.steps if isinstance(s.function, Control)]
    targets = [f.target for f in flow if isinstance(f, Branch)]
    sizes = [f.nbytes for f in flow if isinstance(f, Reserve)]
    inside = inside and all(0 <= to <= len(program.steps) for to in targets)
    inside = inside and all(0 <= size < 1 << 62 for size in sizes)
    return inside and all(
        len(step.operands) == len(step.function.code.sizes)
        and all(0 <= operand < count for operand in step.operands)
        for step in program.steps
    )
