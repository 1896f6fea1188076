"""Types that Paddle states and its kernels do not make are read, and written back as they were."""

from __future__ import annotations

import pytest

from pirkit.diag.errors import VerifyError
from pirkit.dialect.verify import verify_module
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.frontend.paddle.text_writer import write_paddle_text

X = (
    '    (%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[1]} '
    ": () -> tensor<1xf32>\n"
    '    (%1) = "pd_op.data" () {dtype:bool,name:"c",place:Place(undefined:0),shape:[]} '
    ": () -> tensor<b>\n"
    '    (%2) = "pd_op.full" () {dtype:float32,place:Place(cpu),shape:[1],value:1} '
    ": () -> tensor<1xf32>\n"
)
NUMBER = (
    '    (%3) = "pd_op.full" () {{dtype:float32,place:Place(cpu),shape:[],value:0}} '
    ": () -> tensor<{type}>\n"
)
LOOP = (
    '    (%4) = "pd_op.while" (cond=%1, inputs=%3) { \n'
    "    ^%arg_0 {stop_gradient:true}\n"
    '        (%5) = "pd_op.full" () {dtype:float32,place:Place(cpu),shape:[2,3],value:0} '
    ": () -> tensor<2x3xf32>\n"
    '        () = "cf.yield" (%1, %5) {} : (tensor<b>, tensor<2x3xf32>) -> \n'
    "    }\n"
)
SCALE = (
    '    (%3) = "pd_op.scale" (%0, %2) {{bias:0,bias_after_scale:true}} '
    ": (tensor<1xf32>, tensor<1xf32>) -> tensor<{type}>\n"
)
SPLIT = (
    '    (%3) = "builtin.combine" (%0, %2) {} '
    ": (tensor<1xf32>, tensor<1xf32>) -> vec[tensor<1xf32>,tensor<1xf32>]\n"
    '    (%4, %5) = "builtin.split" (%3) {} '
    ": (vec[tensor<1xf32>,tensor<1xf32>]) -> <<NULL TYPE>>, tensor<1xf32>\n"
)
HITS = (
    '    (%3) = "pd_op.data" () {{dtype:int64,name:"i",place:Place(undefined:0),shape:[1,1]}} '
    ": () -> tensor<1x1xi64>\n"
    '    (%4, %5, %6) = "pd_op.accuracy" (%0, %3, %3) {{}} '
    ": (tensor<1xf32>, tensor<1x1xi64>, tensor<1x1xi64>) "
    "-> tensor<f32>, tensor<{type}>, tensor<{type}>\n"
)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(NUMBER.format(type="2x3xf32") + LOOP, id="placeholder of a loop's variable"),
        pytest.param(SCALE.format(type="f32"), id="gradient of a term of a sum"),
        pytest.param(SPLIT, id="gradient that no element needs"),
        pytest.param(HITS.format(type="f32"), id="counts stated as floats"),
        pytest.param(HITS.format(type="i32"), id="counts as they are"),
    ],
)
def test_programs_keep_what_paddle_states(body: str) -> None:
    text = "{\n" + X + body + "}\n"
    module = read_paddle_text(text, "main.txt")
    verify_module(module)
    assert write_paddle_text(module) == text


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(NUMBER.format(type="2x3xf32"), id="placeholder without a loop"),
        pytest.param(SCALE.format(type="2xf32"), id="scaled to another size"),
        pytest.param(SCALE.format(type="f64"), id="scaled to another dtype"),
        pytest.param(HITS.format(type="f64"), id="counts of a third dtype"),
    ],
)
def test_other_types_are_refused(body: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify_module(read_paddle_text("{\n" + X + body + "}\n", "main.txt"))
    assert caught.value.code == "PK0202"
