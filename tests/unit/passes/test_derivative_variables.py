"""What a recorded derivative is taken by is a variable of its own, whatever its content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace

Array = np.ndarray[Any, Any]


def product(a: Any, b: Any) -> Any:
    return a * a * b


def total(a: Any, b: Any) -> Any:
    return product(a, b).sum()


def slope(x: Any) -> Any:
    """Another derivative, so that the program has several: then a series is looked for."""
    return pirkit.grad(lambda y: (y**3).sum())(x)


def twice(x: Any) -> Any:
    return *pirkit.grad(total, (0, 1))(x, x), slope(x)


def computed_twice(x: Any) -> Any:
    of_a, of_b = pirkit.grad(total, (0, 1))(ops.exp(x), ops.exp(x))
    return of_a, of_b, slope(x)


def forward(x: Any) -> Any:
    return pirkit.jvp(product, (x, x), (x, x * 0.0))[1], slope(x)


def mixed(x: Any) -> Any:
    return pirkit.grad(lambda a, b: pirkit.grad(total)(a, b).sum(), 1)(x, x), slope(x)


def constants(x: Any) -> Any:
    a, b = [x.b("pd_op.full", shape=x.shape, value=0.0, dtype=x.dtype) for _ in range(2)]
    y = (product(x + a, x + b) * ops.exp(a)).sum()
    return x.b("pir.gradient", y, x.b.ones_like(y), a, targets=1, wrt=1), slope(x)


def reshaped(x: Any) -> Any:
    same = x.b("pd_op.reshape", x, shape=x.shape)
    y = product(same, x).sum()
    return y.b("pir.gradient", y, y.b.ones_like(y), same, targets=1, wrt=1), slope(x)


def at_one(x: Any) -> Any:
    """A third derivative at a constant, beside a forward one that keeps it from being a series."""

    def by_a(a: Any, b: Any, c: Any) -> Any:
        return pirkit.grad(lambda a, b, c: ((a * b) ** 4).sum() + 0.0 * c.sum())(a, b, c).sum()

    def by_b(*given: Any) -> Any:
        return pirkit.grad(by_a, 1)(*given).sum()

    def power(a: Any, b: Any, c: Any) -> Any:
        return (a * b) ** 4

    ones = ops.full_like(x, 1.0)
    slopes = (x * 0.0, x * 0.0 + 1.0, x)
    return pirkit.grad(by_b)(ones, x, x), pirkit.jvp(power, (ones, x, x), slopes)[1]


def itself(x: Any) -> Any:
    """Derivatives of an argument: no operation is between the variable and the result."""

    def third(a: Any, b: Any, c: Any) -> Any:
        del a, b
        return c

    def slope(*given: Any) -> Any:
        return pirkit.grad(lambda *v: third(*v).sum(), 2)(*given).sum()

    one = pirkit.jvp(third, (x, x, x), (x, x * 0.0, x + 1.0))[1]
    other = pirkit.jvp(third, (x, x, x), (x * 0.0, x + 1.0, ops.sin(x)))[1]
    return one, other, pirkit.grad(slope, 2)(x, x, x)


def wanted(x: Array) -> dict[Callable[..., Any], tuple[Array, ...]]:
    e, s = np.exp(x), 3 * x**2
    return {
        twice: (2 * x * x, x * x, s),
        computed_twice: (2 * e * e, e * e, s),
        forward: (2 * x**3, s),
        mixed: (2 * x, s),
        constants: (2 * x * x + x**3, s),
        reshaped: (2 * x * x, s),
        itself: (x + 1.0, np.sin(x), x * 0.0),
        at_one: (48 * x**3, 4 * x**3),
    }


@pytest.mark.parametrize("passes", ["", "cse", "canonicalize", "constant-fold,canonicalize,cse"])
@pytest.mark.parametrize("function", wanted(np.ones(1)), ids=lambda f: f.__name__)
def test_equal_values_are_two_variables(function: Callable[..., Any], passes: str) -> None:
    x = np.array([0.5, 1.0, 2.0])
    traced = trace(function, (x,))
    program = pirkit.run_passes(traced.program, passes) if passes else traced.program
    found = pirkit.compile(program).run({"x0": x} | traced.captured)
    for i, array in enumerate(wanted(x)[function]):
        np.testing.assert_allclose(found[f"y{i}"], array, rtol=1e-12)
