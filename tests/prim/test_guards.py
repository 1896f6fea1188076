"""Derivatives of `where`, of any order, are those of the branch that is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops

X: Final = np.array([0.0, 0.25, 1.0, 4.0])
Function = Callable[[Any], Any]


def slope(f: Function) -> Function:
    return lambda x: pirkit.grad(lambda x: f(x).sum())(x)


def sinc(x: Any) -> Any:
    return pirkit.where(x > 0, ops.sin(x) / x, 1.0 - x * x / 6)


CASES: Final[dict[str, tuple[Function, list[Function]]]] = {
    "sqrt": (
        lambda x: pirkit.where(x > 0, ops.sqrt(x), 3 * x),
        [
            lambda x: np.where(x > 0, 0.5 * x**-0.5, 3.0),
            lambda x: np.where(x > 0, -0.25 * x**-1.5, 0.0),
            lambda x: np.where(x > 0, 0.375 * x**-2.5, 0.0),
        ],
    ),
    "log of a difference, in the other branch": (
        lambda x: pirkit.where(x <= 0.5, x * x, ops.log(x - 0.25)),
        [
            lambda x: np.where(x <= 0.5, 2 * x, 1 / (x - 0.25)),
            lambda x: np.where(x <= 0.5, 2, -1 / (x - 0.25) ** 2),
            lambda x: np.where(x <= 0.5, 0, 2 / (x - 0.25) ** 3),
        ],
    ),
    "a quotient that overflows": (
        lambda x: pirkit.where(x > 0.1, 1 / (ops.exp(1 / x) * x), x),
        [
            lambda x: np.where(x > 0.1, np.exp(-1 / x) * (1 - x) / x**3, 1.0),
            lambda x: np.where(x > 0.1, np.exp(-1 / x) * (2 * x**2 - 4 * x + 1) / x**5, 0.0),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_branch_that_is_not_taken_spoils_nothing(name: str) -> None:
    f, expected = CASES[name]
    for order, exact in enumerate(expected, 1):
        f = slope(f)
        with np.errstate(all="ignore"):
            wanted = exact(X)
        found = np.asarray(pirkit.jit(f)(X))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=f"order {order}")


def test_a_parameter_of_a_branch_gets_no_nan() -> None:
    def loss(p: Any, x: Any) -> Any:
        return pirkit.where(x > 0, ops.log(x * p), 0.0 * x).sum()

    found = np.asarray(pirkit.jit(pirkit.grad(loss))(np.array([2.0]), X))
    np.testing.assert_allclose(found, [1.5], rtol=1e-12)


def test_a_loss_of_guarded_slopes_has_slopes() -> None:
    def loss(p: Any, x: Any) -> Any:
        def u(x: Any) -> Any:
            return pirkit.where(x > 0, ops.sqrt(x) * p, x * p)

        return (slope(slope(u))(x) ** 2).sum()

    found = np.asarray(pirkit.jit(pirkit.grad(loss))(np.array([3.0]), X))
    np.testing.assert_allclose(found, [6 * (0.0625 * X[1:] ** -3.0).sum()], rtol=1e-12)
