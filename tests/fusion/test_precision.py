"""Half precision inside of kernels: what an operator gives is rounded as if it ran alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.build import Value
from pirkit.dialect.map_expr.kernel_text import parse_kernel, print_kernel
from pirkit.dialect.operation import PirOp
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.files import Program
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from tests.fusion.cases import Case

Array = np.ndarray[Any, Any]
Build = Callable[[Case, DType], tuple[Value, ...]]

HALF_TYPES: Final = (dt.float16, dt.bfloat16)
PARTS: Final = "functionalize,decompose,constant-fold,canonicalize,cse,dce,fuse"
EXCESS: Final = PARTS + "{excess-precision=true}"
BINARY: Final = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


def overflow(c: Case, dtype: DType) -> tuple[Value, ...]:
    """The product overflows, and is an output: its softmax is that of inf."""
    x = c(2, 2, dtype=dtype)
    c.inputs["x0"] = np.array([[ml_dtypes.finfo(dtype.np).max, 1], [4, 3]]).astype(dtype.np)
    doubled = c.op("scale", x, scale=2.0)
    return c.op("softmax", doubled, axis=-1), doubled


def cancelled(c: Case, dtype: DType) -> tuple[Value, ...]:
    """What is left of a sum is its rounding."""
    x = c(64, 33, dtype=dtype)
    large = c.op("scale", x, scale=1.0, bias=1000.0)
    return (c.op("scale", large, scale=1.0, bias=-1000.0),)


def stored_narrow(c: Case, dtype: DType) -> tuple[Value, ...]:
    """A float32 program that stores a value in half precision."""
    x = c(64, 33)
    held = c.op("cast", x * 1.1, dtype=dtype)
    wide = c.op("cast", held, dtype=dt.float32)
    return ((wide - x) * 100.0,)


def summed(c: Case, dtype: DType) -> tuple[Value, ...]:
    """The sum of a row is rounded before the row is divided by it, and so is that of a column."""
    x = c(48, 33, dtype=dtype)
    y = x * x
    return y / c.sum(y, 1, keep=True), y - c.sum(y, 0, keep=True), c.op("prod", x, axis=(1,),
        keepdim=True, reduce_all=False) + y  # fmt: skip


def tiled(c: Case, dtype: DType) -> tuple[Value, ...]:
    """Few different numbers, so that functions which differ in a bit of float32 round alike."""
    x = c(64, 64, dtype=dtype)
    c.inputs["x0"] = np.round(c.inputs["x0"].astype(np.float32) * 2).astype(dtype.np)
    y = c.b.tanh(c.b.exp(x)) * x
    return (y - c.t(y) * c.b.const(0.3, dtype),)


def constants(c: Case, dtype: DType) -> tuple[Value, ...]:
    x = c(40, dtype=dtype)
    return (x * c.b.const(0.1, dtype) + c.b.const(1e-3, dtype),)


def drawn(seed: int) -> Build:
    """A chain of arithmetic, whose results do not depend on a library of functions."""

    def build(c: Case, dtype: DType) -> tuple[Value, ...]:
        state = np.random.default_rng(seed)
        values = [c(24, 17, dtype=dtype), c(24, 17, dtype=dtype), c(24, 1, dtype=dtype)]
        for _ in range(10):
            x, y = (values[k] for k in state.integers(0, len(values), 2))
            match state.integers(0, 8):
                case 0:
                    made = c.op("scale", x, scale=float(state.normal()), bias=0.3)
                case 1 if x.shape[-1] > 1:
                    made = c.sum(x, 1, keep=True)
                case 2:
                    made = c.op("sqrt", c.op("abs", x))
                case 3:
                    other = HALF_TYPES[dtype is HALF_TYPES[0]]
                    made = c.op("cast", c.op("cast", x, dtype=other), dtype=dtype)
                case _:
                    made = c.op(str(state.choice(BINARY)), x, y)
            values.append(made)
        return tuple(values[-3:])

    return build


PROGRAMS: Final[list[Build]] = [overflow, cancelled, stored_narrow, summed, tiled, constants]
NAMES: Final = [*(p.__name__ for p in PROGRAMS), *(f"drawn {k}" for k in range(12))]
EVERY: Final = dict(zip(NAMES, [*PROGRAMS, *map(drawn, range(12))], strict=True))


def program_of(build: Build, dtype: DType) -> tuple[Program, dict[str, Array]]:
    case = Case()
    for k, value in enumerate(build(case, dtype)):
        case.b("pir.shadow_output", value, output_name=f"y{k}")
    return Program(ModuleOp([case.program]), {}, "precision"), case.inputs


def alone(program: Program, inputs: dict[str, Array]) -> dict[str, Array]:
    with np.errstate(all="ignore"):
        return dict(compile(program, pipeline="", backend="reference")(**inputs))


@pytest.mark.parametrize("dtype", HALF_TYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_rounds_what_operators_round(name: str, dtype: DType) -> None:
    """Native code, the interpreter and a whole program: all bits are those of operators alone."""
    program, inputs = program_of(EVERY[name], dtype)
    want = alone(program, inputs)
    ways = {
        "native": compile(program, pipeline=PARTS),
        "default": compile(program),
        "interpreter": compile(program, pipeline=PARTS, backend="reference"),
        "whole": compile(program, fast_math=True),
    }
    for way, run in ways.items():
        with np.errstate(all="ignore"):
            found = run(**inputs)
        for key, value in want.items():
            np.testing.assert_array_equal(
                found[key].astype(np.float64), value.astype(np.float64), f"{way}: {key}"
            )


@pytest.mark.parametrize("dtype", HALF_TYPES, ids=str)
def test_excess_precision_is_asked_for(dtype: DType) -> None:
    """Then float32 is kept between operators, but an explicit cast still rounds."""
    program, inputs = program_of(cancelled, dtype)
    held = compile(program, pipeline=EXCESS)(**inputs)["y0"].astype(np.float64)
    exact = inputs["x0"].astype(np.float64)
    rounded = alone(program, inputs)["y0"].astype(np.float64)
    assert np.abs(held - exact).max() < 1e-2 < np.abs(rounded - exact).max()
    program, inputs = program_of(stored_narrow, dtype)
    want, found = alone(program, inputs), compile(program, pipeline=EXCESS)(**inputs)
    np.testing.assert_array_equal(found["y0"], want["y0"])


@pytest.mark.parametrize("pipeline", [PARTS, EXCESS])
def test_the_text_of_a_kernel_says_what_it_keeps(pipeline: str) -> None:
    program, _ = program_of(cancelled, dt.float16)
    fused = run_passes(program, pipeline)
    kernels = [op for op in fused.module.walk() if op.name == "pir.map_expr"]
    texts = [op.attribute("kernel") for op in kernels if isinstance(op, PirOp)]
    assert len(texts) == 1
    assert texts[0] == print_kernel(parse_kernel(texts[0]))
    assert texts[0].splitlines()[0].endswith(" excess-precision") == (pipeline == EXCESS)
