"""Where values are computed: what is overwritten, handed over or copied, and what must not be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.executor import Executable
from pirkit.runtime.nodes import Bound, Constant
from pirkit.runtime.planning import MAX_CONSTANT_BYTES, plan_memory
from pirkit.runtime.session import Draws
from tests.execution import Array, parsed
from tests.unit.runtime.test_planning import chain, executable
from tests.unit.runtime.test_write_back import COPIED, PLACED, arrays, plan_of

T, LARGE = "tensor<4xf32>", 4 * 4096
"""Bytes of a tensor that is too large to be copied into the arena."""


def large_chain(length: int) -> str:
    return chain(length).replace(T, "tensor<4096xf32>")


def session(text: str, inputs: dict[str, Array], **options: Any) -> Any:
    exe = executable(text, **options)
    exe(**inputs)
    (sessions,) = exe._sessions._idle.values()
    return sessions[0]


@pytest.mark.parametrize(("reuse", "links"), [(True, 1), (False, 4)])
def test_a_dead_operand_is_overwritten_unless_nothing_may_be(reuse: bool, links: int) -> None:
    x = np.ones(4096, np.float32)
    assert session(large_chain(5), {"x": x}, reuse=reuse).nbytes == links * LARGE


def test_only_outputs_that_share_no_memory_are_handed_over() -> None:
    text = f"""
pir.program @main(%x "x" : {T}) {{
  %a = pd_op.tanh(%x) : ({T}) -> {T}
  %b = pd_op.exp(%x) : ({T}) -> {T}
  %v = pd_op.share_data(%b) : ({T}) -> {T}
  pir.shadow_output(%a) {{output_name = "a"}} : ({T}) -> ()
  pir.shadow_output(%b) {{output_name = "b"}} : ({T}) -> ()
  pir.shadow_output(%v) {{output_name = "v"}} : ({T}) -> ()
}}"""
    exe = executable(text)
    found = exe(x=np.zeros(4, np.float32))
    found["b"][:] = 7
    assert found["v"].tolist() == [1, 1, 1, 1]
    (sessions,) = exe._sessions._idle.values()
    slots = {o.name: o.source for o in exe.plan.outputs}
    assert sessions[0].owned == {slots["a"]}


def test_a_value_that_is_handed_over_twice_is_copied() -> None:
    text = f"""
pir.program @main(%x "x" : {T}, %w "w" : {T}) {{
  %a = pd_op.tanh(%x) : ({T}) -> {T}
  %b = pd_op.exp_(%w) : ({T}) -> {T}
  pir.shadow_output(%a) {{output_name = "a"}} : ({T}) -> ()
  pir.shadow_output(%a) {{output_name = "again"}} : ({T}) -> ()
  pir.shadow_output(%b) {{output_name = "b"}} : ({T}) -> ()
}}"""
    exe = executable(text)
    found = exe(x=np.zeros(4, np.float32), w=np.zeros(4, np.float32))
    arrays = [*found.values(), exe.updates["w"]]
    pairs = [(a, b) for i, a in enumerate(arrays) for b in arrays[:i]]
    assert not any(np.may_share_memory(a, b) for a, b in pairs)
    (sessions,) = exe._sessions._idle.values()
    assert not sessions[0].owned


@pytest.mark.parametrize(("more", "is_once"), [(-1, True), (0, True), (1, False)])
def test_constants_up_to_a_limit_are_computed_once(more: int, is_once: bool) -> None:
    size = MAX_CONSTANT_BYTES // 8 + more
    of = f"tensor<{size}xf64>"
    text = f"""
pir.program @main(%x "x" : {of}) {{
  %a = pd_op.full() {{shape = array<i64: {size}>, value = 0.5 : f64,
    dtype = #pir.dtype<float64>}} : () -> {of}
  %b = pd_op.add(%x, %a) : ({of}, {of}) -> {of}
  pir.shadow_output(%b) {{output_name = "b"}} : ({of}) -> ()
}}"""
    (program,) = [op for op in parsed(text).ops if isinstance(op, ProgramOp)]
    library = KernelLibrary("cpu")
    plan = write_plan(program, library=library)
    bound = {p.slot: p.meta for p in plan.inputs}
    layout = plan_memory(
        plan, library, bound, device=library.device, generator=Draws().generator,
        fuses_launches=True,
    )  # fmt: skip
    made = [t for n in layout.nodes if isinstance(n, Bound) for t in n.targets]
    assert [isinstance(t, Constant) for t in made] == [is_once, False]


def test_a_result_of_branches_has_the_size_of_the_branch_that_ran() -> None:
    part = (
        "{axes = array<i64: 0>, starts = array<i64: 1>, ends = array<i64: 3>, "
        "infer_flags = array<i64: 1>, decrease_axis = array<i64>}"
    )
    text = f"""
pir.program @main(%c "c" : tensor<i1>, %x "x" : {T}) {{
  %r = pd_op.if(%c) : (tensor<i1>) -> tensor<?xf32> {{
    %a = pd_op.exp(%x) : ({T}) -> {T}
    pir.yield(%a) : ({T}) -> ()
  }} else {{
    %b = pd_op.slice(%x) {part} : ({T}) -> tensor<2xf32>
    pir.yield(%b) : (tensor<2xf32>) -> ()
  }}
  %y = pd_op.tanh(%r) : (tensor<?xf32>) -> tensor<?xf32>
  pir.shadow_output(%y) {{output_name = "y"}} : (tensor<?xf32>) -> ()
}}"""
    exe, x = executable(text), np.array([1, 2, 3, 4], np.float32)
    for condition, expected in ((True, np.exp(x)), (False, x[1:3])):
        found = exe(c=np.array(condition), x=x)["y"]
        np.testing.assert_allclose(found, np.tanh(expected), rtol=1e-6)


def test_a_write_that_cannot_overwrite_its_operand_leaves_other_values_alone() -> None:
    names = "abdefg"
    made = "\n".join(
        f"%{n} = pd_op.{op}(%x) : ({T}) -> {T}"
        for n, op in zip(names, ("exp", "sin", "cos", "tanh", "square", "abs"), strict=True)
    )
    outs = "\n".join(
        f'pir.shadow_output(%{n}) {{output_name = "{n}"}} : ({T}) -> ()' for n in names
    )
    text = f"""
pir.program @main(%c "c" : tensor<i1>, %x "x" : {T}) {{
  {made}
  %r = pd_op.if(%c) : (tensor<i1>) -> {T} {{
    %w = pd_op.add_(%a, %a) : ({T}, {T}) -> {T}
    pir.yield(%b) : ({T}) -> ()
  }} else {{
    pir.yield(%d) : ({T}) -> ()
  }}
  pir.shadow_output(%r) {{output_name = "r"}} : ({T}) -> ()
  {outs}
}}"""
    x = np.array([0.5, -1, 2, 3], np.float32)
    found = executable(text)(c=np.array(True), x=x)
    wanted = {"a": 2 * np.exp(x), "b": np.sin(x), "d": np.cos(x), "e": np.tanh(x)}
    wanted |= {"f": x * x, "g": abs(x), "r": np.sin(x)}
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", [*PLACED, *COPIED])
def test_a_new_content_is_swapped_in_without_a_copy_if_nobody_sees_it(name: str) -> None:
    (x, b), lines = arrays(), (PLACED | COPIED)[name][0]
    exe = Executable(plan_of(lines), KernelLibrary(), {"b": b})
    exe(x=x)
    (sessions,) = exe._sessions._idle.values()
    swapped = {*PLACED, "a view is alive"}  # the view reads the old array, which stays
    assert (sessions[0].copies == 0) == (name in swapped)
