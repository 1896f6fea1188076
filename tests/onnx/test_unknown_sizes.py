"""Operators whose inputs have unknown sizes, as exported with dynamic axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper

import pirkit
from pirkit.diag.errors import DynamicShapeError
from pirkit.onnx import program_of_model

X = np.random.default_rng(0).standard_normal((3, 4, 6, 6)).astype(np.float32)
INDEX = np.array([[0, -1, 2], [1, 0, 2]])


def numbers(*values: int) -> Any:
    return np.array(values, np.int64)


def found(nodes: list[Any], known: dict[str, Any], **inputs: Any) -> Any:
    """What a graph computes from inputs of unknown sizes; ``known`` are its constants."""
    kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
    given = [helper.make_tensor_value_info(n, kinds[a.dtype.kind],
                                           [f"{n}{d}" for d in range(a.ndim)])
             for n, a in inputs.items()]  # fmt: skip
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in known.items()]
    graph = helper.make_graph(nodes, "g", given, [out], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return pirkit.compile(program_of_model(model))(**inputs)["out"]


def node(kind: str, *names: str, **how: Any) -> Any:
    *inputs, out = names
    return helper.make_node(kind, inputs, [out], **how)


SIZE = [node("Shape", "x", "shape"), node("Gather", "shape", "last", "length")]
"""The size of the last dimension, as a vector."""


@pytest.mark.parametrize("axis", [0, 1])
def test_gather(axis: int) -> None:
    made = found([node("Gather", "x", "i", "out", axis=axis)], {}, x=X[..., 0], i=INDEX)
    np.testing.assert_array_equal(made, np.take(X[..., 0], INDEX, axis=axis))


def test_range_and_slice() -> None:
    nodes = [*SIZE, node("Squeeze", "length", "count"),
             node("Range", "zero", "count", "one", "places"),
             node("Gather", "table", "places", "rows"),
             node("Slice", "x", "one1", "length", "axes", "rest"),
             node("ReduceSum", "rest", "sum", keepdims=0),
             node("Add", "rows", "sum", "out")]  # fmt: skip
    table = np.arange(20, dtype=np.float32)
    known = {"last": numbers(1), "zero": np.int64(0), "one": np.int64(1), "table": table,
             "one1": numbers(1), "axes": numbers(1)}  # fmt: skip
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    made = found(nodes, known, x=x)
    np.testing.assert_array_equal(made, table[:6] + x[:, 1:].sum())


def test_tile() -> None:
    made = found([*SIZE, node("Tile", "t", "length", "out")], {"last": numbers(1)}, x=X[0, 0],
                 t=X[0, 0, 0])  # fmt: skip
    np.testing.assert_array_equal(made, np.tile(X[0, 0, 0], 6))


def test_gather_elements() -> None:
    x = X[0, 0]
    made = found([node("GatherElements", "x", "i", "out", axis=0)], {}, x=x, i=INDEX % 6)
    np.testing.assert_array_equal(made, np.take_along_axis(x[:, :3], INDEX % 6, 0))


@pytest.mark.parametrize("kind", ["GatherND", "TopK"])
def test_gather_nd_and_top_k(kind: str) -> None:
    if kind == "TopK":
        top = helper.make_node("TopK", ["x", "k"], ["out", "places"])
        made = found([top], {"k": numbers(2)}, x=X[0, 0])
        np.testing.assert_array_equal(made, -np.sort(-X[0, 0], -1)[:, :2])
        return
    made = found([node("GatherND", "x", "at", "out")], {"at": INDEX[:, :2]}, x=X[0, 0])
    np.testing.assert_array_equal(made, X[0, 0][INDEX[:, 0], INDEX[:, 1]])


def test_upsampling() -> None:
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
           "nearest_mode": "floor"}  # fmt: skip
    scales = np.array([1, 1, 2, 3], np.float32)
    made = found([node("Resize", "x", "", "scales", "out", **how)], {"scales": scales}, x=X)
    np.testing.assert_array_equal(made, X.repeat(2, 2).repeat(3, 3))


def test_transposed_convolution() -> None:
    filters = np.random.default_rng(1).standard_normal((4, 2, 3, 3)).astype(np.float32)
    nodes = [node("ConvTranspose", "x", "w", "out", strides=[2, 2], pads=[1, 1, 1, 1])]
    made = found(nodes, {"w": filters}, x=X)
    full = np.zeros((3, 2, 13, 13), np.float32)
    for i in range(3):
        for j in range(3):
            full[..., i : i + 12 : 2, j : j + 12 : 2] += np.einsum(
                "nchw,ck->nkhw", X, filters[:, :, i, j]
            )
    np.testing.assert_allclose(made, full[..., 1:-1, 1:-1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["MaxPool", "LpPool"])
def test_pooling_with_uneven_padding(kind: str) -> None:
    how = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [1, 2]}
    made = found([node(kind, "x", "out", **how, **({"p": 1} if kind == "LpPool" else {}))], {}, x=X)
    low = -np.inf if kind == "MaxPool" else 0.0
    wide = np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 1)), constant_values=low)
    parts = [wide[:, :, i : i + 5 : 2, j : j + 5] for i in range(3) for j in (0, 2)]
    wanted = np.max(parts, 0) if kind == "MaxPool" else np.abs(parts).sum(0)
    np.testing.assert_allclose(made, wanted, rtol=1e-5)


@pytest.mark.parametrize("kind", ["MaxPool", "Conv"])
def test_padding_that_depends_on_an_unknown_size_is_refused(kind: str) -> None:
    """With a stride of 2 `SAME_UPPER` pads odd sizes otherwise than even ones."""
    names = ["x", "w", "out"] if kind == "Conv" else ["x", "out"]
    how = {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}
    known = {"w": np.ones((2, 4, 3, 3), np.float32)} if kind == "Conv" else {}
    with pytest.raises(DynamicShapeError, match=kind):
        found([node(kind, *names, strides=[2, 2], **how)], known, x=X)
    assert found([node(kind, *names, **how)], known, x=X).shape[2:] == (6, 6)


@pytest.mark.parametrize(("start", "end", "step"), [(0, -1, 1), (1, -1, 1), (0, -1, 2), (2, 2, 1)])
def test_slices_that_end_before_the_last(start: int, end: int, step: int) -> None:
    known = {"s": numbers(start), "e": numbers(end), "a": numbers(3), "k": numbers(step)}
    made = found([node("Slice", "x", "s", "e", "a", "k", "out")], known, x=X)
    np.testing.assert_array_equal(made, X[..., start:end:step])


def test_a_transposed_convolution_that_is_cut_by_one() -> None:
    how = {"strides": [2, 1], "pads": [0, 0, 0, 1], "output_padding": [1, 0]}
    filters = np.ones((4, 1, 1, 2), np.float32)
    made = found([node("ConvTranspose", "x", "w", "out", **how)], {"w": filters}, x=X)
    assert made.shape == (3, 1, 12, 6)
    sums = X.sum(1)
    np.testing.assert_allclose(made[:, 0, ::2, 1:], sums[..., 1:] + sums[..., :-1], atol=1e-5)


def test_sums_over_a_channel_neighborhood() -> None:
    made = found([node("LRN", "x", "out", size=2, alpha=1.0, beta=1.0, bias=1.0)], {}, x=X)
    squares = X**2
    squares[:, :-1] += X[:, 1:] ** 2
    np.testing.assert_allclose(made, X / (1 + squares / 2), rtol=1e-5)


def test_cubic_samples_need_the_sizes_of_the_image() -> None:
    with pytest.raises(DynamicShapeError, match="GridSample"):
        found([node("GridSample", "x", "g", "out", mode="bicubic")], {}, x=X, g=X[:, :, :, :2])


def test_long_sums_of_bytes_are_exact() -> None:
    x = np.full((1, 20000), 255, np.uint8)
    x[0, 0] = 254
    given = helper.make_tensor_value_info("x", TensorProto.UINT8, ["n", "k"])
    out = helper.make_tensor_value_info("out", TensorProto.INT32, None)
    held = numpy_helper.from_array(np.full((20000, 1), 255, np.uint8), "w")
    graph = helper.make_graph([node("MatMulInteger", "x", "w", "out")], "g", [given], [out], [held])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made = pirkit.compile(program_of_model(model))(x=x)["out"]
    assert made.item() == (20000 * 255 - 1) * 255


def test_lstm() -> None:
    draw = np.random.default_rng(2).standard_normal
    w, r = (draw((1, 20, n)).astype(np.float32) for n in (6, 5))
    made = found([node("LSTM", "x", "w", "r", "out", hidden_size=5)], {"w": w, "r": r}, x=X[0])
    h = c = np.zeros((6, 5), np.float32)
    for row, x in zip(made, X[0], strict=True):
        i, o, f, g = np.split(x @ w[0].T + h @ r[0].T, 4, axis=1)
        sigmoid = [1 / (1 + np.exp(-v)) for v in (i, o, f)]
        c = sigmoid[2] * c + sigmoid[0] * np.tanh(g)
        h = sigmoid[1] * np.tanh(c)
        np.testing.assert_allclose(row[0], h, rtol=1e-4, atol=1e-5)
