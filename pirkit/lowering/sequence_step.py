"""Native functions that run in order as one step of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pirkit.runtime.binding import Binding
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import NativeFunction, NativeSequence
from pirkit.runtime.native.launch import LaunchFunction, LaunchPart
from pirkit.runtime.native.segment import NativeStep

Array = np.ndarray[Any, Any]


class SequenceStep(NativeStep):
    """A sequence over ``slots`` of its ``inputs`` operands, which precede its results.

    Operands that are not among them are not there, such as a bias that a call does without.
    """

    def __init__(
        self, sequence: NativeSequence, slots: Sequence[int], inputs: int,
        results: tuple[TensorMeta, ...],
    ) -> None:  # fmt: skip
        self.inputs, self.results = inputs, results
        self.outputs = {inputs + k: k for k in range(len(results))}
        self.sequence, self.slots = sequence, tuple(slots)

    def operands(self, cells: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The operands that are present."""
        return (pair for pair in super().operands(cells) if pair[0] in self.slots)

    def launch_part(self, pinned: Mapping[int, Array]) -> LaunchPart:
        first = self.inputs + len(self.results)
        sequence = self.sequence_for(pinned)
        own = {first + k: np.empty(n, np.uint8) for k, n in enumerate(sequence.temporaries)}
        places = (*self.slots, *own)
        return LaunchPart(
            tuple([
                LaunchFunction(function, tuple([places[k] for k in operands]))
                for function, operands in sequence.steps
            ]),
            own,
        )  # fmt: skip

    def sequence_for(self, pinned: Mapping[int, Array]) -> NativeSequence:
        """The sequence for operands that have the same array in each run."""
        return self.sequence

    def error(self, flag: int) -> Exception:
        raise IndexError(flag)


def step_of(function: NativeFunction, slots: Sequence[int], inputs: int,
            results: tuple[TensorMeta, ...]) -> SequenceStep:  # fmt: skip
    """The step of one function."""
    sequence = NativeSequence(((function, tuple(range(len(slots)))),), len(slots), ())
    return SequenceStep(sequence, slots, inputs, results)


def step_over(b: Binding, sequence: NativeSequence) -> SequenceStep:
    """The step of a sequence over the operands that a call has, and its result."""
    inputs = len(b.inputs)
    slots = [k for k, meta in enumerate(b.inputs) if meta is not None]
    return SequenceStep(sequence, [*slots, inputs], inputs, (b.output(),))
