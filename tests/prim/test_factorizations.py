"""Derivatives of factorizations, through what does not depend on the signs of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.rules.linalg.solve import transposed
from tests.prim.differentiation import Array, Traced

Function = Callable[[Builder, Value], Value]
RNG = np.random.default_rng(4)


def symmetric(b: Builder, x: Value) -> Value:
    """A matrix with eigenvalues that differ, whatever the element that changes."""
    return (x + transposed(b, x)) * 0.5


def _qr(b: Builder, x: Value) -> Value:
    q, r = b.qr(x, mode="reduced")
    return b.total([b.sum(b.sin(v * v), tuple(range(v.rank))) for v in (q, r)]) or x


def _eigh(b: Builder, x: Value) -> Value:
    w, v = b.eigh(symmetric(b, x), UPLO="L")
    return b.sin(v @ b.diag_embed(b.exp(w * 0.3)) @ transposed(b, v))


def _svd(b: Builder, x: Value) -> Value:
    u, s, vh = b.svd(x, full_matrices=False)
    return b.sin(u @ b.diag_embed(b.exp(s * 0.3)) @ vh)


def _eig(b: Builder, x: Value) -> Value:
    """A function of the matrix, and lengths of the elements of vectors: no phase matters."""
    w, v = b.eig(x)
    whole = b.real(v @ b.diag_embed(b.exp(w * 0.3)) @ b.inverse(v))
    return b.sin(whole + b.real(v * b.conj(v)))


def _lu(b: Builder, x: Value) -> Value:
    out, pivots, _ = b.lu(x)
    _, lower, upper = b.lu_unpack(out, pivots)
    return b.sin(lower @ b.cos(upper)) + b.sin(out)


CASES: dict[str, tuple[tuple[int, ...], Function]] = {
    "cholesky": ((2, 3, 3), lambda b, x: b.sin(b.cholesky(x @ transposed(b, x), upper=False))),
    "cholesky_upper": ((3, 3), lambda b, x: b.sin(b.cholesky(x @ transposed(b, x), upper=True))),
    "qr_square": ((3, 3), _qr),
    "qr_tall": ((2, 4, 3), _qr),
    "qr_wide": ((2, 4), _qr),
    "eigh": ((2, 3, 3), _eigh),
    "eigvalsh": ((3, 3), lambda b, x: b.sin(b.eigvalsh(symmetric(b, x), uplo="L")[0])),
    "eig": ((2, 3, 3), _eig),
    "eigvals": ((3, 3), lambda b, x: b.real(b.exp(b.eigvals(x)))),
    "lu_square": ((2, 3, 3), _lu),
    "lu_tall": ((4, 3), _lu),
    "lu_without_exchanges": ((3, 3), lambda b, x: b.sin(b.lu(x, pivot=False)[0])),
    "lu_wide": ((2, 2, 4), _lu),
    "lstsq_tall": ((4, 3), lambda b, x: b.sin(b.lstsq(x, b.sin(x), driver="gelsd")[0])),
    "lstsq_wide": ((2, 4), lambda b, x: b.sin(b.lstsq(x, b.sin(x), driver="gelsy")[0])),
    "svd_tall": ((2, 4, 3), _svd),
    "svd_wide": ((3, 4), _svd),
    "svdvals": ((4, 3), lambda b, x: b.sin(b.svdvals(x))),
}


def _values(f: Function, x: Array, order: int, pipeline: str = "") -> Array:
    """The derivative of that order of the sum, which is the sum itself for order 0."""
    t = Traced([x])
    b, (a,) = t.b, t.args
    value = f(b, a)
    found = y = b.sum(value, tuple(range(value.rank)))
    for _ in range(order):
        (g,) = t.grad(y, [a])
        assert g is not None
        found, y = g, b.sum(b.sin(g), tuple(range(g.rank)))
    return t.run({"y": found}, pipeline)["y"]


@pytest.mark.parametrize("pipeline", ["", "decompose"])
@pytest.mark.parametrize("name", CASES)
def test_first_derivative(name: str, pipeline: str) -> None:
    shape, f = CASES[name]
    x = RNG.standard_normal(shape) + 2 * np.eye(shape[-2], shape[-1])
    way = RNG.standard_normal(shape)
    found = _values(f, x, 1, pipeline)
    h = 1e-6
    slope = (_values(f, x + h * way, 0) - _values(f, x - h * way, 0)) / (2 * h)
    np.testing.assert_allclose((found * way).sum(), slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_second_derivative(name: str) -> None:
    shape, f = CASES[name]
    x = RNG.standard_normal(shape) + 2 * np.eye(shape[-2], shape[-1])
    way = RNG.standard_normal(shape)
    found = _values(f, x, 2)
    h = 1e-6
    ends = [np.sin(_values(f, x + s * h * way, 1)).sum() for s in (1, -1)]
    np.testing.assert_allclose((found * way).sum(), (ends[0] - ends[1]) / (2 * h), rtol=1e-5)


def test_forms_without_a_derivative_are_refused() -> None:
    t = Traced([RNG.standard_normal((4, 3))])
    q = t.b.qr(t.args[0], mode="complete")[0]
    with pytest.raises(UnsupportedError, match=r"`pd_op\.qr` has no derivative with mode"):
        t.grad(t.b.sum(q, (0, 1)), t.args)
    u = t.b.svd(t.args[0], full_matrices=True)[0]
    with pytest.raises(UnsupportedError, match="of its vectors with full matrices"):
        t.grad(t.b.sum(u, (0, 1)), t.args)


@pytest.mark.parametrize("trans", ["N", "T"])
def test_systems_of_factors(trans: str) -> None:
    """The solution, and how it moves with the right side and with both factors."""
    rng = np.random.default_rng(5)
    a, right, g = (rng.standard_normal(s) for s in ((2, 4, 4), (2, 4, 3), (2, 4, 3)))
    factors, pivots, _ = (np.asarray(v) for v in ops.lu(a))
    matrix = a if trans == "N" else a.swapaxes(1, 2)
    found = np.asarray(ops.lu_solve(right, factors, pivots, trans))
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-10)

    def total(right: Any, factors: Any) -> Any:
        return ops.sum(ops.lu_solve(right, factors, pivots, trans) * g)

    of_right, of_factors = pirkit.grad(total, (0, 1))(right, factors)
    np.testing.assert_allclose(of_right, np.linalg.solve(matrix.swapaxes(1, 2), g), rtol=1e-10)
    way, step = rng.standard_normal(factors.shape), 1e-6
    up, down = (float(total(right, factors + s * way)) for s in (step, -step))
    moved = (np.asarray(of_factors) * way).sum()
    np.testing.assert_allclose(moved, (up - down) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 3), (3, 4), (4, 2)])
def test_a_pseudo_inverse_of_equal_singular_values_has_slopes(shape: tuple[int, int]) -> None:
    """Its singular vectors have none there; the matrix itself has, of any order."""
    x, way, weight = np.eye(*shape), RNG.normal(size=shape), RNG.normal(size=shape[::-1])

    def f(x: Any) -> Any:
        y = pirkit.numpy.linalg.pinv(x)
        return (y * y * weight).sum()

    def along(f: Any) -> Any:
        return lambda x: pirkit.jvp(f, (x,), (way,))[1]

    found = [float(pirkit.jit(g)(x)) for g in (along(f), along(along(f)))]
    low, at, high = (
        float((np.linalg.pinv(x + h * way) ** 2 * weight).sum()) for h in (-1e-4, 0, 1e-4)
    )
    wanted = [(high - low) / 2e-4, (high - 2 * at + low) / 1e-8]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    slope = np.asarray(pirkit.jit(pirkit.grad(f))(x))
    np.testing.assert_allclose((slope * way).sum(), found[0], rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (4, 0), (0, 3), (2, 4, 0), (2, 0, 0)])
def test_factors_of_matrices_without_elements(shape: tuple[int, ...]) -> None:
    factors, pivots, _ = ops.lu(np.zeros(shape), pivot=True)
    program = pirkit.trace(lambda x, p: ops.lu_unpack(x, p), factors, pivots)
    given = {"x": np.asarray(factors), "p": np.asarray(pivots)}
    whole, apart = (pirkit.compile(program, pipeline=p)(**given) for p in ("", "decompose"))
    for name, wanted in whole.items():
        np.testing.assert_array_equal(apart[name], wanted)
        assert apart[name].shape == wanted.shape
