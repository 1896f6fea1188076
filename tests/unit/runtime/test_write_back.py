"""New contents of variables are computed where they belong, if nobody sees the difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pirkit import DenseTensor, tensor
from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.executor import Executable
from pirkit.runtime.plan import Plan
from pirkit.runtime.scope.bound_plan import BoundPlan
from pirkit.runtime.scope.labels import Labels
from pirkit.runtime.scope.scope import Scope
from pirkit.runtime.write_back import written_back
from tests.execution import parsed

SIZE = 2048
T = f"tensor<{SIZE}xf32>"


def op(name: str, *operands: str, attributes: str = "") -> str:
    types = ", ".join([T] * len(operands))
    return f"pd_op.{name}({', '.join(operands)}){attributes} : ({types}) -> {T}"


def out(value: str) -> str:
    return f'pir.shadow_output({value}) {{output_name = "y"}} : ({T}) -> ()'


BACK = f"%back = {op('assign_out_', '%n', '%b')}"

FLIP = f"%n = {op('flip', '%b', attributes=' {axis = array<i32: 0>}')}"
VIEW = f"%v = {op('reshape', '%b', attributes=f' {{shape = array<i64: {SIZE}>}}')}"
ADD, TANH, EXP = (
    f"%n = {op('add', '%b', '%x')}",
    f"%t = {op('tanh', '%b')}",
    f"%n = {op('exp', '%x')}",
)

PLACED = {
    "read by its maker": ([ADD, BACK], lambda b, x: b + x),
    "read before": (
        [TANH, f"%n = {op('add', '%t', '%x')}", BACK, out("%t")],
        lambda b, x: np.tanh(b) + x,
    ),
    "the value is read": (
        [ADD, f"%y = {op('tanh', '%n')}", BACK, out("%y")],
        lambda b, x: b + x,
    ),
}
COPIED = {
    "read behind": (
        [EXP, f"%y = {op('add', '%b', '%n')}", BACK, out("%y")],
        lambda b, x: np.exp(x),
    ),
    "a view is alive": (
        [VIEW, EXP, f"%y = {op('add', '%v', '%n')}", BACK, out("%y")],
        lambda b, x: np.exp(x),
    ),
    "the value is an output": ([ADD, BACK, out("%n")], lambda b, x: b + x),
    "the value is a view": ([FLIP, BACK], lambda b, x: b[::-1]),
}
CASES: dict[str, Any] = {**PLACED, **COPIED}


def plan_of(lines: list[str]) -> Plan:
    first = f'%b = pir.parameter() {{parameter_name = "b"}} : () -> {T}'
    body = "\n".join([first, *lines])
    module = parsed(f'pir.program @main(%x "x" : {T}) {{\n{body}\n}}')
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return write_plan(program)


def arrays() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=SIZE).astype(np.float32), rng.normal(size=SIZE).astype(np.float32)


def run_in_scope(plan: Plan) -> tuple[DenseTensor, Any, int]:
    labels = Labels()
    for port in (*plan.inputs, *plan.params, *plan.outputs):
        labels.add(port.name)
    bound, scope = BoundPlan.by_name(plan, KernelLibrary(), labels, ["b"]), Scope(labels)
    x, b = map(tensor, arrays())
    scope["x"], scope["b"] = x, b
    for _ in range(3):
        bound.run(scope)
    return b, scope["y"].numpy() if plan.outputs else None, bound.counters.copies


@pytest.mark.parametrize("name", [*PLACED, *COPIED])
def test_the_numbers_are_those_of_a_run_that_reuses_nothing(name: str) -> None:
    lines, expected = CASES[name]
    plan = plan_of(lines)
    x, b = arrays()
    plain = Executable(plan, KernelLibrary("reference"), {"b": b.copy()}, reuse=False)
    usual = Executable(plan, KernelLibrary(), {"b": b.copy()})
    want = expected(expected(expected(b, x), x), x)
    thirds: list[Any] = []
    for executable in (plain, usual):
        thirds.append([executable(x=x) for _ in range(3)][-1])
        np.testing.assert_allclose(executable.params["b"], want, rtol=1e-5)
    variable, y, copies = run_in_scope(plan)
    np.testing.assert_array_equal(variable.numpy(), usual.params["b"])
    if plan.outputs:
        np.testing.assert_array_equal(y, thirds[1]["y"])
        np.testing.assert_allclose(y, thirds[0]["y"], rtol=1e-5)
    assert (copies == 0) == (name in PLACED)


def test_an_executable_hands_the_new_array_over() -> None:
    plan = plan_of([ADD, BACK])
    x, b = arrays()
    executable = Executable(plan, KernelLibrary(), {"b": b})
    executable(x=x)
    first = executable.params["b"]
    executable(x=x)
    assert not np.shares_memory(first, executable.params["b"])
    np.testing.assert_array_equal(first, b + x)


def test_what_a_loop_writes_back_has_no_place_of_its_own() -> None:
    lines = [
        f"%n = pd_op.if(%c) : (tensor<i1>) -> {T} {{",
        f"%p = {op('add', '%b', '%x')}",
        f"pir.yield(%p) : ({T}) -> ()",
        "} else {",
        f"pir.yield(%x) : ({T}) -> ()",
        "}",
        BACK,
    ]
    lines.insert(0, '%c = pir.parameter() {parameter_name = "c"} : () -> tensor<i1>')
    assert written_back(plan_of(lines), frozenset()) == {}
