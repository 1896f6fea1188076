"""Plans that run in scopes: variables are shared, and written where they are."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from pirkit import DenseTensor, from_numpy, tensor
from pirkit.diag.errors import RuntimeFault, UsageError
from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.device import HostDevice
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.registry import Backend, Registry
from pirkit.runtime.scope.bound_plan import BoundPlan
from pirkit.runtime.scope.labels import Labels
from pirkit.runtime.scope.scope import Scope
from tests.execution import parsed

F = "tensor<4xf32>"
X = f'%x "x" : {F}'
B = f'%b = pir.parameter() {{parameter_name = "b"}} : () -> {F}'


def bound(body: str, *variables: str, arguments: str = X) -> tuple[BoundPlan, Scope]:
    module = parsed(f"pir.program @main({arguments}) {{\n{body}\n}}")
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    plan = write_plan(program)
    labels = Labels()
    for port in (*plan.inputs, *plan.params, *plan.outputs):
        labels.add(port.name)
    return BoundPlan.by_name(plan, KernelLibrary(), labels, variables), Scope(labels)


def out(value: str, type: str = F, name: str = "y") -> str:
    return f'pir.shadow_output({value}) {{output_name = "{name}"}} : ({type}) -> ()'


def op(name: str, *operands: str, type: str = F) -> str:
    types = ", ".join([type] * len(operands))
    return f"pd_op.{name}({', '.join(operands)}) : ({types}) -> {type}"


def f32(*values: float) -> DenseTensor:
    return tensor(np.array(values, np.float32))


INCREMENT = f"{B}\n%n = {op('add_', '%b', '%x')}\n%y = {op('relu', '%n')}\n" + out("%y")


def test_a_variable_is_written_where_it_is() -> None:
    plan, scope = bound(INCREMENT, "x", "b")
    b = f32(1, 2, 3, -9)
    before, view = b.address, b[1:]
    scope["x"], scope["b"] = f32(1, 1, 1, 1), b
    for _ in range(3):
        plan.run(scope)
    assert b.tolist() == [4, 5, 6, -6]
    assert view.tolist() == [5, 6, -6]
    assert scope["y"].tolist() == [4, 5, 6, 0]
    assert (b.address, b.version) == (before, 3)
    assert plan.counters.copies == 0


def test_a_value_that_is_no_variable_is_not_written() -> None:
    plan, scope = bound(INCREMENT)
    b = f32(1, 2, 3, -9)
    scope["x"], scope["b"] = f32(1, 1, 1, 1), b
    plan.run(scope)
    assert b.tolist() == [1, 2, 3, -9]
    assert b.version == 0


@pytest.mark.parametrize(
    "home",
    [
        pytest.param(lambda a: a[::2], id="gaps"),
        pytest.param(lambda a: a[:4][::-1], id="backwards"),
        pytest.param(lambda a: a.view(np.uint8)[1:17].view(np.float32), id="unaligned"),
    ],
)
def test_a_variable_of_any_layout_is_written(home: Any) -> None:
    plan, scope = bound(INCREMENT, "x", "b")
    memory = np.zeros(8, np.float32)
    array = home(memory)
    array[...] = [1, 2, 3, 4]
    scope["x"], scope["b"] = f32(1, 1, 1, 1), from_numpy(array)
    plan.run(scope)
    assert array.tolist() == [2, 3, 4, 5]
    assert plan.counters.copies == 1


def test_what_was_read_before_the_write_keeps_its_content() -> None:
    body = f"{B}\n%v = pd_op.reshape(%b) {{shape = array<i64: 2, 2>}} : ({F}) -> tensor<2x2xf32>\n"
    body += f"%n = {op('add_', '%b', '%x')}\n" + out("%v", "tensor<2x2xf32>") + "\n"
    plan, scope = bound(body + out("%n", name="z"), "x", "b")
    b = f32(1, 2, 3, 4)
    scope["x"], scope["b"] = f32(1, 1, 1, 1), b
    plan.run(scope)
    assert scope["y"].tolist() == [[1, 2], [3, 4]]
    assert b.tolist() == scope["z"].tolist() == [2, 3, 4, 5]


def test_variables_that_exchange_their_content() -> None:
    a = f'%a = pir.parameter() {{parameter_name = "a"}} : () -> {F}'
    body = f"{a}\n{B}\n%t = {op('assign', '%a')}\n"
    body += f"%u = {op('assign_out_', '%b', '%a')}\n%v = {op('assign_out_', '%t', '%b')}"
    plan, scope = bound(body, "a", "b", arguments="")
    scope["a"], scope["b"] = f32(1, 2, 3, 4), f32(5, 6, 7, 8)
    plan.run(scope)
    assert scope["a"].tolist() == [5, 6, 7, 8]
    assert scope["b"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("taken", [True, False])
def test_a_variable_written_in_a_branch(taken: bool) -> None:
    body = f"""{B}
    %n = pd_op.if(%c) : (tensor<i1>) -> {F} {{
      %t = {op("add_", "%b", "%x")}
      pir.yield(%t) : ({F}) -> ()
    }} else {{
      pir.yield(%x) : ({F}) -> ()
    }}
    """
    plan, scope = bound(body + out("%n"), "b", arguments=f'{X}, %c "c" : tensor<i1>')
    b = f32(1, 2, 3, 4)
    scope["x"], scope["b"], scope["c"] = f32(1, 1, 1, 1), b, tensor(taken)
    plan.run(scope)
    assert b.tolist() == ([2, 3, 4, 5] if taken else [1, 2, 3, 4])


def test_outputs_stay_as_they_are_when_the_plan_runs_again() -> None:
    plan, scope = bound(f"%y = {op('relu', '%x')}\n" + out("%y"))
    scope["x"] = f32(1, 2, 3, 4)
    plan.run(scope)
    first = scope["y"]
    scope["x"] = f32(5, 6, 7, 8)
    plan.run(scope)
    assert first.tolist() == [1, 2, 3, 4]


def test_an_output_that_is_a_variable_is_that_variable() -> None:
    plan, scope = bound(f"{B}\n%n = {op('add_', '%b', '%x')}\n" + out("%n", name="b"), "b")
    b = f32(1, 2, 3, 4)
    scope["x"], scope["b"] = f32(1, 1, 1, 1), b
    plan.run(scope)
    assert scope["b"] is b


def test_a_read_only_variable() -> None:
    plan, scope = bound(INCREMENT, "b")
    array = np.ones(4, np.float32)
    array.flags.writeable = False
    scope["x"], scope["b"] = f32(1, 1, 1, 1), from_numpy(array)
    with pytest.raises(RuntimeFault, match="read-only"):
        plan.run(scope)


def test_a_written_variable_that_shares_memory() -> None:
    plan, scope = bound(INCREMENT, "x", "b")
    scope["x"] = scope["b"] = f32(1, 1, 1, 1)
    with pytest.raises(RuntimeFault, match=r"writes the variable 'b'.*'x'") as caught:
        plan.run(scope)
    assert caught.value.code == "PK0908"
    assert scope["b"].version == 0


def test_only_the_shape_is_kept_for_what_reads_only_the_shape() -> None:
    body = f"%s = pd_op.shape64(%x) : ({F}) -> tensor<1xi64>\n" + out("%s", "tensor<1xi64>")
    plan, scope = bound(body)
    scope["x"] = f32(1, 2, 3, 4)
    scope.keep([], shapes=[0])
    assert isinstance(scope["x"], TensorMeta)
    plan.run(scope)
    assert scope["y"].tolist() == [4]


def test_a_name_that_no_slot_has() -> None:
    module = parsed(f"pir.program @main({X}) {{\n{out('%x')}\n}}")
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    with pytest.raises(UsageError, match="no variable 'x'"):
        BoundPlan.by_name(write_plan(program), KernelLibrary(), Labels())


class Apart(HostDevice):
    """A device with memory of its own: what it takes it copies."""

    name = "apart"

    def take(self, value: Any) -> Any:
        return np.array(value)


def test_a_variable_on_another_device_is_written_back() -> None:
    registry = Registry((Backend("cpu", "cpu"),))
    registry.add_device(Apart())
    registry.add_backend(Backend("apart", "apart"))
    body = f"{B}\n%n = {op('add_', '%b', '%x')}\n%y = {op('relu', '%n')}\n" + out("%y")
    plan, scope = bound(body, "b")
    library = KernelLibrary("apart", registry)
    there = BoundPlan.by_name(plan.plan, library, scope.labels, ["b"])
    b = f32(1, 2, 3, -9)
    scope["x"], scope["b"] = f32(1, 1, 1, 1), b
    with pytest.warns(UserWarning, match="runs on the CPU"):
        there.run(scope)
    assert b.tolist() == [2, 3, 4, -8]
    assert scope["y"].tolist() == [2, 3, 4, 0]
    assert there.counters.copies == 1


def test_an_error_keeps_nothing_alive() -> None:
    body = "%y = pd_op.reshape(%x) {shape = array<i64: 2, 2>} : (tensor<?xf32>) -> tensor<2x2xf32>"
    plan, scope = bound(
        f"{body}\n" + out("%y", "tensor<2x2xf32>"), arguments='%x "x" : tensor<?xf32>'
    )
    array = np.ones(3, np.float32)
    alive = weakref.ref(array)
    scope["x"] = from_numpy(array)
    del array
    with pytest.raises(RuntimeFault, match="reshape"):
        plan.run(scope)
    scope.clear()
    gc.collect()
    assert alive() is None
    scope["x"] = tensor(np.zeros(4, np.float32))
    plan.run(scope)
    assert scope["y"].shape == (2, 2)
