"""A layer whose backward is a Python function: what the program holds of it, its forward, runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import PassError, UnsupportedError
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.passes import run_pipeline
from pirkit.split import forward_backward

DUMP: Final = Path(__file__).parents[1] / "frontend" / "dumps" / "user-defined-layer.txt"
OUTPUT: Final = '() = "builtin.shadow_output" (%1) {output_name:"y"} : (tensor<2x3xf32>) -> '
X: Final = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def module() -> ModuleOp:
    text = DUMP.read_text().rstrip().removesuffix("}").replace("[true]", "[false]")
    return read_paddle_text(f"{text}    {OUTPUT}\n}}\n", "layer.txt")


@pytest.mark.parametrize("pipeline", ["", "@default", "functionalize,decompose,verify-primitive"])
def test_the_forward_runs_and_is_taken_apart(pipeline: str) -> None:
    exe = compile(Program(module()), pipeline=pipeline)
    np.testing.assert_array_equal(exe.run({"x": X})["y"], np.maximum(X, 0))


def test_its_derivative_is_refused_with_a_way_out() -> None:
    """It is not what the derivative of the forward would be."""
    with pytest.raises(PassError, match="is a Python function, which the program") as caught:
        run_pipeline(module(), "autodiff{wrt=x}")
    assert "caused by PK0402" in caught.value.notes
    assert caught.value.help is not None
    assert "trace the program with the derivative, or stop the gradient" in caught.value.help


def test_a_split_says_why_there_is_no_backward() -> None:
    with pytest.raises(UnsupportedError, match="is a Python function") as caught:
        forward_backward(Program(module()))
    assert caught.value.code == "PK0402"
