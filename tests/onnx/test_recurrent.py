"""Recurrent layers are written as nodes of ONNX, and read again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import pirkit  # noqa: E402
from pirkit.dialect.opdef import lookup  # noqa: E402
from pirkit.onnx import model_of_program, program_of_model  # noqa: E402
from pirkit.runtime import dtype as dt  # noqa: E402
from tests.ops.calls import calls  # noqa: E402

CALLS = [c for c in calls(lookup("pd_op.rnn"), dt.float32) if c.attrs["is_test"]]


@pytest.mark.parametrize("call", CALLS, ids=lambda c: c.attrs["mode"])
def test_layers_are_written_and_read_again(call: Any) -> None:
    def network(*args: Any) -> Any:
        return pirkit.ops.rnn(*args, **call.attrs)

    program = pirkit.trace(network, *call.args)
    model = model_of_program(program)
    tensors = [a for arg in call.args for a in (arg if isinstance(arg, list) else [arg])]
    first = pirkit.compile(program, pipeline="")
    inputs = dict(zip([i.name for i in first.inputs], filter(_is_there, tensors), strict=True))
    again = pirkit.compile(program_of_model(model), pipeline="")
    names = [op.name for op in program_of_model(model).entry("main").block.ops]
    assert names.count("pd_op.rnn") == call.attrs["num_layers"]  # a loop, not so many steps
    wanted, found = first(**inputs), again(**inputs)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


def test_a_layer_from_the_end_is_one_of_a_turned_input() -> None:
    random = np.random.default_rng(0)
    shapes = {"x": (5, 2, 3), "w": (1, 16, 3), "r": (1, 16, 4), "b": (1, 32)}
    given = {k: random.standard_normal(s).astype(np.float32) for k, s in shapes.items()}
    found: list[Any] = []
    for direction in ("forward", "reverse"):
        text = (
            '<ir_version: 8, opset_import: ["": 17]> g (float[5,2,3] x, float[1,16,3] w,'
            " float[1,16,4] r, float[1,32] b) => (float[5,1,2,4] y, float[1,2,4] h) {"
            f' y, h = LSTM <hidden_size = 4, direction = "{direction}"> (x, w, r, b) }}'
        )
        program = program_of_model(onnx.parser.parse_model(text))
        found.append(pirkit.compile(program, pipeline="")(**given))
        given["x"] = np.ascontiguousarray(given["x"][::-1])
    np.testing.assert_array_equal(found[0]["y"], found[1]["y"][::-1])
    np.testing.assert_array_equal(found[0]["h"], found[1]["h"])
    assert np.ptp(found[0]["y"]) > 0.1


def _is_there(value: Any) -> bool:
    return value is not None
