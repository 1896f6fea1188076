"""Ranks the files that may have emitted wrong code, by the lines that ran for it.

This is spectrum-based fault localization: a line of the code generator that runs for wrong code and
for no right code is the most suspicious one (the coefficient of Ochiai). The right code is that of
small programs, each for one feature of the generator; those whose code is wrong as well narrow the
search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from math import sqrt
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct

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


def _op(name: str) -> Callable[..., Any]:
    return cast("Callable[..., Any]", attribute(name))


def _summed(x: Any, y: Any) -> Any:
    return _op("add")(_op("transpose")(x, [1, 0]), y)


def _blocks(x: Any) -> Any:
    """Reads at quotients and remainders, and under a guard."""
    blocks = _op("transpose")(_op("reshape")(x, [30, 7, 11]), [0, 2, 1])
    return _op("pad")(_op("exp")(blocks), paddings=[0, 0, 0, 5, 0, 0], pad_value=1.0)


def _gathered(x: Any, y: Any) -> Any:
    return _op("gather")(x, _op("cast")(_op("greater_than")(y, 0.0), "int64"), 0)


def _elementwise(x: Any) -> Any:
    return _op("multiply")(_op("tanh")(x), _op("sin")(x))


def _chain(x: Any) -> Any:
    """Common operations in one kernel, with a reduction that the others read."""
    y = _op("divide")(_op("sqrt")(_op("abs")(_op("cos")(x))), _op("add")(_op("exp")(x), 1.0))
    y = _op("subtract")(y, _op("mean")(y, [1], True))
    return _op("maximum")(_op("log")(_op("add")(_op("multiply")(y, y), 0.5)), _op("scale")(x, 0.5))


def _batch_sum(x: Any) -> Any:
    return _op("sum")(_elementwise(x), [0])


def _network(x: Any, first: Any, second: Any) -> Any:
    hidden = _op("add")(_op("matmul")(x, first), _op("sum")(first, [0]))
    return _op("matmul")(_op("tanh")(hidden), second)


def _network_gradient(x: Any, first: Any, second: Any) -> Any:
    def total(weight: Any) -> Any:
        return _op("sum")(_network(x, weight, second))

    return grad(total)(first)


def _conv(x: Any, w: Any) -> Any:
    return _op("conv2d")(x, w, [1, 1], [1, 1], "EXPLICIT", [1, 1], 1, "NCHW")


def _conv_gradient(x: Any, w: Any) -> Any:
    def total(image: Any) -> Any:
        return _op("sum")(_conv(image, w))

    return grad(total)(x)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return _op("matmul")(_op("softmax")(_op("matmul")(q, k, False, True), -1), v)


class Example(Struct, frozen=True):
    """A program of a function, or of an op by name, for tensors of these shapes and ``others``.

    ``others`` are further arguments, which are no tensors.
    """

    form: Form
    function: Callable[..., Any] | str
    shapes: tuple[tuple[int, ...], ...]
    others: tuple[Any, ...] = ()

    def program(self) -> Program:
        """The program, traced for float32."""
        function = _op(self.function) if isinstance(self.function, str) else self.function
        given = [np.zeros(shape, np.float32) for shape in self.shapes]
        return trace(lambda *tensors: function(*tensors, *self.others), given).program


_IMAGE: Final = ((2, 16, 14, 14), (32, 16, 3, 3))
_LAYER: Final = ((512, 3), (3, 20), (20, 1))
_EXAMPLES: Final = (
    Example("segments", "add", ((1024,), (1024,))),
    Example("segments", "scale", ((1003,),), (3.0, 0.0, True)),
    Example("segments", "tanh", ((40, 77),)),
    Example("segments", "exp", ((1024,),)),
    Example("segments", "sin", ((1024,),)),
    Example("segments", "sum", ((30, 77),), ([1],)),
    Example("segments", "max", ((30, 64),), ([1], False)),
    Example("segments", "sum", ((300, 77),), ([0],)),
    Example("segments", _summed, ((40, 48), (48, 40))),
    Example("segments", _blocks, ((30, 77),)),
    Example("segments", _gathered, ((30, 77), (40,))),
    Example("segments", "flip", ((30, 77),), ([1],)),
    Example("segments", _chain, ((30, 64),)),
    Example("segments", "softmax", ((30, 77),), (-1,)),
    Example("segments", "cumsum", ((40, 37),), (0,)),
    Example("segments", "matmul", ((6, 10), (10, 7))),
    Example("segments", "matmul", ((300, 128), (128, 300))),
    Example("segments", _attention, ((2, 3, 130, 24), (2, 3, 140, 24), (2, 3, 140, 16))),
    Example("segments", _conv, _IMAGE),
    Example("segments", _conv_gradient, _IMAGE),
    Example("fast", _elementwise, ((512, 1),)),
    Example("fast", _batch_sum, ((512, 1),)),
    Example("fast", _network, ((512, 3), (3, 2), (2, 1))),
    Example("fast", _network, _LAYER),
    Example("fast", _network_gradient, _LAYER),
)
"""Each uses a feature of the code generator that most of the others do not use."""


def native_lines(made: Callable[[], object]) -> Lines:
    """The lines that run while native functions are chosen, scheduled and written by ``made``."""

    def run() -> None:
        with requested() as functions:
            made()
        for function in functions:
            function.write()

    _warm_up()
    nests_at.cache_clear()  # cached kernels would run no line of their lowering
    return executed_lines(run)


@cache
def _warm_up() -> None:
    """Run what runs once in a process: else its lines would count for the first program only."""
    with requested() as functions:
        native_plan(_EXAMPLES[0].program(), _EXAMPLES[0].form)
    for function in functions:
        function.write()


def suspects(
    wrong: Lines, others: Sequence[tuple[Lines, bool]] = (), named: Sequence[str] = (),
    likely: Sequence[str] = (),
) -> tuple[str, ...]:  # fmt: skip
    """The files that may be wrong, the most suspicious first.

    ``wrong`` are the lines of the wrong code, ``others`` those of further code of the program, and
    whether it is right. Files that are ``named`` as its stage come first, in the order of their
    most suspicious lines; of others with equal scores those that are ``likely``, then those with
    the most such lines.
    """
    failed, right = [wrong], list[Lines]()
    for lines, is_right in (*_examples(), *others):
        (right if is_right else failed).append(lines)
    failures = Counter(line for lines in failed for line in lines)
    successes = Counter(line for lines in right for line in lines)
    scores: dict[str, list[float]] = {}
    for line in wrong:
        ran = failures[line]
        scores.setdefault(line[0], []).append(ran / sqrt(len(failed) * (ran + successes[line])))

    def order(file: str) -> tuple[object, ...]:
        found = scores.get(file, [0.0])
        most = max(found)
        return file not in named, -most, file not in likely, -found.count(most)

    return tuple(sorted({*scores, *named}, key=lambda file: (order(file), file))[:MOST])


def _examples() -> Iterator[tuple[Lines, bool]]:
    """The lines of each example, and whether its code is right."""
    for example in _EXAMPLES:
        program, plans = example.program(), list[Plan]()
        make = partial(native_plan, program, example.form)
        try:
            lines = native_lines(lambda make=make, plans=plans: plans.append(make()))
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
