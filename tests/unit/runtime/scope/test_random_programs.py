"""Variables that are written where they are hold what a run that reuses nothing computes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pirkit import DenseTensor, from_numpy
from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.runtime.executor import Executable
from pirkit.runtime.plan import Plan
from pirkit.runtime.scope.bound_plan import BoundPlan
from pirkit.runtime.scope.labels import Labels
from pirkit.runtime.scope.scope import Scope
from tests.execution import Array, assert_same_bits, parsed
from tests.unit.passes.random_programs import random_program

X: Array = np.array([[-1.5, 0.25], [np.inf, 2.0]], np.float32)
W: Array = np.array([[-0.0, 0.5], [-3.0, 1.0]], np.float32)
PORTS = ("x", "c", "w")


def plan_of(text: str, pipeline: str) -> Plan:
    module = parsed(text)
    if pipeline:
        run_pipeline(module, pipeline)
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return write_plan(program)


def in_scope(plan: Plan) -> tuple[BoundPlan, Scope]:
    labels = Labels()
    for port in (*plan.inputs, *plan.params):
        labels.add(port.name)
    results = [labels.add(f"output {output.name}") for output in plan.outputs]
    slots = [labels.slot(port.name) for port in (*plan.inputs, *plan.params)]
    return BoundPlan(plan, KernelLibrary(), slots, results, frozenset(slots)), Scope(labels)


@pytest.mark.parametrize("pipeline", ["", "functionalize,cse,dce"])
@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 2**32), condition=st.booleans())
def test_variables_and_outputs(pipeline: str, seed: int, condition: bool) -> None:
    text = random_program(Random(seed))
    plan = plan_of(text, pipeline)
    plain = Executable(plan, KernelLibrary(), {"w": W.copy()}, seed=1, reuse=False)
    bound, scope = in_scope(plan)
    variables: dict[str, DenseTensor] = {"w": from_numpy(W.copy())}
    earlier: list[tuple[DenseTensor, Array]] = []
    for number in range(3):
        inputs = {"x": X.copy(), "c": np.array([condition])}
        expected = plain.run(inputs)
        variables |= {name: from_numpy(array.copy()) for name, array in inputs.items()}
        for name in set(PORTS).intersection(scope.labels):
            scope[name] = variables[name]
        bound.run(scope, seed=1, number=number)
        tensors = {name: scope[f"output {name}"] for name in expected}
        assert_same_bits({n: t.numpy() for n, t in tensors.items()}, expected)
        after = {"x": plain.updates.get("x", X), "w": plain.params["w"]}
        assert_same_bits({name: variables[name].numpy() for name in after}, after)
        for tensor, content in earlier:
            np.testing.assert_array_equal(tensor.numpy(), content)
        own = [t for t in tensors.values() if not any(t is v for v in variables.values())]
        earlier += [(tensor, tensor.numpy().copy()) for tensor in own]
