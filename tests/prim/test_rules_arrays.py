"""Derivatives of ops on arrays where other systems are silently wrong, or where it is delicate.

Every case is compared with central differences of the order below, never with another framework.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from pirkit.dialect.build import Builder, Value
from tests.prim.differentiation import Array, Traced
from tests.prim.rule_checks import Program, derivative, differences, height, runner

Function = Callable[..., Value]

RNG: Final = np.random.default_rng(3)


def program(f: Function, inputs: list[Array], known: bool = True) -> Program:
    t = Traced(inputs, known=known)
    return Program(t, [f(t.b, *t.args)])


def check(f: Function, inputs: list[Array], orders: int = 3, pipeline: str = "") -> None:
    """Every order is the slope of the one below, before and after decomposition."""
    for order in range(1, orders + 1):
        p = program(f, inputs)
        found = runner(p, derivative(p, order), pipeline)(inputs)
        below = program(f, inputs)
        run = runner(below, [height(below, order)])
        slopes = differences(lambda moved, run=run: float(run(moved)[0]), inputs)
        for exact, slope in zip(found, slopes, strict=True):
            np.testing.assert_allclose(exact, slope, rtol=5e-5, atol=1e-5, err_msg=f"{order}")


WITH_ZEROS: Final = np.array([[0.5, 0.0, -1.5, 2.0], [0.0, 0.7, 0.0, -0.3]])

CUBE: Final[dict[str, Function]] = {
    "prod": lambda b, x: b.prod(x, axis=(1,), keepdim=False, reduce_all=False),
    "prod of all": lambda b, x: b.prod(x, axis=(), keepdim=True, reduce_all=True),
    "cumprod": lambda b, x: b.cumprod(x, dim=1),
    "exclusive cumprod": lambda b, x: b.cumprod(x, dim=1, exclusive=True),
    "reverse cumprod": lambda b, x: b.cumprod(x, dim=-1, reverse=True),
    "reverse exclusive cumprod": lambda b, x: b.cumprod(x, dim=0, reverse=True, exclusive=True),
}


@pytest.mark.parametrize("f", CUBE.values(), ids=CUBE)
def test_products_of_zeros(f: Function) -> None:
    """Two zeros in one product have a second derivative, which a division does not find."""
    check(f, [WITH_ZEROS])


def test_running_products_of_any_size() -> None:
    for reverse in (False, True):
        found: list[Array] = []
        for known in (True, False):
            p = program(lambda b, x, r=reverse: b.cumprod(x, dim=1, reverse=r), [WITH_ZEROS], known)
            b, x = p.traced.b, p.traced.args[0]
            total = b.sum(b.sin(p.results[0]), (0, 1))
            (grad,) = p.traced.grad(total, [x])
            assert grad is not None
            found += runner(p, [grad], "decompose")([WITH_ZEROS])
        np.testing.assert_allclose(*found, rtol=1e-12)


SORTED: Final[dict[str, Function]] = {
    "sort": lambda b, x: cube(b.argsort(x, axis=0)[0]),
    "sort down": lambda b, x: cube(b.argsort(x, axis=-1, descending=True)[0]),
    "topk": lambda b, x: cube(b.topk(x, k=2, axis=1)[0]),
    "least of topk": lambda b, x: cube(b.topk(x, k=2, axis=0, largest=False)[0]),
    "kthvalue": lambda b, x: cube(b.kthvalue(x, k=2, axis=1)[0]),
    "median": lambda b, x: cube(b.median(x, axis=(0, 1), keepdim=False)[0]),
    "cummax": lambda b, x: cube(b.cummax(x, axis=1)[0]),
    "take_along_axis": lambda b, x: cube(b.take_along_axis(x, b.argsort(x, axis=1)[1], axis=1)),
}


def cube(x: Value) -> Value:
    return x * x * x


@pytest.mark.parametrize("f", SORTED.values(), ids=SORTED)
def test_order_at_higher_orders(f: Function) -> None:
    check(f, [RNG.permutation(12).reshape(3, 4) / 4 - 1.2])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("pipeline", ["", "decompose"])
def test_logcumsumexp(reverse: bool, pipeline: str) -> None:
    def f(b: Builder, x: Value) -> Value:
        return b.logcumsumexp(x, axis=1, reverse=reverse)

    check(f, [RNG.uniform(-1, 1, (2, 5))], pipeline=pipeline)
    check(f, [np.array([[0.5, 0.5, 0.5], [-1, 2, 2]])], pipeline=pipeline)


def test_logcumsumexp_far_apart() -> None:
    """No exponent overflows, and small terms behind large ones keep their derivative."""
    x = np.array([[-700.0, 700.0, -700.0, 1e4]])
    for pipeline in ("", "decompose"):
        p = program(lambda b, x: b.logcumsumexp(x, axis=1), [x])
        (found,) = runner(p, derivative(p, 1), pipeline)([x])
        weights = np.random.default_rng(0).uniform(0.5, 1.5, (1, 4))[0]
        expected = [[weights[0], weights[1] + weights[2], 0, weights[3]]]
        np.testing.assert_allclose(found, expected)


NORMS: Final[dict[str, Function]] = {
    "p_norm 2": lambda b, x: b.p_norm(x, porder=2.0, axis=1),
    "p_norm 3": lambda b, x: b.p_norm(x, porder=3.0, axis=1),
    "p_norm 1": lambda b, x: b.p_norm(x, porder=1.0, axis=1),
    "p_norm 1.5": lambda b, x: b.p_norm(x, porder=1.5, axis=1),
    "frobenius_norm": lambda b, x: b.frobenius_norm(x, axis=(1,), keep_dim=False, reduce_all=False),
}


@pytest.mark.parametrize("f", NORMS.values(), ids=NORMS)
def test_a_norm_of_zero_has_the_derivative_zero(f: Function) -> None:
    x = np.zeros((2, 3))
    for order in (1, 2):
        p = program(f, [x])
        (found,) = runner(p, derivative(p, order))([x])
        np.testing.assert_array_equal(found, x)


INDICES: Final = np.array([[0, 2, 0], [1, -1, 1]])


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["assign", "add", "mul", "mean", "amin", "amax"])
def test_put_along_axis_writes_twice(reduce: str, include_self: bool) -> None:
    def f(b: Builder, arr: Value, values: Value) -> Value:
        places = b.assign_value(
            shape=INDICES.shape,
            dtype=b.integers((0,)).dtype,
            values=INDICES.ravel().tolist(),
        )
        out = b.put_along_axis(
            arr * arr, places, values * values, axis=1, reduce=reduce, include_self=include_self
        )
        return out * out

    check(f, [RNG.uniform(0.5, 1.5, (3, 4)), RNG.uniform(0.5, 1.5, (2, 3))], orders=2)


def test_factors_of_zero_put_along_an_axis() -> None:
    def f(b: Builder, arr: Value, values: Value) -> Value:
        places = b.integers((1, 1, 1, 0))
        return b.put_along_axis(arr, places, values, axis=0, reduce="mul")

    check(f, [np.array([2.0, 3.0, 4.0]), np.array([0.0, 5.0, 0.0, 7.0])])


EQUATIONS: Final[dict[str, list[tuple[int, ...]]]] = {
    "ij,jk,kl->il": [(2, 3), (3, 2), (2, 3)],
    "bhid,bhjd->bhij": [(2, 1, 2, 3), (2, 1, 2, 3)],
    "ii->i": [(3, 3)],
    "i,j->ji": [(2,), (3,)],
    "...ij,...jk->...ik": [(2, 2, 3), (3, 2)],
    "ij,ij->": [(2, 3), (1, 3)],
    "abc,bd,ce->ade": [(2, 3, 2), (3, 2), (2, 2)],
    "iij,jk->ik": [(2, 2, 3), (3, 2)],
    "ibj,jbk->kbi": [(2, 2, 3), (3, 2, 2)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str) -> None:
    def f(b: Builder, *operands: Value) -> Value:
        return b.einsum(list(operands), equation=equation)[0]

    inputs = [RNG.uniform(-1, 1, shape) for shape in EQUATIONS[equation]]
    check(f, inputs, orders=2)
    p = program(f, inputs)
    (found,) = runner(p, p.results, "decompose")(inputs)
    np.testing.assert_allclose(found, np.einsum(equation, *inputs), atol=1e-12)


def test_parts_of_complex_numbers() -> None:
    def f(b: Builder, x: Value, y: Value) -> Any:
        z = b.conj(b.complex(x, y))
        return b.angle(z) + cube(b.real(z)) * b.imag(z)

    check(f, [np.array([0.5, -1.0]), np.array([1.5, 0.7])], orders=1)
