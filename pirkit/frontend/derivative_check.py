"""Checks of derivatives, for which there is no original program to compare with.

The halves of a split are compared with the joint program that autodiff makes of the original one,
and autodiff's derivatives with difference quotients in double precision. Derivatives by Taylor
series are compared with those by nested reverse sweeps.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from pirkit.diag.errors import PirkitError
from pirkit.diag.limits import current_limits, use_limits
from pirkit.dialect.kinds import DERIVATIVE, OUTPUT, PARAMETER, SOURCE
from pirkit.dialect.opdef import decompose, jet, vjp
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, declares, span_of
from pirkit.frontend.delta_reduce import reduce
from pirkit.frontend.random_inputs import Integers, on_draws, random_inputs, random_weights
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.runtime.executor import Executable
from pirkit.runtime.plan import Plan
from pirkit.runtime.registry import REFERENCE
from pirkit.runtime.tolerance import drift

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

_LISTS: Final = {"fx", "fp", "fo", "bo_g", "bx_g", "bp_g", "no_need_buffers"}
"""Attributes of the halves of a split that list names, as in ``names.json`` of captured cases:
inputs, parameters and outputs of the forward half; the gradients of outputs, which the backward
half takes, and those of inputs and parameters, which it gives; inputs of which it reads the shape
alone."""
_SECONDS: Final = 30.0
"""Time limit for shrinking a program with a wrong derivative."""
_STEP: Final = 1e-4
"""The step of a difference quotient; a second one is taken with a quarter of it."""
_SMOOTH: Final = 1e-4
"""Two quotients with a larger relative difference are at a kink and are skipped."""
_WRONG: Final = 1e-3
"""The relative error from which on a derivative is wrong."""
_DOUBLE: Final = "functionalize,convert-dtype{of=float32,to=float64}"
_ORDER: Final = 4
"""The highest order that is checked: nested reverse sweeps grow exponentially with it."""
DERIVATIVE_RULE: Final = "derivative"
SERIES: Final = "Taylor series"


@dataclass(frozen=True)
class WrongDerivative:
    """A derivative that is wrong, and the operations that suffice to show it."""

    what: str
    """The error, as text."""
    ops: tuple[PirOp, ...]
    kind: str = DERIVATIVE_RULE
    """What is wrong: `DERIVATIVE_RULE` or `SERIES`."""

    def rule_of(self, op: PirOp) -> str | None:
        """The source file or module of the rule that differentiates an operation, as text.

        None if there is no rule, as no derivative flows through the op.
        """
        is_series = self.kind == SERIES
        if bodies(op):
            return "passes/taylor_regions.py" if is_series else "passes/autodiff_regions.py"
        tables = (jet,) if is_series else (vjp, decompose)
        rule = next(filter(None, (table.get(op.definition) for table in tables)), None)
        return f"the rule of {rule.__module__}" if rule else None

    def __str__(self) -> str:
        lines = [f"no pass breaks the program, but a {self.kind} is wrong"]
        for op in self.ops:
            where = f" at {span_of(op)}" if span_of(op) else ""
            if by := self.rule_of(op):
                lines.append(f"{self.kind} of `{op.name}`{where}: {by}")
        operands = [value for op in self.ops for value in op.operands]
        if self.kind == SERIES:
            lines.append("or passes/taylor.py, which puts series together")
        elif len(self.ops) > 1 or len(set(operands)) < len(operands):
            lines.append("or passes/autodiff.py, which adds up the parts of a value's derivative")
        return "\n".join([*lines, f"breaks: {self.what}"])


def split_difference(
    original: ProgramOp, forward: ProgramOp, backward: ProgramOp, seed: int
) -> str | None:
    """The error of a split, as text, or None: its halves are compared with the joint program.

    ``original`` is the program that was split. If it does not take gradients of its outputs, the
    joint program is made of it by autodiff. Inputs and cotangents are drawn from ``seed``.
    """
    names = {
        k: _names(half, k) for half in (forward, backward) for k in _LISTS & half.attributes.keys()
    }
    plan = _plan(original)
    fed, expected = _on_draws(plan, seed)
    found = _run(_plan(forward), fed, seed)
    for name in found.keys() & expected.keys():
        if (what := drift(found[name], expected[name], None)) is not None:
            return f"@{forward.symbol}: output `{name}`: {what}"
    held = {**fed, **expected, **found}
    taken = {p.name for p in plan.inputs}
    is_joint = any(g in taken for g in names["bo_g"])
    joint = plan if is_joint else _plan(original, "autodiff{seeds=true}")
    seeds: Arrays = {}  # the cotangents, under the names of the backward half
    for output, gradient in zip(names["fo"], names["bo_g"], strict=True):
        if gradient is not None and output is not None:
            own = gradient if gradient in taken else f"{output}_grad"
            is_known = any(p.name == own for p in joint.inputs)
            drawn = _cotangent(own, held[output], seed) if own not in fed else fed[own]
            seeds[gradient] = drawn if is_known else np.zeros_like(held[output])
            held[own] = seeds[gradient]
    for port in joint.inputs:
        if port.name not in held:  # the gradient of an output that no input provides
            held[port.name] = np.zeros_like(held[port.name.removesuffix("_grad")])
    wanted = _run(joint, {**held, **fed}, seed)
    for name in names["no_need_buffers"]:  # a half that reads more than its shape gives NaN
        if name is not None and held[name].dtype.kind == "f":
            held[name] = np.full_like(held[name], np.nan)
    given = _run(_plan(backward), {**held, **seeds}, seed)
    for sources, gradients in (("fx", "bx_g"), ("fp", "bp_g")):
        for source, gradient in zip(names[sources], names[gradients], strict=True):
            own = gradient if gradient in wanted else f"{source}_grad"
            if gradient is not None and own in wanted:
                what = drift(given[gradient], wanted[own], None)
                if what is not None:
                    return f"@{backward.symbol}: the gradient of `{source}`: {what}"
    return None


def wrong_derivative(module: ModuleOp, seed: int = 0) -> WrongDerivative | None:
    """The derivative that is wrong for a module, with a reduced program that shows it, or None.

    The module is not changed. Reducing it takes up to 30 seconds of CPU time.
    """
    for kind, check in ((SERIES, series_difference), (DERIVATIVE_RULE, difference_quotient)):
        if check(module, seed) is not None:
            small = reduce(module, lambda m, wrong=check: wrong(m, seed) is not None, _SECONDS)
            declared = (SOURCE, PARAMETER, OUTPUT, DERIVATIVE)
            left = [
                op
                for op in small.module.walk()
                if isinstance(op, PirOp) and not any(declares(op, k) for k in declared)
            ]
            return WrongDerivative(str(check(small.module, seed)), tuple(left), kind)
    return None


def series_difference(module: ModuleOp, seed: int = 0) -> str | None:
    """How derivatives by Taylor series differ from those by nested reverse sweeps, or None.

    None also for programs without such derivatives, of a higher order than `_ORDER`, or that do not
    run.
    """
    for program in module.ops:
        if isinstance(program, ProgramOp) and has_derivatives(program):
            with (
                suppress(PirkitError),
                use_limits(replace(current_limits(), derivative_order=_ORDER)),
            ):
                by_sweeps = _plan(program, f"expand-gradients,{_DOUBLE}")
                by_series = _plan(program, f"taylor,expand-gradients,{_DOUBLE}")
                fed, expected = _on_draws(by_sweeps, seed)
                found = _run(by_series, fed, seed)
                for name in expected:
                    if (what := drift(found[name], expected[name], None)) is not None:
                        return f"@{program.symbol}: output `{name}`: {what}"
    return None


def has_derivatives(module: Operation) -> bool:
    """Whether a module has derivatives that are not expanded yet, as traced programs may."""
    return any(isinstance(op, PirOp) and declares(op, DERIVATIVE) for op in module.walk())


def difference_quotient(module: ModuleOp, seed: int = 0) -> str | None:
    """The error of the gradients of a module's programs, as text, or None.

    With random cotangents, a gradient times a random direction is compared with the central
    difference quotient along it. None also for programs that have no derivative or do not run.
    """
    for program in module.ops:
        if isinstance(program, ProgramOp):
            with suppress(PirkitError):
                what = _against_quotients(program, seed)
                if what is not None:
                    return f"@{program.symbol}: {what}"
    return None


def _against_quotients(program: ProgramOp, seed: int) -> str | None:
    """The first input or parameter whose derivative is wrong, as text, or None.

    The sum of all directions is tried first: if it is right, all derivatives count as right.
    """
    first = f"expand-gradients,{_DOUBLE}" if has_derivatives(program) else _DOUBLE
    plan = _plan(program, first)
    joint = _plan(program, f"{first},autodiff{{seeds=true}}", differentiates_all=True)
    fed, results = _on_draws(plan, seed)
    seeded = {p.name for p in joint.inputs}  # without the values written into inputs and parameters
    outputs = {n: a for n, a in results.items() if f"{n}_grad" in seeded}
    seeds = {f"{n}_grad": _cotangent(f"{n}_grad", a, seed) for n, a in outputs.items()}
    gradients = _run(joint, {**fed, **seeds}, seed)

    def quotient(along: Arrays, step: float) -> float:
        """The central difference quotient of the outputs times their cotangents."""
        ends = [
            _run(plan, {**fed, **{n: np.asarray(fed[n] + h * d) for n, d in along.items()}}, seed)
            for h in (step, -step)
        ]
        parts = (np.sum((ends[0][n] - ends[1][n]) * seeds[f"{n}_grad"]) for n in outputs)
        return float(sum(parts)) / (2 * step)

    def wrong(along: Arrays) -> str | None:
        """The error along a direction, as text; empty at a kink, where quotients mean nothing."""
        coarse, fine = (quotient(along, h) for h in (_STEP, _STEP / 4))
        found = float(sum(np.sum(gradients[f"{n}_grad"] * d) for n, d in along.items()))
        scale = max(abs(fine), abs(found), 1e-6)
        if not abs(coarse - fine) < _SMOOTH * scale:
            return ""
        is_right = abs(found - fine) <= _WRONG * scale
        return None if is_right else f"is {found:.6g}, expected {fine:.6g}"

    labels = labels_of(program)
    directions = {
        name: _cotangent(name, array, seed + 1)
        for name, array in fed.items()
        if array.dtype.kind == "f" and f"{name}_grad" in gradients and name not in labels
    }
    if wrong(directions) is None:  # along the sum of all directions
        return None
    for name, direction in directions.items():
        if what := wrong({name: direction}):
            return f"the derivative along `{name}` {what}"
    return None


def labels_of(program: ProgramOp) -> set[str]:
    """Inputs and parameters on which an operand depends that, as in Paddle, gets no gradient.

    Labels of losses are such operands. Difference quotients would see that dependence.
    """
    ops = [op for op in program.walk() if isinstance(op, PirOp)]
    pending = [op.operand_named(name) for op in ops for name in op.definition.no_gradient]
    seen: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value is not None and value not in seen:
            seen.add(value)
            pending += value.owner.operands if isinstance(value.owner, Operation) else []
    return {name for name, value in inputs_of(program).items() if value in seen}


def _plan(program: ProgramOp, pipeline: str = "", *, differentiates_all: bool = False) -> Plan:
    """The plan, for the reference rules, of a copy of a program after a pipeline.

    With ``differentiates_all``, marks that stop gradients are removed first.
    """
    module = ModuleOp([program.clone()])
    for op in module.walk() if differentiates_all else ():
        op.attributes.pop("stop_gradient", None)
    run_pipeline(module, pipeline)
    (copy,) = (op for op in module.ops if isinstance(op, ProgramOp))
    return write_plan(copy, library=KernelLibrary(REFERENCE))


def _on_draws(plan: Plan, seed: int) -> tuple[Arrays, Arrays]:
    """Random inputs and parameters by name, and the results of a run on them (see `on_draws`)."""

    def run(integers: Integers) -> tuple[Arrays, Arrays]:
        weights = random_weights(plan.params, seed, integers)
        fed = random_inputs(plan.inputs, seed, integers) | weights
        return fed, _run(plan, fed, seed)

    return on_draws(run, seed)


def _run(plan: Plan, held: Mapping[str, Array], seed: int) -> Arrays:
    """The outputs of a run, and the inputs and parameters that it wrote."""
    params = {p.name: deepcopy(held[p.name]) for p in plan.params}
    executable = Executable(plan, KernelLibrary(REFERENCE), params, seed)
    inputs = deepcopy({p.name: held[p.name] for p in plan.inputs})  # two may be one stack
    found = executable.run(inputs)
    return cast(Arrays, {**executable.updates, **found})


def _cotangent(name: str, array: Array, seed: int) -> Array:
    """Normally distributed numbers of the shape and dtype of an array, fixed by name and seed."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    drawn = np.empty(array.shape)
    rng.standard_normal(out=drawn)
    return drawn.astype(array.dtype)


def _names(half: ProgramOp, key: str) -> list[str | None]:
    """A list of names in an attribute; None for one that is left out."""
    items = cast("mlir.ArrayAttr[Attribute]", half.attributes[key]).data
    return [item.data if isinstance(item, mlir.StringAttr) else None for item in items]
