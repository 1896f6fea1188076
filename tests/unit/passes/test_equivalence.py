"""Passes leave alone what a program computes, on random programs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.passes import PASSES, run_pipeline
from pirkit.runtime import dtype as dt
from pirkit.runtime.tolerance import drift
from tests.execution import Array, assert_same_bits, effect, parsed
from tests.unit.passes.random_programs import random_program

ADDING = frozenset({"autodiff", "split", "hoist-constants"})
"""Passes that give a program more outputs, or make two of it."""

CHECKING = frozenset({"verify-primitive"})
"""Passes that refuse programs."""

ROUNDING = frozenset({"convert-dtype"})
"""Passes that change element types."""

KEEPING = tuple(sorted(set(PASSES) - ADDING - CHECKING - ROUNDING))
PIPELINES = (*KEEPING, "@simplify", "canonicalize,constant-fold,cse,canonicalize,dce")

X: Array = np.array([[-1.5, 0.25], [np.inf, 2.0]], np.float32)
W: Array = np.array([[-0.0, 0.5], [-3.0, 1.0]], np.float32)


@pytest.mark.parametrize("pipeline", PIPELINES)
@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=st.integers(0, 2**32), condition=st.booleans())
def test_results_and_parameters_stay(pipeline: str, seed: int, condition: bool) -> None:
    text = random_program(Random(seed))
    module = parsed(text)
    inputs = {"x": X, "c": np.array([condition])}
    before = effect(module, inputs, {"w": W})
    run_pipeline(module, pipeline)
    assert_same_bits(before, effect(module, inputs, {"w": W}))


@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=st.integers(0, 2**32), condition=st.booleans())
def test_what_is_fused_stays_within_the_tolerances(seed: int, condition: bool) -> None:
    text = random_program(Random(seed))
    inputs = {"x": X, "c": np.array([condition])}
    before = effect(parsed(text), inputs, {"w": W})
    module = parsed(text)
    run_pipeline(module, "@default")
    after = effect(module, inputs, {"w": W})
    assert before.keys() == after.keys()
    for name, expected in before.items():
        assert drift(after[name], expected, dt.float32) is None, name


@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_a_second_run_changes_nothing(seed: int) -> None:
    text = random_program(Random(seed))
    for name in KEEPING:
        module = parsed(text)
        run_pipeline(module, name)
        once = print_mlir(module)
        run_pipeline(module, name)
        assert print_mlir(module) == once, name


@settings(deadline=None, max_examples=30, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_no_pass_loses_a_location(seed: int) -> None:
    module = parse_mlir(random_program(Random(seed)), "source.mlir")
    run_pipeline(module, "@default")
    for op in module.walk():
        assert op is module or "source.mlir" in str(op.location)
