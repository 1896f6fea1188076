"""Execution of a captured case: the arrays of each step, next to those that Paddle computed.

A case runs in one of three ways (`SOURCES`). Each is a function that takes the case, a pipeline and
a backend, and yields a `Comparison` for each group of arrays; `cases.check_case` compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import ArtifactError
from pirkit.diag.span import Span
from pirkit.dialect.program import Program
from pirkit.frontend.captured_case import Case
from pirkit.frontend.compile import compile
from pirkit.frontend.files import load
from pirkit.runtime.executor import Executable
from pirkit.runtime.tensor.conversion import from_numpy, tensor
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.split import RunnableProgram, forward_backward

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Any]

Run = Callable[[int, dict[str, Array]], tuple[Arrays, Arrays, Arrays]]
"""Runs one step, given its number and the parameters and buffers by name, which it replaces where
the program writes them. Returns outputs by position, gradients of inputs and of parameters by name.
"""

STEPS: Final = (1, 2)
"""The recorded steps of a case."""
_EXPORTED_INPUT: Final = re.compile(r"x(\d+)\Z")


@dataclass(frozen=True)
class Comparison:
    """One group of arrays: the computed ones and the expected ones.

    With ``zero_if_missing`` the program may omit arrays: a gradient that it omits is zero.
    """

    group: str
    found: Arrays
    expected: Mapping[str, Array]
    zero_if_missing: bool = False


# --- training: forward, backward, update ---------------------------------------------------------


@dataclass
class _Training:
    """The steps of a case, which hand parameters and buffers on from one to the next.

    After each step of training, parameters descend along their gradients. A case in evaluation
    mode has no gradients and no updates.
    """

    case: Case
    run: Run

    def steps(self) -> Iterator[Comparison]:
        """Run all steps; yields the arrays to compare after each of them."""
        case = self.case
        params = case.arrays("params.npz")
        trained = {p["name"] for p in case.meta["parameters"] if p["trainable"]}
        numbers = list(map(str, range(len(case.names["fo"]))))
        for step in STEPS:
            outputs, of_inputs, of_params = self.run(step, params)
            recorded = case.step("params_after.npz", step)
            yield Comparison("output", outputs, case.step("outputs.npz", step, numbers))
            buffers = {n: a for n, a in recorded.items() if n not in trained}
            yield Comparison("buffer", params, buffers)
            if not case.trains:
                continue
            expected = case.step("input_grads.npz", step)
            yield Comparison("input grad", of_inputs, expected, zero_if_missing=True)
            expected = case.step("param_grads.npz", step)
            yield Comparison("param grad", of_params, expected, zero_if_missing=True)
            rate = float(case.meta["learning_rate"])
            for name in trained & of_params.keys():
                params[name] = _descended(params[name], rate, np.asarray(of_params[name]))
            updated = {n: a for n, a in recorded.items() if n in trained}
            yield Comparison("parameter", params, updated)


def _descended(value: Array, rate: float, gradient: Array) -> Array:
    return (value - np.asarray(rate, value.dtype) * gradient).astype(value.dtype)


def main_steps(case: Case, pipeline: str, backend: str) -> Iterator[Comparison]:
    """``program.txt``: in training it is differentiated and split by pirkit, else run as it is."""
    program = load(case.folder / "program.txt")
    if not case.trains:
        return _Training(case, _evaluation(case, program, pipeline, backend)).steps()
    both = RunnableProgram(
        forward_backward(program, mode="free"), backend=backend, pipeline=pipeline
    )
    names = both.names

    def run(step: int, params: dict[str, Array]) -> tuple[Arrays, Arrays, Arrays]:
        inputs = case.step("inputs.npz", step, names.fx)
        weights = [tensor(params[name]) for name in names.fp]
        outputs = both.forward([from_numpy(inputs[name]) for name in names.fx], weights)
        numbered = {str(i): output.numpy().copy() for i, output in enumerate(outputs)}
        params.update({n: w.numpy() for n, w in zip(names.fp, weights, strict=True)})
        seeds = case.step("output_grads.npz", step)
        given = [seeds.get(str(i)) for i in range(len(outputs))]
        of_inputs, of_params = both.backward(given, outputs)
        return numbered, _by_name(names.fx, of_inputs), _by_name(names.fp, of_params)

    return _Training(case, run).steps()


def _by_name(names: Sequence[str], gradients: Sequence[DenseTensor | None]) -> dict[str, Array]:
    pairs = zip(names, gradients, strict=True)
    return {name: gradient.numpy() for name, gradient in pairs if gradient is not None}


def _evaluation(case: Case, program: Program, pipeline: str, backend: str) -> Run:
    exe = compile(program, backend=backend, pipeline=pipeline)

    def run(step: int, params: dict[str, Array]) -> tuple[Arrays, Arrays, Arrays]:
        exe.params = params
        inputs = case.step("inputs.npz", step)
        found = _on_host(exe, exe.run(_picked(case, inputs, exe, "inputs.npz", f"step{step}/")))
        params.update(_on_host(exe, exe.params))
        return _by_position(case, found), {}, {}

    return run


def _picked(
    case: Case, given: Arrays, exe: Executable, file: str, prefix: str = ""
) -> dict[str, Any]:
    """The inputs of a program among ``given`` arrays.

    Raises ArtifactError (PK0602), with the file and prefix of names, if one of them is missing.
    """
    names = [p.name for p in exe.plan.inputs]
    for name in names:
        if name not in given:
            path = case.folder / file
            raise ArtifactError(
                f"{path} has no array {prefix}{name}", code="PK0602", span=Span(str(path))
            )
    return {name: given[name] for name in names}


def split_steps(case: Case, pipeline: str, backend: str) -> Iterator[Comparison]:
    """``forward.txt`` and ``backward.txt``: Paddle's own forward and backward programs."""
    names = case.names
    forward = compile(load(case.folder / "forward.txt"), backend=backend, pipeline=pipeline)
    backward: Executable | None = None
    if case.trains:
        program = load(case.folder / "backward.txt")
        backward = compile(program, backend=backend, pipeline=pipeline)

    def run(step: int, params: dict[str, Array]) -> tuple[Arrays, Arrays, Arrays]:
        inputs = case.step("inputs.npz", step)
        forward.params = params
        given = _picked(case, inputs, forward, "inputs.npz", f"step{step}/")
        found = _on_host(forward, forward.run(given))
        params.update(_on_host(forward, forward.params))
        outputs = _by_position(case, found)
        if backward is None:
            return outputs, {}, {}
        given = {**inputs, **params, **found}
        for position, array in case.step("output_grads.npz", step).items():
            given[names["bo_g"][int(position)]] = array
        gradients = _on_host(backward, backward.run(_picked(case, given, backward, "names.json")))
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


