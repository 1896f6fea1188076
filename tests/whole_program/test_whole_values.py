"""Products, sums and moves of values without a batch axis, beside batch rows in lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
from pirkit import ops
from pirkit.frontend.tree import flatten
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program
from pirkit.runtime.native.target import host
from tests.whole_program.networks import (
    assert_close,
    expected,
    graph,
    network,
    step_arguments,
)

RNG = np.random.default_rng(3)
X = RNG.standard_normal((37, 6))
W = RNG.standard_normal((6, 5))
UNIT = np.eye(6)


def check(function: Any, given: Any) -> None:
    """Compiled, the points are in lanes; the results are those of the ops one by one."""
    compiled = pirkit.jit(function)
    found, wanted = (flatten(f(*given))[0] for f in (compiled, function))
    assert_close([np.asarray(v) for v in found], [np.asarray(v) for v in wanted], 1e-12)
    ((made,),) = compiled._compiled.values()
    assert "batches of" in made.whole.native.summary


WHOLE = {
    "a row of a matrix": lambda x, w: ops.tanh(x @ w) * (UNIT[2] @ w),
    "a column of a matrix": lambda x, w: x * (np.eye(5)[1:2] @ w.T),
    "an outer product": lambda x, w: x @ (UNIT[:, 3:4] @ (UNIT[3:4] @ w)),
    "rows in the middle": lambda x, w: ops.tanh(x[:, 1:5] @ w[1:5]) + w[1:2, 0:1],
    "a transposed matrix": lambda x, w: ops.tanh(x @ w) @ ops.transpose(w, perm=[1, 0]),
    "joined": lambda x, w: x @ ops.concat([w, w * 2.0], 1),
    "joined rows": lambda x, w: ops.concat([x, x], 1) @ ops.concat([w, w * 2.0], 0),
    "padded": lambda x, w: x @ ops.pad(w[1:3], paddings=[1, 3, 2, 0], pad_value=0.5),
    "repeated": lambda x, w: x @ (w * ops.sin(w[:1]) + ops.cos(w[:, 2:3])),
    "sums": lambda x, w: ops.tanh(x @ w) * w.sum(0) + (x * w.sum(1))[:, :5],
    "a table of rows": lambda x, w: ops.tanh(x @ w) + X[:, :5] * 0.5,
    "a result": lambda x, w: (ops.tanh(x @ w), ops.transpose(w, perm=[1, 0])),
}


@pytest.mark.parametrize("function", WHOLE.values(), ids=WHOLE)
def test_values_beside_rows(function: Any) -> None:
    check(function, (X, W))


@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("name", ["a transposed matrix", "joined rows", "repeated", "sums"])
def test_narrow_vectors(bits: int, name: str) -> None:
    if bits <= host().vector_bits:
        target, given = replace(host(), vector_bits=bits), (X, W)
        found = batch_lane_program(graph(WHOLE[name], given), target)(*given)
        assert_close(found, expected(WHOLE[name], given), 1e-12)


def _curvature(params: Any, x: Any) -> Any:
    """A Hessian at each point."""

    def residual(z: Any) -> Any:
        h = pirkit.hessian(lambda y: network(params, y)[0])(z)
        return h[0, 0] * h[1, 1] - h[0, 1] * h[1, 0] - z[0]

    return (pirkit.vmap(residual)(x) ** 2).mean()


def _integral(params: Any, x: Any) -> Any:
    """Fredholm's equation: nodes of a quadrature run through the network beside the points."""
    nodes, weights = np.polynomial.legendre.leggauss(7)
    at_nodes = network(params, np.stack([nodes, nodes], 1))[:, 0]
    kernel = ops.exp(-((x[:, :1] - nodes[None]) ** 2))
    return ((network(params, x)[:, 0] - (kernel * at_nodes * weights).sum(1)) ** 2).mean()


def _divergence(params: Any, x: Any) -> Any:
    """A trace, a product of a Jacobian and a vector, and a sum of elementwise products."""

    def residual(z: Any) -> Any:
        slopes = pirkit.jacfwd(lambda y: network(params, y))(z)
        spread = (slopes + slopes.T) * np.array([[1.0, 0.3], [0.3, 2.0]])
        moved = slopes @ network(params, z)
        return np.trace(slopes) + (spread * np.outer(z, z)).sum() * moved[1] + moved.sum()

    return (pirkit.vmap(residual)(x) ** 2).mean()


def _stress(params: Any, x: Any) -> Any:
    """The divergence of what is computed of a Jacobian."""

    def stress(z: Any) -> Any:
        slopes = pirkit.jacfwd(lambda y: network(params, y))(z)
        return np.stack([slopes[0, 0] + slopes.T[1, 0], slopes[1, 0] * 2.0])

    def residual(z: Any) -> Any:
        turned = pirkit.jacfwd(stress)(z)
        return turned[0, 0] + turned[1, 1]

    return (pirkit.vmap(residual)(x) ** 2).mean()


def _weak(params: Any, x: Any) -> Any:
    """Nodes of a quadrature in each element: elements x nodes are rows of a network."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    (first, bias), *others = params

    def element(z: Any) -> Any:
        u = lambda s: network([(first[:1], bias), *others], np.stack([s]))[0]  # noqa: E731
        slopes = pirkit.vmap(pirkit.grad(u))(z[0] + 0.1 * nodes)
        return (slopes * weights) @ np.stack([nodes, nodes**2], 1)

    return (pirkit.vmap(element)(x) ** 2).mean()


@pytest.mark.parametrize("loss", [_curvature, _integral, _divergence, _stress, _weak])
def test_slopes_of_equations(loss: Any) -> None:
    params = step_arguments(9, (2, 6, 5, 2), "float64")[0]
    check(pirkit.value_and_grad(loss), (params, X[:, :2]))
