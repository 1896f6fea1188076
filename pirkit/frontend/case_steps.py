"""How a captured case is run: what is computed in each step, beside what Paddle computed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import ArtifactError
from pirkit.diag.span import Span
from pirkit.frontend.captured import Case
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program, load
from pirkit.passes.base import PassContext
from pirkit.passes.differentiate import GRAD, AutodiffPass
from pirkit.runtime.executor import Executable

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Any]

STEPS: Final = (1, 2)
_EXPORTED_INPUT: Final = re.compile(r"x(\d+)\Z")


@dataclass(frozen=True)
class Comparison:
    """One group of arrays: what was computed, and what it should be.

    Gradients that are ``zero_if_missing`` may be left out by the program.
    """

    group: str
    found: Arrays
    expected: Mapping[str, Array]
    zero_if_missing: bool = False


# --- training: forward, backward, update ---------------------------------------------------------


@dataclass
class _Training:
    """Two steps with parameters and buffers carried over.

    ``run`` takes inputs, parameters (which it updates where the program writes them) and output
    gradients, each by name, and gives outputs and gradients by name.
    """

    case: Case
    run: Callable[[int, dict[str, Array]], tuple[Arrays, Arrays, Arrays]]

    def steps(self) -> Iterator[Comparison]:
        case = self.case
        params = case.arrays("params.npz")
        written = {p["name"] for p in case.meta["parameters"] if p["written_by_forward"]}
        trained = {p["name"] for p in case.meta["parameters"] if p.get("trainable")} - written
        numbers = list(map(str, range(len(case.names["fo"]))))
        for step in STEPS:
            outputs, of_inputs, of_params = self.run(step, params)
            recorded = case.step("params_after.npz", step)
            yield Comparison("output", outputs, case.named("outputs.npz", step, numbers))
            buffers = {n: a for n, a in recorded.items() if n in written}
            yield Comparison("buffer", params, buffers)
            if case.meta.get("mode", "train") != "train":
                continue
            expected = case.step("input_grads.npz", step)
            yield Comparison("input grad", of_inputs, expected, zero_if_missing=True)
            expected = case.step("param_grads.npz", step)
            yield Comparison("param grad", of_params, expected, zero_if_missing=True)
            rate = float(case.meta["learning_rate"])
            for name in trained & of_params.keys():
                params[name] = _descended(params[name], rate, np.asarray(of_params[name]))
            weights = {n: a for n, a in recorded.items() if n not in written}
            yield Comparison("parameter", params, weights)


def _descended(value: Array, rate: float, gradient: Array) -> Array:
    return (value - np.asarray(rate, value.dtype) * gradient).astype(value.dtype)


def main_steps(case: Case, pipeline: str, backend: str) -> Iterator[Comparison]:
    """The training program, differentiated by pirkit."""
    program = load(case.folder / "program.txt")
    names = case.names
    fed = {i: name for i, name in enumerate(names["fo"])}
    wanted: dict[str, list[str]] = {"input_grads.npz": [], "param_grads.npz": []}
    if case.meta.get("mode", "train") == "train":
        fed = {int(i): names["fo"][int(i)] for i in case.step("output_grads.npz", STEPS[0])}
        wanted = {f: list(case.step(f, STEPS[0])) for f in wanted}
        asked = [n for f in wanted for n in wanted[f]]
        if asked:
            program = _differentiated(program, list(fed.values()), asked)
    exe = compile(program, backend=backend, pipeline=pipeline)

    def run(step: int, params: dict[str, Array]) -> tuple[Arrays, Arrays, Arrays]:
        exe.params = params
        inputs: dict[str, Array] = {}
        gradients = case.step("output_grads.npz", step)
        seeds = {fed[int(i)] + GRAD: a for i, a in gradients.items()}
        for port in exe.plan.inputs:
            inputs |= _one_of(case, step, seeds, port.name)
        found = exe.run(inputs)
        params.update(exe.params)
        of_inputs, of_params = ({n: found[n + GRAD] for n in names} for names in wanted.values())
        return _by_position(case, found), of_inputs, of_params

    return _Training(case, run).steps()


def _differentiated(program: Program, targets: Sequence[str], wrt: Sequence[str]) -> Program:
    copy = program.copy()
    pass_ = AutodiffPass(targets=tuple(targets), wrt=tuple(wrt), seeds=True)
    pass_.run(PassContext(pass_.name, sum(1 for _ in copy.module.walk())), copy.module)
    return copy


def _one_of(case: Case, step: int, seeds: Mapping[str, Array], name: str) -> dict[str, Array]:
    return {name: seeds[name]} if name in seeds else case.named("inputs.npz", step, [name])


def split_steps(case: Case, pipeline: str, backend: str) -> Iterator[Comparison]:
    """Paddle's own forward and backward programs."""
    names = case.names
    forward = compile(load(case.folder / "forward.txt"), backend=backend, pipeline=pipeline)
    has_backward = case.meta.get("mode", "train") == "train"
    backward = (
        compile(load(case.folder / "backward.txt"), backend=backend, pipeline=pipeline)
        if has_backward
        else None
    )

    def run(step: int, params: dict[str, Array]) -> tuple[Arrays, Arrays, Arrays]:
        inputs = case.named("inputs.npz", step, [p.name for p in forward.plan.inputs])
        forward.params = params
        found = forward.run(inputs)
        params.update(forward.params)
        outputs = _by_position(case, found)
        if backward is None:
            return outputs, {}, {}
        given: dict[str, Any] = {**case.step("inputs.npz", step), **params, **found}
        for position, array in case.step("output_grads.npz", step).items():
            given[names["bo_g"][int(position)]] = array
        gradients = backward.run({p.name: given[p.name] for p in backward.plan.inputs})
        of_inputs, of_params = (
            {
                ours: gradients[theirs]
                for ours, theirs in zip(names[values], names[grads], strict=True)
                if theirs in gradients
            }
            for values, grads in (("fx", "bx_g"), ("fp", "bp_g"))
        )
        return outputs, of_inputs, of_params

    return _Training(case, run).steps()


