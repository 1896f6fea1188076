"""Captured Paddle cases: a program, its weights and inputs, and the numbers Paddle computed.

The folder format is described in ``tests/corpus/paddle/README.md``. A case is checked by running
pirkit on the recorded inputs of two steps and comparing with the recorded results.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import ArtifactError, MismatchError
from pirkit.diag.span import Span
from pirkit.frontend.arrays import read_npz
from pirkit.frontend.compile import DEFAULT_PIPELINE, compile
from pirkit.frontend.files import Program, load, read_text
from pirkit.runtime.dtype import BY_NAME
from pirkit.runtime.executor import Executable

Array = np.ndarray[Any, Any]

SOURCES: Final = ("main", "json")
"""``main`` starts from program.txt and params.npz, ``json`` from the inference export."""

STEPS: Final = (1, 2)
_EXPORTED_INPUT: Final = re.compile(r"x(\d+)\Z")


_TENSOR: Final = {"name": str, "dtype": tuple(BY_NAME)}
_META: Final = {
    "inputs": [_TENSOR],
    "outputs": [{"dtype": tuple(BY_NAME)}],
    "parameters": [{**_TENSOR, "written_by_forward": bool}],
    "tolerance": {"rtol": float, "floor": float},
}
_NAMES: Final = {"fx": [str], "fo": [str]}
"""What is read of the tables: a table, a list of equals, a type, or the values that there are."""


@dataclass(frozen=True)
class Tolerance:
    """Floating results agree if ``max|a - b| <= rtol * (max|b| + floor)``; others must be equal."""

    rtol: float
    floor: float

    def error(self, found: Array, expected: Array) -> float:
        """``max|a - b| / (max|b| + floor)``; infinite where NaN, infinity or integers differ."""
        if expected.size == 0:
            return 0.0
        if expected.dtype.kind in "biu":
            return 0.0 if np.array_equal(found, expected) else float("inf")
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        a, b = found.astype(wide), expected.astype(wide)
        special = ~np.isfinite(a) | ~np.isfinite(b)
        if not np.array_equal(a[special], b[special], equal_nan=True):
            return float("inf")
        a, b = a[~special], b[~special]
        if b.size == 0:
            return 0.0
        return float(np.max(np.abs(a - b)) / (np.max(np.abs(b)) + self.floor))


@dataclass(frozen=True)
class Case:
    """One folder, opened."""

    folder: Path
    meta: Mapping[str, Any]
    names: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def tolerance(self) -> Tolerance:
        held = self.meta["tolerance"]
        return Tolerance(float(held["rtol"]), float(held["floor"]))

    def arrays(self, file: str) -> dict[str, Array]:
        """The arrays of one of the folder's files, with their true dtypes."""
        arrays = read_npz(str(self.folder / file))
        true = self._true_dtypes()
        bits = {k: "bfloat16" for k in arrays if true.get(k.rpartition("/")[2]) == "bfloat16"}
        return read_npz(str(self.folder / file), bits) if bits else arrays

    def _true_dtypes(self) -> dict[str, str]:
        dtypes = {
            str(item["name"]): str(item["dtype"])
            for key in ("inputs", "parameters", "outputs")
            for item in self.meta[key]
        }
        for index, item in enumerate(self.meta["outputs"]):
            dtypes[str(item.get("index", index))] = str(item["dtype"])
        return dtypes


@dataclass
class Report:
    """What checking a case found. ``errors`` is the largest error of each group of arrays."""

    name: str
    status: str = "pass"
    errors: dict[str, float] = field(default_factory=dict[str, float])
    tolerance: float = 0.0
    seconds: float = 0.0
    message: str = ""

    @property
    def failed(self) -> bool:
        return self.status == "FAIL"


def open_case(folder: str | Path) -> Case:
    """Open a folder.

    Raises ArtifactError (PK0602) if it does not exist or lacks its tables.
    """
    path = Path(folder)
    for file in ("meta.json", "names.json"):
        if not (path / file).is_file():
            raise ArtifactError(
                f"{path} is no captured case: it has no {file}",
                code="PK0602",
                span=Span(str(path / file)),
                help="a case is a folder in the format of tests/corpus/paddle/README.md",
            )
    case = Case(path, _read_json(path / "meta.json"), _read_json(path / "names.json"))
    for file, held, fields in (("meta.json", case.meta, _META), ("names.json", case.names, _NAMES)):
        _check_fields(path / file, held, fields)
    return case


def _read_json(path: Path) -> dict[str, Any]:
    try:
        held = json.loads(read_text(str(path)))
    except json.JSONDecodeError as error:
        raise ArtifactError(
            f"{path} is no JSON: {error.msg}",
            code="PK0501",
            span=Span(str(path), error.lineno, error.colno),
        ) from error
    if not isinstance(held, dict):
        raise ArtifactError(f"{path} holds no table", code="PK0602", span=Span(str(path)))
    return cast("dict[str, Any]", held)


