"""Replaces loops of small steps by one function each (`codegen/emit/loop_function.py`).

branch to the end, unless the condition holds      branch to the end, unless ...
step, step, reserve, push, ...             <-+     reserve, for all pushes       <-+
                                             |     the loop                        |
branch back, if the condition holds        --+     branch back, if ...           --+
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from pirkit.lowering.codegen.emit.loop_function import LoopBody, loop_function
from pirkit.lowering.whole_program.sequence_builder import SequenceBuilder
from pirkit.runtime.native.function import Branch, Control, LibraryCall, NativeFunction, Reserve
from pirkit.runtime.native.target import host

_MOST_STATEMENTS: Final = 1024
"""Executed statements of an iteration; where it has more, calls of its steps take little time."""

_Step = tuple[NativeFunction | Control, tuple[int, ...]]


def with_loop_functions(made: SequenceBuilder, loops: list[range]) -> None:
    """Replace the innermost of ``loops`` if their steps are small.

    Sanitized code keeps its steps, with their checks.
    """
    if host().sanitized:
        return
    for k in reversed(range(len(loops))):
        loop = loops[k]
        inner = (other for other in loops if other != loop and other.start in loop)
        if next(inner, None) is None and _is_small(made, loop):
            _replace(made, loops, loop)


def _is_small(made: SequenceBuilder, loop: range) -> bool:
    return sum(_statements(made, k) for k in loop[1:-1]) <= _MOST_STATEMENTS


def _statements(made: SequenceBuilder, step: int) -> int:
    """How many statements a step executes; more than any limit for what is no nest."""
    function, buffers = made.steps[step]
    if isinstance(function, LibraryCall):
        return _MOST_STATEMENTS + 1
    if isinstance(function, Control) or buffers[0] in made.stacks:
        return 1
    return made.statements.get(function, _MOST_STATEMENTS + 1)


def _replace(made: SequenceBuilder, loops: list[range], loop: range) -> None:
    first, back = loop.start + 1, loop.stop - 1
    condition = made.steps[back][1]
    inside = range(first, back)
    # room on the stacks is reserved once, before the function, which cannot pause to enlarge one
    kept = [k for k in inside if not isinstance(made.steps[k][0], Reserve)]
    place = {back: len(kept)} | dict(_places(kept, inside))
    used = dict.fromkeys(b for k in kept for b in made.steps[k][1]) | dict.fromkeys(condition)
    number = {b: n for n, b in enumerate(used)}
    steps: list[tuple[NativeFunction | Branch, tuple[int, ...]]] = []
    for function, buffers in [made.steps[k] for k in kept]:
        operands = tuple([number[b] for b in buffers])
        if isinstance(function, Branch):
            steps.append((replace(function, target=place[function.target]), operands))
        elif isinstance(function, NativeFunction):
            steps.append((function, operands))
    pushed: dict[int, int] = {}
    for function, buffers in made.steps[first:back]:
        if isinstance(function, Reserve):
            pushed[buffers[0]] = pushed.get(buffers[0], 0) + function.nbytes
    rooms = tuple([(number[stack], nbytes) for stack, nbytes in pushed.items()])
    whole = loop_function(LoopBody(tuple(steps), len(used), number[condition[0]], rooms))
    new: list[_Step] = [(Reserve(nbytes), (stack,)) for stack, nbytes in pushed.items()]
    new.append((whole, tuple(used)))
    # a call of several steps counts once; two equal calls are two
    calls = tuple({id(c): c for k in inside for c in made.sources[k]}.values())
    made.steps[first:back] = new
    made.nests[first:back] = [None] * len(new)
    made.sources[first:back] = [*[()] * len(pushed), calls]
    _renumber(made, loops, loop, len(inside) - len(new))


def _places(kept: list[int], inside: range) -> Iterator[tuple[int, int]]:
    """For each step its number among those that are kept, or that of the next one that is."""
    for k in inside:
        yield k, sum(other < k for other in kept)


def _renumber(made: SequenceBuilder, loops: list[range], loop: range, fewer: int) -> None:
    """Let branches and loops follow; those of the replaced steps are gone."""

    def new(step: int) -> int:
        return step if step <= loop.start + 1 else step - fewer

    for k, (function, buffers) in enumerate(made.steps):
        if isinstance(function, Branch):
            made.steps[k] = replace(function, target=new(function.target)), buffers
    loops[:] = [range(new(r.start), new(r.stop - 1) + 1) for r in loops]
