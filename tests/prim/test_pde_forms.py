"""Forms in which people write derivatives: one native call each, and right gradients."""

# ruff: noqa: E731 - as people write residuals

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
import pirkit.numpy as pnp
from pirkit import grad, hessian, jacfwd, jacrev, jvp, vmap

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(0.1, 1.0, (12, 2))
WEIGHTS = [RNG.normal(0, 0.8, shape) for shape in [(2, 6), (6, 6), (6, 2)]]


def net(weights: Any, x: Any) -> Any:
    for w in weights[:-1]:
        x = pnp.tanh(x @ w)
    return x @ weights[-1]


def d(u: Callable[[Any], Any], k: int) -> Callable[[Any], Any]:
    return lambda x: grad(lambda x: u(x).sum())(x)[:, k]


def along(f: Callable[[Any], Any], k: int) -> Callable[[Any], Any]:
    return lambda x: jvp(f, (x,), (pnp.zeros_like(x) + np.eye(2, dtype=x.dtype)[k],))[1]


def variable_stiffness(weights: Any, x: Any) -> Any:
    """(EI u'')'' of a beam: the outer series and the inner one share coefficients."""
    moment = lambda x: (1 + x[:, 0] ** 2) * d(d(lambda x: net(weights, x)[:, 0], 0), 0)(x)
    return d(d(moment, 0), 0)(x) + d(moment, 1)(x)


def fokker_planck(weights: Any, x: Any) -> Any:
    p = lambda x: pnp.exp(-net(weights, x)[:, 0])
    spread = lambda x: (1 + x[:, 0] ** 2) * p(x)
    return along(p, 1)(x) - along(lambda x: x[:, 0] * p(x), 0)(x) - along(along(spread, 0), 0)(x)


def elasticity(weights: Any, x: Any) -> Any:
    h = vmap(jacfwd(jacrev(lambda z: net(weights, z))))(x)
    return (3 * h[:, 0, 0, 0] + h[:, 0, 1, 1] + 2 * h[:, 1, 0, 1]) * h[:, 1, 1, 1]


def scalars(weights: Any, x: Any) -> Any:
    v = lambda s, t: net(weights, pnp.stack([s, t]))[0]
    s, t = x[:, 0], x[:, 1]
    return vmap(grad(v, argnums=1))(s, t) + s**2 * vmap(grad(grad(v)))(s, t) * vmap(v)(s, t)


def guarded(weights: Any, x: Any) -> Any:
    def one(z: Any) -> Any:
        slope, way = jvp(grad(lambda z: net(weights, z)[0]), (z,), (pnp.ones_like(z),))
        near = z[0] > 0.5
        return way[0] + pnp.where(near, slope[0] / pnp.where(near, z[0], 1.0), way[1])

    return vmap(one)(x)


def conservation_law(weights: Any, x: Any) -> Any:
    """Jacobians of stacked outputs: their cotangents have columns that are constants alone."""
    state = lambda z: net(weights, z)
    flux = lambda z: pnp.stack([state(z)[1], pnp.exp(state(z)[0]) * state(z)[1] ** 2])
    return vmap(lambda z: jacfwd(state)(z)[:, 1] + jacfwd(flux)(z)[:, 0])(x)


@pytest.mark.parametrize(
    "residual", [variable_stiffness, fokker_planck, elasticity, scalars, guarded, conservation_law]
)
def test_gradients_are_slopes_of_the_loss(residual: Callable[[Any, Any], Any]) -> None:
    loss = lambda weights, x: (residual(weights, x) ** 2).mean()
    step = pirkit.jit(pirkit.value_and_grad(loss))
    _, found = step(WEIGHTS, POINTS)
    ((compiled,),) = step._compiled.values()
    assert "batches of 12 rows" in compiled.whole.native.summary
    ways = [RNG.normal(size=w.shape) for w in WEIGHTS]
    values = [
        float(step([w + h * way for w, way in zip(WEIGHTS, ways, strict=True)], POINTS)[0])
        for h in (-1e-5, 1e-5)
    ]
    slope = sum(float((np.asarray(g) * way).sum()) for g, way in zip(found, ways, strict=True))
    np.testing.assert_allclose(slope, (values[1] - values[0]) / 2e-5, rtol=1e-6)


def test_dot_products_of_rows_stay_rows() -> None:
    """A network that ends in a dot product, and dot products of its slopes, as in an eikonal."""
    w, c = WEIGHTS[0], RNG.normal(size=6)

    def loss(c: Any, x: Any) -> Any:
        u = lambda z: pnp.tanh(z @ w) @ c

        def residual(z: Any) -> Any:
            slope = grad(u)(z)
            return slope @ slope - u(z) * (z @ z)

        return (vmap(residual)(x) ** 2).mean()

    step = pirkit.jit(pirkit.value_and_grad(loss))
    value, found = step(c, POINTS)
    h = np.tanh(POINTS @ w)
    slopes = (1 - h * h) @ (w * c).T
    residuals = (slopes**2).sum(1) - (h @ c) * (POINTS**2).sum(1)
    by_c = 2 * np.einsum("nd,nk,dk->nk", slopes, 1 - h * h, w) - h * (POINTS**2).sum(1)[:, None]
    np.testing.assert_allclose(value, (residuals**2).mean(), rtol=1e-12)
    np.testing.assert_allclose(found, 2 * (residuals[:, None] * by_c).mean(0), rtol=1e-12)
    ((compiled,),) = step._compiled.values()
    assert "batches of 12 rows" in compiled.whole.native.summary


def test_forms_of_one_operator_agree() -> None:
    u = lambda x: net(WEIGHTS, x)[:, 0]
    point = lambda z: net(WEIGHTS, z)[0]
    forms: list[Callable[[Any], Any]] = [
        lambda x: d(d(u, 0), 0)(x) + d(d(u, 1), 1)(x),
        lambda x: along(along(u, 0), 0)(x) + along(along(u, 1), 1)(x),
        lambda x: vmap(lambda z: hessian(point)(z))(x)[:, [0, 1], [0, 1]].sum(axis=1),
        vmap(pirkit.laplacian(point)),
    ]
    first, *others = [np.asarray(pirkit.jit(form)(POINTS)) for form in forms]
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-12, atol=1e-12)
