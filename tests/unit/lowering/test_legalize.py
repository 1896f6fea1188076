"""Operations without a kernel on a backend are decomposed, if their parts have one there."""

from __future__ import annotations

import numpy as np
import pytest

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.operation import ProgramOp
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.lowering.explain_kernels import why_kernels
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.legalize import legalized
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding
from pirkit.runtime.device import HostDevice
from pirkit.runtime.executor import Executable
from pirkit.runtime.fallback import FALLBACKS
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Call, instructions
from pirkit.runtime.registry import CPU, Backend, Registry
from tests.execution import parsed

F = "tensor<2xf32>"


class Accelerator(HostDevice):
    name = "accelerator"


def program(body: str, arguments: str = f'%x "x" : {F}') -> ProgramOp:
    module = parsed(f"pir.program @main({arguments}) {{\n{body}\n}}")
    (found,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return found


def accelerated(*ops: str, falls_back: bool = True) -> KernelLibrary:
    """A library whose accelerator has kernels for these ops only."""
    registry = Registry((Backend(CPU, "cpu", modules=("pirkit.runtime.kernels.numpy",)),))
    registry.add_device(Accelerator())
    registry.add_backend(Backend("accelerator", "accelerator"))
    for op in ops:
        name = op.removeprefix("pd_op.")
        registry.kernel(name, backend="accelerator", dtypes=(dt.float32,))(lambda b: np.add)
    return KernelLibrary("accelerator", registry, falls_back)


SILU = f"""%y = pd_op.silu(%x) : ({F}) -> {F}
    pir.shadow_output(%y) {{output_name = "y"}} : ({F}) -> ()"""


def names(held: ProgramOp) -> list[str]:
    return [op.name for op in held.operations if op.name != "pir.shadow_output"]


def test_decomposition_comes_before_a_fallback_to_the_cpu() -> None:
    held = program(SILU)
    library = accelerated("pd_op.sigmoid", "pd_op.multiply")
    assert names(legalized(held, library)) == ["pd_op.sigmoid", "pd_op.multiply"]
    assert names(held) == ["pd_op.silu"], "the program itself stays as it is"


def test_an_op_whose_parts_have_no_kernel_either_falls_back_whole() -> None:
    held = program(SILU)
    assert legalized(held, accelerated("pd_op.sigmoid")) is held


@pytest.mark.parametrize("first", ["true", "false"])
def test_each_op_is_decomposed_by_its_own_attributes(first: str) -> None:
    """Only the approximate form has parts with kernels, whichever of the two comes first."""
    others = {"true": "false", "false": "true"}
    calls = [f"pd_op.gelu(%x) {{approximate = {a}}} : ({F}) -> {F}" for a in (first, others[first])]
    held = program(f"""%y = {calls[0]}
        %z = {calls[1]}
        pir.shadow_output(%y) {{output_name = "y"}} : ({F}) -> ()
        pir.shadow_output(%z) {{output_name = "z"}} : ({F}) -> ()""")
    parts = ("multiply", "scale", "add", "tanh", "full")
    found = names(legalized(held, accelerated(*(f"pd_op.{name}" for name in parts))))
    assert found.count("pd_op.gelu") == found.count("pd_op.tanh") == 1
    assert "pd_op.erf" not in found


def test_without_fallback_it_is_taken_apart_as_far_as_it_goes() -> None:
    held = program(SILU)
    found = legalized(held, accelerated("pd_op.sigmoid", falls_back=False))
    assert names(found) == ["pd_op.sigmoid", "pd_op.multiply"]
    with pytest.raises(UnsupportedError, match=r"`pd_op\.multiply` has no kernel"):
        write_plan(held, library=accelerated("pd_op.sigmoid", falls_back=False))


@pytest.mark.filterwarnings("ignore:.*runs on the CPU")
def test_the_parts_of_an_op_that_falls_back_have_kernels_of_the_cpu() -> None:
    library = accelerated("pd_op.multiply")
    library.choices("pd_op.multiply", dt.float32, {})  # remembered, for the accelerator alone
    x, meta = np.array([0.5, -0.25], np.float32), TensorMeta((2,), dt.float32)
    *_, last = library.choices("pd_op.tanh_grad", dt.float32, {})
    step = last.kernel(Binding((meta, meta), (meta,), {}, "pd_op.tanh_grad"))
    assert step is not None
    np.testing.assert_allclose(step(x, x)[0], x * (1 - x * x), rtol=1e-6)


def test_a_gradient_op_runs_without_a_kernel_and_tells_what_its_parts_are_of() -> None:
    held = program(f"""%y = pd_op.tanh_grad(%x, %x) : ({F}, {F}) -> {F}
        pir.shadow_output(%y) {{output_name = "y"}} : ({F}) -> ()""")
    plan = write_plan(held)
    assert {i.part_of for i in instructions(plan.body) if isinstance(i, Call)} == {"tanh_grad"}
    assert "pd_op.multiply (a part of tanh_grad): (cpu, any, float32)" in why_kernels(
        plan, KernelLibrary()
    )


def test_a_gradient_op_in_place_is_made_pure_first() -> None:
    held = program(f"""%y = pd_op.tanh_grad_(%x, %x) : ({F}, {F}) -> {F}
        pir.shadow_output(%y) {{output_name = "y"}} : ({F}) -> ()""")
    exe = compile(_of(held), pipeline="")
    x = np.array([0.5, -0.25], np.float32)
    np.testing.assert_allclose(exe(x=x.copy())["y"], x * (1 - x * x), rtol=1e-6)


def _of(held: ProgramOp) -> Program:
    module = held.parent_op()
    assert module is not None
    return Program(module, {}, "test")  # type: ignore[arg-type]


AXIS = """%g = pd_op.sum_grad(%x, %dy, %axis) {keepdim = false, reduce_all = false}
        : (tensor<2x3xf32>, tensor<?xf32>, tensor<1xi64>) -> tensor<2x3xf32>
    pir.shadow_output(%g) {output_name = "g"} : (tensor<2x3xf32>) -> ()"""
PORTS = '%x "x" : tensor<2x3xf32>, %dy "dy" : tensor<?xf32>, %axis "axis" : tensor<1xi64>'
OPEN = """%g = pd_op.reverse_grad(%dy, %axis) : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<2x3xf32>
    pir.shadow_output(%g) {output_name = "g"} : (tensor<2x3xf32>) -> ()"""
OPEN_PORTS = '%dy "dy" : tensor<2x3xf32>, %axis "axis" : tensor<1xi64>'


def test_an_axis_may_be_an_input() -> None:
    exe = compile(_of(program(AXIS, PORTS)))
    x = np.zeros((2, 3), np.float32)
    for axis, dy in ((0, [1.0, 2.0, 3.0]), (-1, [1.0, 2.0]), (0, [4.0, 5.0, 6.0])):
        dy = np.array(dy, np.float32)
        found = exe(x=x, dy=dy, axis=np.array([axis]))["g"]
        np.testing.assert_array_equal(found, np.broadcast_to(np.expand_dims(dy, axis), x.shape))


def test_the_kernel_of_an_open_call_is_its_decomposition() -> None:
    library = KernelLibrary()
    inferred = why_kernels(write_plan(program(OPEN, OPEN_PORTS)), library)
    assert "pd_op.reverse_grad: chosen when its shapes and attributes are known" in inferred
    assert "decomposed when its shapes and attributes are known: no kernel" in inferred


@pytest.mark.parametrize("falls_back", [True, False])
def test_an_open_call_is_taken_apart_on_the_device_whose_kernels_its_parts_have(
    falls_back: bool,
) -> None:
    library = accelerated("pd_op.flip", falls_back=falls_back)
    plan = write_plan(program(OPEN, OPEN_PORTS), library=library)
    inferred = why_kernels(plan, library)
    first = next(line for line in inferred.splitlines() if "candidate" in line)
    assert "decomposed when its shapes and attributes are known: no kernel" in first
    fallen = sum(FALLBACKS.values())
    given = {"dy": np.zeros((2, 3), np.float32), "axis": np.array([0])}
    assert Executable(plan, library).run(given)["g"].shape == (2, 3)
    assert sum(FALLBACKS.values()) == fallen


def test_an_op_that_gives_its_operands_is_taken_apart_to_nothing() -> None:
    held = program(f"""%a, %b = pd_op.add_grad(%x, %x, %x) {{axis = -1 : i32}}
        : ({F}, {F}, {F}) -> ({F}, {F})
        pir.shadow_output(%a) {{output_name = "a"}} : ({F}) -> ()""")
    assert names(legalized(held, accelerated())) == []


def test_a_rule_that_has_to_know_the_axis_leaves_the_op_whole() -> None:
    module = program(OPEN, OPEN_PORTS).parent_op()
    result = run_pipeline(module, "decompose")  # type: ignore[arg-type]
    (inferred,) = [r.message for r in result.remarks]
    reason = "sizes or attributes are known only when the program runs"
    assert inferred == f"`pd_op.reverse_grad` is not decomposed: {reason}"


def test_a_shape_that_does_not_fit_is_refused_when_it_is_fed() -> None:
    exe = compile(_of(program(AXIS, PORTS)))
    with pytest.raises(Exception, match="PK"):
        exe(x=np.zeros((2, 3), np.float32), dy=np.zeros(7, np.float32), axis=np.array([0]))
