"""Derivatives at kinks, far out, and in every form: one table."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops

KINKS: Final = [
    ("relu", {}, 0.0, 0.0),
    ("relu6", {}, 0.0, 0.0),
    ("relu6", {}, 6.0, 0.0),
    ("leaky_relu", {"negative_slope": 0.1}, 0.0, 1.0),
    ("hardswish", {}, -3.0, 0.0),
    ("hardswish", {}, 3.0, 1.0),
    ("hardsigmoid", {"slope": 0.25, "offset": 0.5}, -2.0, 0.0),
    ("hardsigmoid", {"slope": 0.25, "offset": 0.5}, 2.0, 0.0),
    ("elu", {"alpha": 1.0}, 0.0, 1.0),
    ("abs", {}, 0.0, 0.0),
]

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


@pytest.mark.parametrize(("name", "attrs", "at", "expected"), KINKS)
def test_one_side_of_a_kink(name: str, attrs: Any, at: float, expected: float) -> None:
    found = float(slope(name, attrs)(np.array([at]))[0])
    assert found == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_beside_the_kinks(name: str) -> None:
    step = 1e-6
    f: Any = lambda x: np.asarray(getattr(ops, name)(x, **SMOOTH[name]))  # noqa: E731
    expected = (f(X + step) - f(X - step)) / (2 * step)
    np.testing.assert_allclose(slope(name, SMOOTH[name])(X), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_nothing_overflows_far_out(name: str) -> None:
    far = np.array([-1e4, -100.0, 100.0, 1e4])
    for order in range(1, 4):
        found = np.asarray(slope(name, SMOOTH[name], order)(far))
        assert np.isfinite(found).all(), f"order {order}: {found}"


def test_logits_of_zero_have_the_exact_slope() -> None:
    x, label = np.zeros(1), np.array([0.25])
    found = pirkit.grad(lambda v: ops.sigmoid_cross_entropy_with_logits(v, label).sum())(x)
    np.testing.assert_allclose(found, 0.25, rtol=1e-12)


def test_log_softmax_is_exact_far_below_the_maximum() -> None:
    x = np.array([0.0, -100.0])
    np.testing.assert_allclose(ops.log_softmax(x)[1], -100.0)
