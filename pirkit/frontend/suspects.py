"""Ranks the files that may have emitted wrong code, by the lines that ran for it.

This is spectrum-based fault localization: a line of the code generator that runs for wrong code and
for no right code is the most suspicious one (the coefficient of Ochiai). The right code is that of
small programs, each for one feature of the generator; those that are wrong too narrow it down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import sqrt
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import PirkitError
from pirkit.dialect.program import Program
from pirkit.frontend.compile import run_passes
from pirkit.frontend.native_compile import Form, plan_with
from pirkit.frontend.numeric_check import Inputs, effect_of, first_difference, plan_of
from pirkit.frontend.op_functions import attribute
from pirkit.frontend.tracing import trace
from pirkit.frontend.transforms import grad
from pirkit.lowering.codegen.about import Lines, executed_lines
from pirkit.lowering.codegen.emit.batch_compile import requested
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.kernel_watch import returns_in_child
from pirkit.lowering.native_fused import nests_at
from pirkit.runtime.binding import KERNEL_FAULTS
from pirkit.runtime.dtype import float32
from pirkit.runtime.plan import Plan
from pirkit.runtime.registry import CPU, REFERENCE

MOST: Final = 4
"""Files that a report names."""


class _Ops:
    """The functions of all ops, by their names."""

    def __getattr__(self, name: str) -> Any:
        return attribute(name)


_ops: Any = _Ops()


def _network(x: Any, first: Any, second: Any) -> Any:
    hidden = _ops.tanh(_ops.add(_ops.matmul(x, first), _ops.sum(first, [0])))
    return _ops.matmul(hidden, second)


def _conv(x: Any, w: Any) -> Any:
    return _ops.conv2d(x, w, [1, 1], [1, 1], "EXPLICIT", [1, 1], 1, "NCHW")


def _attention(q: Any, k: Any, v: Any) -> Any:
    return _ops.matmul(_ops.softmax(_ops.matmul(q, k, transpose_y=True), -1), v)


_IMAGE: Final = ((2, 16, 14, 14), (32, 16, 3, 3))
_LAYER: Final = ((512, 3), (3, 20), (20, 1))
_EXAMPLES: Final[Sequence[tuple[Form, Callable[..., Any], tuple[tuple[int, ...], ...]]]] = (
    ("segments", lambda x, y: _ops.add(x, y), ((1024,), (1024,))),
    ("segments", lambda x: _ops.scale(x, 3.0, 0.0, True), ((1003,),)),
    ("segments", lambda x: _ops.tanh(x), ((40, 77),)),
    ("segments", lambda x: _ops.exp(x), ((1024,),)),
    ("segments", lambda x: _ops.sin(x), ((1024,),)),
    ("segments", lambda x: _ops.sum(x, [1]), ((30, 77),)),
    ("segments", lambda x: _ops.max(x, [1], False), ((30, 64),)),
    ("segments", lambda x: _ops.sum(x, [0]), ((300, 77),)),
    ("segments", lambda x, y: _ops.add(_ops.transpose(x, [1, 0]), y), ((40, 48), (48, 40))),
    ("segments", lambda x: _ops.flip(x, [1]), ((30, 77),)),
    ("segments", lambda x: _ops.softmax(x, -1), ((30, 77),)),
    ("segments", lambda x: _ops.cumsum(x, 0), ((40, 37),)),
    ("segments", lambda x, y: _ops.matmul(x, y), ((6, 10), (10, 7))),
    ("segments", lambda x, y: _ops.matmul(x, y), ((300, 128), (128, 300))),
    ("segments", _attention, ((2, 3, 130, 24), (2, 3, 140, 24), (2, 3, 140, 16))),
    ("segments", _conv, _IMAGE),
    ("segments", lambda x, w: grad(lambda x: _ops.sum(_conv(x, w)))(x), _IMAGE),
    ("fast", lambda x: _ops.multiply(_ops.tanh(x), _ops.sin(x)), ((512, 1),)),
    ("fast", lambda x: _ops.sum(_ops.multiply(_ops.tanh(x), _ops.sin(x)), [0]), ((512, 1),)),
    ("fast", _network, ((512, 3), (3, 2), (2, 1))),
    ("fast", _network, _LAYER),
    ("fast", lambda x, a, b: grad(lambda a: _ops.sum(_network(x, a, b)))(a), _LAYER),
)
"""Programs with the form of their native code, and the shapes of their inputs."""


def native_lines(made: Callable[[], object]) -> Lines:
    """The lines that run while native functions are chosen, scheduled and written by ``made``."""

    def run() -> None:
        with requested() as functions:
            made()
        for function in functions:
            function.write()

    nests_at.cache_clear()  # else no line of their lowering runs
    return executed_lines(run)


def suspects(
    wrong: Lines, named: Sequence[str] = (), likely: Sequence[str] = ()
) -> tuple[str, ...]:
    """The files that may be wrong, the most suspicious first.

    ``wrong`` are the lines of the wrong code. Files that are ``named`` as its stage come first, in
    the order of their scores; of others with equal scores those that are ``likely``, then those of
    which most lines are suspicious.
    """
    failed, right = [wrong], list[Lines]()
    for lines, is_right in _examples():
        (right if is_right else failed).append(lines)
    failures = Counter(line for lines in failed for line in lines)
    successes = Counter(line for lines in right for line in lines)
    scores: dict[str, list[float]] = {}
    for line in wrong:
        ran = failures[line]
        scores.setdefault(line[0], []).append(ran / sqrt(len(failed) * (ran + successes[line])))

    def order(file: str) -> tuple[object, ...]:
        found = scores.get(file, [0.0])
        return file not in named, -max(found), file not in likely, -sum(found) / len(found)

    return tuple(sorted({*scores, *named}, key=lambda file: (order(file), file))[:MOST])


def _examples() -> Iterator[tuple[Lines, bool]]:
    """The lines of each example, and whether its code is right."""
    for form, function, shapes in _EXAMPLES:
        program = trace(function, [np.zeros(shape, np.float32) for shape in shapes]).program
        plans = list[Plan]()

        def make(program: Program = program, form: Form = form, made: list[Plan] = plans) -> None:
            made.append(native_plan(program, form))

        try:
            lines = native_lines(make)
        except Exception:  # the bug breaks the compiler here: there is no code to compare
            continue
        yield lines, returns_in_child(partial(_is_right, program, plans[0]))


def native_plan(program: Program, form: Form) -> Plan:
    """The plan of a program in a native form, which no cache has."""
    return plan_with(form, program, "@default", None, KernelLibrary(CPU), run_passes)[0]


def _is_right(program: Program, plan: Plan) -> bool:
    reference = plan_of(program.main)
    given = Inputs.drawn(reference, 0, range(2), {}, {})
    expected = effect_of(reference, REFERENCE, given, 0)
    try:
        found = effect_of(plan, CPU, given, 0)
    except (PirkitError, *KERNEL_FAULTS):
        return False
    return first_difference(found, expected, float32) is None
