"""Programs of Paddle that state wrong types, or unknown ones: kernels make other ones."""

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


EINSUM: Final = """{
    (%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[2,3],stop_gradient:[false]} : () -> tensor<2x3xf32>
    (%1) = "pd_op.data" () {dtype:float32,name:"y",place:Place(undefined:0),shape:[3,4],stop_gradient:[false]} : () -> tensor<3x4xf32>
    (%2) = "builtin.combine" (%0, %1) {stop_gradient:[false]} : (tensor<2x3xf32>, tensor<3x4xf32>) -> vec[tensor<2x3xf32>,tensor<3x4xf32>]
    (%3, %4, %5) = "pd_op.einsum" (%2) {equation:"ij,jk->ki",stop_gradient:[false,false,false]} : (vec[tensor<2x3xf32>,tensor<3x4xf32>]) -> tensor<4x2xf32>, vec[tensor<f32>,tensor<f32>], vec[tensor<2x3xf32>,tensor<3x4xf32>]
    (%6, %7) = "builtin.split" (%4) {stop_gradient:[false,false]} : (vec[tensor<f32>,tensor<f32>]) -> tensor<f32>, tensor<f32>
    (%8, %9) = "builtin.split" (%5) {stop_gradient:[false,false]} : (vec[tensor<2x3xf32>,tensor<3x4xf32>]) -> tensor<2x3xf32>, tensor<3x4xf32>
    () = "builtin.shadow_output" (%3) {output_name:"z"} : (tensor<4x2xf32>) -> 
}
"""  # noqa: E501


@pytest.mark.parametrize("pipeline", [*PIPELINES, "decompose,@default", "decompose,dce"])
def test_a_list_of_by_products_that_are_left_empty(pipeline: str) -> None:
    """As `to_static` writes each `einsum` to JSON; nobody reads the parts of the lists."""
    x, y = (np.random.default_rng(0).standard_normal(s).astype("float32") for s in ((2, 3), (3, 4)))
    np.testing.assert_allclose(computed(EINSUM, pipeline, x=x, y=y)["z"], (x @ y).T, rtol=1e-6)


