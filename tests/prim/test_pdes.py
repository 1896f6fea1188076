"""Residuals of partial differential equations, and the gradients of their losses, against torch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops

torch = pytest.importorskip("torch", reason="torch is not installed")

Term = tuple[int, ...]
"""A derivative: the columns of the input along which it is taken, one after the other."""

PDES: dict[str, tuple[tuple[Term, ...], Callable[..., Any]]] = {
    "heat": (((0,), (1, 1)), lambda u, t, xx: t - 0.1 * xx),
    "burgers": (((0,), (1,), (1, 1)), lambda u, t, x, xx: t + u * x - 0.01 * xx),
    "korteweg_de_vries": (((0,), (1,), (1, 1, 1)), lambda u, t, x, xxx: t + 6.0 * u * x + xxx),
    "biharmonic": (
        ((0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1)),
        lambda u, xxxx, xxyy, yyyy: xxxx + 2.0 * xxyy + yyyy,
    ),
    "allen_cahn": (((0,), (1, 1)), lambda u, t, xx: t - 1e-3 * xx + 5.0 * u * u * u - 5.0 * u),
    "kuramoto_sivashinsky": (
        ((0,), (1,), (1, 1), (1, 1, 1, 1)),
        lambda u, t, x, xx, xxxx: t + u * x + xx + xxxx,
    ),
}
ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "tanh": (ops.tanh, torch.tanh),
    "sin": (ops.sin, torch.sin),
    "swish": (ops.swish, torch.nn.functional.silu),
    "gelu": (ops.gelu, torch.nn.functional.gelu),
}


def network(weights: list[tuple[Any, Any]], x: Any, activation: Callable[..., Any]) -> Any:
    for i, (w, b) in enumerate(weights):
        x = x @ w + b
        x = activation(x) if i + 1 < len(weights) else x
    return x


def along(f: Callable[..., Any], column: int) -> Callable[..., Any]:
    """The derivative of each row of the result with respect to a column of the same row."""
    slope = pirkit.grad(lambda w, x: f(w, x).sum(), 1)
    return lambda w, x: slope(w, x)[:, column : column + 1]


def torch_along(u: Any, x: Any, term: Term) -> Any:
    for column in term:
        u = torch.autograd.grad(u.sum(), x, create_graph=True)[0][:, column : column + 1]
    return u


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("pde", PDES)
def test_loss_and_weight_gradients(pde: str, activation: str) -> None:
    rng = np.random.default_rng(0)
    sizes = (2, 6, 6, 1)
    weights = [
        (rng.standard_normal((n, m)) / np.sqrt(n), 0.1 * rng.standard_normal(m))
        for n, m in pairwise(sizes)
    ]
    points = rng.uniform(-1, 1, (5, 2))
    terms, residual = PDES[pde]
    ours, theirs = ACTIVATIONS[activation]

    def u(w: Any, x: Any) -> Any:
        return network(w, x, ours)

    def loss(w: Any, x: Any) -> Any:
        found = []
        for term in terms:
            f: Callable[..., Any] = u
            for column in term:
                f = along(f, column)
            found.append(f(w, x))
        r = residual(u(w, x), *found)
        return (r * r).mean()

    value, gradients = pirkit.value_and_grad(loss)(weights, points)

    leaves = [torch.tensor(v, requires_grad=True) for pair in weights for v in pair]
    x = torch.tensor(points, requires_grad=True)
    pairs = list(zip(leaves[::2], leaves[1::2], strict=True))
    v = network(pairs, x, theirs)
    r = residual(v, *[torch_along(v, x, term) for term in terms])
    expected = (r * r).mean()
    slopes = torch.autograd.grad(expected, leaves, allow_unused=True)
    np.testing.assert_allclose(np.asarray(value), expected.item(), rtol=1e-11)
    flat = [g for pair in gradients for g in pair]
    for found, leaf, slope in zip(flat, leaves, slopes, strict=True):
        wanted = np.zeros(leaf.shape) if slope is None else slope.numpy()
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9, atol=1e-11)
