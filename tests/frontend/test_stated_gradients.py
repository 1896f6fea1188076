"""Gradient programs of Paddle that state wrong types: its kernels, and ours, make other ones."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit.frontend.files import Program
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.frontend.paddle.text_writer import write_paddle_text

PIPELINES: Final = ("", "infer-meta", "@default", "decompose", "@fused")
SLOGDET: Final = """{
    (%0) = "pd_op.data" () {dtype:float64,name:"x",place:Place(undefined:0),shape:[3,4,4],stop_gradient:[false]} : () -> tensor<3x4x4xf64>
    (%1) = "pd_op.slogdet" (%0) {stop_gradient:[false]} : (tensor<3x4x4xf64>) -> tensor<3x4x4xf64>
    (%2) = "pd_op.full" () {dtype:float32,place:Place(cpu),shape:[1],stop_gradient:[true],value:1} : () -> tensor<1xf32>
    (%3) = "pd_op.full_like" (%1, %2) {dtype:float64,place:Place(undefined:0),stop_gradient:[false]} : (tensor<3x4x4xf64>, tensor<1xf32>) -> tensor<3x4x4xf64>
    (%4) = "pd_op.slogdet_grad" (%0, %1, %3) {stop_gradient:[false]} : (tensor<3x4x4xf64>, tensor<3x4x4xf64>, tensor<3x4x4xf64>) -> tensor<3x4x4xf64>
    () = "builtin.shadow_output" (%4) {output_name:"g"} : (tensor<3x4x4xf64>) -> 
}
"""  # noqa: E501
MULTIPLEX: Final = """{
    (%0) = "pd_op.data" () {dtype:float32,name:"a",place:Place(undefined:0),shape:[4,3],stop_gradient:[false]} : () -> tensor<4x3xf32>
    (%1) = "pd_op.data" () {dtype:float32,name:"b",place:Place(undefined:0),shape:[4,3],stop_gradient:[false]} : () -> tensor<4x3xf32>
    (%2) = "pd_op.data" () {dtype:int32,name:"i",place:Place(undefined:0),shape:[2,1],stop_gradient:[true]} : () -> tensor<2x1xi32>
    (%3) = "pd_op.data" () {dtype:float32,name:"g",place:Place(undefined:0),shape:[2,3],stop_gradient:[true]} : () -> tensor<2x3xf32>
    (%4) = "builtin.combine" (%0, %1) {stop_gradient:[false]} : (tensor<4x3xf32>, tensor<4x3xf32>) -> vec[tensor<4x3xf32>,tensor<4x3xf32>]
    (%5) = "pd_op.multiplex_grad" (%4, %2, %3) {stop_gradient:[false]} : (vec[tensor<4x3xf32>,tensor<4x3xf32>], tensor<2x1xi32>, tensor<2x3xf32>) -> vec[tensor<2x3xf32>,tensor<2x3xf32>]
    (%6, %7) = "builtin.split" (%5) {stop_gradient:[false,false]} : (vec[tensor<2x3xf32>,tensor<2x3xf32>]) -> tensor<4x3xf32>, tensor<4x3xf32>
    () = "builtin.shadow_output" (%6) {output_name:"ga"} : (tensor<4x3xf32>) -> 
    () = "builtin.shadow_output" (%7) {output_name:"gb"} : (tensor<4x3xf32>) -> 
}
"""  # noqa: E501


def computed(text: str, pipeline: str, **inputs: Any) -> dict[str, Any]:
    return pirkit.compile(Program(read_paddle_text(text)), pipeline=pipeline).run(inputs)


@pytest.mark.parametrize("text", [SLOGDET, MULTIPLEX], ids=["slogdet", "multiplex"])
def test_the_program_is_written_back_as_it_was(text: str) -> None:
    assert write_paddle_text(read_paddle_text(text)) == text


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_gradient_of_slogdet(pipeline: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 4))
    found = computed(SLOGDET, pipeline, x=x)["g"]
    np.testing.assert_allclose(found, np.linalg.inv(x).swapaxes(1, 2), rtol=1e-12)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_gradient_of_multiplex_with_fewer_rows(pipeline: str) -> None:
    """Rows that were not picked have the gradient zero, also behind the last that was asked for."""
    a, g = np.zeros((4, 3), np.float32), np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    found = computed(MULTIPLEX, pipeline, a=a, b=a, i=np.array([[1], [0]], np.int32), g=g)
    expected = np.zeros((2, 4, 3), np.float32)
    expected[1, 0], expected[0, 1] = g
    np.testing.assert_array_equal(found["ga"], expected[0])
    np.testing.assert_array_equal(found["gb"], expected[1])
