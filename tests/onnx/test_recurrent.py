"""Recurrent layers are written as nodes of ONNX, and read again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import pirkit
from pirkit.dialect.opdef import lookup
from pirkit.onnx import model_of_program, program_of_model
from pirkit.runtime import dtype as dt
from tests.ops.calls import calls

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
    wanted, found = first(**inputs), again(**inputs)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


def _is_there(value: Any) -> bool:
    return value is not None
