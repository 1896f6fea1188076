"""Ops that write and have no pure twin: taken apart, they write the same."""

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
    "an exponential law": lambda b: b(
        "pd_op.exponential_", b.const(0.0, dt.float64, (64,)), lam=2.0
    ),
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
