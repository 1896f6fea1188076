"""`pd_op.print` shows a tensor and passes it on; `pd_op.assert` stops a program."""

from __future__ import annotations

import numpy as np
import pytest

from pirkit.diag.errors import RuntimeFault
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.runtime.executor import Executable

TEXT = """{
    (%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[3]} : () -> tensor<3xf32>
    (%1) = "pd_op.data" () {dtype:bool,name:"c",place:Place(undefined:0),shape:[]} : () -> tensor<b>
    (%2) = "pd_op.print" (%0) {message:"x is",summarize:2} : (tensor<3xf32>) -> tensor<3xf32>
    (%3) = "builtin.combine" (%0) {} : (tensor<3xf32>) -> vec[tensor<3xf32>]
    () = "pd_op.assert" (%1, %3) {summarize:1} : (tensor<b>, vec[tensor<3xf32>]) ->\x20
    () = "builtin.shadow_output" (%2) {output_name:"y"} : (tensor<3xf32>) ->\x20
}
"""  # noqa: E501  the lines of a dump
X = np.array([1, 2, 3], np.float32)


def executable(pipeline: str) -> Executable:
    return compile(Program(read_paddle_text(TEXT, "main.txt")), pipeline=pipeline)


@pytest.mark.parametrize("pipeline", ["", "@default"])
def test_a_condition_that_holds(pipeline: str, capfd: pytest.CaptureFixture[str]) -> None:
    outputs = executable(pipeline).run({"x": X, "c": np.array(True)})
    np.testing.assert_array_equal(outputs["y"], X)
    assert capfd.readouterr().err == "x is tensor<3xf32> [1.0, 2.0] ...\n"


@pytest.mark.parametrize("pipeline", ["", "@default"])
def test_a_condition_that_fails(pipeline: str) -> None:
    with pytest.raises(RuntimeFault, match=r"the condition does not hold; data: \[1\.0\] \.\.\."):
        executable(pipeline).run({"x": X, "c": np.array(False)})
