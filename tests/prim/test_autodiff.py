"""Reverse mode against finite differences and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pirkit.dialect.attrs import encode
from pirkit.dialect.build import ORDER, Builder, Value, derivative_order
from tests.prim.differentiation import CLEAN, Array, Traced, derivatives, numeric_gradient

X: Array = np.array([0.3, -0.7, 1.1])


def test_tanh_any_order() -> None:
    found = derivatives(lambda b, x: b.tanh(x), X, 4)
    t = np.tanh(X)
    s = 1 - t * t
    expected = [t, s, -2 * t * s, -2 * s * s + 4 * t * t * s, 16 * t * s * s - 8 * t**3 * s]
    for order, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(one, other, rtol=1e-12, err_msg=f"order {order}")


def test_a_zero_derivative_is_known_to_be_zero() -> None:
    found = derivatives(lambda b, x: x * x * x, X, 5)
    np.testing.assert_allclose(found[3], 6.0)
    np.testing.assert_array_equal(found[4], 0.0)
    np.testing.assert_array_equal(found[5], 0.0)


@pytest.mark.parametrize("name", ["sqrt", "rsqrt", "reciprocal", "log"])
def test_powers_grow_linearly(name: str) -> None:
    x = np.array([0.5, 1.5])
    t = Traced([x])
    y: Value | None = getattr(t.b, name)(t.args[0])
    for _ in range(6):
        assert y is not None
        (y,) = t.grad(y, t.args)
    assert y is not None
    t.run({"y": y}, CLEAN)
    assert t.ops <= 30


def mlp(b: Builder, x: Value, w: Value, v: Value) -> Value:
    return b.matmul(b.softmax(b.matmul(x, w), axis=-1), v)


def test_a_network_against_finite_differences() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in ((4, 3), (3, 5), (5, 2))]
    weights = rng.standard_normal((4, 2))
    t = Traced([*arrays, weights])
    x, w, v, seed = t.args
    y = mlp(t.b, x, w, v)
    grads = t.grad(y, [x, w, v], seed)
    found = t.run({f"g{i}": g for i, g in enumerate(grads) if g is not None}, "decompose")

    def forward(*given: Array) -> Array:
        e = np.exp(given[0] @ given[1])
        return (e / e.sum(-1, keepdims=True)) @ given[2]

    for i in range(3):

        def at(a: Array, i: int = i) -> Array:
            return forward(*(a if j == i else other for j, other in enumerate(arrays)))

        expected = numeric_gradient(at, arrays[i], weights)
        np.testing.assert_allclose(found[f"g{i}"], expected, rtol=1e-6, atol=1e-8)


def _shapes() -> list[tuple[Any, Any, bool, bool]]:
    return [
        ((2, 3), (3, 4), False, False),
        ((3, 2), (4, 3), True, True),
        ((2, 3), (4, 3), False, True),
        ((3,), (3, 4), False, False),
        ((2, 3), (3,), False, False),
        ((3,), (3,), False, False),
        ((5, 2, 3), (3, 4), False, False),
        ((2, 1, 2, 3), (5, 4, 3), False, True),
    ]


@pytest.mark.parametrize(("xs", "ys", "tx", "ty"), _shapes())
def test_matmul(xs: Any, ys: Any, tx: bool, ty: bool) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(xs), rng.standard_normal(ys)

    def value(a: Array, b: Array) -> Array:
        a = a.swapaxes(-1, -2) if tx and a.ndim > 1 else a
        b = b.swapaxes(-1, -2) if ty and b.ndim > 1 else b
        return np.asarray(a @ b)

    weights = rng.standard_normal(value(x, y).shape)
    t = Traced([x, y, weights])
    out = t.b.matmul(t.args[0], t.args[1], transpose_x=tx, transpose_y=ty)
    grads = t.grad(out, t.args[:2], t.args[2])
    found = t.run({f"g{i}": g for i, g in enumerate(grads) if g is not None})
    np.testing.assert_allclose(
        found["g0"], numeric_gradient(lambda a: value(a, y), x, weights), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        found["g1"], numeric_gradient(lambda a: value(x, a), y, weights), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("gathers", [1, 2])
def test_rows_are_scattered_to_the_other_cotangents(gathers: int) -> None:
    """The gradient of tied embeddings has one array of their size, and no sum of two."""
    rng = np.random.default_rng(2)
    table, places = rng.standard_normal((7, 3)), np.array([2, 0, 2, 6])

    def value(e: Array) -> Array:
        rows = sum(e[(places + k) % 7] for k in range(gathers))
        return np.asarray(rows @ e.T)

    weights = rng.standard_normal((4, 7))
    t = Traced([table, weights, *[(places + k) % 7 for k in range(gathers)]])
    rows = [t.b.gather(t.args[0], index, axis=0) for index in t.args[2:]]
    both = rows[0] if gathers == 1 else t.b.add(*rows)
    (grad,) = t.grad(t.b.matmul(both, t.args[0], transpose_y=True), t.args[:1], t.args[1])
    assert grad is not None
    made = [grad.ssa.owner]
    for _ in range(gathers - 1):
        made.append(made[-1].operands[0].owner)
    assert [op.name for op in made] == ["pd_op.scatter_nd_add"] * gathers
    assert made[-1].operands[0].owner.name == "pd_op.matmul"
    np.testing.assert_allclose(
        t.run({"g": grad})["g"], numeric_gradient(value, table, weights), rtol=1e-6, atol=1e-8
    )


def test_an_order_that_is_no_integer_is_none() -> None:
    t = Traced([X])
    y = t.b.tanh(t.args[0])
    t.b.emitted[-1].attributes[ORDER] = encode("str", "first")
    (grad,) = t.grad(y, t.args)
    assert grad is not None
    assert derivative_order(grad.ssa.owner) == 1
