"""Derivatives through complex numbers: that of a real loss to ``z`` is ``dL/dx + i dL/dy``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.dialect.build import Builder, Value
from tests.prim.differentiation import Array, Traced
from tests.prim.rule_checks import differences

Loss = Callable[..., Value]
rng = np.random.default_rng(7)


def number(*shape: int) -> Array:
    return rng.uniform(0.4, 1.2, shape) + 1j * rng.uniform(-0.9, 0.9, shape)


def total(b: Builder, x: Value) -> Value:
    return b.sum(x, tuple(range(x.rank)))


def power(b: Builder, z: Value) -> Value:
    """``|z|^2``, summed."""
    return total(b, b.real(z * b.conj(z)))


def spectral(b: Builder, x: Value) -> Value:
    """A convolution by way of the transform, as a layer of a Fourier operator does it."""
    how: dict[str, Any] = {"axes": (0, 1), "normalization": "ortho"}
    terms = b.fft_r2c(x, forward=True, onesided=True, **how)
    kept = b.tanh(b.real(terms) * 0.3)
    mixed = terms * b.complex(kept, b.imag(terms) * 0.5)
    back = b.fft_c2r(mixed, forward=False, last_dim_size=5, **how)
    return total(b, b.sin(back))


LOSSES: Final[list[tuple[str, Loss, tuple[Array, ...]]]] = [
    ("power", power, (number(3),)),
    ("real times complex", lambda b, x, z: power(b, x * z + x / z), (rng.random(3), number(2, 3))),
    ("complex to the real", lambda b, z, x: power(b, b.elementwise_pow(z, x)),
     (number(3), rng.random(3))),
    ("quotient", lambda b, z, w: power(b, b.exp(z) / w), (number(3), number(3))),
    ("matrices", lambda b, z, w: power(b, b.matmul(z, w, transpose_y=True)),
     (number(2, 3), number(4, 3))),
    ("direction", lambda b, z: total(b, b.imag(b.sign(z) * z * z)), (number(3),)),
    ("length and angle", lambda b, z: total(b, b.abs(z) * b.angle(z)), (number(3),)),
    ("branches", lambda b, z, w: power(b, b.where(b.abs(z) < 1, z * w, w * w)),
     (number(4), number(4))),
    ("spectral", spectral, (rng.random((4, 5)),)),
]  # fmt: skip


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("loss", "inputs"), [r[1:] for r in LOSSES], ids=[r[0] for r in LOSSES])
def test_the_derivative_of_a_real_loss(loss: Loss, inputs: tuple[Array, ...], order: int) -> None:
    """Of the order before it sums the squares, to be a real loss again."""

    def height(t: Traced, times: int) -> Value:
        found = loss(t.b, *t.args)
        for _ in range(times):
            terms = [power(t.b, g) if g.dtype.is_complex else total(t.b, g * g)
                     for g in t.grad(found, t.args) if g is not None]  # fmt: skip
            found = t.b.total(terms) or found
        return found

    t = Traced(inputs)
    grads = t.grad(height(t, order - 1), t.args)
    found = t.run({f"g{i}": g for i, g in enumerate(grads) if g is not None}, "decompose")

    def at(moved: Any) -> float:
        below = Traced(moved)
        return float(below.run({"y": height(below, order - 1)}, "decompose")["y"])

    for i, slope in enumerate(differences(at, inputs)):
        np.testing.assert_allclose(found[f"g{i}"], slope, rtol=1e-5, atol=1e-7)


def test_the_convention_is_that_of_paddle() -> None:
    """Paddle 3.3.1 gives ``conj(w)`` for the derivative of ``real(z w)`` to ``z``."""
    z, w = np.array([1 + 2j]), np.array([3 - 1j])
    t = Traced([z, w])
    (found,) = t.grad(total(t.b, t.b.real(t.args[0] * t.args[1])), t.args[:1])
    assert found is not None
    np.testing.assert_array_equal(t.run({"g": found})["g"], np.conj(w))


def test_the_series_of_a_spectral_function() -> None:
    """All of a transform is linear: derivatives along a line are those of nested sweeps."""
    how: dict[str, Any] = {"axes": [0], "normalization": "ortho"}

    def f(x: Any) -> Any:
        terms = ops.fft_r2c(ops.sin(x), forward=True, onesided=True, **how)
        return ops.fft_c2r(terms * terms, forward=False, last_dim_size=8, **how)

    x, v = rng.standard_normal(8), rng.standard_normal(8)
    _, found = pirkit.jet(f, (x,), ((v, 0 * v, 0 * v),))
    g: Callable[[Any], Any] = f
    for values in found:
        g = along(g, v)
        np.testing.assert_allclose(np.asarray(values), np.asarray(g(x)), rtol=1e-9, atol=1e-11)


def along(f: Callable[[Any], Any], v: Array) -> Callable[[Any], Any]:
    return lambda x: pirkit.jvp(f, (x,), (v,))[1]


@pytest.mark.parametrize("z", [-2 + 0.5j, -1.5 - 0.7j, 1.5 + 0.5j, 0.3 - 2j, -0.2 + 0.1j])
@pytest.mark.parametrize("name", ["acosh", "asinh", "atanh", "acos", "asin", "atan", "log1p"])
def test_inverse_functions_in_all_quadrants(name: str, z: complex) -> None:
    """Derivatives of both modes are those of Cauchy's integral formula around the point."""
    f, at = getattr(ops, name), np.array([z])
    circle = 0.05 * np.exp(2j * np.pi * np.arange(16) / 16)
    values = np.asarray(f(z + circle))
    want = [np.mean(values / circle**k) * k for k in (1, 2)]
    one, zero = np.ones(1, complex), np.zeros(1, complex)
    found = pirkit.jet(f, (at,), ((one, zero),))[1]
    np.testing.assert_allclose(np.ravel(found), want, rtol=1e-9)
    slope = pirkit.grad(lambda x: ops.real(f(x)).sum())(at)
    np.testing.assert_allclose(np.conj(np.asarray(slope)), want[:1], rtol=1e-9)


@pytest.mark.parametrize("shape", [(), (1,), (2,), (2, 1)])
@pytest.mark.parametrize("read", [ops.real, ops.imag, ops.abs])
def test_second_derivatives_of_few_numbers(read: Any, shape: tuple[int, ...]) -> None:
    """Nested gradients of a function are no series: they have a part in each direction."""
    z = number(*shape) if shape else np.array(1.2 + 0.5j)

    def of_first(x: Any) -> Any:
        return read(pirkit.grad(lambda y: (ops.abs(y) ** 3).sum())(x)).sum()

    found, step = np.asarray(pirkit.grad(of_first)(z)), 1e-6
    for place in np.ndindex(z.shape):
        one = np.zeros(z.shape, complex)
        one[place] = step
        want = sum(
            way * float(of_first(z + way * one) - of_first(z - way * one)) / (2 * step)
            for way in (1, 1j)
        )
        np.testing.assert_allclose(found[place], want, rtol=1e-6, atol=1e-8)