def _check_fields(file: Path, held: Any, wanted: Any, place: str = "") -> None:
    """Raise ArtifactError (PK0602) unless a JSON value has the wanted form."""
    parts: list[tuple[str, Any, Any]] = []
    match wanted:
        case dict():
            fields = cast("dict[str, Any]", wanted)
            right = isinstance(held, dict) and fields.keys() <= cast("set[str]", held.keys())
            if right:
                parts = [(f"{place}.{name}", held[name], form) for name, form in fields.items()]
        case list():
            right = isinstance(held, list)
            if right:
                items = cast("list[Any]", held)
                parts = [(f"{place}[{i}]", x, wanted[0]) for i, x in enumerate(items)]
        case tuple():
            right = held in wanted
        case _:
            right = isinstance(held, (int, float) if wanted is float else wanted)
    if not right:
        raise ArtifactError(
            f"{file} is damaged: {place.removeprefix('.') or 'all of it'} has another form",
            code="PK0602",
            span=Span(str(file)),
            help="the format is described in tests/corpus/paddle/README.md",
        )
    for name, item, form in parts:
        _check_fields(file, item, form, name)


def check_case(
    folder: str | Path,
    source: str,
    *,
    pipeline: str = DEFAULT_PIPELINE,
    backend: str = "cpu",
) -> Report:
    """Run one case from ``main`` or ``json`` and compare with Paddle's numbers.

    Raises InputError for a damaged case and whatever compiling or running it raises.
    """
    start = time.perf_counter()
    case = open_case(folder)
    report = Report(case.name, tolerance=case.tolerance.rtol)
    if source == "json" and not (case.folder / "model.json").is_file():
        report.status = "skip"
        report.message = "the case has no inference export"
        return report
    try:
        steps = _json_steps if source == "json" else _main_steps
        for group, found, expected in steps(case, pipeline, backend):
            _compare(case, report, group, found, expected)
    except MismatchError as error:
        report.status, report.message = "FAIL", error.message
    report.seconds = time.perf_counter() - start
    return report


Comparison = tuple[str, Mapping[str, Any], Mapping[str, Array]]


def _compare(
    case: Case, report: Report, group: str, found: Mapping[str, Any], expected: Mapping[str, Array]
) -> None:
    for name, want in expected.items():
        if name not in found:
            raise MismatchError(f"{group} {name} is not computed", code="PK0601")
        have = np.asarray(found[name])
        if have.shape != want.shape or have.dtype != want.dtype:
            raise MismatchError(
                f"{group} {name}: {have.dtype}{list(have.shape)}, "
                f"expected {want.dtype}{list(want.shape)}",
                code="PK0601",
            )
        error = case.tolerance.error(have, want)
        report.errors[group] = max(report.errors.get(group, 0.0), error)
        if not error <= case.tolerance.rtol:
            report.status = "FAIL"
            report.message = report.message or f"{group} {name}: error {error:.2g}"


def _main_steps(case: Case, pipeline: str, backend: str) -> Iterator[Comparison]:
    """The forward pass of the training program: outputs, and buffers that it writes."""
    program = load(case.folder / "program.txt")
    params = case.arrays("params.npz")
    after = case.arrays("params_after.npz")
    outputs = case.arrays("outputs.npz")
    written = {p["name"] for p in case.meta["parameters"] if p["written_by_forward"]}
    exe = compile(program, backend=backend, pipeline=pipeline)
    for step in STEPS:
        exe.params = dict(params)
        found = exe.run(_inputs(case, step, {p.name: p.name for p in exe.plan.inputs}))
        recorded = _of_step(after, step)
        found = _by_position(case, found)
        yield "output", found, _results(case, "outputs.npz", outputs, step, len(case.names["fo"]))
        yield "buffer", exe.params, {n: a for n, a in recorded.items() if n in written}
        params = {**params, **recorded}


def _by_position(case: Case, found: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs by their number in ``fo``: found by name, and kept under that number."""
    return {str(i): found[name] for i, name in enumerate(case.names["fo"]) if name in found}


def _inputs(case: Case, step: int, names: Mapping[str, str]) -> dict[str, Array]:
    """Recorded inputs of a step, under the names of the program.

    ``names`` maps an input of the program to one of the case. Raises ArtifactError (PK0602) if one
    was not recorded.
    """
    recorded = _of_step(case.arrays("inputs.npz"), step)
    for theirs in names.values():
        if theirs not in recorded:
            raise _lacks(case.folder / "inputs.npz", f"step{step}/{theirs}")
    return {ours: recorded[theirs] for ours, theirs in names.items()}


def _of_step(arrays: Mapping[str, Array], step: int) -> dict[str, Array]:
    prefix = f"step{step}/"
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def _results(
    case: Case, file: str, arrays: Mapping[str, Array], step: int, count: int
) -> dict[str, Array]:
    """The recorded results of a step. Raises ArtifactError (PK0602) if one was not recorded."""
    recorded = _of_step(arrays, step)
    for name in map(str, range(count)):
        if name not in recorded:
            raise _lacks(case.folder / file, f"step{step}/{name}")
    return recorded


def _lacks(file: Path, name: str) -> ArtifactError:
    return ArtifactError(f"{file} has no array {name}", code="PK0602", span=Span(str(file)))


def _json_steps(case: Case, pipeline: str, backend: str) -> Iterator[Comparison]:
    """The exported model on the inputs of both steps, with the initial weights."""
    program = load(case.folder / "model.json")
    exe = compile(program, backend=backend, pipeline=pipeline)
    outputs = case.arrays("infer_outputs.npz")
    names = _exported_inputs(case, program, exe)
    weights = dict(exe.params)
    for step in STEPS:
        exe.params = dict(weights)
        found = exe.run(_inputs(case, step, names))
        ordered = [found[port.name] for port in exe.plan.outputs]
        yield (
            "output",
            dict(zip(map(str, range(len(ordered))), ordered, strict=True)),
            _results(case, "infer_outputs.npz", outputs, step, len(ordered)),
        )


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
