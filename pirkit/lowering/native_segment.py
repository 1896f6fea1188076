"""Native programs as steps of a plan: the segments of a program that has library calls too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pirkit.runtime.binding import Binding
from pirkit.runtime.native.launch import LaunchFunction, LaunchPart
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.program_data import filled_memory
from pirkit.runtime.native.segment import NativeStep

Array = np.ndarray[Any, Any]


def bind_segment(b: Binding) -> NativeStep:
    """Bind a segment."""
    return SegmentStep(b.attrs["program"])


class SegmentStep(NativeStep):
    """The functions of a native program; each step has the memory between them for itself."""

    def __init__(self, program: NativeProgram) -> None:
        self.program = program
        self.inputs, self.results = len(program.inputs), program.results
        self.outputs = {self.inputs + k: k for k in range(len(program.results))}

    def launch_part(self, pinned: Mapping[int, Array]) -> LaunchPart:
        program = self.program
        memory, start = filled_memory(program, program.memory)
        first = self.inputs + len(program.results)
        flags = range(program.flags, program.flags + len(program.assertions))
        places = {offset: k for k, offset in enumerate(program.temporaries, first)}
        works = tuple(
            [
                LaunchFunction(
                    s.function,
                    s.operands,
                    range(s.flags.start - flags.start, s.flags.stop - flags.start),
                )
                for s in program.steps
            ]
        )
        own = {
            k: memory[start + offset :]
            for k, offset in enumerate(program.temporaries, first)
            if offset not in flags
        }
        stacks = tuple([places[offset] for offset in program.stacks])
        return LaunchPart(works, own, tuple([places[offset] for offset in flags]), stacks)

    def error(self, flag: int) -> Exception:
        return self.program.assertions[flag].error()
