"""Decompositions of matrices that are not finite end (LAPACK loops for ever on some of them)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Final, cast

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.opdef import lookup
from pirkit.dialect.ops.linalg import lapack
from pirkit.dialect.samples import Sample
from pirkit.runtime import dtype as dt
from pirkit.runtime.kernels.numpy import orthogonal_factors
from pirkit.runtime.native.lapack import Routine
from pirkit.runtime.native.lapack import lapack as native_lapack
from tests.ops.calls import complete
from tests.ops.test_kernel_paths import kernel_of
from tests.ops.test_kernels import run, strided
from tests.tolerance import tolerance

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_matrices_with_infinite_elements_are_refused(
    bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.eye(3, 4, dtype=np.float32)
    assert int(np.asarray(ops.matrix_rank(x, tol=0.0))) == 3
    x[1, 1] = bad

    def endless(*_: object, **__: object) -> None:
        raise AssertionError("LAPACK was called")

    monkeypatch.setattr(lapack.np.linalg, "svd", endless)
    with pytest.raises(RuntimeFault, match="infinite or NaN"):
        ops.matrix_rank(x, tol=0.0)
    with pytest.raises(np.linalg.LinAlgError):
        lapack.svd(x)


# --- kernels that call LAPACK themselves ---------------------------------------------------------

REAL: Final = {"float32": np.float32, "float64": np.float64}
TYPES = pytest.mark.parametrize("dtype", REAL.values(), ids=REAL)
NEEDS_LAPACK = pytest.mark.skipif(
    native_lapack("getrf", dt.float32) is None, reason="numpy is linked with an unknown LAPACK"
)
N: Final = 31


def random(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape)


def conditioned(*shape: int) -> Array:
    """Matrices that are far from singular, but need their rows exchanged."""
    return np.roll(random(*shape) + 2 * shape[-1] * np.eye(shape[-1]), 3, axis=-1)


def definite(*shape: int) -> Array:
    x = random(*shape)
    return x @ x.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1])


def triangle(*shape: int) -> Array:
    """The other triangle and, where it does not count, the diagonal hold NaN."""
    return np.where(np.tri(shape[-1], dtype=bool), random(*shape) + 9 * np.eye(shape[-1]), np.nan)


def factored(*batch: int) -> tuple[Array, Array]:
    found = ops.lu(conditioned(*batch, N, N))
    return np.asarray(found[0]), np.asarray(found[1])


def systems() -> Iterator[tuple[str, tuple[Array, ...], dict[str, Any]]]:
    for batch in ((), (3,), (2, 1)):
        yield "inverse", (conditioned(*batch, N, N),), {}
        yield "det", (conditioned(*batch, N, N) / 50,), {}
        yield "slogdet", (conditioned(*batch, N, N),), {}
        yield "slogdet_v2", (conditioned(*batch, N, N),), {}
        yield "lu", (conditioned(*batch, N, N),), {}
        yield "lu", (conditioned(*batch, N, N)[..., :-3],), {}
        yield "lu", (conditioned(*batch, N, N)[..., :-3, :],), {}
        yield "solve", (conditioned(*batch, N, N), random(*batch, N, 5)), {}
        yield "solve", (conditioned(*batch, N, N), random(*batch, N)), {}
        yield "solve", (conditioned(*batch, N, N), random(N, 2)), {}
        yield "cholesky", (definite(*batch, N, N),), {"upper": False}
        yield "cholesky", (definite(*batch, N, N),), {"upper": True}
        for trans in "NT":
            yield "lu_solve", (random(*batch, N, 4), *factored(*batch)), {"trans": trans}
        for upper, transpose in product((False, True), repeat=2):
            x = triangle(*batch, N, N)
            x = x.swapaxes(-1, -2) if upper else x
            attrs = {"upper": upper, "transpose": transpose}
            yield "triangular_solve", (x, random(*batch, N, 5)), attrs
            yield (
                "triangular_solve",
                (x[:1], random(2, N, 1)) if batch else (x, random(2, N, 1)),
                attrs,
            )
            unit = np.where(np.eye(N, dtype=bool), np.nan, x / 30)
            yield "triangular_solve", (unit, random(N, 3)), {**attrs, "unitriangular": True}
        for upper in (False, True):
            x = triangle(*batch, N, N)
            y = x.swapaxes(-1, -2) if upper else x
            yield "cholesky_solve", (random(N, 2), y), {"upper": upper}


SYSTEMS = [(name, arrays, attrs) for name, arrays, attrs in systems()]


def results(
    name: str, arrays: Sequence[Array], attrs: dict[str, Any], dtype: Any
) -> tuple[list[Array], list[Array]]:
    """What the kernel computes in an element type, and what the rule of the op does in float64."""
    given = [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]
    call = complete(lookup(f"pd_op.{name}"), Sample(tuple(given), attrs))
    wide = tuple([a.astype(np.float64) if a.dtype.kind == "f" else a for a in given])
    exact = complete(lookup(f"pd_op.{name}"), Sample(wide, attrs)).compute()
    found = run(kernel_of(call), call, tuple(map(strided, call.args)))
    assert found is not None
    return list(found), cast("list[Array]", list(exact))


def check(found: Array, exact: Array) -> None:
    """Errors of elimination grow with the number of rows, and with the largest result."""
    if found.dtype.kind != "f":
        assert np.array_equal(found, exact)
        return
    bound = tolerance(dt.of_array(found)).rtol * max(1.0, np.abs(exact).max()) * 5
    assert np.abs(found - exact).max() <= bound


def check_orthonormal(columns: Array) -> None:
    product = columns.swapaxes(-1, -2) @ columns
    check(product, np.broadcast_to(np.eye(columns.shape[-1]), product.shape))


@NEEDS_LAPACK
@TYPES
@pytest.mark.parametrize(("name", "arrays", "attrs"), SYSTEMS)
def test_systems(
    name: str, arrays: tuple[Array, ...], attrs: dict[str, Any], dtype: type[np.floating[Any]]
) -> None:
    for one, other in zip(*results(name, arrays, attrs, dtype), strict=True):
        check(one, other)


@NEEDS_LAPACK
@TYPES
@pytest.mark.parametrize("name", ["inverse", "solve", "det", "slogdet", "triangular_solve"])
def test_singular_matrices_are_refused(name: str, dtype: type[np.floating[Any]]) -> None:
    x = np.tril(random(2, N, N))
    x[1, 7, 7] = 0
    x[1, 8:, 7] = 0
    sides = (random(2, N, 1),) if name.endswith("solve") else ()
    attrs = {"upper": False} if name == "triangular_solve" else {}
    if name in ("det", "slogdet"):
        found, exact = results(name, (x,), attrs, dtype)
        assert np.array_equal(np.isfinite(found[0]), np.isfinite(exact[0]))
        assert found[0].reshape(-1, 2)[0, 1] == 0
        return
    with pytest.raises(RuntimeFault, match="not invertible"):
        results(name, (x, *sides), attrs, dtype)


@NEEDS_LAPACK
def test_what_lapack_cannot_take_is_refused() -> None:
    with pytest.raises(RuntimeFault, match="not positive definite"):
        results("cholesky", (definite(2, N, N) - 3 * np.eye(N),), {}, np.float32)
    b, lu, pivots = random(N, 1), *factored()
    with pytest.raises(RuntimeFault, match="outside of 1 to 31"):
        ops.lu_solve(b, lu, np.where(pivots == N, N + 1, pivots).astype(np.int32), trans="N")
    for bad in (np.inf, np.nan):
        with pytest.raises(RuntimeFault, match="infinite or NaN"):
            ops.svdvals(np.where(np.eye(N, dtype=bool), bad, 0.0))


SHAPES = pytest.mark.parametrize("shape", [(N, N), (2, N, 40), (3, 1, 40, N)], ids=str)


@NEEDS_LAPACK
@TYPES
@SHAPES
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr(shape: tuple[int, ...], mode: str, dtype: type[np.floating[Any]]) -> None:
    x = random(*shape)
    (q, r), (exact_q, exact_r) = results("qr", (x,), {"mode": mode}, dtype)
    check(r, exact_r)
    assert np.array_equal(r, np.triu(r))
    if mode != "r":
        assert q.shape == exact_q.shape
        check(q @ r, x.astype(dtype))
        check_orthonormal(q)


@NEEDS_LAPACK
@TYPES
@SHAPES
@pytest.mark.parametrize("full", [False, True])
def test_svd(shape: tuple[int, ...], full: bool, dtype: type[np.floating[Any]]) -> None:
    x = random(*shape)
    (u, s, vh), (exact_u, exact_s, _) = results("svd", (x,), {"full_matrices": full}, dtype)
    assert u.shape == exact_u.shape
    check(s, exact_s)
    least = s.shape[-1]
    check((u[..., :least] * s[..., None, :]) @ vh[..., :least, :], x.astype(dtype))
    check_orthonormal(u)
    check_orthonormal(vh.swapaxes(-1, -2))
    check(*(each[0] for each in results("svdvals", (x,), {}, dtype)))


@NEEDS_LAPACK
@TYPES
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_symmetric(name: str, lower: bool, dtype: type[np.floating[Any]]) -> None:
    x = definite(2, N, N)
    given = np.where(np.tri(N, dtype=bool) == lower, x, np.inf)
    given[..., range(N), range(N)] = x[..., range(N), range(N)]
    attrs = {"UPLO" if name == "eigh" else "uplo": "L" if lower else "U"}
    (w, v), (exact_w, _) = results(name, (given,), attrs, dtype)
    check(w, exact_w)
    check(x.astype(dtype) @ v, v * w[..., None, :])
    check_orthonormal(v)


UNREAD: Final[dict[str, tuple[Callable[[Array], Any], set[str]]]] = {
    "svdvals": (lambda x: np.linalg.svd(x, compute_uv=False), {"gesdd N"}),
    "svd": (lambda x: np.linalg.svd(x)[1], {"gesdd N"}),
    "svd, left": (lambda x: abs(np.linalg.svd(x, full_matrices=False)[0]), {"gesdd S"}),
    "svd, right": (lambda x: abs(np.linalg.svd(x)[2]), {"gesdd A"}),
    "eigvalsh": (lambda x: np.linalg.eigvalsh(x), {"syevd N"}),
    "eigh": (lambda x: np.linalg.eigh(x)[0], {"syevd N"}),
    "eigh, vectors": (lambda x: abs(np.linalg.eigh(x)[1]), {"syevd V"}),
    "qr": (lambda x: abs(np.linalg.qr(x)[1]), {"gelqf"}),
    "qr, mode r": (lambda x: np.abs(np.linalg.qr(x, mode="r")), {"gelqf"}),
    "qr, both": (lambda x: abs(np.linalg.qr(x)[0]), {"gelqf", "orglq"}),
}


@NEEDS_LAPACK
@pytest.mark.parametrize("name", UNREAD)
def test_vectors_that_nobody_reads_are_not_computed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = set[str]()

    class Noted(Routine):
        name = ""

        def on(self, *arguments: Any) -> Callable[..., int]:
            call, job = super().on(*arguments), arguments[0]

            def run(*arrays: Array) -> int:
                jobs.add(f"{self.name} {job}" if isinstance(job, str) else self.name)
                return call(*arrays)

            return run

    def noted(routine: str, dtype: dt.DType) -> Routine:
        found = Noted.__new__(Noted)
        found.__dict__ |= vars(native_lapack(routine, dtype)) | {"name": routine}
        return found

    monkeypatch.setattr(orthogonal_factors, "lapack", noted)
    function, expected = UNREAD[name]
    x = definite(3 * N, 3 * N)  # native code factorizes smaller ones
    check(np.asarray(pirkit.jit(function)(x)), function(x))
    assert jobs == expected
