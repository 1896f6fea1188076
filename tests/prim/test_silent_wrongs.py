"""Answers that other systems give wrongly and in silence: one test for each.

The expected numbers are closed forms or differences of the order below, never those of another
framework. Each case is looked at whole and decomposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit import ops
from pirkit.dialect.build import Builder, Value
from pirkit.passes import run_pipeline
from pirkit.passes.differentiate import outputs_of
from pirkit.runtime import dtype as dt
from tests.prim.differentiation import Array, Traced
from tests.prim.rule_checks import Program, derivative, differences, gradient, height, runner

Function = Callable[..., Value]

RNG: Final = np.random.default_rng(11)
WAYS: Final = pytest.mark.parametrize("before", ["", "decompose"], ids=["whole", "decomposed"])


def built(f: Function, inputs: list[Array], before: str) -> Program:
    """The program of a function whose results went through a pipeline."""
    t = Traced(inputs)
    found = f(t.b, *t.args)
    values = found if isinstance(found, tuple) else (found,)
    for i, value in enumerate(values):
        t.b("pir.shadow_output", value, output_name=f"f{i}")
    module = ModuleOp([t.program])
    run_pipeline(module, before)
    module.body.block.detach_op(t.program)
    return Program(t, [t.b.wrap(v) for v in outputs_of(t.program).values()])


def value_of(f: Function, x: Array, before: str) -> Array:
    p = built(f, [x], before)
    return runner(p, p.results)([x])[0]


def slope_of(f: Function, x: Array, before: str = "", order: int = 1) -> Array:
    """The derivative of the sum of all elements, summed and differentiated again."""
    p = built(f, [x], before)
    value = p.results[0]
    for _ in range(order):
        total = p.traced.b.sum(value, tuple(range(value.rank)))
        (value,) = gradient(p, total)
    return runner(p, [value])([x])[0]


def check(f: Function, inputs: list[Array], orders: int, before: str) -> None:
    """Every order is the slope of the one below, with a weight for each element of each result."""
    for order in range(1, orders + 1):
        p = built(f, inputs, before)
        found = runner(p, derivative(p, order, bend=True))(inputs)
        below = built(f, inputs, before)
        run = runner(below, [height(below, order, bend=True)])
        slopes = differences(lambda moved, run=run: float(run(moved)[0]), inputs)
        for exact, slope in zip(found, slopes, strict=True):
            scale = 1 + np.abs(slope).max()
            np.testing.assert_allclose(
                exact, slope, rtol=2e-5, atol=2e-6 * scale, err_msg=f"{order}"
            )


# --- kinks ---------------------------------------------------------------------------------------


@WAYS
def test_relu_has_slope_zero_at_zero(before: str) -> None:
    """Paddle, decomposed: 0.5."""
    assert slope_of(lambda b, x: b.relu(x), np.zeros(1), before) == 0


@WAYS
def test_relu6_has_slope_zero_at_both_ends(before: str) -> None:
    """Paddle, decomposed: 0.5."""
    found = slope_of(lambda b, x: b.relu6(x), np.array([0.0, 6.0]), before)
    assert found.tolist() == [0, 0]


@WAYS
def test_leaky_relu_has_one_slope_at_zero(before: str) -> None:
    """Paddle has three: 1 of its kernel, 0.1 in closed form, 0.55 decomposed."""
    f = lambda b, x: b.leaky_relu(x, negative_slope=0.1)  # noqa: E731
    assert slope_of(f, np.zeros(1), before) == 1


@WAYS
def test_hardswish_has_slopes_zero_and_one_at_its_ends(before: str) -> None:
    """Paddle, decomposed: -0.25 and 1.25."""
    found = slope_of(lambda b, x: b.hardswish(x), np.array([-3.0, 3.0]), before)
    np.testing.assert_allclose(found, [0, 1], atol=1e-15)


@WAYS
def test_bce_of_logits_has_its_slope_at_zero(before: str) -> None:
    """Paddle: -0.75 of its kernel, -0.25 decomposed."""
    f = lambda b, x: b.sigmoid_cross_entropy_with_logits(x, b.like(0.25, x), None)  # noqa: E731
    np.testing.assert_allclose(slope_of(f, np.zeros(1), before), 0.25, rtol=1e-15)


@WAYS
def test_a_norm_has_slope_zero_at_zero(before: str) -> None:
    """Paddle, decomposed: NaN, as JAX."""
    for f in (
        lambda b, x: b.p_norm(x, porder=2.0, axis=0),
        lambda b, x: b.p_norm(x, porder=3.0, axis=0),
        lambda b, x: b.frobenius_norm(x, axis=(0,), keep_dim=False, reduce_all=False),
        lambda b, x: b.dist(x, b.zeros_like(x), p=2.0),
    ):
        for order in (1, 2):
            assert not slope_of(f, np.zeros(3), before, order).any()


# --- far out -------------------------------------------------------------------------------------


@WAYS
def test_elu_is_linear_far_out(before: str) -> None:
    """Paddle, decomposed: NaN at 100, of 0 * inf."""
    f = lambda b, x: b.elu(x, alpha=0.7)  # noqa: E731
    assert slope_of(f, np.array([100.0, 1e4]), before).tolist() == [1, 1]


@WAYS
def test_elu_keeps_its_digits_near_zero(before: str) -> None:
    """Paddle: wrong by 1.3 % just below zero, in every form."""
    x = np.array([-1e-6, -1e-4], np.float32)
    found = value_of(lambda b, v: b.elu(v, alpha=1.0), x, before)
    np.testing.assert_allclose(found, np.expm1(x.astype(np.float64)), rtol=1e-6)


@WAYS
def test_silu_ends_far_below_zero(before: str) -> None:
    """Paddle's kernel: NaN."""
    x = np.array([-100.0], np.float32)
    found = slope_of(lambda b, v: b.silu(v), x, before)
    exact = math.exp(-100) * (1 - 100)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-40)


