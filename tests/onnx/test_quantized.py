"""Models that ONNX Runtime's quantizer writes, against ONNX Runtime, on the kernels for bytes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")

import pirkit  # noqa: E402
from pirkit.onnx import program_of_model  # noqa: E402

helper, TensorProto = onnx.helper, onnx.TensorProto
Array = np.ndarray[Any, Any]
WAYS = {
    "u8s8": ("QUInt8", "QInt8", "QDQ", True),
    "s8s8": ("QInt8", "QInt8", "QDQ", False),
    "u8u8": ("QUInt8", "QUInt8", "QDQ", False),
    "operators": ("QUInt8", "QInt8", "QOperator", True),
}


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, inputs: dict[str, Array]) -> None:
        self.left = iter([inputs])

    def get_next(self) -> Any:
        return next(self.left, None)


def network(random: np.random.Generator) -> tuple[Any, dict[str, Array]]:
    """Convolutions with padding and groups, a maximum of windows, a sum, a mean, a Gemm."""

    def weight(name: str, *shape: int) -> Any:
        size = np.float32(np.prod(shape[1:])) ** np.float32(0.5)
        values = random.standard_normal(shape).astype(np.float32) / size
        return onnx.numpy_helper.from_array(values, name)

    weights = [weight("a", 12, 3, 3, 3), weight("b", 12), weight("c", 12, 1, 3, 3),
               weight("d", 12, 12, 1, 1), weight("e", 10, 12), weight("f", 10)]  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "a", "b"], ["1"], "first", pads=[1, 1, 1, 1]),
        node("Relu", ["1"], ["2"]),
        node("MaxPool", ["2"], ["3"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["3", "c"], ["4"], group=12, pads=[1, 1, 1, 1]),
        node("Conv", ["4", "d"], ["5"]),
        node("Add", ["5", "3"], ["6"]),
        node("GlobalAveragePool", ["6"], ["7"]),
        node("Flatten", ["7"], ["8"]),
        node("Gemm", ["8", "e", "f"], ["y"], transB=1),
    ]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in (("x", [2, 3, 12, 10]), ("y", [2, 10]))]  # fmt: skip
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model, {"x": random.standard_normal((2, 3, 12, 10)).astype(np.float32)}


def run_both(model: Any, inputs: dict[str, Array], freeze: bool) -> tuple[Array, Array]:
    session = runtime.InferenceSession(model.SerializeToString(),
                                       providers=["CPUExecutionProvider"])  # fmt: skip
    exe = pirkit.compile(program_of_model(model), freeze=freeze)
    return next(iter(exe.run(inputs).values())), session.run(None, inputs)[0]


@pytest.mark.parametrize("way", WAYS)
def test_static(way: str, tmp_path: Path) -> None:
    """Each result is within one step of the last scale: a number between two may go either way."""
    activations, weights, form, per_channel = WAYS[way]
    logging.getLogger().setLevel(logging.ERROR)
    model, inputs = network(np.random.default_rng(0))
    onnx.save(model, tmp_path / "f.onnx")
    kinds, forms = quantization.QuantType, quantization.QuantFormat
    quantization.quantize_static(
        tmp_path / "f.onnx", tmp_path / "q.onnx", Calibration(inputs), per_channel=per_channel,
        quant_format=forms[form], activation_type=kinds[activations], weight_type=kinds[weights],
    )  # fmt: skip
    small = onnx.load(tmp_path / "q.onnx")
    names = [op.name for op in program_of_model(small).entry("main").block.ops]
    assert names.count("pir.quantized_conv2d") == 2
    assert names.count("pir.quantized_matmul") == 1
    for freeze in (True, False):
        found, wanted = run_both(small, inputs, freeze)
        step = np.unique(np.diff(np.unique(wanted.ravel()))).min()
        assert abs(found - wanted).max() <= 1.01 * step


@pytest.mark.parametrize("signed", [False, True])
def test_bytes_of_a_convolution_are_equal(signed: bool) -> None:
    """A zero point, padding, a bias: the sums are integers, and so is what is rounded."""
    random, kind = np.random.default_rng(1), np.int8 if signed else np.uint8
    x = random.integers(0, 256, (1, 20, 9, 11)).astype(np.uint8).view(kind)
    tensors = {
        "sx": np.float32(0.013), "zx": kind(11), "sy": np.float32(0.31), "zy": kind(100),
        "w": random.integers(-127, 128, (16, 20, 3, 3)).astype(np.int8),
        "sw": random.uniform(0.001, 0.02, 16).astype(np.float32), "zw": np.zeros(16, np.int8),
        "b": random.integers(-9000, 9000, 16).astype(np.int32),
    }  # fmt: skip
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]
    code = TensorProto.INT8 if signed else TensorProto.UINT8
    model = _model("QLinearConv", names, tensors, {"x": (code, x.shape)},
                   (code, (1, 16, 5, 6)), strides=[2, 2], pads=[1, 1, 1, 1])  # fmt: skip
    for freeze in (True, False):
        found, wanted = run_both(model, {"x": x}, freeze)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(wanted)) > 80


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_integer_matmul(kind: type) -> None:
    """Exact sums, of weights that less their zero point do not fit a byte too."""
    random = np.random.default_rng(2)
    x = random.integers(0, 256, (3, 5, 70)).astype(np.uint8)
    tensors = {"w": random.integers(0, 256, (70, 33)).astype(np.uint8).view(kind),
               "zx": np.uint8(7), "zw": kind(9)}  # fmt: skip
    given, sizes = {"x": (TensorProto.UINT8, x.shape)}, (3, 5, 33)
    names, made = ["x", "w", "zx", "zw"], (TensorProto.INT32, sizes)
    model = _model("MatMulInteger", names, tensors, given, made)
    model.graph.node.append(helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT))
    model.graph.output.pop()
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, sizes)
    model.graph.output.append(out)
    names = [op.name for op in program_of_model(model).entry("main").block.ops]
    assert "pir.quantized_matmul" in names
    assert "pd_op.matmul" not in names
    sums = x.astype(np.int64) - 7
    wanted = (sums @ (tensors["w"].astype(np.int64) - 9)).astype(np.float32)
    for freeze in (True, False):
        exe = pirkit.compile(program_of_model(model), freeze=freeze)
        np.testing.assert_array_equal(next(iter(exe.run({"x": x}).values())), wanted)


def test_dynamic(tmp_path: Path) -> None:
    """Zero points that are known at run time, beside padding."""
    model, inputs = network(np.random.default_rng(3))
    onnx.save(model, tmp_path / "f.onnx")
    quantization.quantize_dynamic(tmp_path / "f.onnx", tmp_path / "q.onnx",
                                  weight_type=quantization.QuantType.QInt8)  # fmt: skip
    small = onnx.load(tmp_path / "q.onnx")
    assert "ConvInteger" in {n.op_type for n in small.graph.node}
    for freeze in (True, False):
        found, wanted = run_both(small, inputs, freeze)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * abs(wanted).max())


def _model(
    op: str, names: list[str], tensors: dict[str, Any], inputs: dict[str, Any], out: Any,
    **how: Any,
) -> Any:  # fmt: skip
    held = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in tensors.items()]
    given = [helper.make_tensor_value_info(k, *v) for k, v in inputs.items()]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], "n", **how)], "g", given,
                              [helper.make_tensor_value_info("y", *out)], held)  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
