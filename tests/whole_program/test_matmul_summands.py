"""Matmuls add what a step alone adds to them, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from tests.whole_program.test_convolutions import whole_of

Array = np.ndarray[Any, Any]


def normal(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def product(x: Any, y: Any) -> Any:
    return ops.matmul(x, y)


X, Y = normal(2, 3, 70, 80), normal(3, 80, 65)
PAIR = normal(130, 80), normal(80, 65)

PROGRAMS: dict[str, tuple[Any, tuple[Array, ...], int]] = {
    "a number for each row": (lambda x, y, s: product(x, y) + s, (X, Y, normal(70, 1)), 1),
    "for each row of a matrix": (lambda x, y, s: s + product(x, y), (X, Y, normal(3, 70, 1)), 1),
    "for each column": (lambda x, y, s: product(x, y) + s, (X, Y, normal(65)), 1),
    "for each element": (lambda x, y, s: product(x, y) + s, (X, Y, normal(2, 3, 70, 65)), 1),
    "two": (
        lambda x, y, s, t: product(x, y) + s + t,
        (X, Y, normal(65), normal(2, 3, 70, 65)),
        1,
    ),
    "in another shape": (
        lambda x, y, s: ops.reshape(product(x, y), (2, 210, 5, 13)) + s,
        (X, Y, normal(210, 1, 1)),
        1,
    ),
    "rows that are cut": (
        lambda x, y, s: ops.reshape(product(x, y), (2, 210, 5, 13)) + s,
        (X, Y, normal(210, 5, 1)),
        2,
    ),
    "columns of a transposed matrix": (
        lambda x, y, s: product(x, y) + ops.transpose(s, (1, 0)),
        (*PAIR, normal(65, 130)),
        2,
    ),
    "itself": (lambda x, y: product(x, y) + product(x, y) * 0.5, PAIR, 2),
    "then a function": (lambda x, y, s: ops.tanh(product(x, y) + s), (*PAIR, normal(65)), 2),
    "another product": (
        lambda x, y, s, t: product(x, y) + product(s, t),
        (*PAIR, normal(130, 90), normal(90, 65)),
        2,
    ),
    "what is computed later": (
        lambda x, y, s: product(x, y) + ops.cumsum(s, 0) * 1.0,
        (*PAIR, normal(130, 65)),
        3,
    ),
}


def check_steps(function: Any, given: tuple[Array, ...], steps: int) -> None:
    """One native call of so many steps gives what the function gives in double precision."""
    whole = whole_of(function, given)
    assert whole.native is not None, whole.reasons
    assert len(whole.native.steps) == steps
    exact = function(*map(pirkit.from_numpy, [a.astype(np.float64) for a in given]))
    np.testing.assert_allclose(whole.native(*given)[0], exact.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_the_reference(name: str) -> None:
    """In as many steps: one that only adds is part of the matmul."""
    check_steps(*PROGRAMS[name])


def test_a_product_that_is_a_result_stays() -> None:
    def both(x: Any, y: Any, s: Any) -> Any:
        made = product(x, y)
        return made, made + s

    given = X, Y, normal(65)
    native = whole_of(both, given).native
    assert native is not None
    found = native(*given)
    np.testing.assert_allclose(found[0], X @ Y, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1], X @ Y + given[2], rtol=1e-4, atol=1e-4)
