"""The primitive set is what it says: complete, closed, and with a derivative where it says so."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.build import ORDER, RULE, SOURCE
from pirkit.dialect.gradient_names import forward_of
from pirkit.dialect.op_form import REGIONS
from pirkit.dialect.opdef import all_ops, decompose, find, lookup, vjp
from pirkit.dialect.operation import PirOp
from pirkit.dialect.ops.gradient.gradients import SOURCES
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.passes import run_pipeline
from tests.prim.differentiation import Traced
from tests.prim.rule_checks import derivative, finish, float_calls, program_of

DIFFERENTIABLE = [n for n, p in PRIMITIVES.items() if p.differentiable and n not in REGIONS]
WITH_RULE = [n for n in DIFFERENTIABLE if vjp.get(lookup(n)) is not None]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_primitive_is_an_op_that_is_not_taken_apart(name: str) -> None:
    definition = find(name)
    assert definition is not None
    assert decompose.get(definition) is None


def test_every_other_op_is_taken_apart() -> None:
    """But for gradient ops of ops that are not declared."""
    every = [d for d in all_ops() if d.name.startswith("pd_op.") and d.pure is None]
    whole = [d for d in every if d.name not in PRIMITIVES and decompose.get(d) is None]
    assert [d.name for d in whole if d.name not in SOURCES or forward_of(d) is not None] == []


def test_every_differentiable_primitive_has_a_derivative() -> None:
    assert [n for n in DIFFERENTIABLE if n not in WITH_RULE] == []


@pytest.mark.parametrize("name", [n for n, p in PRIMITIVES.items() if not p.differentiable])
def test_a_primitive_without_a_derivative_has_no_rule_for_one(name: str) -> None:
    """But for a rule that says that the derivative is zero."""
    rule = vjp.get(lookup(name))
    assert rule is None or PRIMITIVES[name].group == "piecewise constant"


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", WITH_RULE)
def test_derivatives_of_primitives_are_primitives(name: str, order: int) -> None:
    for call in float_calls(lookup(name)):
        p = program_of(call)
        refused = call.attrs.get("full_matrices") or call.attrs.get("mode") in ("complete", "r")
        if p.smooth and p.wrt and not refused:
            finish(p, derivative(p, order), "decompose,verify-primitive")


def test_parts_say_where_they_come_from() -> None:
    t = Traced([np.ones(3), np.ones(3)])
    y = t.b.softmax(t.args[0], axis=-1)
    (first,) = t.grad(y, t.args[:1], t.args[1])
    assert first is not None
    (second,) = t.grad(first, t.args[:1], t.args[1])
    assert second is not None
    t.b("pir.shadow_output", second, output_name="y")
    run_pipeline(ModuleOp([t.program]), "decompose")
    marked = [op for op in t.program.block.ops if isinstance(op, PirOp) and RULE in op.attributes]
    assert {str(op.attributes[RULE]) for op in marked} == {'"decompose"', '"vjp"'}
    assert all(SOURCE in op.attributes for op in marked)
    orders = {str(op.attributes[ORDER]) for op in marked if ORDER in op.attributes}
    assert orders == {"1 : i32", "2 : i32"}


def calls_for_chain(length: int) -> int:
    """Python calls to differentiate and decompose a program of that many operations."""
    t = Traced([np.ones((4, 8)), np.ones((8, 8))])
    x, w = t.args
    for _ in range(length // 4):
        x = t.b.softmax(t.b.tanh(t.b.matmul(x, w)) + x, axis=-1)
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        for i, g in enumerate(t.grad(t.b.sum(x, (0, 1)), t.args)):
            assert g is not None
            t.b("pir.shadow_output", g, output_name=f"g{i}")
        run_pipeline(ModuleOp([t.program]), "decompose")
    finally:
        sys.setprofile(None)
    return count


def test_cost_is_linear() -> None:
    """Counted, not timed: a busy machine does not change what is done."""
    calls_for_chain(40)  # rules are imported, attributes made
    assert calls_for_chain(2_000) <= 2.2 * calls_for_chain(1_000)
