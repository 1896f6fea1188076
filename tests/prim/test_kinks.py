"""Derivatives at kinks, far out, and in every form: one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit import ops
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.series_algebra import powers
from pirkit.passes import run_pipeline
from pirkit.passes.autodiff import append_backward
from pirkit.passes.taylor_series import prepared, push
from tests.prim.differentiation import Traced

KINKS: Final = [
    ("relu", {}, 0.0, 0.0),
    ("relu6", {}, 0.0, 0.0),
    ("relu6", {}, 6.0, 0.0),
    ("leaky_relu", {"negative_slope": 0.1}, 0.0, 1.0),
    ("hardswish", {}, -3.0, 0.0),
    ("hardswish", {}, 3.0, 1.0),
    ("hardsigmoid", {"slope": 0.25, "offset": 0.5}, -2.0, 0.0),
    ("hardsigmoid", {"slope": 0.25, "offset": 0.5}, 2.0, 0.0),
    ("hardtanh", {"t_min": -1.0, "t_max": 1.0}, -1.0, 0.0),
    ("hardtanh", {"t_min": -1.0, "t_max": 1.0}, 1.0, 0.0),
    ("clip", {"min": -1.0, "max": 1.0}, -1.0, 1.0),
    ("clip", {"min": -1.0, "max": 1.0}, 1.0, 1.0),
    ("elu", {"alpha": 1.0}, 0.0, 1.0),
    ("elu", {"alpha": 0.5}, 0.0, 0.5),
    ("celu", {"alpha": 2.0}, 0.0, 1.0),
    ("selu", {"scale": 1.5, "alpha": 2.0}, 0.0, 3.0),
    ("softshrink", {"threshold": 0.5}, 0.5, 0.0),
    ("softshrink", {"threshold": 0.5}, -0.5, 0.0),
    ("hardshrink", {"threshold": 0.5}, 0.5, 0.0),
    ("hardshrink", {"threshold": 0.5}, -0.5, 0.0),
    ("thresholded_relu", {"threshold": 0.5, "value": 0.0}, 0.5, 0.0),
    ("softsign", {}, 0.0, 1.0),
    ("logsigmoid", {}, 0.0, 0.5),
    ("abs", {}, 0.0, 0.0),
]
"""Op, attributes, where, and the derivative there."""

PAIRS: Final = [("maximum", 0.5), ("minimum", 0.5), ("fmax", 1.0), ("fmin", 1.0)]
"""Ops of two operands, and the derivative to the first one where they are equal."""

FORMS: Final = {
    "whole": ("", ""),
    "decomposed before": ("decompose,cse", ""),
    "decomposed after": ("", "decompose"),
}
"""What is done to the program before and after it is differentiated."""

SMOOTH: Final = {
    "relu": {},
    "relu6": {},
    "leaky_relu": {"negative_slope": 0.1},
    "hardswish": {},
    "hardsigmoid": {"slope": 0.25, "offset": 0.5},
    "hardtanh": {"t_min": -1.0, "t_max": 1.0},
    "elu": {"alpha": 0.7},
    "celu": {"alpha": 0.7},
    "selu": {},
    "silu": {},
    "gelu": {},
    "mish": {"lambda": 20.0},
    "softplus": {},
    "softsign": {},
    "tanh_shrink": {},
    "logsigmoid": {},
    "stanh": {},
    "softshrink": {"threshold": 0.5},
    "hardshrink": {"threshold": 0.5},
    "thresholded_relu": {"threshold": 0.5, "value": 0.0},
}
X: Final = np.array([-4.3, -2.2, -0.8, -0.3, 0.2, 0.9, 2.3, 7.1])


def slope(name: str, attrs: Any, order: int = 1) -> Any:
    f: Any = lambda x: getattr(ops, name)(x, **attrs)  # noqa: E731
    for _ in range(order):
        f = summed_grad(f)
    return f


def summed_grad(f: Any) -> Any:
    return pirkit.grad(lambda x: f(x).sum())


def derivative_at(build: Any, at: float, before: str, after: str) -> float:
    """The derivative of an op at one number, the program passed through pipelines."""
    t = Traced([np.array([at])])
    t.b("pir.shadow_output", build(t.b, t.args[0]), output_name="y")
    module = ModuleOp([t.program])
    run_pipeline(module, before)
    (output,) = [op for op in t.program.block.ops if op.name == "pir.shadow_output"]
    (found,) = t.grad(t.b.wrap(output.operands[0]), t.args)
    assert found is not None
    module.body.block.detach_op(t.program)
    return float(t.run({"g": found}, after)["g"][0])


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("name", "attrs", "at", "expected"), KINKS)
def test_a07_one_side_of_a_kink(
    name: str, attrs: Any, at: float, expected: float, before: str, after: str
) -> None:
    def build(b: Builder, x: Value) -> Value:
        return b(f"pd_op.{name}", x, **attrs)

    assert derivative_at(build, at, before, after) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("name", "attrs", "at", "expected"), KINKS)
def test_a07_a_series_takes_the_same_side(
    name: str, attrs: Any, at: float, expected: float
) -> None:
    f: Any = lambda x: getattr(ops, name)(x, **attrs)  # noqa: E731
    _, (found,) = pirkit.jet(f, (np.array([at]),), ((np.ones(1),),))
    assert float(found[0]) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("name", "attrs", "at", "expected"), KINKS)
def test_a07_paddles_gradient_ops_take_the_same_side(
    name: str, attrs: Any, at: float, expected: float
) -> None:
    t = Traced([np.array([at])])
    y = t.b(f"pd_op.{name}", t.args[0], **attrs)
    (found,) = append_backward(t.program, [y.ssa], [t.args[0].ssa], paddle_residuals=True)
    assert found is not None
    slope = float(t.run({"g": t.b.wrap(found)}, "decompose")["g"][0])
    assert slope == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("name", "expected"), PAIRS)
def test_a07_one_side_of_a_tie(name: str, expected: float, before: str, after: str) -> None:
    def pair(b: Builder, x: Value) -> Value:
        return b(f"pd_op.{name}", x, b.const(2.0, x.dtype, (1,)))

    def greatest(b: Builder, x: Value) -> Value:
        all_equal = b.concat([x, b.const(2.0, x.dtype, (3,))], axis=0)
        return b("pd_op.max", all_equal, axis=(0,), keepdim=True)

    assert derivative_at(pair, 2.0, before, after) == expected
    assert derivative_at(greatest, 2.0, before, after) == 0.25
    _, (found,) = pirkit.jet(lambda x: getattr(ops, name)(x, 2.0), (np.array([2.0]),), ((1.0,),))
    assert float(found[0]) == expected


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_beside_the_kinks(name: str) -> None:
    step = 1e-6
    f: Any = lambda x: np.asarray(getattr(ops, name)(x, **SMOOTH[name]))  # noqa: E731
    expected = (f(X + step) - f(X - step)) / (2 * step)
    np.testing.assert_allclose(slope(name, SMOOTH[name])(X), expected, rtol=1e-5, atol=1e-6)


def of_first(result: Any) -> Value:
    return result[0] if isinstance(result, tuple) else result


FAR: Final = np.array([-1e4, -700.0, -100.0, -30.0, -1e-8, 1e-8, 30.0, 100.0, 700.0, 1e4])
EXTREME: Final[dict[str, Callable[[Builder, Value], Value]]] = {
    **{n: lambda b, x, n=n: of_first(b(f"pd_op.{n}", x, **SMOOTH[n])) for n in SMOOTH},
    **{n: lambda b, x, n=n: b(f"pd_op.{n}", x) for n in ("tanh", "sigmoid", "erf", "atan")},
    "gelu by tanh": lambda b, x: b.gelu(x, approximate=True),
    "BCE of logits": lambda b, x: b.sigmoid_cross_entropy_with_logits(x, b.like(0.25, x), None),
    "BCE with weights": lambda b, x: b.sigmoid_cross_entropy_with_logits(
        x, b.like(0.25, x), b.like(2.0, x)
    ),
    **{
        f"BCE of {label}": lambda b, x, label=label: b.bce_loss(b.sigmoid(x), b.like(label, x))
        for label in (0.0, 0.25, 1.0)
    },
    "softmax": lambda b, x: b.softmax(x, axis=0),
    "log_softmax": lambda b, x: b.log_softmax(x, axis=0),
    "logsumexp": lambda b, x: b.logsumexp(x, axis=(0,), keepdim=False, reduce_all=False),
    "logcumsumexp": lambda b, x: b.logcumsumexp(x, axis=0),
    "huber_loss": lambda b, x: b.huber_loss(x, b.zeros_like(x), delta=1.0)[0],
    "layer_norm": lambda b, x: b.layer_norm(
        b.reshape(x, (1, -1)), None, None, epsilon=1e-5, begin_norm_axis=1
    )[0],
    "p_norm": lambda b, x: b.p_norm(x, porder=2.0, axis=0),
}


@pytest.mark.parametrize("before", ["", "decompose,cse"], ids=["whole", "decomposed before"])
@pytest.mark.parametrize("name", EXTREME)
def test_a08_nothing_overflows_far_out(name: str, before: str) -> None:
    """Orders 1 to 4."""
    t = Traced([FAR])
    t.b("pir.shadow_output", EXTREME[name](t.b, t.args[0]), output_name="y")
    module = ModuleOp([t.program])
    run_pipeline(module, before)
    (output,) = [op for op in t.program.block.ops if op.name == "pir.shadow_output"]
    module.body.block.detach_op(t.program)
    value: Value | None = t.b.wrap(output.operands[0])
    derivatives: dict[str, Value] = {}
    for order in range(1, 5):
        (value,) = t.grad(value, t.args)
        if value is None:
            break
        derivatives[f"order {order}"] = value
    for order, found in t.run(derivatives).items():
        assert np.isfinite(found).all(), f"{order}: {found}"


@pytest.mark.parametrize("name", EXTREME)
def test_a08_no_series_overflows_far_out(name: str) -> None:
    t = Traced([FAR])
    b, x = t.b, t.args[0]
    ops, (target,) = prepared([EXTREME[name](b, x).ssa], [x.ssa])
    series = push(b, ops, {x.ssa: [b.ones_like(x), None, None, None]}, powers(4))[target]
    for order, found in t.run(
        {f"{k}": v for k, v in enumerate(series, 1) if v is not None}
    ).items():
        assert np.isfinite(found).all(), f"order {order}: {found}"


@pytest.mark.parametrize("padding_mode", ["border", "reflection"])
def test_positions_move_on_the_border(padding_mode: str) -> None:
    """As what `clip` bounds: on the first row and column derivatives are those of one side."""
    image = np.arange(6.0).reshape(1, 1, 2, 3) ** 2

    def f(grid: Any) -> Any:
        kept = {"padding_mode": padding_mode, "align_corners": True}
        return ops.grid_sample(image, grid, mode="bilinear", **kept).sum()

    first = np.full((1, 1, 1, 2), -1.0)
    found = np.asarray(pirkit.grad(f)(first))
    np.testing.assert_allclose(found, pirkit.grad(f)(first + 1e-9), atol=1e-6)
    assert (found > 0).all()


def test_logits_of_zero_have_the_exact_slope() -> None:
    x, label = np.zeros(1), np.array([0.25])
    found = pirkit.grad(lambda v: ops.sigmoid_cross_entropy_with_logits(v, label).sum())(x)
    np.testing.assert_allclose(found, 0.25, rtol=1e-12)


def test_log_softmax_is_exact_far_below_the_maximum() -> None:
    x = np.array([0.0, -100.0])
    np.testing.assert_allclose(ops.log_softmax(x)[1], -100.0)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: ops.sqrt(ops.relu(x)), [0.0, 0.0, 0.5, np.nan]),
        (lambda x: ops.sqrt(ops.relu6(x)), [0.0, 0.0, 0.5, np.nan]),
        (lambda x: ops.sqrt(ops.maximum(x, np.zeros(4))), [0.0, np.inf, 0.5, np.nan]),
        (lambda x: ops.sqrt(-ops.minimum(-x, np.zeros(4))), [0.0, np.inf, 0.5, np.nan]),
        (lambda x: ops.sqrt(ops.fmax(x, np.zeros(4))), [0.0, np.inf, 0.5, 0.0]),
        (lambda x: ops.sqrt(-ops.fmin(-x, np.zeros(4))), [0.0, np.inf, 0.5, 0.0]),
        (lambda x: ops.sqrt(-ops.hardswish(x - 3)), [0.0, 0.0, 3**0.5 / 12, np.nan]),
    ],
    ids=["relu", "relu6", "maximum", "minimum", "fmax", "fmin", "hardswish"],
)
def test_an_element_that_loses_takes_no_infinite_cotangent(function: Any, wanted: Any) -> None:
    """At ``x < 0`` the root has an infinite slope; torch gives the same at each of them."""
    x = np.array([-1.0, 0.0, 1.0, np.nan])
    found = np.asarray(pirkit.grad(lambda x: function(x).sum())(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_both_modes_differentiate_relu_alike() -> None:
    """Also where there is no number, and where an infinite tangent meets what loses."""
    x, ones = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]), np.ones(7)
    _, forward = pirkit.jvp(ops.relu, (x,), (ones,))
    (reverse,) = pirkit.vjp(ops.relu, x)[1](ones)
    np.testing.assert_array_equal(forward, reverse)
    _, forward = pirkit.jvp(ops.relu, (np.array([-1.0]),), (np.array([np.inf]),))
    assert forward == 0


@pytest.mark.parametrize("name", "hardswish hardsigmoid hardtanh relu6 i0 i1 i0e i1e".split())
def test_both_modes_agree_where_there_is_no_finite_number(name: str) -> None:
    function: Any = getattr(ops, name)
    x, ones = np.array([-np.inf, -3.0, 0.0, 2.0, np.inf, np.nan]), np.ones(6)
    reverse = np.asarray(pirkit.vjp(function, x)[1](ones)[0])
    np.testing.assert_allclose(pirkit.jvp(function, (x,), (ones,))[1], reverse, rtol=1e-12)
    assert not np.isnan(reverse[:5]).any()
    if name == "hardswish":
        zeros = np.zeros(6)
        _, (_, second) = pirkit.jet(function, (x,), ((ones, zeros),))
        np.testing.assert_array_equal(second, [0.0, 0.0, 1 / 3, 1 / 3, 0.0, 0.0 * np.nan])


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_forward_mode_beside_a_nan(name: str) -> None:
    """It gives what reverse mode gives: 1 for both of `maximum`, 0 for the NaN of `fmax`."""
    x, y = np.array([np.nan, 1.0, 2.0, np.nan]), np.array([1.0, np.nan, 2.0, np.nan])
    f: Any = lambda a: getattr(ops, name)(a, y)  # noqa: E731
    slope = np.asarray(pirkit.grad(lambda a: f(a).sum())(x))
    np.testing.assert_array_equal(np.asarray(pirkit.jvp(f, (x,), (np.ones(4),))[1]), slope)
    _, (first, second) = pirkit.jet(f, (x,), ((np.ones(4), np.zeros(4)),))
    np.testing.assert_array_equal(np.asarray(first), slope)
    np.testing.assert_array_equal(np.asarray(second), 0.0)


def test_the_first_of_the_greatest_channels_has_the_slope() -> None:
    """As in Paddle's `maxout_grad`, in reverse and in forward mode."""
    x = np.array([1.0, 1.0, 2.0, 2.0, 0.0, 3.0]).reshape(1, 6, 1, 1)
    expected = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])

    def f(x: Any) -> Any:
        return ops.maxout(x, groups=2).sum()

    given = np.ones((1, 3, 1, 1))
    by_op = ops.maxout_grad(x, ops.maxout(x, groups=2), given, groups=2, axis=1)
    for found in (pirkit.grad(f)(x), pirkit.jacfwd(f)(x), by_op):
        np.testing.assert_array_equal(np.asarray(found).ravel(), expected)