@WAYS
def test_log_softmax_is_not_clamped(before: str) -> None:
    """Paddle's kernel: -64."""
    found = value_of(lambda b, x: b.log_softmax(x, axis=0), np.array([0.0, -100.0]), before)
    np.testing.assert_allclose(found, [0, -100], atol=1e-15)


@WAYS
def test_cross_entropy_is_not_clamped(before: str) -> None:
    def f(b: Builder, x: Value) -> Value:
        label = b.integers((1,))
        return b.cross_entropy_with_softmax(
            b.reshape(x, (1, 2)), b.reshape(label, (1, 1)), soft_label=False, use_softmax=True,
            numeric_stable_mode=True, ignore_index=-100, axis=-1,
        )[1]  # fmt: skip

    np.testing.assert_allclose(value_of(f, np.array([0.0, -100.0]), before), [[100.0]])
    np.testing.assert_allclose(slope_of(f, np.array([0.0, -100.0]), before), [1, -1], atol=1e-15)


@WAYS
def test_softmax_of_nothing_is_not_a_number(before: str) -> None:
    """A row of -inf has no softmax: NaN, as in Paddle and JAX; other rows are not touched."""
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf]])
    found = value_of(lambda b, v: b.softmax(v, axis=1), x, before)
    np.testing.assert_array_equal(found, [[np.nan, np.nan], [1, 0]])


# --- precision -----------------------------------------------------------------------------------


def normal(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon)


@WAYS
def test_norms_of_large_means_keep_their_digits(before: str) -> None:
    """Mean 1000, deviation 1, in float32. Paddle's group_norm: wrong by 0.11."""
    x = (RNG.standard_normal((2, 4, 8, 8)) + 1000).astype(np.float32)
    image = lambda b, v, groups: b.group_norm(v, None, None, epsilon=1e-5, groups=groups)[0]  # noqa: E731
    cases: list[tuple[Function, Array]] = [
        (lambda b, v: image(b, v, 4), normal(x, (2, 3), 1e-5)),
        (lambda b, v: image(b, v, 1), normal(x, (1, 2, 3), 1e-5)),
        (lambda b, v: b.instance_norm(v, None, None, epsilon=1e-5)[0], normal(x, (2, 3), 1e-5)),
        (
            lambda b, v: b.layer_norm(v, None, None, epsilon=1e-5, begin_norm_axis=1)[0],
            normal(x, (1, 2, 3), 1e-5),
        ),
        (batch_norm, normal(x, (0, 2, 3), 1e-5)),
    ]
    for f, expected in cases:
        assert np.abs(value_of(f, x, before) - expected).max() < 1e-3


def batch_norm(b: Builder, x: Value) -> Value:
    return all_of_batch_norm(b, x)[0]


def all_of_batch_norm(b: Builder, x: Value) -> Any:
    zeros, ones = (b.const(v, x.dtype, (x.shape[1],)) for v in (0.0, 1.0))
    return b.batch_norm(
        x,
        zeros,
        ones,
        None,
        None,
        is_test=False,
        momentum=0.9,
        epsilon=1e-5,
        data_format="NCHW",
        use_global_stats=False,
        trainable_statistics=False,
    )


