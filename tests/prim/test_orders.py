"""High orders against Cauchy's integral: no differences, no other library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from tests.prim.differentiation import Array

X: Final = np.array([0.71, 1.07, 0.62])
RADIUS: Final = 0.25
POINTS: Final = 64
W: Final = np.array([[0.5, -0.2], [0.3, 0.4]])


def _sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def _erf(z: Array) -> Array:
    """The series of the error function, which converges everywhere."""
    terms = [(-1) ** n * z ** (2 * n + 1) / (math.factorial(n) * (2 * n + 1)) for n in range(30)]
    return np.sum(terms, axis=0) * (2 / math.sqrt(math.pi))


def _rows(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of each row of ``[x, x * x]``."""
    return lambda x: f(ops.concat([ops.unsqueeze(x, [1]), ops.unsqueeze(x * x, [1])], axis=1))


PINN: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]]] = {
    "tanh": (ops.tanh, np.tanh),
    "sin": (ops.sin, np.sin),
    "cos": (ops.cos, np.cos),
    "exp": (ops.exp, np.exp),
    "log": (ops.log, np.log),
    "sqrt": (ops.sqrt, np.sqrt),
    "sigmoid": (ops.sigmoid, _sigmoid),
    "erf": (ops.erf, _erf),
    "gelu": (ops.gelu, lambda z: z * (1 + _erf(z / math.sqrt(2))) / 2),
    "swish": (ops.swish, lambda z: z * _sigmoid(z)),
    "softplus": (ops.softplus, lambda z: np.log1p(np.exp(z))),
    "mish": (lambda x: ops.mish(x, 20.0), lambda z: z * np.tanh(np.log1p(np.exp(z)))),
    "log_sigmoid": (ops.logsigmoid, lambda z: -np.log1p(np.exp(-z))),
    "pow": (lambda x: ops.pow(x, 2.5), lambda z: z**2.5),
    "add and multiply": (lambda x: (x + 0.5) * x * ops.sin(x), lambda z: (z + 0.5) * z * np.sin(z)),
    "divide": (lambda x: ops.sin(x) / (x * x + 1.0), lambda z: np.sin(z) / (z * z + 1)),
    "atan": (ops.atan, np.arctan),
    "asinh": (ops.asinh, np.arcsinh),
    "matmul": (
        _rows(lambda r: ops.sum(ops.tanh(ops.matmul(r, W)), [1])),
        lambda z: np.tanh(0.5 * z + 0.3 * z * z) + np.tanh(-0.2 * z + 0.4 * z * z),
    ),
    "mean and slice": (
        _rows(lambda r: ops.mean(ops.exp(r), [1]) * r[:, 1]),
        lambda z: (np.exp(z) + np.exp(z * z)) / 2 * z * z,
    ),
    "softmax": (
        _rows(lambda r: ops.softmax(r, axis=-1)[:, 0]),
        lambda z: 1 / (1 + np.exp(z * z - z)),
    ),
    "logsumexp": (
        _rows(lambda r: ops.logsumexp(r, [1])),
        lambda z: np.log(np.exp(z) + np.exp(z * z)),
    ),
    "p_norm": (
        _rows(lambda r: ops.p_norm(r, porder=2.0, axis=1)),
        lambda z: np.sqrt(z * z + z**4),
    ),
    "prod": (
        _rows(lambda r: ops.prod(ops.sin(r), [1], keepdim=False, reduce_all=False)),
        lambda z: np.sin(z) * np.sin(z * z),
    ),
    "layer_norm": (
        _rows(lambda r: ops.layer_norm(r, None, None, epsilon=0.125, begin_norm_axis=1)[:, 0]),
        lambda z: (z - z * z) / 2 / np.sqrt(((z - z * z) / 2) ** 2 + 0.125),
    ),
}
"""Functions of each number by itself, and the same as analytic functions of complex numbers."""


def cauchy(f: Callable[[Array], Array], order: int) -> Array:
    """The derivative at each element: a mean over a circle around it, exact but for rounding."""
    turns = np.exp(2j * np.pi * np.arange(POINTS) / POINTS)
    values = f(X[:, None] + RADIUS * turns)
    return (values * turns**-order).mean(1).real * math.factorial(order) / RADIUS**order


def nested(f: Callable[[Any], Any], order: int) -> Any:
    for _ in range(order):
        f = (lambda g: pirkit.grad(lambda x: g(x).sum()))(f)
    return f


def compare(found: Any, f: Callable[[Array], Array], order: int) -> None:
    """The circle rounds at 1e-16 of the largest value, which division by its radius magnifies."""
    rounding = 1e-14 * math.factorial(order) / RADIUS**order
    np.testing.assert_allclose(
        np.asarray(found), cauchy(f, order), rtol=1e-10, atol=rounding, err_msg=f"order {order}"
    )


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("name", PINN)
def test_a04_nested_gradients(name: str, order: int) -> None:
    ours, theirs = PINN[name]
    compare(nested(ours, order)(X), theirs, order)


@pytest.mark.parametrize("name", PINN)
def test_a04_series_to_order_eight(name: str) -> None:
    ours, theirs = PINN[name]
    series = [np.ones_like(X), *[np.zeros_like(X)] * 7]
    _, found = pirkit.jet(ours, (X,), (series,))
    for order, value in enumerate(found, 1):
        compare(value, theirs, order)
