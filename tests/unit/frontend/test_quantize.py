"""Programs with weights of fewer bits: accuracy, saving, refusals, caches in place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import pirkit
from benchmarks.networks.building import Built, Net
from benchmarks.networks.sequences import bert, gpt_decode
from pirkit.diag.errors import PirkitError, UsageError
from pirkit.dialect.program import Program
from tests.execution import Array, parsed

SMALL = {"length": 7, "width": 32, "heads": 2, "layers": 2, "vocabulary": 61}
DECODER = {"capacity": 8, "width": 32, "heads": 2, "layers": 2, "vocabulary": 50}
WAYS = [
    ({}, 30.0, 0.35),
    ({"weights": "bfloat16"}, 42.0, 0.6),
    ({"weights": "float16"}, 60.0, 0.6),
    ({"activations": "int8"}, 25.0, 0.35),
    ({"activations": "int8", "static": True}, 25.0, 0.35),
]


@pytest.mark.parametrize(("how", "least", "size"), WAYS)
def test_a_network(how: dict[str, str], least: float, size: float, tmp_path: Path) -> None:
    """The report tells the differences, and a saved program has the same numbers."""
    built = bert(**SMALL)
    made, report = pirkit.quantize(built.program, built.inputs, min_elements=512, **how)
    assert report.after < size * report.before
    assert len(report.layers) >= 12
    assert min(each.snr for each in (*report.layers, *report.outputs)) > least
    assert all("only matmuls, convolutions and embeddings" in why for why in report.kept)
    pirkit.save(made, tmp_path / "small.json")
    read = pirkit.compile(pirkit.load(tmp_path / "small.json"), freeze=True)
    found = pirkit.compile(made, freeze=True).run(built.inputs)
    wanted = pirkit.compile(built.program).run(built.inputs)
    for row in report.outputs:
        np.testing.assert_array_equal(read.run(built.inputs)[row.name], found[row.name])
        assert abs(found[row.name] - wanted[row.name]).max() == pytest.approx(row.error, rel=0.05)
        assert row.name in str(report)


@pytest.mark.parametrize("how", [{}, {"weights": "bfloat16"}, {"activations": "int8"}])
def test_onnx_and_back(how: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    built = bert(**{**SMALL, "layers": 1})
    made, _ = pirkit.quantize(built.program, min_elements=512, **how)
    pirkit.save(pirkit.run_passes(made, "@simplify"), tmp_path / "small.onnx")
    found = pirkit.compile(pirkit.load(tmp_path / "small.onnx")).run(built.inputs)
    wanted = pirkit.compile(made, freeze=True).run(built.inputs)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5)


@given(arrays(np.float32, (5, 7), elements=st.floats(-1e4, 1e4, width=32)))
@settings(deadline=None, max_examples=50)
def test_rounding_is_at_most_half_a_step(w: Array) -> None:
    """Each weight moves by half of a 127th of its column's largest magnitude at most."""
    program = Program(parsed(TEXT), {"w": w})
    made, _ = pirkit.quantize(program, min_elements=1)
    found = pirkit.compile(made, backend="reference")(x=np.eye(5, dtype=np.float32))["y"]
    step = abs(w).max(axis=0) / 127
    assert (abs(found - w) <= 0.5001 * step + 1e-30).all()


TEXT = """pir.program @main(%x "x" : tensor<5x5xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<5x7xf32>
  %y = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<5x5xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<5x7xf32>) -> ()
}"""  # noqa: E501


def test_zeros_and_large_numbers() -> None:
    """A column of zeros has a scale; static ranges cut what is larger."""
    w = np.zeros((5, 7), np.float32)
    w[:, 1] = 1
    program = Program(parsed(TEXT), {"w": w})
    x = np.ones((5, 5), np.float32)
    made, _ = pirkit.quantize(program, {"x": x}, activations="int8", static=True, min_elements=1)
    found = pirkit.compile(made, freeze=True)
    np.testing.assert_allclose(found(x=x)["y"][:, :3], [[0, 5, 0]] * 5, rtol=1e-6)
    np.testing.assert_allclose(found(x=3 * x)["y"][:, :3], [[0, 5, 0]] * 5, rtol=1e-6)
    made, _ = pirkit.quantize(program, activations="int8", min_elements=1)
    found = pirkit.compile(made, freeze=True)
    np.testing.assert_allclose(found(x=3 * x)["y"][:, :3], [[0, 15, 0]] * 5, rtol=1e-6)
    np.testing.assert_array_equal(found(x=0 * x)["y"], 0 * w)


def test_refusals() -> None:
    program = Program(parsed(TEXT), {"w": np.zeros((5, 7), np.float32)})
    with pytest.raises(UsageError, match="PK0701"):
        pirkit.quantize(program, activations="int8", static=True)
    with pytest.raises(UsageError, match="PK0703"):
        pirkit.quantize(program, weights="int4")
    with pytest.raises(UsageError, match="PK0703"):
        pirkit.run_passes(program, "quantize{ranges=w}")
    with pytest.raises(UsageError, match="PK0703"):
        pirkit.run_passes(program, "quantize{weights=bfloat16,activations=int8}")
    made, report = pirkit.quantize(program, keep=["w"], min_elements=1)
    assert "option `keep`" in report.kept[0]
    assert made.params["w"].dtype == np.float32


def test_no_derivative() -> None:
    program = Program(parsed(TEXT), {"w": np.ones((5, 7), np.float32)})
    small = pirkit.run_passes(program, "quantize{min-elements=1}")
    with pytest.raises(PirkitError, match=r"PK0\d\d\d.*quantized_matmul"):
        pirkit.run_passes(small, "autodiff{wrt=x,targets=y}")


