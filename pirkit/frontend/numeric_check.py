"""Checks that a changed module computes the same numbers, by running both on random inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from msgspec.structs import replace
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import PassError, PirkitError, RuntimeFault
from pirkit.diag.limits import current_limits, use_limits
from pirkit.diag.span import Span
from pirkit.dialect.operation import ProgramOp
from pirkit.frontend.derivative_check import has_derivatives, split_difference
from pirkit.frontend.native_compile import GRADIENTS
from pirkit.frontend.random_inputs import (
    RANGES,
    Integers,
    on_draws,
    random_inputs,
    random_weights,
    with_hostile,
)
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.passes.base import Pass
from pirkit.passes.hoist_constants import SUFFIX
from pirkit.runtime.dtype import DType
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import Meta, TensorMeta
from pirkit.runtime.plan import Plan, Port
from pirkit.runtime.tolerance import drift, loosest_of, within_rounding
from pirkit.split.split_result import BACKWARD, FORWARD

Array = np.ndarray[Any, Any]
Effect = dict[str, Array]
"""The observable results of a run: outputs, and written inputs and parameters."""

BACKEND: Final = "reference"
_BOOL: Final = np.dtype(np.bool_)
T = TypeVar("T")
_TRIED: Final = 1 << 22
"""Most elements, in all values of a program, for which trial runs find the range of its indices."""
_LOOP_STEPS: Final = 10_000
"""Most iterations of a loop in both modules, if that is enough for the original: a wrong pass may
have made a loop endless, and reaching the limit `loop_steps` takes minutes."""


def expanding(module: ModuleOp, pipeline: str) -> str:
    """The pipeline as `compile` runs it: derivatives are expanded first, if there are any."""
    return ",".join(filter(None, (GRADIENTS * has_derivatives(module), pipeline)))


def plan_of(program: ProgramOp) -> Plan:
    """The plan of a program on the reference; pending derivatives are expanded in a copy."""
    if has_derivatives(program):
        module = ModuleOp([program.clone()])
        run_pipeline(module, GRADIENTS)
        (program,) = (op for op in module.ops if isinstance(op, ProgramOp))
    return write_plan(program, library=KernelLibrary(BACKEND))


@dataclass(frozen=True)
class Difference:
    """A difference of a changed module from the original: the program, the error in one line."""

    program: str
    what: str
    span: Span | None = None

    def __str__(self) -> str:
        return f"@{self.program}: {self.what}"


@dataclass
class NumberCheck:
    """Compares modules with the original module that they were derived from.

    Programs are matched by name; one that only one of the modules has is not compared. Inputs and
    weights are drawn from ``seed``.
    """

    seed: int
    programs: dict[str, ProgramOp]
    blind: list[str] = field(default_factory=list[str])
    """Outputs without a finite number on the drawn inputs, for which a comparison is void."""
    hostile: bool = False
    """Whether inputs contain zeros, infinities and NaN; then only finite elements are compared."""
    _has_long_loops: bool = False
    """Whether the original needs more iterations than `_LOOP_STEPS`."""
    _known: dict[tuple[str, tuple[Meta, ...]], tuple[Inputs, Effect]] = field(
        default_factory=dict[tuple[str, "tuple[Meta, ...]"], "tuple[Inputs, Effect]"]
    )
    """The inputs and results of the original, by program and the metas of its ports."""

    @classmethod
    def of(cls, module: ModuleOp, seed: int = 0, *, hostile: bool = False) -> NumberCheck:
        """A check against the module in its present state."""
        return cls(seed, dict(_programs(module.clone())), hostile=hostile)

    def difference(self, module: ModuleOp) -> Difference | None:
        """The first difference, or None.

        Raises whatever running the original on random inputs raises, with a note about the cause.
        """
        programs = dict(_programs(module))
        for name, program in programs.items():
            if name in self.programs:
                hoisted = None if name + SUFFIX in self.programs else programs.get(name + SUFFIX)
                what = self._compare(name, program, hoisted)
                if what is not None:
                    return Difference(name, what)
        return self._of_halves(programs)

    def _of_halves(self, programs: Mapping[str, ProgramOp]) -> Difference | None:
        """The difference of the forward and backward programs that a split made."""
        for name, original in self.programs.items():
            for prefix in ("", f"{name}_"):
                halves = [programs.get(f"{prefix}{half}") for half in (FORWARD, BACKWARD)]
                if name not in programs and halves[0] and halves[1]:
                    what = split_difference(original, halves[0], halves[1], self.seed)
                    if what is not None:
                        return Difference(name, what)
        return None

    def require_equal(self, module: ModuleOp, culprit: str) -> None:
        """Raise PassError (PK0804), which blames ``culprit``, if there is a difference."""
        found = self.difference(module)
        if found is not None:
            raise PassError(
                f"{culprit} changed the numbers of {found}",
                code="PK0804",
                notes=(f"on random inputs of seed {self.seed}",),
                help="`--bisect` names the rewrite that did it",
            )

    def _compare(self, name: str, program: ProgramOp, hoisted: ProgramOp | None) -> str | None:
        """The error of a program, as text; ``hoisted`` computes some of its parameters."""
        original = plan_of(self.programs[name])  # if this raises, no pass is to blame
        try:
            plan = plan_of(program)
        except PirkitError as error:
            return f"cannot be run any more: {error.message}"
        # A pass may make declared shapes more specific; the inputs have to fit both programs.
        refined = {p.name: p for p in (*plan.inputs, *plan.params)}
        ports = (*original.inputs, *original.params)
        key = (name, tuple(refined.get(p.name, p).meta for p in ports))
        if key not in self._known:
            self._known[key] = self._run_original(original, refined)
            self.blind += _blind(name, self._known[key][1])
        bound_inputs, expected = self._known[key]
        constants: dict[str, Array] = {}
        if hoisted is not None:
            weights = plan_of(hoisted)
            found = Executable(weights, KernelLibrary(BACKEND), bound_inputs.of(weights.params))
            constants = found.run({})
            bound_inputs = Inputs({**bound_inputs.arrays, **constants})
        missing = refined.keys() - {p.name for p in ports} - constants.keys()
        if missing:
            return f"it asks for `{min(missing)}`, which the program before did not"
        try:
            with nullcontext() if self._has_long_loops else _short_loops():
                found = effect_of(plan, BACKEND, bound_inputs, self.seed)
        except PirkitError as error:
            return f"does not run any more: {error.message}"
        found, expected = (
            _with_unwritten(found, expected, bound_inputs),
            _with_unwritten(expected, found, bound_inputs),
        )
        if self.hostile:
            found, expected = _where_finite(found, expected)
        return first_difference(found, expected, loosest_of(_dtypes(ports)))

    def _run_original(self, plan: Plan, refined: Mapping[str, Port]) -> tuple[Inputs, Effect]:
        inputs = [refined.get(p.name, p) for p in plan.inputs]
        params = [refined.get(p.name, p) for p in plan.params]
        ports = replace(plan, inputs=tuple(inputs), params=tuple(params))

        def run(bound: Inputs) -> tuple[Inputs, Effect]:
            if self.hostile:
                bound = Inputs(with_hostile(bound.arrays, self.seed))
            if not self._has_long_loops:
                try:
                    with _short_loops():
                        return bound, effect_of(plan, BACKEND, bound, self.seed)
                except RuntimeFault as error:
                    if error.code != "PK0905":
                        raise
                self._has_long_loops = True
            return bound, effect_of(plan, BACKEND, bound, self.seed)

        return on_drawn_inputs(ports, self.seed, run)


class CheckEach:
    """A watcher of a pipeline that raises PassError (PK0804) after a pass that changed numbers."""

    def __init__(self, check: NumberCheck) -> None:
        self.check = check

    def __call__(self, when: str, pass_: Pass, module: ModuleOp) -> None:
        if when == "after":
            self.check.require_equal(module, f"pass `{pass_.name}`")


@dataclass(frozen=True)
class Inputs:
    """Arrays for the inputs and parameters of plans; those of a backward half may be stacks."""

    arrays: Mapping[str, Any]

    @classmethod
    def drawn(
        cls,
        plan: Plan,
        seed: int,
        integers: Integers,
        inputs: Mapping[str, Array] | None = None,
        params: Mapping[str, Array] | None = None,
    ) -> Inputs:
        """Random arrays, with integers from ``integers``, for the ports that are not given."""
        given = {**(inputs or {}), **(params or {})}
        missing = [
            [p for p in ports if p.name not in given] for ports in (plan.inputs, plan.params)
        ]
        drawn = random_inputs(missing[0], seed, integers)
        return cls({**drawn, **random_weights(missing[1], seed, integers), **given})

    def of(self, ports: tuple[Port, ...]) -> dict[str, Any]:
        """Copies for some ports; two may be one stack."""
        return deepcopy({p.name: self.arrays[p.name] for p in ports})


def on_drawn_inputs(
    plan: Plan,
    seed: int,
    check: Callable[[Inputs], T],
    inputs: Mapping[str, Array] | None = None,
    params: Mapping[str, Array] | None = None,
) -> T:
    """The result of ``check`` for the widest range of integers that the program takes.

    Raises the first RuntimeFault of ``check`` if it raises one for each draw.
    """
    widest = _widest_ranges(plan, seed, inputs, params)
    ranges = (widest, *RANGES) if widest else RANGES
    return on_draws(lambda n: check(Inputs.drawn(plan, seed, n, inputs, params)), seed, ranges)


def _widest_ranges(
    plan: Plan, seed: int, inputs: Mapping[str, Array] | None, params: Mapping[str, Array] | None
) -> Mapping[str, range]:
    """The widest range of integers that the program takes, for each port of them.

    They go up to the largest size of an axis, so that an index is drawn up to the last element and
    a number of iterations up to 3 at least. Integers of 8 bits fill their type. Arrays have
    negative integers too if the program takes them. Large programs are not tried out.
    """
    metas = [m for m in plan.slots if isinstance(m, TensorMeta)]
    sizes = sorted({4, *[d for m in metas for d in m.shape if d > 1]}, reverse=True)
    work = sum(m.numel for m in metas if m.is_static)
    given = {**(inputs or {}), **(params or {})}

    def takes(name: str, integers: range) -> bool:
        # Zeros in the other ports, which may be indices into shorter axes.
        trial = {p.name: range(1) for p in (*plan.inputs, *plan.params)} | {name: integers}
        with suppress(PirkitError):
            effect_of(plan, BACKEND, Inputs.drawn(plan, seed, trial, inputs, params), seed)
            return True
        return False

    found: dict[str, range] = {}
    for name, meta in ((p.name, p.meta) for p in (*plan.inputs, *plan.params)):
        if not isinstance(meta, TensorMeta) or meta.dtype.kind not in ("int", "uint"):
            continue
        if name in given or work > _TRIED:
            continue
        whole = [int(np.iinfo(meta.dtype.np).max) + 1] * (meta.dtype.itemsize == 1)
        size = next((n for n in (*whole, *sizes) if takes(name, range(n))), 0)
        if size:
            signed = (
                meta.dtype.kind == "int" and meta.numel != 1 and takes(name, range(-size, size))
            )
            found[name] = range(-size if signed else 0, size)
    return found


def _programs(module: ModuleOp) -> Iterator[tuple[str, ProgramOp]]:
    return ((op.symbol, op) for op in module.ops if isinstance(op, ProgramOp))


def effect_of(plan: Plan, backend: str, bound_inputs: Inputs, seed: int) -> Effect:
    """The outputs and writes of a run on a backend."""
    executable = Executable(plan, KernelLibrary(backend), bound_inputs.of(plan.params), seed)
    outputs = executable.run(bound_inputs.of(plan.inputs))
    seen = {f"output `{name}`": value for name, value in outputs.items()}
    seen |= {_written(name): value for name, value in executable.updates.items()}
    return {name: value for name, value in seen.items() if isinstance(value, np.ndarray)}


def _written(name: str) -> str:
    """The name of an input or parameter among the effects."""
    return f"written `{name}`"


def _with_unwritten(effect: Effect, other: Effect, bound_inputs: Inputs) -> Effect:
    """An effect, completed by the content before the run of what only the other run writes.

    A pass may leave out writes that change nothing, such as those of batch norm in inference.
    """
    before = {_written(name): array for name, array in bound_inputs.arrays.items()}
    return {**{name: before[name] for name in other if name in before}, **effect}


def _short_loops() -> AbstractContextManager[Any]:
    limits = current_limits()
    return use_limits(dataclasses.replace(limits, loop_steps=min(limits.loop_steps, _LOOP_STEPS)))


def first_difference(found: Effect, expected: Effect, loosest: DType | None) -> str | None:
    """The first difference of two runs that exceeds rounding, as text, or None."""
    for name, want in expected.items():
        if name not in found:
            return f"{name} is gone"
        what = drift(found[name], want, loosest)
        if what is not None:
            return f"{name}: {what}"
    return None


def is_rounding(found: Effect, expected: Effect, plan: Plan, bound: Inputs, seed: int) -> bool:
    """Whether a run differs no more from the expected one than a run with inputs off by rounding.

    An example is the cosine of large sums: no kernel is wrong, but one enlarges the rounding errors
    of another.
    """
    rng = np.random.default_rng(seed)

    def moved(x: Array) -> Array:
        last = float(np.finfo(x.dtype).eps)
        return (x * rng.choice([1 - last, 1 + last], x.shape)).astype(x.dtype)

    floats = {k: x for k, x in bound.arrays.items() if getattr(x, "dtype", _BOOL).kind in "fc"}
    inputs = Inputs({**bound.arrays, **{name: moved(x) for name, x in floats.items()}})
    try:
        noise = effect_of(plan, BACKEND, inputs, seed)
    except PirkitError:  # for example an assertion about the inputs
        return False
    loosest = loosest_of(_dtypes((*plan.inputs, *plan.params)))
    return all(
        name in found
        and name in noise
        and (
            drift(found[name], want, loosest) is None
            or within_rounding(found[name], want, noise[name], loosest)
        )
        for name, want in expected.items()
    )


def _where_finite(found: Effect, expected: Effect) -> tuple[Effect, Effect]:
    """Two effects with 0 for elements that are not finite in one of them."""
    one, other = dict(found), dict(expected)
    for name in one.keys() & other.keys():
        x, y = one[name], other[name]
        if x.shape == y.shape and x.dtype == y.dtype and x.dtype.kind not in "biu":
            wide = np.isfinite(x.astype(np.complex128)) & np.isfinite(y.astype(np.complex128))
            one[name], other[name] = (np.where(wide, a, np.zeros((), a.dtype)) for a in (x, y))
    return one, other


def _dtypes(ports: tuple[Port, ...]) -> Iterator[DType]:
    return (p.meta.dtype for p in ports if isinstance(p.meta, TensorMeta))


def _blind(name: str, effect: Effect) -> Iterator[str]:
    """The outputs and writes without a finite number (`NumberCheck.blind`)."""
    for key, array in effect.items():
        if array.size and array.dtype.kind not in "biu":
            wide = array.astype(np.complex128)
            if not np.isfinite(wide).any():
                yield f"@{name}: {key} holds no finite number"
