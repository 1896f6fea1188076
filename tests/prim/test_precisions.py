"""The corpus in float32, bfloat16 and float16: decomposed, a program computes what it did whole.

Fused, too: kernels sum in an order of their own, so what they give is compared more loosely.

Half-precision programs are those of the corpus after `convert-dtype`. Outputs and buffers of whole
and decomposed programs are compared with one another, gradients, which exist in parts only, with
those that Paddle recorded in float32: in bfloat16, and with `PIRKIT_EXHAUSTIVE=1` in float16 too.
Then values are also compared in float64.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.dialect.opdef import RANDOM, OpDef, decompose
from pirkit.frontend.captured_case import Case, open_case
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.files import Program, load
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.split import RunnableProgram, forward_backward
from tests.ops.calls import calls, table
from tests.prim.rule_checks import program_of as program_of_call
from tests.tolerance import drift

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
CASES: Final = sorted(p for p in CORPUS.iterdir() if p.is_dir())
TRAINED: Final = [p for p in CASES if (p / "backward.txt").is_file()]
PRIMITIVE: Final = "functionalize,decompose,verify-primitive"
HALF_TYPES: Final = (dt.bfloat16, dt.float16)
EXHAUSTIVE: Final = os.environ.get("PIRKIT_EXHAUSTIVE") == "1"
WIDE: Final = (dt.float64,) if EXHAUSTIVE else ()
APART: Final[dict[tuple[str, DType], set[str]]] = {
    ("up_and_norms", dt.bfloat16): {
        "_jst.0.x.0",
        "conv2d_transpose_0.w_0",
        "conv2d_transpose_0.b_0",
    }
}
"""Gradients that differ from those in float32 by more than rounding: it moves three sums across 0,
where `relu` has its kink, and these are what lies before that.
"""


def of_type(arrays: Arrays, old: DType, new: DType) -> dict[str, Array]:
    """The arrays, those of one element type in another one."""
    return {n: a.astype(new.np) if a.dtype == old.np else a.copy() for n, a in arrays.items()}


def program_of(case: Case, dtype: DType) -> Program:
    """The captured program, computing in another type than float32."""
    program = load(case.folder / "program.txt")
    return run_passes(program, f"convert-dtype{{to={dtype}}}")


def data_of(case: Case, dtype: DType) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs of the first step and parameters, rounded to a type."""
    inputs, params = case.step("inputs.npz", 1), case.arrays("params.npz")
    return of_type(inputs, dt.float32, dtype), of_type(params, dt.float32, dtype)


def forward(program: Program, inputs: Arrays, params: Arrays, pipeline: str) -> dict[str, Array]:
    """Outputs and the parameters after one run."""
    held = {name: array.copy() for name, array in params.items()}
    exe = compile(program, pipeline=pipeline, params=held)
    found = exe.run({p.name: inputs[p.name].copy() for p in exe.plan.inputs})
    return {**{f"output {n}": a for n, a in found.items()}, **exe.params}


def gradients(program: Program, inputs: Arrays, params: Arrays, seeds: Arrays) -> dict[str, Array]:
    """The gradients of inputs and parameters of one step, computed by primitives."""
    both = RunnableProgram(forward_backward(program, mode="free"), pipeline=PRIMITIVE)
    names = both.names
    given = [inputs[n] for n in names.fx], [params[n] for n in names.fp]
    outputs = both.forward(*given)
    found = both.backward([seeds.get(str(i)) for i in range(len(outputs))], outputs)
    pairs = zip((*names.fx, *names.fp), (*found[0], *found[1]), strict=True)
    return {name: gradient.numpy() for name, gradient in pairs if gradient is not None}