@WAYS
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_gelu_has_all_digits_in_float64(order: int, before: str) -> None:
    """Paddle in closed form: 2e-9 at order 1, 1e-7 at order 4, of constants in single precision."""
    x = np.linspace(-3, 3, 7)
    bell = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    share = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x])
    exact = [
        share + x * bell,
        bell * (2 - x**2),
        bell * (x**3 - 4 * x),
        bell * (7 * x**2 - x**4 - 4),
    ]
    found = slope_of(lambda b, v: b.gelu(v), x, before, order)
    np.testing.assert_allclose(found, exact[order - 1], rtol=1e-13, atol=1e-14)


@WAYS
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_gelu_by_tanh_has_all_digits_in_float64(order: int, before: str) -> None:
    """Paddle in closed form: 7e-9. Exact here are means over circles, by Cauchy's integral."""
    x = np.array([-2.0, -0.5, 0.25, 1.5])
    turns = np.exp(2j * np.pi * np.arange(64) / 64)
    z = x[:, None] + 0.5 * turns
    values = z / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
    exact = (values * turns**-order).mean(1).real * math.factorial(order) / 0.5**order
    found = slope_of(lambda b, v: b.gelu(v, approximate=True), x, before, order)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)


@WAYS
def test_gelu_far_below_zero_is_small(before: str) -> None:
    """Its absolute error is that of the error function times `x`, as Paddle's and PyTorch's."""
    for dtype, bound in ((np.float32, 2e-7), (np.float64, 3e-16)):
        x = np.array([-10.0, -6.0, -4.0], dtype)
        exact = [v * math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()]
        found = value_of(lambda b, v: b.gelu(v), x, before)
        assert (np.abs(found - exact) <= bound * np.abs(x)).all()


# --- second derivatives that are silently wrong elsewhere ----------------------------------------

IMAGE: Final = RNG.standard_normal((3, 2, 2, 2))
WEIGHTS: Final = [RNG.uniform(0.5, 1.5, 2), RNG.uniform(-0.5, 0.5, 2)]


@WAYS
def test_layer_norm_to_order_four(before: str) -> None:
    """Mean and variance among the results. Paddle: wrong 5 times at order 2; PyTorch at order 3."""
    rows = RNG.standard_normal((2, 3))

    def f(b: Builder, x: Value, scale: Value, bias: Value) -> Any:
        return b.layer_norm(x, scale, bias, epsilon=1e-3, begin_norm_axis=1)

    check(f, [rows, RNG.uniform(0.5, 1.5, 3), RNG.uniform(-0.5, 0.5, 3)], 4, before)


@WAYS
def test_group_norm_at_higher_orders(before: str) -> None:
    """Paddle: wrong 2 times at order 2; without weights its kernel by 65 % at order 1."""

    def f(b: Builder, x: Value, *weights: Value) -> Any:
        pair = weights or (None, None)
        return b.group_norm(x, *pair, epsilon=1e-3, groups=2)

    check(f, [IMAGE[:1], *WEIGHTS], 3, before)
    check(f, [IMAGE[:1]], 2, before)


@WAYS
def test_instance_norm_at_higher_orders(before: str) -> None:
    """Paddle: wrong 4 times at order 2."""

    def f(b: Builder, x: Value, scale: Value, bias: Value) -> Any:
        return b.instance_norm(x, scale, bias, epsilon=1e-3)

    check(f, [IMAGE[:1], *WEIGHTS], 3, before)


@WAYS
def test_batch_norm_at_higher_orders(before: str) -> None:
    """All statistics among the results. Paddle: wrong 30 times at order 2."""

    def f(b: Builder, x: Value) -> Any:
        return tuple(v for v in all_of_batch_norm(b, x) if v.dtype is dt.float64)

    check(f, [IMAGE], 3, before)


@WAYS
def test_the_mean_of_layer_norm_has_a_derivative(before: str) -> None:
    """Paddle: none, since its closed form passes on the cotangent of the main result alone."""
    x = RNG.standard_normal((2, 4))

    def mean(b: Builder, v: Value) -> Value:
        return b.layer_norm(v, None, None, epsilon=1e-5, begin_norm_axis=1)[1]

    def variance(b: Builder, v: Value) -> Value:
        return b.layer_norm(v, None, None, epsilon=1e-5, begin_norm_axis=1)[2]

    np.testing.assert_allclose(slope_of(mean, x, before), np.full((2, 4), 0.25))
    expected = (x - x.mean(1, keepdims=True)) / 2
    np.testing.assert_allclose(slope_of(variance, x, before), expected, rtol=1e-13, atol=1e-15)


@WAYS
def test_prod_at_order_two(before: str) -> None:
    """Paddle: wrong by 0.9. The second derivative of x y z is a matrix of the third factors."""
    for x in (np.array([0.5, -2.0, 3.0]), np.array([0.5, 0.0, 3.0]), np.zeros(3)):
        p = built(lambda b, v: b.prod(v, axis=(0,), keepdim=False, reduce_all=False), [x], before)
        (first,) = gradient(p, p.results[0])
        rows = [gradient(p, first[i])[0] for i in range(3)]
        a, b, c = x
        np.testing.assert_allclose(
            np.stack(runner(p, rows)([x])), [[0, c, b], [c, 0, a], [b, a, 0]], atol=1e-15
        )


