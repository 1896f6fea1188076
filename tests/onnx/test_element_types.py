"""Results have the element types that ONNX gives them, and integers are truncated as there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import parser

import pirkit
from pirkit.onnx import program_of_model


def computed(types: str, body: str, x: Any) -> list[Any]:
    """The outputs of a graph of `x`; ``types`` are those of its input and its outputs."""
    given, *outputs = types.split()
    names = ", ".join(f"{t} y{i}" for i, t in enumerate(outputs))
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    text = f"{head} g ({given} x) => ({names}) {{ {body} }}"
    return list(pirkit.compile(program_of_model(parser.parse_model(text)))(x=x).values())


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    ("op", "wanted"), [("ReduceL2", 7), ("ReduceLogSum", 2), ("ReduceLogSumExp", 6)]
)
def test_reductions_of_integers(kind: str, op: str, wanted: int) -> None:
    """sqrt(57) = 7.5, log(11) = 2.4 and log(e^4 + e^5 + e^2 + ...) = 5.x, truncated."""
    (found,) = computed(f"{kind}[4] {kind}[1]", f"y0 = {op} (x)", np.array([4, 6, -1, 2], kind))
    assert found.dtype == kind
    assert found.tolist() == [wanted]


def test_shrink_of_integers() -> None:
    body = "y0 = Shrink <bias = 0.25, lambd = 1.5> (x)"
    (found,) = computed("int32[4] int32[4]", body, np.array([3, -3, 1, 0], np.int32))
    assert found.tolist() == [2, -2, 0, 0]


def test_the_mean_of_a_layer_norm_is_float32() -> None:
    body = "s = Constant <value = double[2] {1, 2}> () y0, y1, y2 = LayerNormalization (x, s)"
    x = np.array([[1.0, 2.0], [3.0, 5.0]])
    out, mean, inverse = computed("double[2,2] double[2,2] float[2,1] float[2,1]", body, x)
    assert [v.dtype.name for v in (out, mean, inverse)] == ["float64", "float32", "float32"]
    np.testing.assert_array_equal(mean, [[1.5], [4.0]])
