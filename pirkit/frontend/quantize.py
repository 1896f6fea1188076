"""Quantized programs, and a report of their accuracy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import ArgumentError
from pirkit.dialect.attrs import encode
from pirkit.dialect.operation import PirOp, create
from pirkit.dialect.program import Program
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.freeze import HOIST, PREPARE, freeze
from pirkit.frontend.python_calls import require
from pirkit.passes.quantize import CONVOLUTION, QuantizePass, readers, weights_name
from pirkit.passes.symbolic_dims import inputs_of

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array]

_TAP: Final = "quantized_layer_{}"
_INPUT: Final = "quantized_input_{}"


@dataclass(frozen=True)
class Accuracy:
    """The difference of a value to that of the float32 program, over all inputs.

    ``snr`` is the ratio of the squares of the value to those of the difference in dB, ``error`` the
    largest difference, ``largest`` the largest magnitude of the value.
    """

    name: str
    op: str
    snr: float
    error: float
    largest: float


@dataclass(frozen=True)
class QuantizationReport:
    """The report of `quantize`.

    ``before`` and ``after`` are the bytes of the weights. ``layers`` and ``outputs`` are the
    accuracy of the results of ops with quantized weights and of the outputs, if there were inputs;
    ``kept`` says which ops keep their weights, and why.
    """

    before: int
    after: int
    layers: tuple[Accuracy, ...]
    outputs: tuple[Accuracy, ...]
    kept: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"weights: {self.before:,} bytes before, {self.after:,} after"
        rows = [*self.layers, *self.outputs]
        width = max((len(row.name) for row in rows), default=0) + 2
        if rows:
            yield f"{'':{width}}{'op':22}{'SNR, dB':>9}{'max error':>12}{'largest':>12}"
        for row in rows:
            numbers = f"{row.snr:9.1f}{row.error:12.4g}{row.largest:12.4g}"
            yield f"{row.name:{width}}{row.op:22}{numbers}"
        yield from self.kept


def quantize(
    program: Program,
    inputs: Inputs | Sequence[Inputs] = (),
    *,
    weights: str = "int8",
    activations: str = "",
    static: bool = False,
    keep: Sequence[str] = (),
    min_elements: int = 1024,
    entry: str | None = None,
) -> tuple[Program, QuantizationReport]:
    """A program for inference that holds its weights in fewer bits, and a report.

    ``weights`` is ``int8`` (with a scale for each output channel), ``bfloat16`` or ``float16``.
    With ``activations="int8"`` inputs of matmuls are quantized as well, each row by its largest
    magnitude in each run, or if ``static`` by the largest one of all ``inputs``. The report
    compares the results for ``inputs`` (names to arrays, or a list of such) with those in float32.
    ``keep`` names parameters that stay as they are. See the pass `quantize` for which ops take
    part; batch norm becomes part of the weights first, as in ``pirkit.compile(..., freeze=True)``.
    The new program's parameters are those it needs; `pirkit.save` keeps their element types.

    Raises ArgumentError (PK0701) for ``static`` without inputs or activations, for unknown names in
    ``keep`` and for what is no program, (PK0703) for unknown element types.
    """
    require(isinstance(cast(object, program), Program),
            f"`quantize` takes a program, not a {type(program).__name__}",
            "`pirkit.load(path)` reads one from a file")  # fmt: skip
    given = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    if static and not (given and activations):
        raise ArgumentError(
            "static ranges need inputs to calibrate with, and activations in int8",
            help="`pirkit.quantize(program, inputs, activations='int8', static=True)`",
        )
    unknown = sorted(set(keep) - program.params.keys())
    if unknown:
        near = difflib.get_close_matches(unknown[0], program.params, n=1)
        raise ArgumentError(
            f"the program has no weights `{unknown[0]}` to keep",
            help=f"did you mean `{near[0]}`?" if near else "names are those of `program.params`",
        )
    plain = run_passes(program, PREPARE)
    left = {name for each in plain.programs.values() for name in inputs_of(each)}
    kept = tuple([name for name in keep if name in left])
    how = QuantizePass(weights, activations, kept, (), min_elements)
    run_passes(plain, [how])  # refuses wrong options before anything runs
    tapped, names = _tapped(plain, how, entry) if given else (plain, [])
    wanted = [compile(tapped, entry=entry).run(dict(each)) for each in given]
    if static:
        ranges: dict[str, float] = {}
        for k, (name, op) in enumerate(names):
            if op in ("pd_op.matmul", CONVOLUTION):
                found = [float(abs(run[_INPUT.format(k)]).max()) for run in wanted]
                ranges[name] = max(ranges.get(name, 0.0), *found)
        how = replace(how, ranges=tuple(f"{n}:{v!r}" for n, v in ranges.items()))
    made, result = run_passes(plain, [how], stats=True)
    made, arrays = _hoisted(made, entry)
    rows: list[Accuracy] = []
    if given:
        changed = compile(run_passes(tapped, [how]), entry=entry, freeze=True)
        runs = [changed.run(dict(each)) for each in given]
        labels = {_TAP.format(k): pair for k, pair in enumerate(names)}
        inner = {_INPUT.format(k) for k in range(len(names))}
        own = [name for name in wanted[0] if name not in labels and name not in inner]
        for name, (label, op) in [*labels.items(), *((n, (n, "output")) for n in own)]:
            pairs_of = [(w[name], f[name]) for w, f in zip(wanted, runs, strict=True)]
            if np.issubdtype(pairs_of[0][0].dtype, np.floating):
                rows.append(_accuracy(label, op, pairs_of))
    report = QuantizationReport(
        sum(a.nbytes for a in program.params.values()),
        sum(a.nbytes for a in arrays.values()),
        tuple(r for r in rows if r.op != "output"),
        tuple(r for r in rows if r.op == "output"),
        tuple(f"{r.span}: {r.message}" if r.span else r.message for r in result.remarks),
    )
    return Program(made.module, arrays, program.source), report


def _tapped(
    program: Program, how: QuantizePass, entry: str | None
) -> tuple[Program, list[tuple[str, str]]]:
    """The program with the inputs and results of ops that are quantized as outputs; their names."""
    made, names = program.copy(), list[tuple[str, str]]()
    main = made.entry(entry)
    for op, why in list(readers(main, how.keep, how.min_elements, bool(how.activations))):
        if not why:
            values = (op.operands[0], _INPUT), (op.results[0], _TAP)
            for value, spelled in values:
                held = {"output_name": encode("str", spelled.format(len(names)))}
                main.block.add_op(create("pir.shadow_output", (value,), (), held))
            names.append((weights_name(op), op.name))
    return made, names


def _hoisted(program: Program, entry: str | None) -> tuple[Program, dict[str, Array]]:
    """The program and its parameters.

    What it computes from parameters alone is computed now, and becomes a parameter.
    """
    made, constants = freeze(program, entry, HOIST)
    arrays = dict(program.params)
    if constants is not None:
        arrays |= compile(constants, pipeline="").run({})
    read = {
        str(op.attribute("parameter_name"))
        for op in made.module.walk()
        if isinstance(op, PirOp) and op.name == "pir.parameter"
    }
    return made, {name: np.array(a) for name, a in arrays.items() if name in read}


def _accuracy(name: str, op: str, pairs: Sequence[tuple[Array, Array]]) -> Accuracy:
    signal = noise = error = largest = 0.0
    for wanted, found in pairs:
        exact = wanted.astype(np.float64)
        away = found.astype(np.float64) - exact
        signal += float(np.sum(exact**2))
        noise += float(np.sum(away**2))
        error = max(error, float(abs(away).max(initial=0)))
        largest = max(largest, float(abs(exact).max(initial=0)))
    ratio = 10 * math.log10(signal / noise) if noise and signal else math.inf if not noise else 0.0
    return Accuracy(name, op, ratio, error, largest)
