"""Lets elementwise steps of a native program write where they read: one buffer instead of two.

The gradient of an embedding that a matmul also reads is such a pair: what the matmul gives is
copied into the result, to which the embedding's rows are added. Both are one buffer, and the copy
is elided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from pirkit.lowering.codegen.ir.loopnest import Load, Store
from pirkit.lowering.whole_program.sequence_builder import SequenceBuilder
from pirkit.runtime.native.function import Control


def write_in_place(made: SequenceBuilder, results: Sequence[int], apart: AbstractSet[int]) -> None:
    """Give buffers that die at an elementwise step the name of one that it makes.

    ``results`` keep their names. Those in ``apart`` may share the array of an input, as the step
    that makes them comes after the last one that reads it. A value that becomes one buffer with
    such a result is written earlier, and the result can then share no array: it is copied to that
    of the input. So this pays only if it leaves out a copy. Programs with branches and loops stay
    as they are.
    """
    if any(isinstance(function, Control) for function, _ in made.steps):
        return
    last = {b: k for k, (_, buffers) in enumerate(made.steps) for b in buffers}
    first = {b: k for k in reversed(range(len(made.steps))) for b in made.steps[k][1]}
    names: dict[int, int] = {}
    idle: list[int] = []
    for k, nest in enumerate(made.nests):
        if nest is None:
            continue
        is_copy = [type(s) for s in nest.statements()] == [Load, Store]
        for source, target in _pairs(made, k, first, last):
            if source in results or source in names or target in names.values():
                continue
            if is_copy or target not in apart:
                names[source] = target
                idle += [k] if is_copy else []
    for k, (function, buffers) in enumerate(made.steps):
        made.steps[k] = function, tuple([_name(names, b) for b in buffers])
    for k in reversed(idle):
        del made.steps[k], made.nests[k], made.sources[k]


def _pairs(
    made: SequenceBuilder, step: int, first: dict[int, int], last: dict[int, int]
) -> Iterator[tuple[int, int]]:
    """Buffers that a step reads as the last one, each with one that it is the first to use."""
    slots = made.plan.slots
    known = [b for b in dict.fromkeys(made.steps[step][1]) if 0 <= b < len(slots)]
    known = [b for b in known if made.is_made_here(b)]
    for target in (b for b in known if first[b] == step):
        for source in (b for b in known if last[b] == step != first[b]):
            if slots[source] == slots[target] and made.is_in_place(step, target, source):
                yield source, target


def _name(names: dict[int, int], buffer: int) -> int:
    while buffer in names:
        buffer = names[buffer]
    return buffer