HEADS: Final = """{
    (%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[-1,6],stop_gradient:[false]} : () -> tensor<-1x6xf32>
    (%1) = "pd_op.shape64" (%0) {stop_gradient:[true]} : (tensor<-1x6xf32>) -> tensor<2xi64>
    (%2) = "pd_op.full_int_array" () {dtype:int64,place:Place(cpu),stop_gradient:[true],value:[0]} : () -> tensor<1xi64>
    (%3) = "pd_op.full_int_array" () {dtype:int64,place:Place(cpu),stop_gradient:[true],value:[1]} : () -> tensor<1xi64>
    (%4) = "pd_op.slice" (%1, %2, %3) {axes:[0],decrease_axis:[0],infer_flags:[1],stop_gradient:[true]} : (tensor<2xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<i64>
    (%5) = "pd_op.full" () {dtype:int64,place:Place(cpu),shape:[],stop_gradient:[true],value:3} : () -> tensor<i64>
    (%6) = "pd_op.full" () {dtype:int64,place:Place(cpu),shape:[],stop_gradient:[true],value:2} : () -> tensor<i64>
    (%7) = "builtin.combine" (%4, %5, %6) {stop_gradient:[true]} : (tensor<i64>, tensor<i64>, tensor<i64>) -> vec[tensor<i64>,tensor<i64>,tensor<i64>]
    (%8) = "pd_op.stack" (%7) {axis:0,stop_gradient:[true]} : (vec[tensor<i64>,tensor<i64>,tensor<i64>]) -> tensor<3xi64>
    (%9) = "pd_op.reshape" (%0, %8) {stop_gradient:[false]} : (tensor<-1x6xf32>, tensor<3xi64>) -> tensor<-1x3x2xf32>
    (%10) = "pd_op.unbind" (%9) {axis:1,stop_gradient:[false]} : (tensor<-1x3x2xf32>) -> vec[tensor<-1x2xf32>,tensor<-1x2xf32>,tensor<-1x2xf32>]
    (%11, %12, %13) = "builtin.split" (%10) {stop_gradient:[false,false,false]} : (vec[tensor<-1x2xf32>,tensor<-1x2xf32>,tensor<-1x2xf32>]) -> tensor<-1x2xf32>, tensor<-1x2xf32>, tensor<-1x2xf32>
    (%14) = "pd_op.multiply" (%11, %13) {stop_gradient:[false]} : (tensor<-1x2xf32>, tensor<-1x2xf32>) -> tensor<-1x2xf32>
    () = "builtin.shadow_output" (%14) {output_name:"y"} : (tensor<-1x2xf32>) -> 
}
"""  # noqa: E501


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_number_of_pieces_is_what_the_program_states(pipeline: str) -> None:
    """The shape is computed, so nothing else tells it before the program runs."""
    exe = pirkit.compile(Program(read_paddle_text(HEADS)), pipeline=pipeline)
    for rows in (4, 1, 0):
        x = np.random.default_rng(rows).standard_normal((rows, 6)).astype("float32")
        q, _, v = x.reshape(rows, 3, 2).swapaxes(0, 1)
        np.testing.assert_array_equal(exe.run({"x": x})["y"], q * v)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_what_is_stated_with_another_type_stays_whole(pipeline: str) -> None:
    """The parts of `matrix_rank` make the integers that the op states as numbers."""
    text = """{
    (%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[4,4],stop_gradient:[true]} : () -> tensor<4x4xf32>
    (%1) = "pd_op.matrix_rank" (%0) {hermitian:false,stop_gradient:[true],tol:0,use_default_tol:true} : (tensor<4x4xf32>) -> tensor<f32>
    () = "builtin.shadow_output" (%1) {output_name:"r"} : (tensor<f32>) -> 
}
"""  # noqa: E501
    found = computed(text, pipeline, x=np.diag([1, 2, 0, 3]).astype(np.float32))["r"]
    assert (found.dtype, int(found)) == (np.int64, 3)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_by_product_without_elements_is_read_by_the_gradient(pipeline: str) -> None:
    """Paddle states the counts of messages, which only a mean needs, as one number."""
    text = """{
    (%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[3,2],stop_gradient:[false]} : () -> tensor<3x2xf32>
    (%1) = "pd_op.data" () {dtype:int64,name:"i",place:Place(undefined:0),shape:[4],stop_gradient:[true]} : () -> tensor<4xi64>
    (%2) = "pd_op.data" () {dtype:int64,name:"j",place:Place(undefined:0),shape:[4],stop_gradient:[true]} : () -> tensor<4xi64>
    (%3) = "pd_op.full_int_array" () {dtype:int64,place:Place(cpu),stop_gradient:[true],value:[0]} : () -> tensor<1xi64>
    (%4, %5) = "pd_op.send_u_recv" (%0, %1, %2, %3) {reduce_op:"SUM",stop_gradient:[false,false]} : (tensor<3x2xf32>, tensor<4xi64>, tensor<4xi64>, tensor<1xi64>) -> tensor<3x2xf32>, tensor<f32>
    (%6) = "pd_op.send_u_recv_grad" (%0, %1, %2, <<NULL VALUE>>, %5, %4) {reduce_op:"SUM",stop_gradient:[false]} : (tensor<3x2xf32>, tensor<4xi64>, tensor<4xi64>, <<NULL TYPE>>, tensor<f32>, tensor<3x2xf32>) -> tensor<3x2xf32>
    () = "builtin.shadow_output" (%6) {output_name:"g"} : (tensor<3x2xf32>) -> 
}
"""  # noqa: E501
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    edges = np.zeros((3, 3), np.float32)
    i, j = np.array([0, 1, 1, 2]), np.array([1, 0, 2, 2])
    edges[j, i] = 1
    found = computed(text, pipeline, x=x, i=i, j=j)["g"]
    np.testing.assert_allclose(found, edges.T @ (edges @ x))


