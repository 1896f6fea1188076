"""Ops that write and have no pure twin: decomposed, they write the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opdef import RANDOM, OpDef, decompose
from pirkit.dialect.operation import PirOp
from pirkit.runtime import dtype as dt
from tests.ops.calls import Call, calls, sample_dtypes, table
from tests.prim.differentiation import Array, Traced
from tests.prim.rule_checks import Program, program_of

WRITERS: Final = [
    d for d in table() if d.writes and decompose.get(d) is not None and d.effects != RANDOM
]


def contents(call: Call, pipeline: str) -> tuple[dict[str, Array], Program]:
    """What the operands hold afterwards, by their place among the inputs."""
    p = program_of(call)
    p.traced.inputs = [a.copy() for a in p.traced.inputs]
    after = {f"x{i}": p.traced.b.assign(a) for i, a in enumerate(p.traced.args)}
    return p.traced.run(after, pipeline), p


def close(one: Array, other: Array) -> None:
    tolerance = {2: 1e-2, 4: 2e-5, 8: 1e-12}[one.dtype.itemsize] if one.dtype.kind != "b" else 0
    wide = [np.asarray(a, np.float64) for a in (one, other)]
    np.testing.assert_allclose(*wide, rtol=tolerance)


@pytest.mark.parametrize(
    "pipeline", ["decompose", "functionalize,decompose", "decompose,functionalize"]
)
@pytest.mark.parametrize("definition", WRITERS, ids=lambda d: d.name)
def test_the_storage_holds_what_the_whole_op_writes(definition: OpDef, pipeline: str) -> None:
    for dtype in sample_dtypes(definition):
        for call in calls(definition, dtype):
            whole, _ = contents(call, "")
            found, p = contents(call, pipeline)
            names = {op.name for op in p.traced.program.block.ops}
            assert definition.name not in names
            for name, array in whole.items():
                close(found[name], array)


def test_a_step_may_be_kept_whole() -> None:
    t = Traced([np.ones(3), np.ones(1), np.ones(3)])
    t.b("pd_op.sgd_", *t.args, None)
    t.run({"x": t.b.assign(t.args[0])}, "decompose{keep=sgd_}")
    assert "pd_op.sgd_" in {op.name for op in t.program.block.ops}


def test_parts_of_a_step_say_where_they_come_from() -> None:
    t = Traced([np.ones(3), np.ones(1), np.ones(3)])
    t.b("pd_op.sgd_", *t.args, None)
    found = t.run({"x": t.b.assign(t.args[0])}, "decompose")
    np.testing.assert_array_equal(found["x"], np.zeros(3))
    writes = [op for op in t.program.block.ops if op.name == "pd_op.assign_out_"]
    assert [str(op.attributes["comp_op_name"]) for op in writes] == ['"sgd_"']
    assert isinstance(writes[0], PirOp)


DRAWS: Final[dict[str, Callable[[Builder], Value]]] = {
    "a truncated normal law": lambda b: b.truncated_gaussian_random(
        shape=(64,), mean=0.5, std=2.0, seed=7, a=-1.0, b=4.0, dtype=dt.float64
    ),
    "a law far from its mean": lambda b: b.truncated_gaussian_random(
        shape=(64,), mean=-20.0, std=2.0, seed=7, a=-1.0, b=4.0, dtype=dt.float64
    ),
    "an exponential law": lambda b: b(
        "pd_op.exponential_", b.const(0.0, dt.float64, (64,)), lam=2.0
    ),
    "places": lambda b: (
        b.cast(
            b.multinomial(b.const(0.7, dt.float64, (2, 4)), num_samples=9, replacement=True),
            dt.float64,
        )
        * 0.5
    ),
    "distinct places": lambda b: b.cast(
        b.multinomial(b.const(0.7, dt.float64, (2, 4)), num_samples=3), dt.float64
    ),
    "a soft choice": lambda b: b.gumbel_softmax(b.const(0.7, dt.float64, (2, 4)), temperature=0.5),
    "a hard choice": lambda b: b.gumbel_softmax(b.const(0.7, dt.float64, (2, 4)), hard=True),
    "slopes": lambda b: b.rrelu(b.const(-1.0, dt.float64, (9,)), lower=0.1, upper=0.9)[0],
    "shares": lambda b: b.dirichlet(b.const(0.7, dt.float64, (4, 16))),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_draws_are_those_of_the_whole_op(draw: Callable[[Builder], Value]) -> None:
    found: list[Array] = []
    for pipeline in ("", "decompose,verify-primitive"):
        t = Traced([])
        found.append(t.run({"x": draw(t.b)}, pipeline)["x"])
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-9)
    assert -1 <= found[0].min() < found[0].max() <= 4


def test_a_hard_choice_has_the_gradient_of_the_soft_one() -> None:
    found: list[Array] = []
    for hard in (False, True):
        t = Traced([np.array([[0.3, -0.2, 1.0]])])
        y = t.b.gumbel_softmax(t.args[0], temperature=0.7, hard=hard)
        weighted = y * t.b.assign_value(shape=(3,), dtype=dt.float64, values=(1.0, 2.0, -1.0))
        (g,) = t.grad(t.b.sum(weighted, (0, 1)), t.args)
        assert g is not None
        found.append(t.run({"g": g}, "decompose")["g"])
    np.testing.assert_allclose(*found, rtol=1e-12)
    assert np.abs(found[0]).max() > 0


def test_slopes_that_were_drawn_are_the_derivative() -> None:
    t = Traced([np.linspace(-2, 2, 9)])
    y = t.b.rrelu(t.args[0])[0]
    (g,) = t.grad(t.b.sum(y, (0,)), t.args)
    assert g is not None
    found = t.run({"y": y, "g": g})
    np.testing.assert_allclose(found["g"] * t.inputs[0], found["y"], rtol=1e-12)