def _by_position(case: Case, found: Arrays) -> dict[str, Any]:
    """Outputs by their number in ``fo``: found by name, and kept under that number."""
    return {str(i): found[name] for i, name in enumerate(case.names["fo"]) if name in found}


# --- the inference export ------------------------------------------------------------------------


def json_steps(case: Case, pipeline: str, backend: str) -> Iterator[Comparison]:
    """The exported model on the inputs of both steps, with the initial weights."""
    program = load(case.folder / "model.json")
    exe = compile(program, backend=backend, pipeline=pipeline)
    names = _exported_inputs(case, program, exe)
    weights = dict(exe.params)
    for step in STEPS:
        exe.params = dict(weights)
        recorded = case.named("inputs.npz", step, list(names.values()))
        found = exe.run({ours: recorded[theirs] for ours, theirs in names.items()})
        ordered = {str(i): found[port.name] for i, port in enumerate(exe.plan.outputs)}
        yield Comparison("output", ordered, case.named("infer_outputs.npz", step, list(ordered)))


def _exported_inputs(case: Case, program: Program, exe: Executable) -> dict[str, str]:
    """Input of the export -> input of the call: ``x2`` is number 2, other names are declared."""
    fx: list[str] = case.names["fx"]
    names: dict[str, str] = {}
    for port in exe.plan.inputs:
        numbered = _EXPORTED_INPUT.match(port.name)
        if port.name in fx:
            names[port.name] = port.name
        elif numbered is not None and int(numbered[1]) < len(fx):
            names[port.name] = fx[int(numbered[1])]
        else:
            raise ArtifactError(
                f"input {port.name!r} of the export is none of the case's inputs",
                code="PK0602",
                span=Span(program.source),
            )
    return names


SOURCES: Final[Mapping[str, tuple[str, Callable[[Case, str, str], Iterator[Comparison]]]]] = {
    "main": ("program.txt", main_steps),
    "split": ("forward.txt", split_steps),
    "json": ("model.json", json_steps),
}
"""From what a case is run: the file it begins with, and how."""
