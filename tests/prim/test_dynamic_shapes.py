"""Derivatives where the program leaves sizes open: ops of Paddle, decomposed when it runs."""

from __future__ import annotations

import numpy as np
import pytest

from pirkit.dialect.operation import ProgramOp
from pirkit.passes import run_pipeline
from tests.execution import effect, parsed

POOL = """pir.program @main(%x "x" : tensor<?x1x?x4xf64>) {
  %y = pd_op.pool2d(%x) {kernel_size = array<i64: 3, 3>, strides = array<i64: 2, 2>,
      paddings = array<i64: 1, 1>, ceil_mode = true, exclusive = true, data_format = "NCHW",
      pooling_type = "avg", global_pooling = false, adaptive = false,
      padding_algorithm = "EXPLICIT"} : (tensor<?x1x?x4xf64>) -> tensor<?x1x?x3xf64>
  %z = pd_op.multiply(%y, %y) : (tensor<?x1x?x3xf64>, tensor<?x1x?x3xf64>) -> tensor<?x1x?x3xf64>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<?x1x?x3xf64>) -> ()
}"""


def names(module: object) -> set[str]:
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]  # type: ignore[attr-defined]
    return {op.name for op in program.operations}


def known(sizes: tuple[int, int]) -> str:
    return f"infer-meta{{bind=x:{sizes[0]}x1x{sizes[1]}x4}},autodiff{{wrt=x}}"


@pytest.mark.parametrize("sizes", [(2, 4), (3, 5)])
def test_the_derivative_is_an_op_until_sizes_are_known(sizes: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal((sizes[0], 1, sizes[1], 4))
    late, early = parsed(POOL), parsed(POOL)
    run_pipeline(late, "autodiff{wrt=x}")
    run_pipeline(early, known(sizes))
    assert "pd_op.pool2d_grad" in names(late)
    assert "pd_op.pool2d_grad" not in names(early)
    one, other = effect(late, {"x": x}), effect(early, {"x": x})
    np.testing.assert_allclose(one["output x_grad"], other["output x_grad"], rtol=1e-12)


def test_decompose_leaves_it_whole_and_says_why() -> None:
    module = parsed(POOL)
    result = run_pipeline(module, "autodiff{wrt=x},decompose")
    assert "pd_op.pool2d_grad" in names(module)
    told = [r.message for r in result.remarks if r.kind == "missed"]
    assert any("pool2d" in message for message in told)


CONV = """pir.program @main(%x "x" : tensor<1x2x5xWIDTHxf64>, %f "f" : tensor<4x2x3x2xf64>) {
  %y = pd_op.conv2d(%x, %f) {strides = array<i32: 2, 2>, paddings = array<i32: 0, 0>,
      padding_algorithm = "EXPLICIT", groups = 1 : i32, dilations = array<i32: 1, 1>,
      data_format = "NCHW"}
    : (tensor<1x2x5xWIDTHxf64>, tensor<4x2x3x2xf64>) -> tensor<1x4x2xCOUNTxf64>
  %s = pd_op.split_with_num(%y) {axis = 1 : i32, num = 2 : i32}
    : (tensor<1x4x2xCOUNTxf64>) -> !pir.vec<tensor<1x2x2x3xf64>, tensor<1x2x2x3xf64>>
  %z = pir.slice(%s) {index = 1 : i32}
    : (!pir.vec<tensor<1x2x2x3xf64>, tensor<1x2x2x3xf64>>) -> tensor<1x2x2x3xf64>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<1x2x2x3xf64>) -> ()
}"""


def test_an_image_of_unknown_size_gets_a_gradient_of_its_size() -> None:
    """What reads the convolution knows its size, so that the cotangent has no unknown one."""
    rng = np.random.default_rng(3)
    given = {"x": rng.standard_normal((1, 2, 5, 6)), "f": rng.standard_normal((4, 2, 3, 2))}
    found: list[np.ndarray] = []
    for width, count in (("6", "3"), ("?", "?")):
        module = parsed(CONV.replace("WIDTH", width).replace("COUNT", count))
        run_pipeline(module, "autodiff{wrt=x}")
        found.append(effect(module, given)["output x_grad"])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