def roundings(found: Array, expected: Array) -> float:
    """The largest difference, in roundings of the largest element.

    Where rules accumulate in float32 and round once, as kernels do, hardly any bit differs.
    """
    wide, other = found.astype(np.float64), expected.astype(np.float64)
    unit = float(ml_dtypes.finfo(expected.dtype).eps) / 2
    largest = float(np.max(np.abs(other), initial=0.0)) or 1.0
    return float(np.max(np.abs(wide - other), initial=0.0)) / (largest * unit)


def name(case: Path) -> str:
    return case.name


@pytest.mark.parametrize("dtype", [dt.float32, *HALF_TYPES, *WIDE], ids=str)
@pytest.mark.parametrize("folder", CASES, ids=name)
def test_taken_apart_a_program_computes_the_same(folder: Path, dtype: DType) -> None:
    case = open_case(folder)
    program = program_of(case, dtype)
    inputs, params = data_of(case, dtype)
    whole, parts, fused = (
        forward(program, inputs, params, p) for p in ("@simplify", PRIMITIVE, "@default")
    )
    assert whole.keys() == parts.keys() == fused.keys()
    for key, expected in whole.items():
        for other in (parts, fused):
            wrong = drift(other[key], expected)
            assert wrong is None, f"{key}: {wrong}"
        if dt.of_array(expected) in HALF_TYPES:
            assert roundings(parts[key], expected) <= 1, key


@pytest.mark.parametrize("dtype", HALF_TYPES if EXHAUSTIVE else HALF_TYPES[:1], ids=str)
@pytest.mark.parametrize("folder", TRAINED, ids=name)
def test_gradients_in_half_precision_are_those_of_float32(folder: Path, dtype: DType) -> None:
    case = open_case(folder)
    inputs, params = data_of(case, dtype)
    seeds = of_type(case.step("output_grads.npz", 1), dt.float32, dtype)
    found = gradients(program_of(case, dtype), inputs, params, seeds)
    recorded = {**case.step("input_grads.npz", 1), **case.step("param_grads.npz", 1)}
    wrong: dict[str, str] = {}
    for key, expected in of_type(recorded, dt.float32, dtype).items():
        what = drift(found[key], expected, dtype)
        wrong.update({key: what} if what is not None else {})
    assert wrong.keys() == APART.get((case.name, dtype), set()), wrong


COMPOSITE: Final = [
    d
    for d in table()
    if decompose.get(d) is not None and d.effects != RANDOM and dt.bfloat16 in d.dtypes
]


@pytest.mark.parametrize("definition", COMPOSITE, ids=lambda d: d.name.partition(".")[2])
def test_taken_apart_an_op_rounds_once(definition: OpDef) -> None:
    """To bfloat16: the parts of an op compute in float32, as its kernel does."""
    for call in islice(calls(definition, dt.bfloat16), None if EXHAUSTIVE else 1):
        p = program_of_call(call)
        found = p.traced.run({f"y{i}": v for i, v in enumerate(p.results)}, "decompose")
        flat = [a for v in call.compute() for a in (v if isinstance(v, list) else [v])]
        for i, expected in enumerate(a for a in flat if a is not None):
            if expected.dtype == dt.bfloat16.np:
                known = np.isfinite(expected.astype(np.float32))
                pair = [np.where(known, a, 0).astype(a.dtype) for a in (found[f"y{i}"], expected)]
                assert roundings(*pair) <= 1, call


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ops.renorm(x, 2.0, 0, 1.0),
        lambda x: ops.median(x * 200.0, (0,), False, "avg"),
        lambda x: ops.nanmedian(x * 200.0, (0,), False, "avg"),
    ],
    ids=["renorm", "median", "nanmedian"],
)
def test_sums_of_half_precision_do_not_overflow(f: Any) -> None:
    x = np.array([[300.0, -250.0], [299.0, 100.0]], np.float16)
    program = pirkit.trace(f, x)
    whole, apart = (
        next(iter(pirkit.compile(program, pipeline=p)(x=x).values())) for p in ("", "decompose")
    )
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(apart, whole, rtol=2e-3)