@pytest.mark.parametrize("how", [None, {}, {"activations": "int8"}])
def test_decoding_with_a_cache_in_place(how: dict[str, str] | None) -> None:
    """Token by token, with the numbers of the program that gets its caches as inputs."""
    held, plain = gpt_decode(**DECODER), gpt_decode(**DECODER, held=False)
    own = [v for v in held.program.params.values() if v.shape != (16, 16)]
    for value, other in zip(own, plain.program.params.values(), strict=True):
        other[...] = value
    program = held.program
    if how is not None:
        program = pirkit.quantize(program, min_elements=512, **how)[0]
    exe = pirkit.compile(program, freeze=True, in_place=True)
    assert "assign_out_" not in str(exe.plan)  # no kernel copies a cache
    wanted = pirkit.compile(plain.program)
    names = [name for name in plain.inputs if name not in ("token", "place")]
    caches = {name: np.zeros_like(plain.inputs[name]) for name in names}
    spaces = {n: a for n, a in exe.params.items() if a.shape == (16, 16)}
    for place in range(4):
        step = {"token": np.array([place * 7]), "place": np.array([place])}
        found, outputs = exe.run(step)["y0"], wanted.run({**step, **caches})
        assert abs(found - outputs["y0"]).max() < (1e-5 if how is None else 0.2)
        for k, name in enumerate(names):
            caches[name][:, place] = outputs[f"y{k + 1}"][:, 0]
    assert len(spaces) == 4
    assert all(exe.params[name] is array for name, array in spaces.items())
    assert all(np.count_nonzero(abs(a).sum(axis=1)) == 2 * 4 for a in spaces.values())


def convolutions() -> Built:
    """Signed and unsigned images, summands, maxima of windows, few channels, a filter of each."""
    net = Net()
    x = net.input("x", (2, 3, 17, 18))
    x = net.pool(net.b.relu(net.norm(net.conv(x, 24, 5, 2, 2))), 3, 2, 1)
    y = net.b.relu(net.norm(net.conv(x, 24, 3)))
    x = net.b.relu(x + net.norm(net.conv(y, 24, 3)))  # a summand in uint8
    z = net.norm(net.conv(x, 40, 1))  # with negative numbers
    z = z + net.norm(net.conv(z, 40, 3))
    depthwise = net.b.hardswish(net.norm(net.conv(z, 40, 3, groups=40)))
    return net.built(net.head(net.conv(depthwise, 10, 1, bias=True), 5))


CONVOLUTIONS = [({}, 30.0), ({"static": True}, 28.0)]


@pytest.mark.parametrize(("how", "least"), CONVOLUTIONS)
def test_a_network_of_convolutions(how: dict[str, bool], least: float, tmp_path: Path) -> None:
    """The numbers are near those of float32, the same frozen or not, and after saving."""
    built = convolutions()
    made, report = pirkit.quantize(
        built.program, built.inputs, activations="int8", min_elements=10, **how
    )
    assert min(each.snr for each in (*report.layers, *report.outputs)) > least
    assert [each.op for each in report.layers].count("pd_op.conv2d") == 6
    assert sum("depthwise" in why for why in report.kept) == 1
    frozen = pirkit.compile(made, freeze=True)
    assert "one native call" in repr(frozen)
    found = frozen.run(built.inputs)["y0"]
    plain = pirkit.compile(made, backend="reference").run(built.inputs)["y0"]
    np.testing.assert_allclose(found, plain, rtol=1e-3, atol=1e-3 * abs(plain).max())
    pirkit.save(made, tmp_path / "small.json")
    read = pirkit.compile(pirkit.load(tmp_path / "small.json"), freeze=True)
    np.testing.assert_array_equal(read.run(built.inputs)["y0"], found)
    pytest.importorskip("onnx")
    pirkit.save(pirkit.run_passes(made, "@simplify"), tmp_path / "small.onnx")
    again = pirkit.compile(pirkit.load(tmp_path / "small.onnx")).run(built.inputs)["y0"]
    np.testing.assert_allclose(again, plain, rtol=1e-3, atol=1e-3 * abs(plain).max())


def test_weights_of_half_precision_stay_and_that_is_told() -> None:
    b = pirkit.ProgramBuilder()
    weights = np.ones((64, 32), np.float16)
    b.output("y", b.matmul(b.input("x", (2, 64), "float16"), b.parameter("w", weights)))
    made, report = pirkit.quantize(b.finish())
    assert made.params["w"].dtype == np.float16
    (why,) = report.kept
    assert "`pd_op.matmul` keeps its weights" in why
    assert "these are float16" in why


@pytest.mark.parametrize("options", ["keep=u", "ranges=u:3", "ranges=w:inf"])
def test_a_parameter_that_is_not_there_is_refused(options: str) -> None:
    with pytest.raises(UsageError, match="PK0703"):
        pirkit.run_passes(Program(parsed(TEXT)), f"quantize{{{options}}}")


def test_sums_that_may_leave_int32_stay() -> None:
    """The weights say how long they are, also where the activations do not."""
    program = pirkit.loads("""pir.program @main(%x "x" : tensor<2x?xf32>) {
      %w = pir.parameter() {parameter_name = "w"} : () -> tensor<140000x2xf32>
      %y = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false}
        : (tensor<2x?xf32>, tensor<140000x2xf32>) -> tensor<2x2xf32>
      pir.shadow_output(%y) {output_name = "y"} : (tensor<2x2xf32>) -> ()
    }""")
    _, result = pirkit.run_passes(program, "quantize{activations=int8}", stats=True)
    assert "140,000 products" in result.remarks[0].message
