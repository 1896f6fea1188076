"""Nodes that leave out what they need, or give it another type, are refused with a code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, save

import pirkit
from pirkit.diag.errors import PirkitError


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "told"),
    [
        ("Greater", ("", "x"), {}, "`Greater` has nothing as `x`"),
        ("Max", ("x", ""), {}, "`Max` has nothing as `values`"),
        ("Concat", ("x", "x"), {"axis": "first"}, "`axis` as STRING, where it takes INT"),
        ("Transpose", ("x",), {"perm": 1}, "`perm` as INT, where it takes INTS"),
        ("Relu", ("x",), {"slope": 1.0}, "`Relu` has no attribute `slope`"),
        ("Softmax", ("x",), {"Axis": 0}, "`Softmax` has no attribute `Axis`"),
        ("MeanVarianceNormalization", ("x",), {"axess": [0]}, "no attribute `axess`"),
        ("Constant", (), {"value": 1}, "`value` as INT, where it takes TENSOR"),
        ("If", ("x",), {"then_branch": 1}, "`then_branch` as INT, where it takes GRAPH"),
        ("Scan", ("x",), {"num_scan_inputs": 2**62}, "do not fit together"),
        ("Split", ("x",), {"num_outputs": 2**33}, "more than the limit `list_elements`"),
        ("MaxPool", ("x",), {"kernel_shape": [2, 2, 2]}, "do not fit together"),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, op: str, inputs: tuple[str, ...], attributes: dict[str, Any], told: str
) -> None:
    sort = TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(op, inputs, ["y"], **attributes)], "main",
        [helper.make_tensor_value_info("x", sort, [2])],
        [helper.make_tensor_value_info("y", sort, None)],
    )  # fmt: skip
    path = tmp_path / "damaged.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), str(path))
    with pytest.raises(PirkitError, match=told) as caught:
        pirkit.load(str(path))
    assert caught.value.code in ("PK0410", "PK0300")


@pytest.mark.parametrize(("ends", "steps"), [([2], [0]), ([2, 2], [1])])
def test_slices_without_a_step_or_an_end_are_refused(
    tmp_path: Path, ends: list[int], steps: list[int]
) -> None:
    given = {"s": [0], "e": ends, "a": [0], "t": steps}
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", *given], ["y"])], "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor(n, TensorProto.INT64, [len(v)], v) for n, v in given.items()],
    )  # fmt: skip
    path = tmp_path / "damaged.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), str(path))
    with pytest.raises(PirkitError, match="bounds that do not fit") as caught:
        pirkit.load(str(path))
    assert caught.value.code == "PK0410"
