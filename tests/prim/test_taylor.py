"""Taylor mode: series of primitives, and nests of derivatives replaced by series."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.passes import run_pipeline
from tests.prim.differentiation import CLEAN, Array

SERIES: Final = "taylor,expand-gradients," + CLEAN
NESTED: Final = "expand-gradients," + CLEAN


def beam(order: int) -> tuple[Any, Any, tuple[Any, Array]]:
    """The residual of the Euler beam (u' ... of a small net, plus one), its loss, arguments."""
    rng = np.random.default_rng(0)
    sizes = [1, 20, 20, 20, 1]
    params = [
        (rng.standard_normal((a, b)) * np.sqrt(2 / (a + b)), np.zeros(b))
        for a, b in pairwise(sizes)
    ]

    def net(p: Any, x: Any) -> Any:
        for w, b in p[:-1]:
            x = ops.tanh(ops.add(ops.matmul(x, w), b))
        return ops.add(ops.matmul(x, p[-1][0]), p[-1][1])

    u: Any = net
    for _ in range(order):
        u = along(u)

    def loss(p: Any, x: Any) -> Any:
        return ((u(p, x) + 1.0) ** 2).mean()

    return u, pirkit.value_and_grad(loss), (params, np.linspace(0, 1, 11).reshape(-1, 1))


def along(f: Any) -> Any:
    return lambda p, x: pirkit.grad(lambda q, y: f(q, y).sum(), 1)(p, x)


def count(f: Any, args: Any, pipeline: str) -> int:
    traced = trace(f, args)
    run_pipeline(traced.program.module, pipeline)
    return len(list(traced.program.entry(None).block.ops))


@pytest.mark.parametrize(
    ("order", "residual", "step"), [(2, 60, 160), (4, 130, 400), (6, 260, 800)]
)
def test_growth_of_the_beam(order: int, residual: int, step: int) -> None:
    u, loss, args = beam(order)
    assert count(u, args, SERIES) <= residual
    assert count(loss, args, SERIES) <= step


def test_a_second_clean_up_changes_nothing() -> None:
    _, loss, args = beam(3)
    assert count(loss, args, SERIES) == count(loss, args, SERIES + "," + CLEAN)


def test_series_and_nested_sweeps_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    from pirkit.frontend import transforms

    _, loss, args = beam(4)
    value, grads = loss(*args)
    monkeypatch.setattr(transforms, "PIPELINE", "expand-gradients,@default")
    monkeypatch.setattr(transforms, "_EXECUTABLES", type(transforms._EXECUTABLES)())
    other, expected = loss(*args)
    np.testing.assert_allclose(value, other, rtol=1e-12)
    for (w, b), (v, c) in zip(grads, expected, strict=True):
        np.testing.assert_allclose(w, v, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(b, c, rtol=1e-9, atol=1e-12)


X: Final = np.array([0.31, 0.77, 0.52])

SMOOTH: Final[dict[str, Callable[[Any], Any]]] = {
    name: (lambda f: lambda x: f(x))(getattr(ops, name))
    for name in (
        "exp expm1 log log1p sin cos tan sinh cosh tanh asin acos atan asinh atanh sigmoid sqrt "
        "rsqrt reciprocal square erf"
    ).split()
} | {
    "acosh": lambda x: ops.acosh(x + 1.5),
    "pow 2.5": lambda x: ops.pow(x, 2.5),
    "pow 3": lambda x: ops.pow(x, 3),
    "divide": lambda x: ops.sin(x) / (ops.exp(x) + x),
    "multiply": lambda x: ops.sin(x) * ops.exp(x) * x,
    "composed": lambda x: ops.tanh(ops.exp(x * x) * 0.3) + ops.log(x + 2.0),
}


def nested(f: Any, order: int) -> Any:
    for _ in range(order):
        f = summed_grad(f)
    return f


def summed_grad(f: Any) -> Any:
    return pirkit.grad(lambda x: f(x).sum())


@pytest.mark.parametrize("name", SMOOTH)
def test_series_of_every_function_to_order_six(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pirkit.frontend import transforms

    f = SMOOTH[name]
    found = [np.asarray(nested(f, k)(X)) for k in range(1, 7)]
    monkeypatch.setattr(transforms, "PIPELINE", "expand-gradients,@default")
    monkeypatch.setattr(transforms, "_EXECUTABLES", type(transforms._EXECUTABLES)())
    for order, value in enumerate(found, 1):
        expected = np.asarray(nested(f, order)(X))
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9, err_msg=f"{order}")


@pytest.mark.parametrize("name", ["tanh", "softsign"])
@pytest.mark.parametrize("shape", [(7, 3), (2, 3, 4)])
def test_elements_of_a_tensor_move_along_one_direction(name: str, shape: tuple[int, ...]) -> None:
    """A function of each element has as many ops on a matrix as on a vector."""
    f = nested(getattr(ops, name), 4)
    assert count(f, (np.ones(shape),), SERIES) == count(f, (np.ones(7),), SERIES)


def test_elements_and_columns_are_differentiated_together(monkeypatch: pytest.MonkeyPatch) -> None:
    from pirkit.frontend import transforms

    def f(x: Any, y: Any, w: Any) -> Any:
        def u(x: Any, y: Any) -> Any:
            return ops.sin(x) * y * y + ops.exp(x * y * 0.1)

        def by_x(x: Any, y: Any) -> Any:
            return pirkit.grad(lambda x: u(x, y).sum())(x)

        def by_both(x: Any, y: Any) -> Any:
            return pirkit.grad(lambda y: (by_x(x, y) * 2.0).mean())(y)

        twice = pirkit.grad(lambda x: by_x(x, y).sum())(x)
        column = pirkit.grad(lambda x: by_x(x, y)[:, 1].sum())(x)
        weighted = pirkit.grad(lambda x: (by_both(x, y) * w).sum())(x)
        return by_both(x, y) + twice * x + column + weighted

    x, y = np.random.default_rng(0).standard_normal((2, 6, 3))
    found = np.asarray(f(x, y, np.arange(3.0)))
    monkeypatch.setattr(transforms, "PIPELINE", "expand-gradients,@default")
    monkeypatch.setattr(transforms, "_EXECUTABLES", type(transforms._EXECUTABLES)())
    np.testing.assert_allclose(found, np.asarray(f(x, y, np.arange(3.0))), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("count", [2, 16])
def test_rows_are_weighed_against_the_sweeps_of_the_same_functions(count: int) -> None:
    """Second derivatives of many functions by one matrix: rows for each of its elements, in each
    function, cost more than a sweep through each function."""

    def gradients(w: Any, x: Any) -> Any:
        def one(k: int) -> Any:
            return pirkit.grad(lambda w: (ops.tanh(x * k @ w) ** 2).sum())(w).sum() * k

        return sum(one(k + 2) for k in range(count))

    traced = trace(pirkit.grad(gradients), (np.ones((4, 3)), np.ones((6, 4))))
    report = run_pipeline(traced.program.module, "taylor,expand-gradients,@simplify")
    told = [r.message for r in report.remarks if r.pass_name == "taylor"]
    assert ["its 24 rows cost more than nested sweeps" in m for m in told] == [True]
    assert sum(1 for _ in traced.program.main.operations) < 40 * count


def test_rows_that_mix_are_told_and_differentiated_as_asked() -> None:
    w = np.array([[0.5, -0.2, 0.1], [0.3, 0.4, -0.6], [0.2, 0.2, 0.2]])

    def f(x: Any) -> Any:
        return ops.tanh(ops.matmul(x, w))

    traced = trace(nested(f, 2), (X,))
    report = run_pipeline(traced.program.module, "taylor")
    told = [r for r in report.remarks if r.pass_name == "taylor"]
    assert [r.kind for r in told] == ["missed"]
    assert "cost more than nested sweeps" in told[0].message
    found = nested(f, 2)(X)
    expected = np.zeros(3)
    step = 1e-5
    for i in range(3):
        e = np.eye(3)[i] * step
        up, down = (np.asarray(summed_grad(f)(X + s)).sum() for s in (e, -e))
        expected[i] = (up - down) / (2 * step)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_stopped_derivative_is_a_constant(order: int) -> None:
    x = np.linspace(-1.0, 1.0, 5)[:, None]
    weights = np.array([[0.3, -1.2, 0.7]])

    def u(p: Any, x: Any) -> Any:
        return ops.tanh(x @ p).sum(axis=1, keepdims=True)

    def derivative(p: Any) -> Any:
        found = u
        for _ in range(order):
            found = lambda p, x, f=found: pirkit.grad(lambda y: f(p, y).sum())(x)  # noqa: E731
        return found(p, x)

    def loss(p: Any, held: Any) -> Any:
        return ((derivative(p) + held * u(p, x)) ** 2).mean()

    constant = np.asarray(derivative(weights))
    expected = pirkit.grad(lambda p: loss(p, constant))(weights)
    found = pirkit.grad(lambda p: loss(p, pirkit.stop_gradient(derivative(p))))(weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_lists_of_tensors_on_the_way_of_many_directions() -> None:
    """All directions of a Hessian are rows, of which the search for sums meets a `concat`."""
    x, weights = np.arange(12.0).reshape(3, 4), np.cos(np.arange(12.0)).reshape(3, 4)
    found = pirkit.hessian(lambda v: (ops.tril(v * v, diagonal=-1) * weights).sum())(x)
    wanted = np.diag(2 * np.tril(weights, -1).ravel())
    np.testing.assert_allclose(np.asarray(found).reshape(12, 12), wanted, atol=1e-15)
