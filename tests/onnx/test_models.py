"""Whole models: read, run, transformed, frozen, written, and read again."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper, parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import pirkit  # noqa: E402
from pirkit.cli import opt  # noqa: E402
from pirkit.diag.errors import ArtifactError, UnsupportedError  # noqa: E402
from pirkit.dialect.operation import origin_of, span_of  # noqa: E402
from pirkit.frontend.random_inputs import random_inputs, random_weights  # noqa: E402
from pirkit.onnx import load_model, model_of_program, program_of_model  # noqa: E402
from pirkit.runtime.tolerance import drift  # noqa: E402

CNN = """
<ir_version: 8, opset_import: ["" : 17]>
cnn (float[N, 3, 12, 12] x) => (float[N, 5] y) {
  c = Conv <pads = [1, 1, 1, 1]> (x, w0, b0)
  n = BatchNormalization (c, scale, shift, mean, var)
  r = Relu (n)
  p = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (r)
  d = Conv <group = 4> (p, w1)
  g = GlobalAveragePool (d)
  s = Shape (g)
  zero = Constant <value_int = 0> ()
  n0 = Gather (s, zero)
  ax = Constant <value_ints = [0]> ()
  n1 = Unsqueeze (n0, ax)
  rest = Constant <value_ints = [-1]> ()
  to = Concat <axis = 0> (n1, rest)
  f = Reshape (g, to)
  m = Gemm <transB = 1> (f, w2, b2)
  y = Softmax (m)
}
"""
SHAPES = {"w0": (4, 3, 3, 3), "b0": (4,), "scale": (4,), "shift": (4,), "mean": (4,),
          "var": (4,), "w1": (4, 1, 3, 3), "w2": (5, 4), "b2": (5,)}  # fmt: skip


@pytest.fixture(scope="module")
def cnn() -> Any:
    draw = np.random.default_rng(0)
    model = parser.parse_model(CNN)
    for number, node in enumerate(model.graph.node):
        node.name = f"/{node.op_type}_{number}"
    for name, shape in SHAPES.items():
        array = draw.uniform(0.5, 1.5, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


X = np.random.default_rng(1).normal(size=(2, 3, 12, 12)).astype(np.float32)


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_model_runs_frozen_or_not(cnn: Any) -> None:
    (wanted,) = ReferenceEvaluator(cnn).run(None, {"x": X})
    program = program_of_model(cnn, sizes={"N": 2})
    close(pirkit.compile(program)(x=X)["y"], wanted)
    close(pirkit.compile(program, freeze=True)(x=X)["y"], wanted)


def test_a_model_is_frozen_unless_options_say_otherwise(cnn: Any) -> None:
    program = program_of_model(cnn)

    def is_frozen(made: Any, **options: Any) -> bool:
        found = pirkit.compile(made, **options).params
        return any(name.startswith("constant_") for name in found)

    assert is_frozen(program)
    assert is_frozen(program.copy())
    assert is_frozen(pickle.loads(pickle.dumps(program)))
    assert not is_frozen(program, freeze=False)
    assert not is_frozen(program, pipeline="@default")
    assert not is_frozen(program, backend="reference")
    assert not is_frozen(program, in_place=True)
    assert is_frozen(program, pipeline="@default", freeze=True)
    assert not is_frozen(pirkit.loads(str(program)), params=program.params)


def test_an_unknown_size_stays_unknown(cnn: Any) -> None:
    program = program_of_model(cnn)
    for batch in (1, 2):
        (wanted,) = ReferenceEvaluator(cnn).run(None, {"x": X[:batch]})
        close(pirkit.compile(program)(x=X[:batch])["y"], wanted)


def test_ops_know_their_nodes(cnn: Any, tmp_path: Path) -> None:
    path = tmp_path / "cnn.onnx"
    onnx.save(cnn, path)
    program = load_model(path, sizes={"N": 2})
    (op,) = (o for o in program.main.block.ops if o.name == "pd_op.relu")
    assert str(span_of(op)) == f"{path}:3"
    assert origin_of(op) == ("in layer `/Relu_2`",)
    assert set(program.params) == set(SHAPES)


def test_a_model_is_written_and_read_again(cnn: Any, tmp_path: Path) -> None:
    program = program_of_model(cnn, sizes={"N": 2})
    (wanted,) = ReferenceEvaluator(cnn).run(None, {"x": X})
    (found,) = ReferenceEvaluator(model_of_program(program)).run(None, {"x": X})
    close(found, wanted)
    pirkit.save(program, tmp_path / "again.onnx")
    close(pirkit.compile(pirkit.load(tmp_path / "again.onnx"))(x=X)["y"], wanted)


def test_what_paddle_exports_for_inference_is_written() -> None:
    """Its outputs are fetched, which is an op of its own."""
    program = pirkit.load(Path(pirkit.__file__).parent / "samples" / "lenet.json")
    model = model_of_program(program)
    (given,), (out,) = model.graph.input, model.graph.output
    x = np.linspace(-1, 1, 512, dtype=np.float32).reshape(2, 1, 16, 16)
    (found,) = ReferenceEvaluator(model).run(None, {given.name: x})
    close(found, pirkit.compile(program).run({given.name: x})[out.name])


def test_the_command_reads_and_writes(
    cnn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "cnn.onnx", tmp_path / "out.onnx"
    onnx.save(cnn, path)
    monkeypatch.setattr(sys, "argv", ["pirkit-opt", str(path), "-t", "mlir", "-p", "cse,dce"])
    assert opt.main() == 0
    assert "pd_op.conv2d" in capsys.readouterr().out
    fixed = onnx.load(path)
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(fixed, path)
    arguments = ["pirkit-opt", str(path), "-p", "@simplify", "-t", "onnx", "-o", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    assert opt.main() == 0
    (wanted,) = ReferenceEvaluator(cnn).run(None, {"x": X})
    (found,) = ReferenceEvaluator(onnx.load(out)).run(None, {"x": X})
    close(found, wanted)


def test_an_unknown_operator_is_refused_by_name() -> None:
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], name="/words", mode="TF",
                            max_gram_length=1, max_skip_count=0, min_gram_length=1,
                            ngram_counts=[0], ngram_indexes=[0], pool_int64s=[1])  # fmt: skip
    info = [helper.make_tensor_value_info(n, 1, [3]) for n in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", info[:1], info[1:]))
    with pytest.raises(UnsupportedError, match=r"PK0410.*TfIdfVectorizer.*:1") as caught:
        program_of_model(model)
    assert "/words" in caught.value.notes[0]
    assert "operator set" in caught.value.notes[0]


def test_a_value_that_must_be_known_is_asked_for() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "g (float[2, 3] x, int64[1] k) => (float[2, K] y, int64[2, K] i) { y, i = TopK (x, k) }"
    )
    with pytest.raises(UnsupportedError, match=r"PK0406.*k of `TopK` depends on `k`"):
        program_of_model(model)
    program = program_of_model(model, values={"k": np.array([2])})
    found = pirkit.compile(program)(x=np.array([[1, 3, 2], [6, 4, 5]], np.float32))
    np.testing.assert_array_equal(found["y"], [[3, 2], [6, 5]])


def test_a_loop_whose_end_is_data() -> None:
    model = parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
g (float x, int64 n) => (float y) {
  t = Constant <value = bool {1}> ()
  y = Loop (n, t, x) <body = b (int64 i, bool c, float v) => (bool d, float w) {
    d = Identity (c)
    w = Add (v, v)
  }>
}""")
    exe = pirkit.compile(program_of_model(model))
    for turns in (0, 3):
        found = exe(x=np.array(1.5, np.float32), n=np.array(turns))["y"]
        assert found == 1.5 * 2**turns


