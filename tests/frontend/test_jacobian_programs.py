"""Jacobians and functions of rows become matmuls, in one native call."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.dialect.types import meta_of
from pirkit.frontend.surroundings import Surroundings
from tests.tolerance import drift

W = np.linspace(-1, 1, 12).reshape(3, 4)


def _net(x: Any) -> Any:
    return ops.tanh(ops.tanh(x @ W) @ W.T)


def _matmul_shapes(program: Any) -> list[tuple[tuple[int, ...], ...]]:
    found = [op for op in program.main.block.ops if op.name == "pd_op.matmul"]
    return [tuple(meta_of(v.type).shape for v in op.operands) for op in found]


@pytest.mark.parametrize("jacobian", [pirkit.jacrev, pirkit.jacfwd])
def test_rows_and_directions_are_rows_of_one_product(jacobian: Any) -> None:
    """Many products of one row each would read the matrix anew for every row."""
    wide = np.linspace(-1, 1, 30).reshape(5, 6)

    def f(x: Any) -> Any:
        return ops.tanh(x @ wide) @ wide.T

    program = pirkit.trace(pirkit.vmap(jacobian(f)), np.ones((7, 5)))
    shapes = _matmul_shapes(program)
    assert shapes
    assert all(len(left) == 2 and len(right) == 2 for left, right in shapes)
    assert max(left[0] for left, _ in shapes) == 35


@pytest.mark.parametrize(("flip_x", "flip_y"), list(product([False, True], repeat=2)))
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("ranks", [(1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (2, 3)])
def test_products_of_rows(
    ranks: tuple[int, int], axes: tuple[Any, Any], flip_x: bool, flip_y: bool
) -> None:
    """`vmap` of a product is the loop over its rows, whichever side has rows."""
    sizes = [
        (2, 3, 4)[3 - ranks[0] :] if not flip_x or ranks[0] == 1 else (2, 4, 3)[3 - ranks[0] :],
        (2, 4, 5)[3 - ranks[1] :] if not flip_y or ranks[1] == 1 else (2, 5, 4)[3 - ranks[1] :],
    ]
    sizes = [(4,) if r == 1 else s for r, s in zip(ranks, sizes, strict=True)]
    rng = np.random.default_rng(0)
    given = [rng.normal(size=s if a is None else (6, *s)) for s, a in zip(sizes, axes, strict=True)]

    def one(x: Any, y: Any) -> Any:
        return ops.matmul(x, y, transpose_x=flip_x, transpose_y=flip_y)

    def row(i: int) -> list[Any]:
        return [g if a is None else g[i] for g, a in zip(given, axes, strict=True)]

    wanted = np.stack([one(*row(i)).numpy() for i in range(6)])
    assert drift(pirkit.vmap(one, in_axes=axes)(*given).numpy(), wanted) is None


@pytest.mark.parametrize("ranks", [(1, 1), (1, 2), (2, 1), (1, 3), (3, 1)])
@pytest.mark.parametrize("flips", list(product([False, True], repeat=2)))
def test_products_of_vectors_are_native(ranks: tuple[int, int], flips: tuple[bool, bool]) -> None:
    """A vector is a row on the left and a column on the right."""
    left = (2, 7, 3)[3 - ranks[0] :] if not flips[0] else (2, 3, 7)[3 - ranks[0] :]
    right = (2, 3, 5)[3 - ranks[1] :] if not flips[1] else (2, 5, 3)[3 - ranks[1] :]
    x = np.random.default_rng(1).normal(size=(3,) if ranks[0] == 1 else left)
    y = np.random.default_rng(2).normal(size=(3,) if ranks[1] == 1 else right)

    def f(x: Any, y: Any) -> Any:
        return ops.matmul(ops.sin(x), y, transpose_x=flips[0], transpose_y=flips[1])

    program = pirkit.trace(f, x, y)
    found = pirkit.compile(program, require_native=True)(x=x, y=y)["y0"]
    assert drift(found, f(x, y).numpy()) is None


def test_a_jacobian_is_one_native_call() -> None:
    f = pirkit.jit(pirkit.hessian(lambda x: (_net(x) ** 2).sum()))
    x = np.linspace(-1, 1, 3)
    assert drift(f(x).numpy(), pirkit.hessian(lambda x: (_net(x) ** 2).sum())(x).numpy()) is None
    program = pirkit.trace(pirkit.jacrev(_net), x)
    assert pirkit.compile(program, require_native=True).native is not None


def test_functions_of_known_packages_are_not_searched() -> None:
    """A function that can reach one of them would watch thousands of places at each call."""
    jnp = pytest.importorskip("jax.numpy")
    pair = (lambda x: x * 2, jnp.tanh)
    labels = [p.label for p in Surroundings.of(lambda x: pair[0](x)).places]
    assert labels == ["len(pair)", "pair[0]", "pair[1]"]


@pytest.mark.parametrize("outer", ["jvp", "jacfwd", "grad", "hessian of the inner"])
def test_directions_that_depend_on_the_variable(outer: str) -> None:
    """The derivative of ``f'(x) v(x)`` has a term ``f'(x) v'(x)``, which one series lacks."""
    x = np.array([0.5, -0.2])
    c, s = np.cos(x), np.sin(x)

    def inner(x: Any) -> Any:
        return pirkit.jvp(lambda x: (x * x * x).sum(), (x,), (np.cos(x),))[1]

    slope = 6 * x * c - 3 * x * x * s
    if outer == "jvp":
        found, wanted = pirkit.jvp(inner, (x,), (c,))[1], (slope * c).sum()
    elif outer == "hessian of the inner":
        second = 6 * c - 12 * x * s - 3 * x * x * c
        found, wanted = pirkit.jacfwd(pirkit.jacfwd(inner))(x), np.diag(second)
    else:
        found, wanted = getattr(pirkit, outer)(inner)(x), slope
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
