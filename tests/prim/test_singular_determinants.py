"""Determinants of singular matrices have derivatives, and those of others keep theirs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops

Array = np.ndarray[Any, Any]
RNG: Final = np.random.default_rng(5)
SHAPES: Final = [(1, 1), (2, 2), (3, 3), (2, 4, 4), (8, 8)]


def determinant(x: Any) -> Any:
    return ops.sum(ops.det(x), axis=[])


def matrices(shape: tuple[int, ...], lost: int) -> Array:
    """Matrices that lack so much of their rank."""
    x = RNG.normal(size=shape)
    x[..., : min(lost, shape[-1]), :] = 0 if lost >= shape[-1] else x[..., -1:, :]
    return x


def slopes(x: Array) -> Array:
    """A determinant is affine in each element, so that differences are exact."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1
        found[place] = (np.linalg.det(x + step) - np.linalg.det(x - step)).sum() / 2
    return found


@pytest.mark.parametrize("lost", [0, 1, 2, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_first_order(shape: tuple[int, ...], lost: int) -> None:
    x = matrices(shape, lost)
    want = slopes(x)
    np.testing.assert_allclose(pirkit.grad(determinant)(x), want, atol=1e-9)
    direction = RNG.normal(size=shape)
    _, tangent = pirkit.jvp(determinant, (x,), (direction,))
    np.testing.assert_allclose(tangent, (want * direction).sum(), atol=1e-9)


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_second_order(n: int, lost: int) -> None:
    x = matrices((n, n), lost)
    found = np.asarray(pirkit.hessian(determinant)(x))
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1
        want = (slopes(x + step) - slopes(x - step)) / 2
        np.testing.assert_allclose(found[place], want, atol=1e-9)
