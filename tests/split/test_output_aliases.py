"""The result of a branch or a loop is a value of its own, as in Paddle's executor.

A variable from outside that is yielded may be written afterwards, and so may the result: neither
shows in the other. Plain execution and pure programs agree on that.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from pirkit.passes import run_pipeline
from tests.execution import Array, assert_same_bits, effect, parsed
from tests.unit.passes.random_programs import random_program

T = "tensor<2xf32>"
B = "tensor<1xi1>"
X: Array = np.array([-1.0, 2.0], np.float32)
W: Array = np.array([-3.0, 4.0], np.float32)

INSIDE = f"%i = pd_op.subtract_(%w, %x) : ({T}, {T}) -> {T}"
AFTER_IN_PLACE = f"%q = pd_op.subtract_(%w, %x) : ({T}, {T}) -> {T}"
RESULT = f"%z = pd_op.relu_(%r) : ({T}) -> {T}"


def branch(then: str = "", otherwise: str = "", other: str = "w") -> str:
    return f"""
  %r = pd_op.if(%c) : ({B}) -> {T} {{
    {then}
    pir.yield(%w) : ({T}) -> ()
  }} else {{
    {otherwise}
    pir.yield(%{other}) : ({T}) -> ()
  }}"""


def loop(body: str = "") -> str:
    """One turn, or none."""
    return f"""
  %d, %r = pd_op.while(%c, %c, %x) : ({B}, {B}, {T}) -> ({B}, {T}) {{
  ^bb0(%e : {B}, %a : {T}):
    {body}
    %n = pd_op.logical_not(%e) : ({B}) -> {B}
    pir.yield(%n, %n, %w) : ({B}, {B}, {T}) -> ()
  }}"""


def program(*lines: str) -> str:
    body = "\n  ".join(lines)
    outputs = "".join(
        f'\n  pir.shadow_output(%{n}) {{output_name = "{n}"}} : ({T}) -> ()' for n in ("r", "w")
    )
    return f"""pir.program @main(%x "x" : {T}, %c "c" : {B}) {{
  %w = pir.parameter() {{parameter_name = "w"}} : () -> {T}
  {body}{outputs}
}}
"""


CASES = {
    "both": (branch(), lambda c: W, lambda c: False),
    "either": (branch(other="x"), lambda c: W if c else X, lambda c: False),
    "written in one": (branch(otherwise=INSIDE), lambda c: W if c else W - X, lambda c: not c),
    "written in both": (branch(INSIDE, INSIDE), lambda c: W - X, lambda c: True),
    "carried": (loop(), lambda c: W if c else X, lambda c: False),
    "carried and written": (loop(INSIDE), lambda c: W - X if c else X, lambda c: c),
}
"""Name -> what hands out `w` or `x`, what it is then, and whether `w` is written on the way."""


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("late", ["", AFTER_IN_PLACE, RESULT, AFTER_IN_PLACE + "\n  " + RESULT])
@pytest.mark.parametrize("case", CASES)
def test_a_result_is_a_value_of_its_own(case: str, late: str, condition: bool) -> None:
    lines, handed, is_written = CASES[case]
    text = program(lines, late)
    inputs = {"x": X, "c": np.array([condition])}
    plain = effect(parsed(text), inputs, {"w": W})
    pure = parsed(text)
    run_pipeline(pure, "functionalize")
    assert_same_bits(plain, effect(pure, inputs, {"w": W}))
    result = handed(condition)
    result = np.maximum(result, 0) if RESULT in late else result
    np.testing.assert_array_equal(plain["output r"], result)
    writes = int(is_written(condition)) + int(AFTER_IN_PLACE in late)
    np.testing.assert_array_equal(plain["output w"], W - X * writes)


@pytest.mark.parametrize("condition", [True, False])
def test_seed_35352978(condition: bool) -> None:
    """A random program in which a branch yields, under two names, what it has written."""
    text = random_program(Random(35352978))
    x: Array = np.array([[-1.5, 0.25], [np.inf, 2.0]], np.float32)
    w: Array = np.array([[-0.0, 0.5], [-3.0, 1.0]], np.float32)
    inputs = {"x": x, "c": np.array([condition])}
    pure = parsed(text)
    run_pipeline(pure, "functionalize")
    with np.errstate(all="ignore"):
        assert_same_bits(effect(parsed(text), inputs, {"w": w}), effect(pure, inputs, {"w": w}))
