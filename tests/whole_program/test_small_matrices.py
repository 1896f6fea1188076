"""Factorizations of small matrices, a vector of matrices at once, beside numpy's in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import RuntimeFault
from pirkit.runtime import dtype as dt
from tests.tolerance import tolerance

Array = np.ndarray[Any, Any]

SMALL: Final = [
    (1, (), np.float32),
    (2, (37,), np.float64),
    (3, (2, 3), np.float32),
    (3, (1,), np.float64),
    (5, (37,), np.float32),
    (8, (9,), np.float32),
]
IN_LOOPS: Final = [
    (9, (37,), np.float32),
    (13, (2, 3), np.float64),
    (20, (), np.float32),
    (31, (5,), np.float64),
]
CASES = pytest.mark.parametrize(("n", "batch", "dtype"), SMALL)
ALL = pytest.mark.parametrize(("n", "batch", "dtype"), SMALL + IN_LOOPS)


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def exchanged(n: int, batch: tuple[int, ...]) -> Array:
    """Matrices that are far from singular, each with rows in an order of its own."""
    x = random(*batch, n, n) + 3 * n * np.eye(n)
    order = np.argsort(random(*batch, n, 1), axis=-2)
    return np.take_along_axis(x, order, axis=-2)


def check(found: Any, exact: Array, dtype: Any) -> None:
    bound = (
        tolerance(dt.of_array(np.empty(0, dtype))).rtol * max(1, np.abs(exact).max(initial=0)) * 5
    )
    assert np.asarray(found).dtype == dtype
    assert np.shape(found) == exact.shape
    assert np.abs(np.asarray(found) - exact).max(initial=0) <= bound


def native(function: Callable[..., Any], *arrays: Array) -> Any:
    """Results of a program that is one native call."""
    jitted = pirkit.jit(function)
    assert pirkit.compile(jitted.lower(*arrays), require_native=True).reasons == ()
    return jitted(*arrays)


@ALL
def test_determinants(n: int, batch: tuple[int, ...], dtype: Any) -> None:
    x = (exchanged(n, batch) / (3 * n)).astype(dtype)
    check(native(np.linalg.det, x), np.linalg.det(x.astype(np.float64)), dtype)
    found = native(lambda x: tuple(ops.slogdet_v2(x)), x)
    for one, other in zip(found, np.linalg.slogdet(x.astype(np.float64)), strict=True):
        check(one, np.asarray(other), dtype)


@ALL
def test_systems(n: int, batch: tuple[int, ...], dtype: Any) -> None:
    x, y = exchanged(n, batch).astype(dtype), random(*batch, n, 2).astype(dtype)
    wide, sides = x.astype(np.float64), y.astype(np.float64)
    check(native(np.linalg.solve, x, y), np.linalg.solve(wide, sides), dtype)
    one = native(lambda x, y: ops.solve(x, y[..., 0]), x, y)
    check(one, np.linalg.solve(wide, sides[..., :1])[..., 0], dtype)
    check(native(np.linalg.inv, x), np.linalg.inv(wide), dtype)


@ALL
@pytest.mark.parametrize("upper", [False, True])
def test_triangles(n: int, batch: tuple[int, ...], upper: bool, dtype: Any) -> None:
    half = random(*batch, n, n) / n
    x = (half @ half.swapaxes(-1, -2) + np.eye(n)).astype(dtype)
    factor = np.linalg.cholesky(x.astype(np.float64))
    exact = factor.swapaxes(-1, -2) if upper else factor
    hidden = np.where(np.tri(n, dtype=bool), x, np.nan)
    hidden = hidden.swapaxes(-1, -2) if upper else hidden
    check(native(lambda x: ops.cholesky(x, upper=upper), hidden), exact, dtype)
    y = random(*batch, n, 1).astype(dtype)
    triangle = np.where(exact == 0, np.nan, exact).astype(dtype)
    for transpose in (False, True):
        attrs = {"upper": upper, "transpose": transpose}
        full = exact.swapaxes(-1, -2) if transpose else exact
        found = native(lambda x, y, a=attrs: ops.triangular_solve(x, y, **a), triangle, y)
        check(found, np.linalg.solve(full, y.astype(np.float64)), dtype)
        unit = np.where(np.eye(n, dtype=bool), np.nan, triangle)
        attrs = {**attrs, "unitriangular": True}
        found = native(lambda x, y, a=attrs: ops.triangular_solve(x, y, **a), unit, y)
        full = np.where(np.eye(n, dtype=bool), 1.0, full)
        check(found, np.linalg.solve(full, y.astype(np.float64)), dtype)


def test_zeros_and_nan() -> None:
    x = random(40, 3, 3).astype(np.float32)
    x[7] = 0
    x[8, 1] = x[8, 0] * 2
    x[8, 1, 2] = x[8, 0, 2] * 2
    x[9, :, 1] = 0
    x[10, 2, 2] = np.nan
    found = np.asarray(native(np.linalg.det, x))
    assert found[[7, 9]].tolist() == [0, 0]
    assert np.isnan(found[10])
    assert np.isfinite(np.delete(found, 10)).all()
    sign, logarithm = map(np.asarray, native(lambda x: tuple(ops.slogdet_v2(x)), x))
    assert sign[[7, 9]].tolist() == [0, 0]
    assert logarithm[[7, 9]].tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_denormal_numbers(n: int, dtype: Any) -> None:
    """Their reciprocals are infinite."""
    scale = np.finfo(dtype).tiny / 16
    x = (exchanged(n, (20,)) * scale).astype(dtype)
    assert np.array_equal(native(np.linalg.det, x), np.zeros(20, dtype))
    y = (x[..., :1] * 3).astype(dtype)
    exact = np.zeros((20, n, 1))
    exact[:, 0] = 3
    found = np.asarray(native(np.linalg.solve, x, y))
    assert np.abs(found - exact).max() < 1e-2


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (np.linalg.inv, "not invertible"),
        (lambda x: np.linalg.solve(x, x[..., :1]), "not invertible"),
        (lambda x: ops.triangular_solve(x, x[..., :1]), "not invertible"),
        (np.linalg.cholesky, "not positive definite"),
    ],
)
@pytest.mark.parametrize("n", [3, 11])
def test_one_matrix_of_many_is_refused(function: Callable[..., Any], says: str, n: int) -> None:
    x = np.tile(np.eye(n), (50, 1, 1))
    native(function, x)
    x[33, 1, 1] = 0
    with pytest.raises(RuntimeFault, match=says) as caught:
        native(function, x)
    assert "pd_op." in str(caught.value)


def test_matrices_of_a_slice_and_what_follows_share_one_native_call() -> None:
    x = exchanged(3, (20,))

    def function(x: Array) -> Any:
        return np.log(np.abs(np.linalg.det(x[::2] * 2.0))) + np.linalg.inv(x[1::2])[:, 0, 0]

    exact = np.log(np.abs(np.linalg.det(x[::2] * 2))) + np.linalg.inv(x[1::2])[:, 0, 0]
    check(native(function, x), exact, np.float64)


def test_matrices_that_are_too_large_are_left_to_the_library() -> None:
    x = exchanged(70, (3,))
    found = pirkit.jit(np.linalg.inv)(x)
    check(found, np.linalg.inv(x), np.float64)


@CASES
@pytest.mark.parametrize("pivot", [True, False])
def test_lu(n: int, batch: tuple[int, ...], dtype: Any, *, pivot: bool) -> None:
    """Small integers have zeros on diagonals, and equal sizes: the first one is the pivot."""
    zeros = np.random.default_rng(n).integers(-2, 3, (*batch, n, n))
    for x in (exchanged(n, batch).astype(dtype), zeros.astype(dtype)):
        program = pirkit.trace(lambda x: tuple(ops.lu(x, pivot)), x)
        exact = pirkit.compile(program, backend="reference")(x=x)
        found = native(lambda x: tuple(ops.lu(x, pivot)), x)
        for one, other in zip(found, exact.values(), strict=True):
            assert np.asarray(one).dtype == other.dtype
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-4, atol=1e-4)


def test_systems_of_jax_are_one_native_call() -> None:
    """As jax solves them: by factors, with rows in the order of the pivots, and two triangles."""
    x, y = exchanged(8, ()), random(8, 8)

    def function(x: Any, y: Any) -> Any:
        factors, _, _ = ops.lu(x)
        lower = ops.triangular_solve(factors, y, False, False, True)
        return ops.triangular_solve(factors, lower, True)

    found = native(function, x, y)
    factors = np.asarray(ops.lu(x)[0])
    unit = np.tril(factors, -1) + np.eye(8)
    check(found, np.linalg.solve(np.triu(factors), np.linalg.solve(unit, y)), np.float64)


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize(
    ("rows", "columns", "batch", "dtype"),
    [
        (9, 5, (37,), np.float32),
        (5, 9, (2, 3), np.float64),
        (1, 4, (), np.float32),
        (4, 1, (20,), np.float64),
        (8, 8, (3,), np.float32),
    ],
)
def test_orthogonal_factors_have_the_signs_of_lapack(
    rows: int, columns: int, batch: tuple[int, ...], dtype: Any, mode: Any
) -> None:
    x = random(*batch, rows, columns).astype(dtype)
    exact = np.linalg.qr(x.astype(np.float64), mode=mode)
    found = native(lambda x: tuple(ops.qr(x, mode=mode))[mode == "r" :], x)
    for one, other in zip(found, exact if mode != "r" else [exact], strict=True):
        check(one, np.asarray(other), dtype)


def test_orthogonal_factors_of_zeros_and_of_numbers_whose_squares_are_infinite() -> None:
    x = random(20, 4, 3).astype(np.float32)
    x[3] = 0
    x[4, :, 1] = 0
    x[5, 1:, 0] = 0
    x[6] *= 1e30
    q, r = map(np.asarray, native(lambda x: tuple(ops.qr(x)), x))
    np.testing.assert_allclose(q.swapaxes(-1, -2) @ q, np.tile(np.eye(3), (20, 1, 1)), atol=1e-5)
    scale = np.maximum(np.abs(x).max(axis=(-1, -2), keepdims=True), 1e-30)
    np.testing.assert_allclose(q @ (r / scale), x / scale, atol=1e-5)


@pytest.mark.parametrize("n", [3, 11])
@pytest.mark.parametrize("batches", [((), (2,)), ((2,), ()), ((1,), (2,)), ((2, 1), (3,))])
def test_batches_that_are_broadcast(n: int, batches: tuple[Any, Any]) -> None:
    matrices, sides = exchanged(n, batches[0]), random(*batches[1], n, 2)
    shape = np.broadcast_shapes(*batches)
    full = np.broadcast_to(matrices, (*shape, n, n)), np.broadcast_to(sides, (*shape, n, 2))
    for function, exact in (
        (ops.solve, np.linalg.solve(*full)),
        (
            lambda a, b: ops.triangular_solve(a, b, upper=True),
            np.linalg.solve(np.triu(full[0]), full[1]),
        ),
    ):
        found = pirkit.jit(function)(matrices, sides)
        check(found, exact, np.float64)
