"""Calls whose attributes the run computes: as much is known of them as the plan tells."""

from __future__ import annotations

import numpy as np

from tests.unit.runtime.test_planning import executable

TEXT = """
pir.program @main(%x "x" : tensor<2x3x4xf32>, %n "n" : tensor<1xi64>, %m "m" : tensor<1xi64>) {
  %r = pir.combine(%n, %m) : (tensor<1xi64>, tensor<1xi64>) -> !pir.vec<V, V>
  %y = pd_op.reshape(%x, %r) : (tensor<2x3x4xf32>, !pir.vec<V, V>) -> tensor<?x?xf32>
  %z = pd_op.transpose(%y) {perm = array<i32: 1, 0>} : (tensor<?x?xf32>) -> tensor<?x?xf32>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<?x?xf32>) -> ()
}
""".replace("V", "tensor<1xi64>")


def test_the_length_of_a_computed_shape_decides_the_rank() -> None:
    exe = executable(TEXT)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for n, m in ((6, 4), (3, 8), (24, 1)):
        found = exe(x=x, n=np.array([n]), m=np.array([m]))["z"]
        np.testing.assert_array_equal(found, x.reshape(n, m).T)


SCALED = """
pir.program @main(%x "x" : tensor<?xf32>, %s "s" : tensor<1xf32>) {
  %y = pd_op.scale(%x, %s) {bias = 0.0 : f32, bias_after_scale = true}
    : (tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<?xf32>) -> ()
}
"""


def test_a_call_for_zero_is_not_taken_for_that_of_minus_zero() -> None:
    exe = executable(SCALED)
    for zero in (0.0, -0.0, 0.0):
        found = exe(x=np.ones(3, np.float32), s=np.array([zero], np.float32))["y"]
        assert np.signbit(found).tolist() == [np.signbit(zero)] * 3
