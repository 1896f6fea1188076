"""Ranks the files that may have emitted wrong code, by the lines that ran for it.

This is spectrum-based fault localization: a line of the code generator that runs for wrong code and
for no right code is the most suspicious one (the coefficient of Ochiai). The right code is that of
small programs, each for one feature of the generator, of the other kernels of the program, and of
the ops of the wrong kernel alone; what is wrong among these narrows the search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from math import sqrt
from typing import Any, Final, cast

import numpy as np

from pirkit.dialect.program import Program
from pirkit.frontend.compile import run_passes
from pirkit.frontend.native_compile import Form, plan_with
from pirkit.frontend.numeric_check import Effect, Inputs, effect_of, first_difference, plan_of
from pirkit.frontend.op_functions import op_function
from pirkit.frontend.suspect_examples import EXAMPLES
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.about import Inside, Lines, executed_lines
from pirkit.lowering.codegen.emit.batch_compile import requested
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.kernel_watch import returns_in_child
from pirkit.lowering.native_fused import nests_at
from pirkit.lowering.native_ops import FUSED
from pirkit.runtime.dtype import float32
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from pirkit.runtime.plan import Plan
from pirkit.runtime.registry import CPU, REFERENCE

MOST: Final = 4
"""Files that a report names."""
_LESS: Final = 0.5
"""The weight of a line that does not run in the stage that is wrong, or for all wrong code.

It may have prepared that stage, or there may be two bugs.
"""
_PARTS: Final = 24
"""Ops of a wrong kernel that are compiled alone."""
Ran = tuple[Lines, bool]
"""The lines of the code generator that ran for some code, and whether that is right."""
_Op = tuple[str, Sequence[Meta | None], Mapping[str, Any]]
"""An op, and the metas of its operands and its attributes."""


def native_lines(made: Callable[[], object], inside: Inside | None = None) -> Lines:
    """The lines that run while native functions are chosen, scheduled and written by ``made``.

    With ``inside`` only those of a stage.
    """

    def run() -> None:
        with requested() as functions:
            made()
        for function in functions:
            function.write()

    _warm_up()
    nests_at.cache_clear()  # cached kernels would run no line of their lowering
    return executed_lines(run, inside)


@cache
def _warm_up() -> None:
    """Run what runs once in a process: else its lines would count for the first program only."""
    with requested() as functions:
        native_plan(EXAMPLES[0].program(), EXAMPLES[0].form)
    for function in functions:
        function.write()


def suspects(
    wrong: Lines, others: Sequence[Ran] = (), named: Sequence[str] = (),
    likely: Sequence[str] = (), in_stage: Lines = frozenset(),
) -> tuple[str, ...]:  # fmt: skip
    """The files that may be wrong, the most suspicious first.

    ``wrong`` are the lines of the wrong code, ``others`` those of further code of the program, and
    whether it is right. ``in_stage`` are the lines of the wrong stage, if it is known. Files that
    are ``named`` as its stage come first, in the order of their most suspicious lines; of others
    with equal scores those that are ``likely``, then those with the most such lines.
    """
    failed, right = [wrong], list[Lines]()
    for lines, is_right in (*_examples(), *others):
        (right if is_right else failed).append(lines)
    failures = Counter(line for lines in failed for line in lines)
    successes = Counter(line for lines in right for line in lines)
    scores: dict[str, list[float]] = {}
    for line in wrong:
        times = failures[line]
        score = times / sqrt(len(failed) * (times + successes[line]))
        less = (times < len(failed)) + (bool(in_stage) and line not in in_stage)
        scores.setdefault(line[0], []).append(score * _LESS**less)

    def order(file: str) -> tuple[object, ...]:
        found = scores.get(file, [0.0])
        most = max(found)
        return file not in named, -most, file not in likely, -found.count(most)

    return tuple(sorted({*scores, *named}, key=lambda file: (order(file), file))[:MOST])


def _examples() -> Iterator[Ran]:
    for example in EXAMPLES:
        yield from ran(example.program, example.form)


def parts_ran(op: str, metas: Sequence[Meta | None], attrs: Mapping[str, Any]) -> list[Ran]:
    """The lines of each op that a call computes, as a program of its own, and whether it is right.

    These are the smallest programs that may have the same error, and those most like it that have
    it not.
    """
    calls = _ops_of(op, metas, attrs)
    return [found for call in islice(calls, _PARTS) for found in ran(partial(_program_of, *call))]


def ran(make: Callable[[], Program], form: Form = "segments") -> Iterator[Ran]:
    """The lines of the native form of a program, and whether it is right; nothing if it has none.

    There is none where the bug breaks the compiler, and nothing to compare where the reference
    refuses the inputs that are drawn.
    """
    plans = list[Plan]()
    try:
        program = make()
        lines = native_lines(lambda: plans.append(native_plan(program, form)))
        reference = plan_of(program.main)
        given = Inputs.drawn(reference, 0, range(2), {}, {})
        expected = effect_of(reference, REFERENCE, given, 0)
    except Exception:
        return
    yield lines, returns_in_child(partial(_is_right, plans[0], given, expected))


def _ops_of(op: str, metas: Sequence[Meta | None], attrs: Mapping[str, Any]) -> Iterator[_Op]:
    """The ops of a fused kernel, each once; of another call the call itself."""
    if op != FUSED:
        yield op, metas, attrs
        return
    known = tuple([cast(TensorMeta, meta).shape for meta in metas])
    kernel, _ = nests_at(attrs["kernel"], known)
    values = [*kernel.inputs, *[origin.meta for origin in kernel.ops]]

    def meta(operand: Any) -> Meta | None:
        if isinstance(operand, tuple):
            listed = cast("tuple[int | TensorMeta, ...]", operand)
            return VecMeta(tuple([cast(TensorMeta, meta(o)) for o in listed]))
        return values[operand] if isinstance(operand, int) else operand

    seen: set[str] = set()
    for origin in kernel.ops:
        found = origin.op, [meta(o) for o in origin.operands], origin.attrs
        if str(found) not in seen:
            seen.add(str(found))
            yield found


def _program_of(op: str, metas: Sequence[Meta | None], attrs: Mapping[str, Any]) -> Program:
    """The program of one op."""
    listed = [_items(meta) for meta in metas]

    def call(*tensors: Any) -> Any:
        given = iter(tensors)
        lists = [[next(given) for _ in items] for items in listed]
        operands = [
            found if isinstance(meta, VecMeta) else next(iter(found), None)
            for meta, found in zip(metas, lists, strict=True)
        ]
        return op_function(op)(*operands, **attrs)

    zeros = [np.zeros(meta.shape, meta.dtype.np) for items in listed for meta in items]
    return trace(call, zeros).program


def _items(meta: Meta | None) -> Sequence[TensorMeta]:
    if isinstance(meta, VecMeta):
        return meta.items
    return [] if meta is None else [cast(TensorMeta, meta)]


def native_plan(program: Program, form: Form) -> Plan:
    """The plan of a program in a native form, which no cache has."""
    return plan_with(form, program, "@default", None, KernelLibrary(CPU), run_passes)[0]


def _is_right(plan: Plan, given: Inputs, expected: Effect) -> bool:
    try:
        found = effect_of(plan, CPU, given, 0)
    except Exception:  # what a wrong plan may raise, whatever that is
        return False
    return first_difference(found, expected, float32) is None
