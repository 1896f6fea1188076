"""Nodes that leave out what they need, or give it another type, are refused with a code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, save

import pirkit
from pirkit.diag.errors import PirkitError
from pirkit.onnx import program_of_model


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


@pytest.mark.parametrize(
    ("op", "shape", "given", "attributes"),
    [
        ("Squeeze", [3, 1], [0], {}),
        ("Squeeze", [1, 1, 3], [0, 0], {}),
        ("Unsqueeze", [2], [0, 0], {}),
        ("Flatten", [2, 3], None, {"axis": 9}),
        ("Flatten", [2, 3], None, {"axis": -3}),
        ("Split", [3], [1, 1], {}),
        ("Split", [3], [-1, 4], {}),
        ("Pad", [2, 3], [1] * 6, {}),
        ("Tile", [2, 3], [2, 2, 2], {}),
        ("Reshape", [2, 3], [-1, -1], {}),
        ("Reshape", [0, 3], [2, 3], {}),
        ("Reshape", [2, 3], [0, 3], {"allowzero": 1}),
    ],
)
def test_numbers_that_do_not_fit_the_shape_are_refused(
    op: str, shape: list[int], given: list[int] | None, attributes: dict[str, Any]
) -> None:
    listed = [] if given is None else [
        helper.make_tensor("n", TensorProto.INT64, [len(given)], given)]  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *(n.name for n in listed)], ["y"], **attributes)], "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], listed,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    with pytest.raises(PirkitError) as caught:
        program_of_model(model)
    assert caught.value.code == "PK0410"


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
