"""Derivatives of programs that write in place: through versions, in front of write-backs."""

from __future__ import annotations

import numpy as np
import pytest

from pirkit.diag.errors import PirkitError, UnsupportedError
from pirkit.dialect.operation import ProgramOp
from pirkit.passes import run_pipeline
from pirkit.passes.autodiff import append_backward
from tests.execution import Array, effect, parsed

X: Array = np.array([0.3, -0.7])
W: Array = np.array([1.2, 0.8])
T = "tensor<2xf64>"

OVERWRITTEN = f"""
pir.program @main(%x "x" : {T}) {{
  %t = pd_op.sin(%x) : ({T}) -> {T}
  %u = pd_op.multiply(%t, %x) : ({T}, {T}) -> {T}
  %e = pd_op.exp_(%t) : ({T}) -> {T}
  %y = pd_op.multiply(%t, %u) : ({T}, {T}) -> {T}
  pir.shadow_output(%y) {{output_name = "y"}} : ({T}) -> ()
}}
"""

STEP = f"""
pir.program @main(%x "x" : {T}) {{
  %w = pir.parameter() {{parameter_name = "w"}} : () -> {T}
  %p = pd_op.multiply(%x, %w) : ({T}, {T}) -> {T}
  %y = pd_op.exp(%p) : ({T}) -> {T}
  %n = pd_op.scale_(%w) {{scale = 0.9 : f64}} : ({T}) -> {T}
  pir.shadow_output(%y) {{output_name = "y"}} : ({T}) -> ()
}}
"""

CAPTURED = f"""
pir.program @main(%x "x" : {T}, %c "c" : tensor<1xi1>) {{
  %t = pd_op.sin(%x) : ({T}) -> {T}
  %r = pd_op.if(%c) : (tensor<1xi1>) -> {T} {{
    %a = pd_op.exp_(%t) : ({T}) -> {T}
    pir.yield(%a) : ({T}) -> ()
  }} else {{
    pir.yield(%x) : ({T}) -> ()
  }}
  %y = pd_op.multiply(%t, %r) : ({T}, {T}) -> {T}
  pir.shadow_output(%y) {{output_name = "y"}} : ({T}) -> ()
}}
"""


def test_each_version_has_its_own_derivative() -> None:
    module = parsed(OVERWRITTEN)
    run_pipeline(module, "autodiff{wrt=x}")
    found = effect(module, {"x": X})
    sin, cos = np.sin(X), np.cos(X)
    np.testing.assert_allclose(found["output y"], np.exp(sin) * sin * X)
    slope = np.exp(sin) * (cos * sin * X + cos * X + sin)
    np.testing.assert_allclose(found["output x_grad"], slope, rtol=1e-12)


def test_a_derivative_reads_a_parameter_as_it_was() -> None:
    module = parsed(STEP)
    run_pipeline(module, "autodiff{wrt=x}")
    found = effect(module, {"x": X}, {"w": W})
    np.testing.assert_allclose(found["output x_grad"], W * np.exp(X * W), rtol=1e-12)
    np.testing.assert_allclose(found["parameter w"], 0.9 * W)


def test_reading_through_a_write_is_refused() -> None:
    module = parsed(OVERWRITTEN)
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    last = program.block.last_op
    assert last is not None
    with pytest.raises(UnsupportedError, match="writes in place"):
        append_backward(program, list(last.operands), list(program.block.args))


@pytest.mark.parametrize("taken", [True, False])
def test_a_write_from_inside_a_branch_is_a_result_of_it(taken: bool) -> None:
    module = parsed(CAPTURED)
    run_pipeline(module, "autodiff{wrt=x}")
    found = effect(module, {"x": X, "c": np.array([taken])})
    sin, cos = np.sin(X), np.cos(X)
    slope = 2 * np.exp(2 * sin) * cos if taken else cos * X + sin
    np.testing.assert_allclose(found["output x_grad"], slope, rtol=1e-12)


def test_a_write_without_a_pure_form_on_the_way_is_refused() -> None:
    module = parsed(f"""
        pir.program @main(%x "x" : {T}) {{
          %t = pd_op.sin(%x) : ({T}) -> {T}
          pd_op.pylayer(%t) {{backward_function_id = 0 : i32}} : ({T}) -> () {{
            %a = pd_op.exp_(%t) : ({T}) -> {T}
            pir.yield() : () -> ()
          }}
          %y = pd_op.add(%t, %x) : ({T}, {T}) -> {T}
          pir.shadow_output(%y) {{output_name = "y"}} : ({T}) -> ()
        }}""")
    with pytest.raises(PirkitError, match="writes in place") as caught:
        run_pipeline(module, "autodiff{wrt=x}")
    assert "PK0402" in str(caught.value.__cause__ or caught.value)