@pytest.mark.parametrize("count", [1, 4, 5])
def test_a_loop_of_few_iterations_that_data_ends(count: int) -> None:
    model = parser.parse_model(f"""
<ir_version: 8, opset_import: ["" : 17]>
g (float x) => (float y) {{
  n = Constant <value = int64 {{{count}}}> ()
  t = Constant <value = bool {{1}}> ()
  y = Loop (n, t, x) <body = b (int64 i, bool c, float v) => (bool d, float w) {{
    w = Add (v, v)
    m = Constant <value = float {{10.0}}> ()
    d = Less (w, m)
  }}>
}}""")
    exe = pirkit.compile(program_of_model(model))
    for given, turns in ((3.0, 2), (20.0, 1), (0.001, count)):
        found = exe(x=np.array(given, np.float32))["y"]
        assert found == np.float32(given) * 2 ** min(turns, count)


def test_damaged_files_are_refused(cnn: Any, tmp_path: Path) -> None:
    whole = cnn.SerializeToString()
    damaged = {"empty": b"", "text": b"not a model", "cut": whole[: len(whole) // 2]}
    for name, data in damaged.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(data)
        with pytest.raises(ArtifactError, match=name) as caught:
            pirkit.load(path)
        assert caught.value.code == "PK0506"
        assert "export" in (caught.value.help or "")
    with pytest.raises(ArtifactError, match="No such file"):
        pirkit.load(tmp_path / "missing.onnx")


@pytest.mark.parametrize("damage", ["short", "external"])
def test_weights_that_are_not_there_are_refused(cnn: Any, tmp_path: Path, damage: str) -> None:
    model = type(cnn)()
    model.CopyFrom(cnn)
    weight = model.graph.initializer[0]
    if damage == "short":
        weight.raw_data = weight.raw_data[:-4]
    else:
        weight.ClearField("raw_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="absent.bin")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ArtifactError, match=weight.name):
        pirkit.load(path)


@pytest.mark.parametrize("name", ["nowhere", "z"])
def test_names_that_nothing_computes_are_refused(name: str) -> None:
    node = "y = Add (x, nowhere)" if name == "nowhere" else "y = Relu (x)"
    output = "y" if name == "nowhere" else "z"
    head = '<ir_version: 8, opset_import: ["" : 17]> '
    with pytest.raises(ArtifactError, match=f"`{name}`"):
        program_of_model(
            parser.parse_model(f"{head} g (float[2] x) => (float[2] {output}) {{ {node} }}")
        )


CORPUS = Path(__file__).parents[1] / "corpus" / "paddle"
RECORDED = ("lenet", "attention", "pinn_2nd_order", "loss_mix", "inplace_ops", "indexing_mix",
            "gn_euler_beam_residual", "output_is_input_and_repeated")  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_programs_are_written_as_they_are(name: str) -> None:
    """Their axes and sizes are operands, some write in place, and some ops have no form in ONNX."""
    program = pirkit.load(CORPUS / name / "program.txt")
    ports = pirkit.compile(program, backend="reference", pipeline="").plan
    program.params = random_weights(ports.params, 0)
    inputs = random_inputs(ports.inputs, 0)
    expected = pirkit.compile(program, backend="reference", pipeline="").run(inputs)
    model = model_of_program(program)
    given = {v.name: inputs[v.name] for v in model.graph.input}
    found = ReferenceEvaluator(model).run(None, given)
    assert len(found) == len(expected)
    for one, other in zip(found, expected.values(), strict=True):
        assert np.shape(one) == other.shape
        assert drift(np.asarray(one), other) is None


def test_numbers_are_written_with_rank_0() -> None:
    program = pirkit.loads("""pir.program @main() {
  %y = pd_op.full() {shape = array<i64>, value = 2.0 : f64, dtype = #pir.dtype<float32>,
                     place = #pir.place<cpu:0>} : () -> tensor<f32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<f32>) -> ()
}""")
    (constant,) = model_of_program(program).graph.initializer
    assert numpy_helper.to_array(constant).shape == ()


def test_a_signal_without_a_last_dimension_is_real() -> None:
    """torch.onnx.export writes such an STFT, which ONNX Runtime runs."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    frames (float[2, 40SIZES] x, float[16] w) => (float[2, 7, 9, 2] y) {
      step = Constant <value_int = 4> ()
      y = STFT (x, step, w)
    }
    """
    x = np.random.default_rng(0).standard_normal((2, 40)).astype(np.float32)
    window = np.hanning(16).astype(np.float32)
    found: list[Any] = []
    for sizes, signal in (("", x), (", 1", x[..., None])):
        program = program_of_model(parser.parse_model(text.replace("SIZES", sizes)))
        found.append(pirkit.compile(program)(x=signal, w=window)["y"])
    np.testing.assert_array_equal(*found)
