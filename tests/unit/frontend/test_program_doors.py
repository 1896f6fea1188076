"""Programs from strings, from the builder and from marked arguments; calls of programs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import ParseError, PirkitError, UnsupportedError, UsageError
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta

LENET = Path("tests/corpus/paddle/mlp")
DUMP = """{
    (%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[-1],stop_gradient:[false]} : () -> tensor<-1xf32>
    (%1) = "pd_op.sin" (%0) {stop_gradient:[false]} : (tensor<-1xf32>) -> tensor<-1xf32>
    (%2) = "pd_op.multiply" (%1, %0) {stop_gradient:[false]} : (tensor<-1xf32>, tensor<-1xf32>) -> tensor<-1xf32>
}
"""  # noqa: E501
X = np.linspace(-1, 1, 5, dtype=np.float32)


def test_a_dump_without_outputs_is_not_emptied_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "pirkit"):
        left = pirkit.run_passes(pirkit.loads(DUMP), "dce")
    assert "sin" not in str(left)
    assert "--outputs %10" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "pirkit"):
        kept = pirkit.run_passes(pirkit.loads(DUMP, outputs=["%2", "%1"]), "dce")
    assert not caplog.text
    found = pirkit.compile(kept)(x=X)
    np.testing.assert_allclose(found["output_0"], np.sin(X) * X, rtol=1e-6)
    np.testing.assert_allclose(found["output_1"], np.sin(X), rtol=1e-6)


def test_an_output_that_the_dump_does_not_have() -> None:
    with pytest.raises(ParseError, match="%7"):
        pirkit.loads(DUMP, outputs=["%7"])
    with pytest.raises(UsageError, match="outputs"):
        pirkit.loads(str(pirkit.loads(DUMP)), outputs=["%1"])


def test_a_program_is_a_function_inside_transforms() -> None:
    net = pirkit.loads(DUMP, outputs=["%2"])
    slope = np.cos(X) * X + np.sin(X)
    bend = 2 * np.cos(X) - X * np.sin(X)
    np.testing.assert_allclose(net(X), np.sin(X) * X, rtol=1e-6)
    np.testing.assert_allclose(pirkit.grad(lambda x: net(x).sum())(X), slope, rtol=1e-5)
    np.testing.assert_allclose(pirkit.jvp(net, (X,), (1.0,))[1], slope, rtol=1e-5)
    _, series = pirkit.jet(net, (X,), ((1.0, 0.0),))
    np.testing.assert_allclose(series[1], bend, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(pirkit.jit(lambda x: net(x=x) + 1)(X), np.sin(X) * X + 1, rtol=1e-6)


def test_wrong_calls_of_a_program() -> None:
    net = pirkit.loads(DUMP, outputs=["%2"])
    with pytest.raises(UsageError, match="takes `x`"):
        net()
    with pytest.raises(UsageError, match="input `x`"):
        net(X.reshape(1, 5))
    b = pirkit.ProgramBuilder()
    x = b.input("x", (2,))
    state = b.parameter("state", np.zeros(2, np.float32), trainable=False)
    b.output("y", b.assign_out_(x, state) * 2.0)
    with pytest.raises(UsageError, match="writes `state`"):
        b.finish()(np.ones(2, np.float32))


def test_the_network_of_a_file_has_its_weights() -> None:
    net = pirkit.load(LENET / "model.json")
    exe = pirkit.compile(net)
    inputs = {n: np.ones([abs(d) for d in m.shape], m.dtype.np) for n, m in _inputs(net).items()}
    (want,) = exe(**inputs).values()
    np.testing.assert_allclose(net(*inputs.values()), want, rtol=1e-5)


def _inputs(net: pirkit.Program) -> dict[str, TensorMeta]:
    from pirkit.dialect.types import meta_of

    ops = [op for op in net.main.operations if op.name == "pd_op.data"]
    return {op.attribute("name"): meta_of(op.results[0].type) for op in ops}


def test_the_builder_makes_parameters_and_writes_in_place() -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (3,), "float64")
    w = b.parameter("w", np.arange(3.0))
    b.output("y", b.relu_(x - w))
    program = b.finish()
    assert "pd_op.relu_(" in str(program)
    assert "pir.parameter" in str(program)
    np.testing.assert_array_equal(program(np.ones(3)), [1, 0, 0])
    with pytest.raises(AttributeError, match="matmul_"):
        _ = pirkit.ProgramBuilder().matmul_
    with pytest.raises(UsageError, match="taken"):
        pirkit.ProgramBuilder().parameter("w", np.ones(1)).b.parameter("w", np.ones(1))
    with pytest.raises(PirkitError):
        b.relu(x)  # the program is finished


def test_the_builder_refuses_what_an_op_does_not_take() -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (2, 3))
    with pytest.raises(TypeError, match=r"`pd_op\.mean` has 2 operands too many; attributes"):
        b.mean(x, (1,), False)
    with pytest.raises(TypeError, match=r"`pd_op\.mean` has no `axes`; attributes"):
        b.mean(x, axes=(1,))


def test_marked_arguments_of_trace_are_parameters() -> None:
    weights = {"w": np.full((2, 2), 2.0), "b": np.ones(2)}
    program = pirkit.trace(
        lambda x, p: x @ p["w"] + p["b"], np.ones((1, 2)), pirkit.parameters(weights)
    )
    assert set(program.params) == {"p.w", "p.b"}
    np.testing.assert_array_equal(program(np.ones((1, 2))), [[5, 5]])
    parts = pirkit.split.forward_backward(program)
    assert parts.names.fp == ("p.b", "p.w")
    assert None not in parts.names.bp_g


def test_two_derivatives_with_respect_to_one_input() -> None:
    net = pirkit.loads(DUMP, outputs=["%2"])
    twice = pirkit.run_passes(net, "autodiff{wrt=x},autodiff{wrt=x,targets=x_grad}")
    found = pirkit.compile(twice)(x=X)
    bend = 2 * np.cos(X) - X * np.sin(X)
    np.testing.assert_allclose(found["x_grad_grad"], bend, rtol=1e-4, atol=1e-5)


def test_the_end_of_a_chain_of_a_parameter_is_read_in_the_parameter() -> None:
    """A1..A4 of PaddlePaddle/Paddle#63040: the middle A4 is replaced by its source A1."""
    b = pirkit.ProgramBuilder()
    x = b.input("x", (4,))
    a4 = b.tanh_(b.sin_(b.exp_(b.parameter("p", np.ones(4, np.float32), trainable=False))))
    b.output("y", a4 * x)
    step = pirkit.split.RunnableProgram(pirkit.split.forward_backward(b.finish()))
    assert step.names.fm == step.names.bm == ("p",)
    p, want = pirkit.tensor(np.ones(4, np.float32)), np.ones(4, np.float32)
    one = pirkit.tensor(np.ones(4, np.float32))
    for _ in range(3):
        outputs = step.forward([one], [p])
        ((found,), _) = step.backward([one], outputs)
        want = np.tanh(np.sin(np.exp(want)))
        np.testing.assert_allclose(found, want, rtol=1e-6)
        np.testing.assert_allclose(p, want, rtol=1e-6)
    assert step.plans()[0].counters.copies == 0


@pytest.mark.parametrize("dtype", ["float32", "f4", np.float32, np.dtype("float32"), dt.float32])
def test_a_builder_takes_each_spelling_of_an_element_type(dtype: Any) -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (2,), dtype)
    b.output("y", x + b.const(2.0, dtype))
    found = pirkit.compile(b.finish())(x=np.ones(2, np.float32))["y"]
    np.testing.assert_array_equal(found, np.full(2, 3, np.float32))


def test_an_element_type_that_there_is_not() -> None:
    with pytest.raises(UnsupportedError, match="no tensor has elements of type `float7`"):
        pirkit.ProgramBuilder().const(2.0, "float7")


def test_an_attribute_takes_a_scalar_type() -> None:
    b = pirkit.ProgramBuilder()
    found: Any = b("pd_op.full", shape=(2,), value=1.0, dtype=np.float32)
    assert found.dtype is dt.float32
