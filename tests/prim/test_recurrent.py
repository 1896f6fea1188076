"""Recurrent networks: the decomposition, and its derivatives along a direction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pirkit.dialect.opdef import lookup
from pirkit.dialect.rules import loops
from pirkit.runtime import dtype as dt
from tests.ops.calls import Call, calls
from tests.prim.rule_checks import gradient, height, program_of, runner

RNN = lookup("pd_op.rnn")
DETERMINISTIC = [c for c in calls(RNN, dt.float64) if c.attrs["is_test"]]


def _inputs(call: Call) -> list[np.ndarray]:
    given = [a for a in call.args if a is not None]
    return [x for a in given for x in (a if isinstance(a, list) else [a])]


@pytest.mark.parametrize("unrolled", [1, 8])
@pytest.mark.parametrize("call", DETERMINISTIC, ids=str)
def test_steps_compute_what_the_op_does(
    call: Call, unrolled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "MAX_UNROLLED", unrolled)
    p = program_of(call)
    whole = runner(p, p.results)(_inputs(call))
    p = program_of(call)
    apart = runner(p, p.results, "decompose")(_inputs(call))
    assert any(op.name == "pd_op.while" for op in p.traced.program.walk()) == (unrolled == 1)
    for one, other in zip(whole, apart, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("call", DETERMINISTIC, ids=str)
def test_a_sequence_without_steps(call: Call) -> None:
    x = call.args[0]
    assert isinstance(x, np.ndarray)
    empty = replace(call, args=(x[:0], *call.args[1:]))
    p = program_of(empty)
    found = runner(p, p.results, "decompose")(_inputs(empty))
    p = program_of(empty)
    for one, other in zip(runner(p, p.results)(_inputs(empty)), found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("call", DETERMINISTIC, ids=str)
def test_slopes_along_a_direction(call: Call, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MAX_UNROLLED", 1)  # loops: others test straight code
    inputs = _inputs(call)
    rng = np.random.default_rng(1)
    way = [rng.standard_normal(a.shape) if a.dtype.kind == "f" else 0 for a in inputs]
    p = program_of(call)
    found = runner(p, gradient(p, height(p, order)))(inputs)
    exact = sum(float((g * w).sum()) for g, w in zip(found, _floating(inputs, way), strict=True))
    below = program_of(call)
    run = runner(below, [height(below, order)])
    step = 1e-6
    ends = [
        float(
            run(
                [
                    a + s * step * w if a.dtype.kind == "f" else a
                    for a, w in zip(inputs, way, strict=True)
                ]
            )[0]
        )
        for s in (1, -1)
    ]
    np.testing.assert_allclose(exact, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-6)


def _floating(inputs: list[np.ndarray], values: list) -> list:
    return [v for a, v in zip(inputs, values, strict=True) if a.dtype.kind == "f"]
