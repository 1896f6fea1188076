"""What the program tells of its own values."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from pirkit.analysis.alias import alias_classes
from pirkit.analysis.constants import UNKNOWN_VALUE, array_of, attribute_of, splat_of
from pirkit.analysis.execution_order import operations
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.passes import run_pipeline
from tests.execution import assert_same_bits, effect, parsed

TEXT = """
pir.program @main(%x "x" : tensor<2xf64>) {
  %k = pd_op.full() {shape = array<i64: 1>, value = 0.1 : f64} : () -> tensor<1xf32>
  %w = pd_op.full() {shape = array<i64: 1>, value = 0.1 : f64} : () -> tensor<1xf32>
  %l = pd_op.full_int_array() {value = array<i64: 2, 3>, dtype = #pir.dtype<int64>}
      : () -> tensor<2xi64>
  %i = pd_op.increment_(%w) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
  %a = pd_op.scale(%x, %k) : (tensor<2xf64>, tensor<1xf32>) -> tensor<2xf64>
  %b = pd_op.scale(%x, %w) : (tensor<2xf64>, tensor<1xf32>) -> tensor<2xf64>
  %e = pd_op.expand(%k) {shape = array<i64: 4, 3>} : (tensor<1xf32>) -> tensor<4x3xf32>
  %s = pd_op.reshape(%e) {shape = array<i64: 3, 4>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %v = pd_op.expand(%w) {shape = array<i64: 4>} : (tensor<1xf32>) -> tensor<4xf32>
  pir.shadow_output(%s) {output_name = "s"} : (tensor<3x4xf32>) -> ()
  pir.shadow_output(%v) {output_name = "v"} : (tensor<4xf32>) -> ()
  pir.shadow_output(%a) {output_name = "a"} : (tensor<2xf64>) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (tensor<2xf64>) -> ()
}
"""


def test_constants() -> None:
    (program,) = [op for op in parsed(TEXT).ops if isinstance(op, ProgramOp)]
    classes = alias_classes(program)
    ops = list(operations(program.block))
    values: dict[str | None, SSAValue] = {r.name_hint: r for op in ops for r in op.results}
    scales: list[PirOp] = [op for op in ops if op.name == "pd_op.scale"]
    element = splat_of(values["k"], classes)
    assert element is not None
    assert element.dtype == np.float32
    assert element == np.float32(0.1)
    assert splat_of(values["w"], classes) is None
    assert splat_of(values["l"], classes) is None
    assert splat_of(values["e"], classes) == element
    assert splat_of(values["s"], classes) == element
    assert splat_of(values["v"], classes) is None
    numbers = array_of(values["l"], classes, 2)
    assert numbers is not None
    assert numbers.tolist() == [2, 3]
    assert array_of(values["l"], classes, 1) is None
    assert attribute_of(scales[0], "scale", classes) == float(np.float32(0.1))
    assert attribute_of(scales[1], "scale", classes) is UNKNOWN_VALUE


def test_a_number_is_what_its_tensor_holds_when_it_is_read() -> None:
    module = parsed(TEXT)
    inputs = {"x": np.array([1.0, 10.0])}
    before = effect(module, inputs)
    tenth = float(np.float32(0.1))
    np.testing.assert_array_equal(before["output a"], inputs["x"] * tenth)
    np.testing.assert_array_equal(before["output b"], inputs["x"] * float(np.float32(tenth) + 1))
    run_pipeline(module, "@default")
    assert_same_bits(before, effect(module, inputs))
