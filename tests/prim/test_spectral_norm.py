"""The derivative of `spectral_norm`, with the vectors of the power method as constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops

torch: Any = pytest.importorskip("torch")

RNG = np.random.default_rng(3)
WEIGHT, U, V = RNG.normal(size=(3, 4)), RNG.normal(size=3), RNG.normal(size=4)
SEED, SECOND = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))


def of_torch(weight: Any, steps: int) -> Any:
    u, v = torch.tensor(U), torch.tensor(V)
    with torch.no_grad():
        for _ in range(steps):
            v = weight.T @ u
            v = v / v.norm()
            u = weight @ v
            u = u / u.norm()
    return weight / (u @ weight @ v)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_first_and_second_derivative_are_those_of_torch(steps: int) -> None:
    def loss(weight: Any) -> Any:
        out = ops.spectral_norm(weight, U, V, power_iters=steps)
        return ops.sum(out * out * SEED, axis=(0, 1))

    def along(weight: Any) -> Any:
        return ops.sum(pirkit.grad(loss)(weight) * SECOND, axis=(0, 1))

    weight = torch.tensor(WEIGHT, requires_grad=True)
    out = of_torch(weight, steps)
    (slope,) = torch.autograd.grad(
        (out * out * torch.tensor(SEED)).sum(), weight, create_graph=True
    )
    (bend,) = torch.autograd.grad((slope * torch.tensor(SECOND)).sum(), weight)
    np.testing.assert_allclose(pirkit.grad(loss)(WEIGHT), slope.detach(), rtol=1e-9)
    np.testing.assert_allclose(pirkit.grad(along)(WEIGHT), bend, rtol=1e-8)


def test_many_steps_find_the_greatest_singular_value() -> None:
    found = np.asarray(ops.spectral_norm(WEIGHT, U, V, power_iters=200))
    np.testing.assert_allclose(np.linalg.svd(found, compute_uv=False)[0], 1.0, rtol=1e-12)