@WAYS
def test_logcumsumexp_at_higher_orders(before: str) -> None:
    """Paddle: wrong 9 times at order 2."""
    for reverse in (False, True):
        check(
            lambda b, x, r=reverse: b.logcumsumexp(x, axis=0, reverse=r),
            [RNG.uniform(-1, 1, 4)], 3, before,
        )  # fmt: skip


def cube(x: Value) -> Value:
    return x * x * x


@WAYS
def test_sort_at_higher_orders(before: str) -> None:
    """More than one column. Paddle: wrong by 0.3 at order 2."""
    x = RNG.permutation(12).reshape(3, 4) / 4 - 1.2
    check(lambda b, v: cube(b.argsort(v, axis=0, descending=False)[0]), [x], 3, before)


@WAYS
def test_topk_at_higher_orders(before: str) -> None:
    """More than one column. Paddle: wrong by 0.1 at order 2."""
    x = RNG.permutation(12).reshape(3, 4) / 4 - 1.2
    check(lambda b, v: cube(b.topk(v, k=2, axis=0)[0]), [x], 3, before)


@WAYS
def test_determinant_and_solution_at_higher_orders(before: str) -> None:
    """PyTorch has been wrong at second order."""
    a = RNG.standard_normal((2, 2)) + 2 * np.eye(2)
    check(lambda b, m: b.det(m), [a], 3, before)
    check(lambda b, m, r: b.solve(m, r), [a, RNG.standard_normal((2, 1))], 2, before)


@WAYS
def test_spectral_norm_at_given_vectors(before: str) -> None:
    """Each element with a weight of its own. Paddle: 8.5 off where the cotangents differ."""

    def normalized(b: Builder, w: Value) -> Value:
        u, v = (b.cast(b.integers(numbers), dt.float64) for numbers in ((1, -2, 1), (3, 1, 0, -1)))
        return b.spectral_norm(w, u, v, power_iters=0)

    check(normalized, [RNG.standard_normal((3, 4))], 2, before)


def test_norms_by_forward_over_forward() -> None:
    """PyTorch's nested forward mode has been wrong for layer_norm and batch_norm."""
    x, v, w = RNG.standard_normal((3, 2, 4))
    fs: list[Callable[[Any], Any]] = [
        lambda y: ops.layer_norm(y, None, None, epsilon=1e-3, begin_norm_axis=1),
        lambda y: ops.batch_norm(
            y, np.zeros(4), np.ones(4), None, None, is_test=False, momentum=0.9, epsilon=1e-3,
            data_format="NCHW", use_global_stats=False, trainable_statistics=False,
        )[0],
    ]  # fmt: skip
    for f in fs:
        along = lambda y, f=f: pirkit.jvp(f, (y,), (v,))[1]  # noqa: E731
        found = np.asarray(pirkit.jvp(along, (x,), (w,))[1])
        step = 1e-5
        slope = (np.asarray(along(x + step * w)) - np.asarray(along(x - step * w))) / (2 * step)
        np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-7)


# --- answers that are missing elsewhere ----------------------------------------------------------


def test_powers_of_an_element() -> None:
    """Paddle cannot take `x[i, j] ** 4` apart."""
    x = np.array([[0.5, -1.5], [2.0, 3.0]])
    f: Callable[[Any], Any] = lambda v: v[0, 1] ** 4  # noqa: E731
    for expected in (4 * -(1.5**3), 12 * 1.5**2, 24 * -1.5, 24.0, 0.0):
        f = (lambda g: lambda v: pirkit.grad(g)(v)[0, 1])(f)
        np.testing.assert_allclose(np.asarray(f(x)), expected)


@WAYS
@pytest.mark.parametrize("name", ["bce_loss", "kldiv_loss"])
def test_taking_apart_gives_no_derivative_more(name: str, before: str) -> None:
    """Labels have none as whole ops: no composition may have one. Paddle's have."""
    x = RNG.uniform(0.2, 0.8, 4)

    def f(b: Builder, p: Value, label: Value) -> Value:
        extra = {} if name == "bce_loss" else {"reduction": "sum", "log_target": False}
        return b(f"pd_op.{name}", p, label, **extra)

    p = built(f, [x, x[::-1].copy()], before)
    dx, dlabel = p.traced.grad(
        p.traced.b.sum(p.results[0], range(p.results[0].rank)), p.traced.args
    )
    assert dx is not None
    assert dlabel is None