def _on_host(exe: Executable, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of an executable's device as numpy arrays, since the recorded arrays are numpy arrays.

    Stacks are not converted: only another program of the same backend reads them.
    """
    to_host = exe.library.device.to_host
    return {n: v if isinstance(v, list) else to_host(v) for n, v in arrays.items()}


def _by_position(case: Case, found: Arrays) -> dict[str, Any]:
    """The outputs, given by name, under their number in ``fo``."""
    return {str(i): found[name] for i, name in enumerate(case.names["fo"]) if name in found}


# --- the inference export ------------------------------------------------------------------------


def json_steps(case: Case, pipeline: str, backend: str) -> Iterator[Comparison]:
    """``model.json``: the exported model on the inputs of both steps, with the initial weights."""
    program = load(case.folder / "model.json")
    exe = compile(program, backend=backend, pipeline=pipeline)
    names = _exported_inputs(case, program, exe)
    weights = dict(exe.params)
    for step in STEPS:
        exe.params = dict(weights)
        recorded = case.step("inputs.npz", step, names.values())
        given = {ours: recorded[theirs] for ours, theirs in names.items()}
        found = _on_host(exe, exe.run(given))
        ordered = {str(i): found[port.name] for i, port in enumerate(exe.plan.outputs)}
        yield Comparison("output", ordered, case.step("infer_outputs.npz", step, ordered))


def _exported_inputs(case: Case, program: Program, exe: Executable) -> dict[str, str]:
    """For each input of the export, the input of the case that it is.

    They have the same name, or ``x2`` is number 2 of ``fx``. Raises ArtifactError (PK0602) for
    any other name.
    """
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
"""The ways to run a case: the file that each reads, and the function that runs it."""
