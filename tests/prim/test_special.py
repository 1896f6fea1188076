"""Derivatives of special functions far up and in delicate places, against series and identities."""

from __future__ import annotations

from math import comb, factorial, fsum

import numpy as np
import pytest

import pirkit
from pirkit import ops
from tests.prim.differentiation import Array, derivatives

X = np.array([-7.5, -2.0, -0.3, 1e-9, 0.0, 1e-4, 0.7, 1.999, 2.001, 4.0])


def bessel(order: int, x: float) -> float:
    """The modified Bessel function of the first kind, by its series."""
    n = abs(order)
    return fsum((x / 2) ** (2 * k + n) / (factorial(k) * factorial(k + n)) for k in range(60))


@pytest.mark.parametrize("order", [0, 1])
def test_bessel_functions(order: int) -> None:
    """Derivative k of I_n is the sum of the binomial coefficients times I_(n-k), I_(n-k+2)..."""
    found = derivatives(lambda b, x: b(f"pd_op.i{order}", x), X, 5)
    for k, values in enumerate(found):
        want = [
            fsum(comb(k, j) * bessel(order - k + 2 * j, float(x)) for j in range(k + 1)) / 2**k
            for x in X
        ]
        np.testing.assert_allclose(values, want, rtol=1e-9, atol=1e-12, err_msg=str(k))


@pytest.mark.parametrize("order", [0, 1])
def test_scaled_bessel_functions(order: int) -> None:
    """They are the others times a falling exponential, which bends at zero."""
    x = X[np.abs(X) > 1e-3]
    name = f"pd_op.i{order}"
    scaled = derivatives(lambda b, v: b(f"{name}e", v), x, 4)
    plain = derivatives(lambda b, v: b(name, v) * b.exp(-b.abs(v)), x, 4)
    for one, other in zip(scaled, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("order", [0, 1])
def test_bessel_functions_where_only_the_exponential_overflows(order: int) -> None:
    x = np.array([-91.0, -89.5, 89.5, 91.0])
    f = getattr(ops, f"i{order}")

    def all_of(x: Array) -> list[Array]:
        one, zero = np.ones_like(x), np.zeros_like(x)
        slope = pirkit.grad(lambda v: f(v).sum())(x)
        return [*map(np.asarray, (slope, *pirkit.jet(f, (x,), ((one, zero, zero),))[1]))]

    for found, want in zip(all_of(x.astype(np.float32)), all_of(x), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4)


def test_nothing_overflows_to_nan() -> None:
    for values in derivatives(lambda b, x: b.i1(x), np.array([-1e4, 800.0, 1e4]), 1):
        assert not np.isnan(values).any()
    for values in derivatives(lambda b, x: b.i1e(x), np.array([-1e4, 1e4]), 4):
        assert np.isfinite(values).all()


def test_the_recurrence_of_the_gamma_function() -> None:
    """``lgamma(x + 1) - lgamma(x)`` is a logarithm, at every order."""
    x = np.array([0.3, 1.0, 2.5, 40.0])
    found = derivatives(lambda b, v: b.lgamma(v + 1) - b.lgamma(v), x, 4)
    want = derivatives(lambda b, v: b.log(v), x, 4)
    for one, other in zip(found, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-12)


def test_the_inverse_error_function() -> None:
    """It undoes `erf`: the derivatives of the identity are 1 and 0."""
    x = np.array([-1.2, 0.0, 0.4, 2.0])
    found = derivatives(lambda b, v: b.erfinv(b.erf(v)), x, 3)
    for values, want in zip(found, (x, 1, 0, 0), strict=True):
        np.testing.assert_allclose(values, np.broadcast_to(want, x.shape), atol=1e-6)


def test_the_angle_of_a_point() -> None:
    """It has no slope at the origin, and one along each axis."""
    for y, x, want in ((0.0, 0.0, 0.0), (0.0, 2.0, 0.5), (3.0, 0.0, 0.0)):
        found = derivatives(lambda b, v, x=x: b.atan2(v, b.like(x, v)), np.array([y]), 1)
        np.testing.assert_array_equal(found[1], [want])
