"""Reverse sweeps over the series of functions: at once, and op by op, they give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.dialect.opdef import OPS, jet, local_derivatives
from pirkit.frontend import transforms
from pirkit.frontend.tracing import trace
from pirkit.passes import run_pipeline
from pirkit.passes.autodiff_taylor import Curves
from tests.prim.differentiation import Array

Function = Callable[..., Any]

DOMAIN: Final = {"acosh": (1.2, 3.0), "log": (0.3, 2.0), "log1p": (-0.5, 2.0)}
WITH_SLOPES: Final = sorted(
    name.removeprefix("pd_op.")
    for name, op in OPS.items()
    if local_derivatives.get(op) and jet.get(op) and not op.writes
)


def gradients(f: Function, *args: Any) -> list[Array]:
    return [np.asarray(g) for g in pirkit.grad(f, tuple(range(len(args))))(*args)]


def op_by_op(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on no sweep goes over a series at once."""
    monkeypatch.setattr(Curves, "holds", lambda *_: False)
    monkeypatch.setattr(transforms, "_EXECUTABLES", type(transforms._EXECUTABLES)())


def compare(monkeypatch: pytest.MonkeyPatch, f: Function, *args: Any) -> None:
    found = gradients(f, *args)
    op_by_op(monkeypatch)
    for a, b in zip(found, gradients(f, *args), strict=True):
        scale = np.abs(b).max()
        np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=1e-11)


def draw(*shape: int, low: float = -0.8, high: float = 0.8, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape)


def weighted(values: Any) -> Any:
    """A number that depends on all values, each in its own way."""
    return sum((v * draw(*v.shape, seed=k) + v * v * 0.3).sum() for k, v in enumerate(values))


def size(f: Function, *args: Any) -> int:
    traced = trace(f, args)
    run_pipeline(traced.program.module, "expand-gradients,canonicalize,cse,dce")
    return len(list(traced.program.entry(None).block.ops))


def loss(function: Function) -> Function:
    def f(x: Any, *series: Any) -> Any:
        y, derivatives = pirkit.jet(function, (x,), (series,))
        return weighted([y, *derivatives])

    return f


def test_who_has_slopes() -> None:
    assert {"tanh", "sigmoid", "exp", "sin", "cos", "erf", "log"} <= set(WITH_SLOPES)


@pytest.mark.parametrize("name", WITH_SLOPES)
def test_functions(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    low, high = DOMAIN.get(name, (-0.8, 0.8))
    x = draw(5, low=low, high=high, seed=9)
    compare(monkeypatch, loss(getattr(ops, name)), x, *(draw(5, seed=k) for k in range(3)))


@pytest.mark.parametrize("name", ["exp", "tanh", "sin"])
def test_a_coefficient_may_be_the_result_or_the_slope(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def f(x: Any) -> Any:
        y, derivatives = pirkit.jet(getattr(ops, name), (x,), ((1.0, 0.0, 0.0),))
        return weighted([y, *derivatives])

    compare(monkeypatch, f, draw(4))


def test_layers_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, w: Any, v: Any) -> Any:
        def network(x: Any) -> Any:
            return ops.sin(ops.matmul(ops.tanh(ops.matmul(x, w)), v) + x)

        y, derivatives = pirkit.jet(network, (x,), ((1.0, 0.0, 0.5, 0.0),))
        return weighted([y, *derivatives[1:]])  # nobody asks for the first one

    compare(monkeypatch, f, draw(3, 2), draw(2, 4, seed=1), draw(4, 2, seed=2))


def test_several_directions_and_what_is_read_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, d: Any) -> Any:
        def slope(x: Any) -> Any:
            return pirkit.jet(lambda z: ops.tanh(z * z), (x,), ((d, 0.0),))[1][1]

        y, derivatives = pirkit.jet(slope, (x,), ((1.0, 0.0),))  # through a series
        other = pirkit.jet(lambda z: ops.tanh(z * z), (x,), ((1.0,),))[1]
        return weighted([y, *derivatives, *other])

    compare(monkeypatch, f, draw(4), draw(4, seed=1))


def test_derivatives_of_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        first = pirkit.grad(lambda z: loss(lambda u: ops.exp(ops.tanh(u)))(z, z, z * 0.5))
        return weighted([first(x)])

    compare(monkeypatch, f, draw(4))


def test_coefficients_that_are_differentiated_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        _, (slope,) = pirkit.jet(ops.tanh, (x,), ((1.0,),))
        target, one = slope * slope, ops.full_like(x, 1.0)
        return weighted(x.b("pir.gradient", target, one, slope, x, targets=1, wrt=2))

    compare(monkeypatch, f, draw(4))


def test_complex_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, d: Any) -> Any:
        z = ops.complex(x, d)
        y, derivatives = pirkit.jet(ops.exp, (z,), ((z, z * z),))
        return weighted([ops.real(y), *[ops.imag(v) for v in derivatives]])

    compare(monkeypatch, f, draw(4), draw(4, seed=1))


def test_a_sweep_over_a_series_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [draw(5, seed=k) for k in range(5)]

    def backward(x: Any, *series: Any) -> Any:
        return pirkit.grad(loss(ops.tanh), tuple(range(5)))(x, *series)

    at_once = size(backward, *arguments)
    op_by_op(monkeypatch)
    assert at_once <= size(backward, *arguments) - 30