SPREAD: Final = """{
    (%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[2,1,3,4],stop_gradient:[true]} : () -> tensor<2x1x3x4xf32>
    (%1) = "pd_op.data" () {dtype:float32,name:"w",place:Place(undefined:0),shape:[5,4,2],stop_gradient:[true]} : () -> tensor<5x4x2xf32>
    (%2) = "pd_op.matmul" (%0, %1) {stop_gradient:[true],transpose_x:false,transpose_y:false} : (tensor<2x1x3x4xf32>, tensor<5x4x2xf32>) -> tensor<2x1x3x2xf32>
    (%3) = "pd_op.tanh" (%2) {stop_gradient:[true]} : (tensor<2x1x3x2xf32>) -> tensor<2x1x3x2xf32>
    (%4) = "pd_op.softmax" (%3) {axis:-1,stop_gradient:[true]} : (tensor<2x1x3x2xf32>) -> tensor<2x1x3x2xf32>
    (%5) = "pd_op.sin" (%4) {stop_gradient:[true]} : (tensor<2x1x3x2xf32>) -> tensor<2x1x3x2xf32>
    () = "builtin.shadow_output" (%5) {output_name:"y"} : (tensor<2x1x3x2xf32>) -> 
}
"""  # noqa: E501
EXPONENTS: Final = """{
    (%0) = "pd_op.data" () {dtype:int64,name:"x",place:Place(undefined:0),shape:[3],stop_gradient:[true]} : () -> tensor<3xi64>
    (%1) = "pd_op.exp" (%0) {stop_gradient:[true]} : (tensor<3xi64>) -> tensor<3xi64>
    (%2) = "pd_op.cast" (%1) {dtype:int64,stop_gradient:[true]} : (tensor<3xi64>) -> tensor<3xi64>
    (%3) = "pd_op.add" (%2, %2) {stop_gradient:[true]} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    () = "builtin.shadow_output" (%3) {output_name:"y"} : (tensor<3xi64>) -> 
}
"""  # noqa: E501


def softmax(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


@pytest.mark.parametrize("pipeline", [*PIPELINES, "whole"])
def test_what_is_made_of_a_value_of_another_type_is_not_fused(pipeline: str) -> None:
    """Paddle states the batch of the factor with more dimensions."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s, np.float32) for s in ((2, 1, 3, 4), (5, 4, 2)))
    if pipeline == "whole":
        made = pirkit.compile(Program(read_paddle_text(SPREAD)), fast_math=True)
        assert made.reasons == ("a value does not have the type that the program declares",)
        found = made(x=x, w=w)["y"]
    else:
        found = computed(SPREAD, pipeline, x=x, w=w)["y"]
    np.testing.assert_allclose(found, np.sin(softmax(np.tanh(x @ w))), rtol=1e-5)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_cast_from_a_type_that_is_only_stated_stays(pipeline: str) -> None:
    found = computed(EXPONENTS, pipeline, x=np.array([0, 1, 2]))["y"]
    assert (found.dtype, found.tolist()) == (np.int64, [2, 4, 14])


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_what_lay_on_a_stack_is_of_another_type_still(pipeline: str) -> None:
    pushed = """
    (%stack_0, %inlet_0, %outlet_0) = "cf.stack_create" () {} : () -> cf.stack, cf.inlet, cf.outlet
    () = "cf.tuple_push" (%inlet_0, %1) {} : (cf.inlet, tensor<3xi64>) -> 
    (%9) = "cf.tuple_pop" (%outlet_0) {stop_gradient:[true]} : (cf.outlet) -> tensor<3xi64>
    (%2) = "pd_op.cast" (%9)"""
    text = EXPONENTS.replace('\n    (%2) = "pd_op.cast" (%1)', pushed)
    found = computed(text, pipeline, x=np.array([0, 1, 2]))["y"]
    assert (found.dtype, found.tolist()) == (np.int64, [2, 4, 14])


@pytest.mark.parametrize("pipeline", [*PIPELINES, "constant-fold"])
def test_sizes_behind_a_type_that_is_only_stated_are_not_folded(pipeline: str) -> None:
    sized = SPREAD.replace('"pd_op.sin" (%4)', '"pd_op.shape64" (%4)')
    sized = sized.replace(
        "(tensor<2x1x3x2xf32>) -> tensor<2x1x3x2xf32>\n    () =",
        "(tensor<2x1x3x2xf32>) -> tensor<4xi64>\n    () =",
    )
    sized = sized.replace(": (tensor<2x1x3x2xf32>) -> \n", ": (tensor<4xi64>) -> \n")
    x, w = np.zeros((2, 1, 3, 4), np.float32), np.zeros((5, 4, 2), np.float32)
    assert computed(sized, pipeline, x=x, w=w)["y"].tolist() == [2, 5, 3, 2]
