"""Derivatives in the forms that people write become series with the values of nested sweeps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.dialect.series_algebra import rows_for
from pirkit.frontend.compile import compile
from pirkit.frontend.held_constants import write_constants
from pirkit.frontend.tracing import trace
from pirkit.passes import run_pipeline

grad, jvp = pirkit.grad, pirkit.jvp
Field = Callable[[Any], Any]


def network(p: Any, x: Any) -> Any:
    for w, b in p[:-1]:
        x = ops.tanh(x @ w + b)
    return x @ p[-1][0] + p[-1][1]


def parameters(sizes: list[int]) -> Any:
    rng = np.random.default_rng(0)
    pairs = pairwise(sizes)
    return [(rng.normal(size=(a, b)) / a**0.5, rng.normal(size=b)) for a, b in pairs]


def d(u: Field, k: int) -> Field:
    """The derivative of each row along column k, as people write it."""
    return lambda x: grad(lambda x: u(x).sum())(x)[:, k]


def kept(u: Field, k: int) -> Field:
    return lambda x: grad(lambda x: u(x).sum())(x)[:, k : k + 1]


def along(u: Field, k: int) -> Field:
    def derivative(x: Any) -> Any:
        way = np.zeros(x.shape)
        way[:, k] = 1
        return jvp(u, (x,), (way,))[1]

    return derivative


def laplacian(u: Field, n: int) -> Field:
    return lambda x: sum(d(d(u, k), k)(x) for k in range(n))


def of_entries(u: Field) -> Field:
    def one(row: Any) -> Any:
        second = pirkit.hessian(lambda r: u(r.reshape((1, -1)))[0])(row)
        return second[0, 0] + 3.0 * second[0, 1]

    return pirkit.vmap(one)


def columns(u: Field) -> Field:
    """Coordinates apart; ``u`` gets them joined."""

    def f(x: Any, t: Any) -> Any:
        return u(ops.concat([x, t], axis=1))

    def residual(z: Any) -> Any:
        x, t = z[:, 0:1], z[:, 1:2]

        def u_x(x: Any, t: Any) -> Any:
            return grad(lambda x: f(x, t).sum())(x)

        u_xt = grad(lambda t: u_x(x, t).sum())(t)
        u_xx = grad(lambda x: u_x(x, t).sum())(x)
        return (u_xx - 2.0 * u_xt)[:, 0]

    return residual


def outer(u: Field) -> Field:
    """A derivative to all columns of one to some of them."""

    def u_x(z: Any) -> Any:

        def f(x: Any) -> Any:
            return u(ops.concat([x, z[:, 1:2]], axis=1)).sum()

        return grad(f)(z[:, 0:1])[:, 0]

    return lambda z: d(u_x, 1)(z) + d(u_x, 0)(z)


FORMS: Final[dict[str, tuple[Callable[[Field], Field], int, int]]] = {
    "second": (lambda u: d(d(u, 0), 0), 2, 3),
    "mixed": (lambda u: d(d(u, 0), 1), 2, 4),
    "heat": (lambda u: lambda x: d(u, 1)(x) - 0.3 * d(d(u, 0), 0)(x), 2, 3),
    "kept axes": (lambda u: lambda x: kept(kept(kept(u, 0), 0), 1)(x)[:, 0] * u(x), 2, 6),
    "jvp": (lambda u: along(along(along(u, 0), 0), 0), 2, 4),
    "jvp of grad": (lambda u: along(d(u, 0), 1), 2, 4),
    "laplacian": (lambda u: laplacian(u, 3), 3, 5),
    "biharmonic": (lambda u: laplacian(laplacian(u, 2), 2), 2, 9),
    "hessian entries": (of_entries, 2, 4),
    "vmap of laplacian": (
        lambda u: pirkit.vmap(pirkit.laplacian(lambda r: u(r.reshape((1, -1)))[0])), 3, 5
    ),
    "coordinates apart": (columns, 2, 4),
    "outer variable": (outer, 2, 4),
    "conservative": (lambda u: d(lambda x: u(x) * d(u, 0)(x), 0), 2, 0),
    "kuramoto": (
        lambda u: lambda x: d(u, 1)(x) + d(d(u, 0), 0)(x) + d(d(d(d(u, 0), 0), 0), 0)(x), 2, 5
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_a_series(name: str) -> None:
    make, width, rows = FORMS[name]
    params = parameters([width, 5, 4, 1])
    x = np.random.default_rng(1).uniform(-1, 1, (6, width))

    def residual(p: Any, x: Any) -> Any:
        return make(lambda x: network(p, x)[:, 0])(x)

    def loss(p: Any, x: Any) -> Any:
        return pirkit.value_and_grad(lambda p: (residual(p, x) ** 2).mean())(p)

    traced = trace(loss, (params, x))
    program = traced.program
    write_constants(program.main, traced.captured)
    told = run_pipeline(program.module.clone(), "taylor").remarks
    if rows and "vmap" not in name and "hessian" not in name:
        assert [r.kind for r in told] == ["passed"], told
        assert f"{rows} rows" in told[0].message
    given = {f"x{i}": a for i, a in enumerate([*(a for pair in params for a in pair), x])}
    found = compile(program, pipeline="taylor,expand-gradients,@simplify").run(given)
    nested = compile(program, pipeline="expand-gradients,@simplify").run(given)
    for key, value in nested.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-11, err_msg=key)


FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "tanh": ops.tanh,
    "exp of sin": lambda v: ops.exp(ops.sin(v)),
    "log": lambda v: ops.log(2.0 + v * v),
    "root": lambda v: (1.5 + ops.sin(v)) ** 1.5,
    "power": lambda v: (1.5 + ops.sin(v)) ** v,
    "quotient": lambda v: v / (2.0 + ops.cos(v)),
    "angle": lambda v: ops.atan2(v, 1.0 + v * v),
    "gamma": lambda v: ops.lgamma(2.0 + v * v),
    "bessel": ops.i1e,
    "softplus": ops.softplus,
    "erf": ops.erf,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_other_orders_in_one_row(name: str) -> None:
    """One row for ``u_t + u_xxxx``, in which t counts as four, beside those of x."""
    inner, x = FUNCTIONS[name], np.random.default_rng(1).uniform(-1, 1, (5, 2))

    def residual(x: Any) -> Any:
        def u(x: Any) -> Any:
            return inner(ops.sin(x[:, 0] + 0.5 * x[:, 1]) + x[:, 0] * x[:, 1] ** 2)

        return d(u, 1)(x) + 0.25 * d(d(d(d(u, 0), 0), 0), 0)(x) - d(d(u, 0), 0)(x)

    program = pirkit.trace(residual, x)
    (told,) = run_pipeline(program.module.clone(), "taylor").remarks
    assert "5 rows" in told.message
    found = compile(program, pipeline="taylor,expand-gradients,@simplify").run({"x": x})
    nested = compile(program, pipeline="expand-gradients,@simplify").run({"x": x})
    for key, value in nested.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("wanted", "size"),
    [
        ([{(k, k): 1.0 for k in range(10)}], 12),
        ([{(k, k): 1.0} for k in range(10)], 21),
        ([{(0, 0, 0, 0): 24.0, (0, 0, 1, 1): 8.0, (1, 1, 1, 1): 24.0}], 9),
        ([{(0, 1): 1.0}], 4),
        ([{(1,): 1.0, (0, 0): -2.0}], 3),
        ([{(1,): 1.0, (0, 0): 1.0, (0, 0, 0, 0): 24.0}], 5),
        ([{(1,): 1.0, (0, 0): 1.0}, {(1,): 1.0}], 4),
        ([{(0, 0): 1.0, (1, 1, 1, 1): 2.0}], 6),
        ([{(2,): 1.0, (0, 0): 1.0, (1, 1): 1.0}], 4),
        ([{(1,): 1.0, (0, 0): 1e-20}], 3),
        ([{(1,): 1.0, (0, 0): 1.0, (0, 1): 1.0}], 4),
    ],
)
def test_rows_are_as_few_as_can_be(wanted: list[dict[Any, float]], size: int) -> None:
    rows = rows_for(wanted)
    assert rows.algebra.size + 1 == size
    rng = np.random.default_rng(0)
    monomials = sorted({m for f in rows.functionals for m in f})
    u, v = ({m: rng.normal() for m in _divisors(monomials)} for _ in range(2))
    both = {m: sum(u[a] * v[b] for a, b in _splits(m)) for m in monomials}
    for m, pairs in enumerate(rows.algebra.pairs):
        ours = sum(c * _row(rows, a, u) * _row(rows, b, v) for a, b, c in pairs)
        np.testing.assert_allclose(ours, _row(rows, m, both))


def _row(rows: Any, m: int, u: dict[Any, float]) -> float:
    return sum(factor * u[k] for k, factor in rows.functionals[m].items())


def _splits(m: tuple[int, ...]) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    found = set()
    for bits in range(2 ** len(m)):
        a = tuple(i for k, i in enumerate(m) if bits >> k & 1)
        b = tuple(i for k, i in enumerate(m) if not bits >> k & 1)
        found.add((a, b))
    return found


def _divisors(monomials: list[Any]) -> set[tuple[int, ...]]:
    return {a for m in monomials for a, _ in _splits(m)}


@pytest.mark.parametrize("shape", [(-1, 3), (2, -1), (-1, -1)])
def test_sizes_may_be_unknown(shape: tuple[int, int]) -> None:
    """What tells the sizes of a derivative must not be the derivative that is replaced."""
    b = pirkit.ProgramBuilder()
    x, way = (b.input(name, shape, "float64") for name in ("x", "way"))

    def slope(p: Any) -> Any:
        return pirkit.jvp(lambda v: v.b("pd_op.sqrt", v), (p,), (way,))[1]

    b.output("y", pirkit.jvp(slope, (x,), (way,))[1])
    at, along = np.arange(1.0, 7.0).reshape(2, 3), np.arange(2.0, 8.0).reshape(2, 3)
    found = pirkit.compile(b.finish(), pipeline="@simplify")(x=at, way=along)["y"]
    np.testing.assert_allclose(found, -0.25 * along**2 / at**1.5)


def slopes(x: Any) -> Any:
    return d(lambda x: ops.sin(x[:, 0]) * x[:, 1] ** 2, 0)(x)


def means(x: Any) -> Any:
    return grad(lambda x: ops.mean(ops.sin(x) * x))(x)


OF_SECOND: Final[dict[str, tuple[Field, Any, tuple[int, ...]]]] = {
    "a sum as doubles": (slopes, lambda g: ops.sum(g, axis=(1,), dtype="float64"), (4, 3)),
    "a sum as integers": (slopes, lambda g: ops.sum(g, axis=(1,), dtype="int32"), (4, 3)),
    "a mean of nothing": (means, ops.mean, (0, 3)),
    "means of empty rows": (means, lambda g: ops.mean(g, axis=(1,)), (4, 0)),
}


@pytest.mark.parametrize("name", OF_SECOND)
def test_a_sum_of_derivatives_has_its_own_type_and_sizes(name: str) -> None:
    slope, of, shape = OF_SECOND[name]
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    program = pirkit.trace(lambda x: of(grad(lambda x: slope(x).sum())(x)), x)
    found, nested = (
        compile(program, pipeline=f"{passes}expand-gradients,@simplify").run({"x": x})
        for passes in ("taylor,", "")
    )
    for key, value in nested.items():
        assert found[key].dtype == value.dtype
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-6)


def test_a_roll_of_rows_whose_number_is_unknown_moves_them() -> None:
    """No number that stands for an unknown size may make the roll an identity."""
    cosines = """pir.program @main(%x "x" : tensor<?xf32>) {
      %c = pd_op.full_like(%x) {value = 1.0 : f64} : (tensor<?xf32>) -> tensor<?xf32>
      %s = pd_op.sin(%x) : (tensor<?xf32>) -> tensor<?xf32>
      %g = pir.gradient(%s, %c, %x) {targets = 1 : i32, wrt = 1 : i32}
        : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      %r = pd_op.roll(%g) {shifts = array<i64: 7>, axis = array<i64: 0>}
        : (tensor<?xf32>) -> tensor<?xf32>
      %h = pir.gradient(%r, %c, %x) {targets = 1 : i32, wrt = 1 : i32}
        : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      %y = pd_op.add(%h, %r) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      pir.shadow_output(%y) {output_name = "y"} : (tensor<?xf32>) -> ()
    }"""
    x = np.linspace(0, 2, 10, dtype="float32")
    found = compile(pirkit.loads(cosines), pipeline="@simplify").run({"x": x})["y"]
    np.testing.assert_allclose(found, np.roll(np.cos(x), 7) - np.sin(x), rtol=1e-5, atol=1e-6)