TIES: Final = np.array([[2.0, 2.0, 0.0, 1.0], [2.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
POOLS: Final[dict[str, Callable[[Any], Any]]] = {
    "pool2d": lambda x: ops.pool2d(x, (2, 2), (1, 1)),
    "max_pool2d_with_index": lambda x: ops.max_pool2d_with_index(x, (2, 2), (1, 1))[0],
    "padding": lambda x: ops.max_pool2d_with_index(x, (2, 2), (3, 3), (1, 1), ceil_mode=True)[0],
    "fractional": lambda x: ops.fractional_max_pool2d(x, (2, 2), (0, 0), 0.3, True)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", POOLS)
def test_both_modes_differentiate_the_maximum_of_a_window_alike(name: str) -> None:
    """With an index its element takes all of a tie, without one the elements share it."""
    x = TIES[None, None]
    reverse, forward = (t(POOLS[name])(x) for t in (pirkit.jacrev, pirkit.jacfwd))
    np.testing.assert_allclose(np.asarray(forward), np.asarray(reverse))


@pytest.mark.parametrize("known", [True, False])
def test_the_greatest_elements_of_a_window_share_evenly(known: bool) -> None:
    """However they lie: with unknown sizes the windows are not reduced axis by axis."""
    t = Traced([TIES[None, None]], known=known)
    y = t.b("pd_op.pool2d", *t.args, kernel_size=(2, 2), strides=(2, 2), paddings=(0, 0),
            ceil_mode=False, exclusive=True, data_format="NCHW", pooling_type="max",
            global_pooling=False, adaptive=False, padding_algorithm="EXPLICIT")  # fmt: skip
    (g,) = t.grad(t.b.sum(y, (0, 1, 2, 3)), t.args)
    assert g is not None
    found = t.run({"g": g}, "decompose")["g"]
    third = [[1 / 3, 1 / 3, 0, 1 / 3], [1 / 3, 0, 1 / 3, 1 / 3], [0, 0, 0, 0]]
    np.testing.assert_allclose(found[0, 0], third)


def test_both_modes_differentiate_powers_of_zero_alike() -> None:
    """Also where base and exponent move: the exponent counts as constant at a base of zero."""
    x, y = np.zeros(4), np.array([1.0, 2.0, 3.0, 0.0])
    _, forward = pirkit.jvp(ops.elementwise_pow, (x, y), (np.ones(4), np.ones(4)))
    np.testing.assert_array_equal(np.asarray(forward), [1.0, 0.0, 0.0, 0.0])
    series = (np.ones(4), np.zeros(4))
    both = lambda t: ops.elementwise_pow(t, y + t)  # noqa: E731
    _, (first, second) = pirkit.jet(both, (x,), (series,))
    np.testing.assert_array_equal(np.asarray(first), [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(np.asarray(second)[1:3], [2.0, 0.0])


@pytest.mark.parametrize("reverse", [False, True])
def test_forward_mode_passes_elements_that_add_nothing(reverse: bool) -> None:
    """Two of them in a row have a logarithm of zero; what is summed later does not see it."""
    x, t = np.array([1.0, -np.inf, -np.inf, 0.5, -np.inf, -np.inf, -np.inf]), np.arange(1.0, 8.0)
    x, t = (v[::-1].copy() if reverse else v for v in (x, t))
    f = lambda v: ops.logcumsumexp(v, axis=0, reverse=reverse)  # noqa: E731
    rows = np.asarray(pirkit.jacrev(f)(x))
    np.testing.assert_allclose(np.asarray(pirkit.jvp(f, (x,), (t,))[1]), rows @ t)


@pytest.mark.parametrize("mode", [pirkit.jacrev, pirkit.jacfwd])
def test_a_deviation_of_equal_elements_has_the_slope_zero(mode: Any) -> None:
    """As norms of the zero vector have, and as in torch."""
    x = np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]])
    found = np.asarray(mode(lambda v: ops.std(v, axis=(1,)))(x))
    np.testing.assert_array_equal(found[0], 0.0)
    np.testing.assert_allclose(found[1, 1], [-0.5, 0.0, 0.5])


def test_both_modes_differentiate_bce_loss_alike() -> None:
    """By Paddle's slope, which is bounded at 0 and 1; inside it is that of the logarithms."""
    p = np.array([0.0, 1.0, 0.0, 1.0, 1e-13, 0.3])
    label, ones, zeros = np.array([0.0, 1.0, 1.0, 0.0, 0.5, 0.6]), np.ones(6), np.zeros(6)
    loss: Any = lambda p: ops.bce_loss(p, label)  # noqa: E731
    slope = np.asarray(pirkit.vjp(loss, p)[1](ones)[0])
    np.testing.assert_array_equal(slope[:4], [0.0, 0.0, -1e12, 1e12])
    _, derivatives = pirkit.jet(loss, (p,), ((ones, zeros, zeros),))
    first, second, third = (np.asarray(d) for d in derivatives)
    np.testing.assert_allclose(first, slope, rtol=1e-12)
    inner = [0.6 / 0.3**2 + 0.4 / 0.7**2, 2 * (0.4 / 0.7**3 - 0.6 / 0.3**3)]
    np.testing.assert_allclose([second[5], third[5]], inner, rtol=1e-12)
