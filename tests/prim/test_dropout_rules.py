"""Dropout draws one mask, whoever computes it: whole, decomposed, split, inside other ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit import tensor
from pirkit.diag.errors import PassError
from pirkit.dialect.build import Builder, Value
from pirkit.passes import run_pipeline
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN
from pirkit.split import forward_backward
from pirkit.split.runnable import RunnableProgram
from tests.prim.differentiation import Traced, numeric_gradient

Array = np.ndarray[Any, Any]
DECOMPOSE = "functionalize,decompose,verify-primitive"


def drop(b: Builder, x: Value, *, is_test: bool = False, p: float | Value = 0.5) -> Value:
    return b.dropout(x, None, p=p, mode="upscale_in_train", is_test=is_test, seed=0)[0]


@pytest.mark.parametrize("is_test", [False, True])
@pytest.mark.parametrize("mode", ["upscale_in_train", "downgrade_in_infer"])
@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_the_derivative_is_what_each_element_was_multiplied_with(
    mode: str, p: float, is_test: bool
) -> None:
    given = np.linspace(1, 2, 24).reshape(4, 6)
    for pipeline in ("", DECOMPOSE):
        traced = Traced([given])
        (x,) = traced.args
        y, _ = traced.b.dropout(x, None, p=p, mode=mode, is_test=is_test, seed=3, fix_seed=True)
        (slope,) = traced.grad(traced.b.cast(traced.b.sum(y, (0, 1)), dt.float64), [x])
        assert slope is not None
        found = traced.run({"y": y, "slope": slope}, pipeline)
        np.testing.assert_allclose(found["slope"], found["y"] / given, rtol=1e-12)


# --- ops that drop inside ------------------------------------------------------------------------


def network(b: Builder, x: Value, w: Value, bias: Value, state: Value) -> Value:
    """Two recurrent layers with dropout between them."""
    scratch = b.const(0, dt.uint8, (0,))
    found: Any = b.rnn(
        x, [state], [w] * 4 + [bias] * 4, None, scratch, dropout_prob=0.5, input_size=4,
        hidden_size=4, num_layers=2, mode="RNN_TANH",
    )  # fmt: skip
    return found[0]


def attention(b: Builder, q: Value, k: Value, v: Value) -> Value:
    return b.flash_attn(q, k, v, dropout=0.5)[0]


def numbers(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in shapes]


RECURRENT = (network, numbers((3, 2, 4), (4, 4), (4,), (2, 2, 4)))
ATTENTION = (attention, numbers((2, 3, 2, 2), (2, 3, 2, 2), (2, 3, 2, 2)))


@pytest.mark.parametrize(("function", "inputs"), [RECURRENT, ATTENTION], ids=["rnn", "attention"])
@pytest.mark.parametrize("pipeline", ["", DECOMPOSE])
def test_ops_that_drop_inside_have_derivatives(
    function: Callable[..., Value], inputs: list[Array], pipeline: str
) -> None:
    """One draw serves the value and its derivative, whole or decomposed: so differences agree."""
    t = Traced(inputs)
    height = t.b.sum(function(t.b, *t.args), range(inputs[0].ndim))
    slopes = [s for s in t.grad(height, t.args) if s is not None]
    found = t.run({f"d{i}": s for i, s in enumerate(slopes)}, pipeline)

    def whole(i: int) -> Callable[[Array], Array]:
        def run(x: Array) -> Array:
            other = Traced([*inputs[:i], x, *inputs[i + 1 :]])
            return other.run({"y": function(other.b, *other.args)})["y"]

        return run

    for i in range(1, 3):
        y = whole(i)(inputs[i])
        want = numeric_gradient(whole(i), inputs[i], np.ones_like(y))
        np.testing.assert_allclose(found[f"d{i}"], want, rtol=1e-6, atol=1e-8)


def test_a_gradient_op_does_not_draw_again() -> None:
    """What the forward drew is gone: the gradient op is refused, not computed with others."""
    t = Traced(ATTENTION[1])
    q, k, v = t.args
    out, _, lse, seed = t.b.flash_attn(q, k, v, dropout=0.5)
    found = t.b.flash_attn_grad(q, k, v, out, lse, seed, None, t.b.ones_like(out), dropout=0.5)
    with pytest.raises(PassError, match="random numbers that its forward op drew"):
        t.run({"d": found[0]}, DECOMPOSE)


# --- numbers -------------------------------------------------------------------------------------


def several(b: Builder, x: Value) -> Value:
    """Calls that draw behind calls that draw nothing, and one that draws behind two of others."""
    x = drop(b, drop(b, x), is_test=True)
    y = attention(b, x, x, x) + b.flash_attn(x, x, x)[0]
    return drop(b, b.rrelu(y, lower=0.125, upper=0.25, is_test=True)[0])


@pytest.mark.parametrize("known", [True, False])
def test_a16_a_program_draws_the_same_taken_apart(known: bool) -> None:
    (x,) = numbers((2, 3, 2, 2))
    found = []
    for pipeline in ("", DECOMPOSE.removesuffix("" if known else ",verify-primitive")):
        t = Traced([x])
        given = t.args[0] if known else t.b.reshape(t.args[0], (UNKNOWN, 3, 2, 2))
        found.append(t.run({"y": several(t.b, given)}, pipeline)["y"])
    np.testing.assert_allclose(*found, rtol=1e-12)
    assert 0 < np.count_nonzero(found[0] == 0) < x.size


@pytest.mark.parametrize("mode", ["save-all", "free", "min-cut"])
def test_a16_a_split_draws_the_same(mode: str) -> None:
    """Whole, split, decomposed before the split, and in both halves."""
    (x,) = numbers((2, 3, 2, 2))
    g = np.ones_like(x)
    t = Traced([x])
    y = several(t.b, t.args[0])
    (slope,) = t.grad(y, t.args)
    assert slope is not None
    whole = t.run({"y": y, "slope": slope})
    for before, inside in (("", "@default"), (DECOMPOSE, "@default"), ("", DECOMPOSE)):
        t = Traced([x])
        t.b("pir.shadow_output", several(t.b, t.args[0]), output_name="y")
        module = ModuleOp([t.program])
        if before:
            run_pipeline(module, before)
        step = RunnableProgram(forward_backward(module, mode=mode), pipeline=inside, seed=1)
        outputs = step.forward([tensor(x)])
        (gx,), () = step.backward([tensor(g)], outputs)
        assert gx is not None
        np.testing.assert_allclose(outputs[0].numpy(), whole["y"], rtol=1e-12)
        np.testing.assert_allclose(gx.numpy(), whole["slope"], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("pipeline", ["", DECOMPOSE])
def test_a16_orders_two_and_three(pipeline: str) -> None:
    """Of ``drop(x)^4`` with each element scaled by 2 or 0."""
    (given,) = numbers((5, 4))
    t = Traced([given])
    (x,) = t.args
    y = drop(t.b, x)
    value: Value = y**4
    outputs = {"y": y}
    for order in (1, 2, 3):
        (slope,) = t.grad(value, [x])
        assert slope is not None
        outputs[f"d{order}"] = value = slope
    found = t.run(outputs, pipeline)
    scale = found["y"] / given
    np.testing.assert_allclose(found["d2"], 12 * scale**4 * given**2, rtol=1e-12)
    np.testing.assert_allclose(found["d3"], 24 * scale**4 * given, rtol=1e-12)


def test_a_probability_may_be_computed() -> None:
    """As in the whole op: the same mask, and the same scale."""
    (x,) = numbers((6, 5))
    for p in (0.25, 1.0):
        found = []
        for pipeline in ("", "decompose"):
            t = Traced([x, np.array([p], np.float32)])
            y = drop(t.b, t.args[0], p=t.args[1])
            (slope,) = t.grad(y, t.args[:1])
            assert slope is not None
            found.append(t.run({"y": y, "slope": slope}, pipeline))
        for name in ("y", "slope"):
            np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-12)
