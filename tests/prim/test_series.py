"""Series of ops on arrays against nested reverse mode, along a line through a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend import transforms
from tests.prim.differentiation import Array

ORDER: Final = 4
Function = Callable[[Any], Any]


def draw(*shape: int, seed: int = 0, low: float = 0.4, high: float = 1.6) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape)


def positive(n: int) -> Array:
    """A matrix that is symmetric and positive, with eigenvalues that differ."""
    root = draw(n, n, seed=3, low=-1.0, high=1.0)
    return root @ root.T + np.diag(np.arange(1.0, n + 1))


A: Final = draw(3, 3, seed=1, low=-0.5, high=0.5) + 2 * np.eye(3)
B: Final = draw(3, 2, seed=2)
INDEX: Final = np.array([[0, 2], [1, 1], [2, 0]])
TRIANGLE: Final = {"transpose": False, "unitriangular": False}


FUNCTIONS: Final[dict[str, tuple[Function, Array]]] = {
    # powers, angles, special functions
    "x ** constant": (lambda x: ops.elementwise_pow(x, B), B * 1.2),
    "x ** whole": (lambda x: ops.elementwise_pow(x, np.array([3.0, 5.0])), np.array([0.0, -0.7])),
    "x ** number at zero": (lambda x: ops.pow(x, 5.0), np.array([0.0, -0.7])),
    "constant ** x": (lambda x: ops.elementwise_pow(B, x), B * 1.2),
    "x ** x": (lambda x: ops.elementwise_pow(x, ops.sin(x)), B),
    "column ** row": (lambda x: ops.elementwise_pow(x[:, :1], ops.exp(x[:1])), B),
    "atan2": (lambda x: ops.atan2(ops.sin(x), x * x - 0.7), B),
    "lgamma": (ops.lgamma, B),
    "digamma": (lambda x: ops.digamma(x * x), B),
    "polygamma": (lambda x: ops.polygamma(x, 2), B),
    "erfinv": (lambda x: ops.erfinv(x * 0.4), B),
    "gammaincc": (lambda x: ops.gammaincc(B, x), B * 1.5),
    # choices
    "fmax": (lambda x: ops.fmax(x, x * x), B),
    "fmin": (lambda x: ops.fmin(ops.sin(x), x * 0.7), B),
    "remainder": (lambda x: ops.remainder(x * x * 3.0, ops.exp(x)), B),
    "copysign": (lambda x: ops.copysign(x * x, -x), B),
    "cummax": (lambda x: ops.cummax(ops.sin(x * 3.0), 0)[0], B),
    "argsort": (lambda x: ops.argsort(ops.sin(x * 3.0), axis=0)[0], B),
    "topk": (lambda x: ops.topk(ops.sin(x * 3.0), 2, axis=0)[0], B),
    # arrays
    "cumprod": (lambda x: ops.cumprod(ops.sin(x), 0), draw(5, 2)),
    "cumprod with zeros": (lambda x: ops.cumprod(x, 0), draw(4) * [1, 0, 1, 1]),
    "cumprod, exclusive and back": (
        lambda x: ops.cumprod(x, 1, exclusive=True, reverse=True),
        draw(2, 4),
    ),
    "put": (lambda x: ops.put_along_axis(x * x, INDEX, ops.sin(x), axis=0, reduce="assign"), B),
    "put and add": (lambda x: ops.put_along_axis(x * x, INDEX, ops.sin(x), axis=0, reduce="add"),
                    B),
    "scatter": (lambda x: ops.scatter(x * x, np.array([2, 0]), ops.sin(x[:2]), True), B),
    "scatter and add": (lambda x: ops.scatter(x * x, np.array([1, 1]), ops.sin(x[:2]), False), B),
    "conv2d": (
        lambda x: ops.conv2d(ops.sin(x), (x * x)[:, :, :2, :2], strides=[1, 1], paddings=[1, 1]),
        draw(1, 1, 4, 4),
    ),
    "conv2d_transpose": (
        lambda x: ops.conv2d_transpose(ops.sin(x), (x * x)[:, :, :2, :2], strides=[2, 2]),
        draw(1, 1, 3, 3),
    ),
    "depthwise conv": (
        lambda x: ops.depthwise_conv2d(
            ops.sin(x), ops.transpose(x * x, [1, 0, 2, 3]), strides=[1, 1], paddings=[1, 1],
            groups=2,
        ),
        draw(1, 2, 3, 3),
    ),
    # matrices
    "inverse": (lambda x: ops.inverse(x), A),
    "matrix power": (lambda x: ops.matrix_power(x, -2), A),
    "solve": (lambda x: ops.solve(x, ops.sin(x[:, :2])), A),
    "solve for a vector": (lambda x: ops.solve(x, ops.sin(x[0])), A),
    "triangular": (lambda x: ops.triangular_solve(x, ops.sin(x), upper=True, **TRIANGLE), A),
    "triangular, turned": (
        lambda x: ops.triangular_solve(x, x, upper=False, transpose=True, unitriangular=True),
        A,
    ),
    "cholesky": (lambda x: ops.cholesky(x + ops.transpose(x, [1, 0])), positive(3)),
    "cholesky, upper": (lambda x: ops.cholesky(x, upper=True), positive(3)),
    "det": (lambda x: ops.det(ops.sin(x)), A),
    "slogdet": (lambda x: ops.slogdet_v2(x)[1], A),
    "det of several": (lambda x: ops.det(ops.stack([x, x * x], axis=0)), A),
    "eigenvalues": (lambda x: ops.eigh(x)[0], positive(3)),
    "eigenvectors": (lambda x: ops.eigh(x)[1] ** 2, positive(3)),
}  # fmt: skip


def nested(f: Function, x: Array, way: Array, weights: Array, order: int) -> Array:
    """Derivative ``order`` of ``sum(weights * f(x + t way))`` at 0, by reverse mode alone."""

    def height(t: Any) -> Any:
        return ops.sum(f(x + t * way) * weights)

    for _ in range(order):
        height = pirkit.grad(height)
    return np.asarray(height(np.array(0.0)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a04_coefficients_are_those_of_nested_gradients(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, x = FUNCTIONS[name]
    way = draw(*x.shape, seed=7, low=-1.0, high=1.0)
    value, found = pirkit.jet(f, (x,), ([way, *[np.zeros_like(x)] * (ORDER - 1)],))
    weights = draw(*np.shape(value), seed=9, low=-1.0, high=1.0)
    monkeypatch.setattr(transforms, "PIPELINE", "expand-gradients,@default")
    monkeypatch.setattr(transforms, "_EXECUTABLES", type(transforms._EXECUTABLES)())
    for order, derivative in enumerate(found, 1):
        want = nested(f, x, way, weights, order)
        ours = np.sum(np.asarray(derivative) * weights)
        scale = np.sum(np.abs(np.asarray(derivative) * weights))
        np.testing.assert_allclose(
            ours, want, rtol=1e-8, atol=1e-9 * (1 + scale), err_msg=f"{order}"
        )
