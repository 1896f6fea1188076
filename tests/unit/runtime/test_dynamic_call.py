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
