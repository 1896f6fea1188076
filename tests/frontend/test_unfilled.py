"""Buffers that nothing fills: Paddle declares them without dimensions and stores them nowhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pirkit.diag.errors import RuntimeFault
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program, load, save
from pirkit.frontend.paddle.text_reader import read_paddle_text

TEXT = """{
    (%0) = "builtin.parameter" () {parameter_name:"state",persistable:[false]} : () -> tensor<u8>
    (%1) = "builtin.parameter" () {parameter_name:"w",persistable:[true]} : () -> tensor<2xf32>
    (%2) = "pd_op.fetch" (%1) {col:0,name:"y"} : (tensor<2xf32>) -> tensor<2xf32>
}
"""


def test_a_model_without_their_values_runs(tmp_path: Path) -> None:
    w = np.ones(2, np.float32)
    path = tmp_path / "model.json"
    save(Program(read_paddle_text(TEXT, "main.txt"), {"w": w}), path)
    program = load(path)
    assert program.params["state"].shape == (0,)
    np.testing.assert_array_equal(compile(program, pipeline="")()["y"], w)


def test_a_buffer_of_some_size_is_no_substitute() -> None:
    params = {"w": np.ones(2, np.float32), "state": np.zeros(3, np.uint8)}
    exe = compile(Program(read_paddle_text(TEXT, "main.txt"), params), pipeline="")
    with pytest.raises(RuntimeFault, match="'state' is a tensor<3xu8>, expected tensor<u8>"):
        exe()
