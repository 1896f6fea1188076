"""Eigenvalues of any square matrix, ranks, and least squares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.ops.linalg.lapack import svd
from pirkit.dialect.ops.linalg.solve import FIELDS, REAL_FIELDS, square_matrices
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import HALF_TYPES
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "factorization"

DRIVERS: Final = ("gels", "gelsy", "gelsd", "gelss")


@op
class Eig:
    """Eigenvalues and eigenvectors of a square matrix, both complex.

    Each vector has norm 1, and the phase that LAPACK gives it.

    C1: the last two dimensions of `x` are equal.
    C2: its numbers are not of half precision, which has no complex type.
    """

    name = "pd_op.eig"
    signature = "x -> out_w, out_v"
    dtypes = FIELDS


@op
class Eigvals:
    """Eigenvalues of a square matrix, complex, in the order of `eig`.

    C1: the last two dimensions of `x` are equal.
    C2: its numbers are not of half precision, which has no complex type.
    """

    name = "pd_op.eigvals"
    signature = "x -> out"
    dtypes = FIELDS


@op
class MatrixRank:
    """The number of singular values above `tol`; if `hermitian`, of absolute eigenvalues.

    With `use_default_tol` the bound is the greatest of them, times the larger size of the matrix,
    times the machine epsilon of the element type.

    C1: `x` has at least two dimensions; they are equal if it is `hermitian`.
    C2: `x` has no half precision, of which the epsilon would depend on where results are rounded.
    """

    name = "pd_op.matrix_rank"
    signature = "x ; tol: f32, use_default_tol: bool = True, hermitian: bool = False -> out"
    dtypes = REAL_FIELDS


@op
class Lstsq:
    """The `solution` of `x @ solution = y` with the least squares, of those the shortest.

    Singular values below `rcond` times the greatest count as zero, except for the driver `gels`,
    which takes the rank for full. `residuals` are the sums of squares that remain, where there are
    more equations than unknowns; `rank` and `singular_values` are those of `x`. As in Paddle, they
    are empty where LAPACK's driver does not compute them: residuals for `gelsy`, ranks for `gels`,
    singular values for both.

    C1: `x` and `y` are matrices with the same batch and number of rows.
    C2: `driver` is one of gels, gelsy, gelsd, gelss.
    """

    name = "pd_op.lstsq"
    signature = (
        'x, y, rcond: scalar = 0.0 ; driver: str = "gels" '
        "-> solution, residuals, rank, singular_values"
    )
    dtypes = REAL_FIELDS
    same_dtype = ("x", "y")


_COMPLEX: Final = {dt.float32: dt.complex64, dt.float64: dt.complex128}


@infer_meta(Eig)
def _(x: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    square_matrices(x)
    complex_meta = x.with_dtype(_complex(x))
    return complex_meta.with_shape(x.shape[:-1]), complex_meta


@infer_meta(Eigvals)
def _(x: TensorMeta) -> TensorMeta:
    square_matrices(x)
    return TensorMeta(x.shape[:-1], _complex(x))


def _complex(x: TensorMeta) -> dt.DType:
    require(x.dtype.is_complex or x.dtype in _COMPLEX, "C2", f"`x` has dtype {x.dtype}")
    return _COMPLEX.get(x.dtype, x.dtype)


@infer_meta(MatrixRank)
def _(x: TensorMeta, *, hermitian: bool, **_: object) -> TensorMeta:
    if hermitian:
        square_matrices(x)
    require(x.rank >= 2, "C1", f"shape {show(x.shape)} is no matrix")
    require(x.dtype not in HALF_TYPES, "C2", f"{x} has no rank")
    return TensorMeta(x.shape[:-2], dt.int64)


@paddle_meta(MatrixRank)
def _(x: TensorMeta, **attributes: Any) -> TensorMeta:
    found: TensorMeta = infer_meta.of(MatrixRank)(x, **attributes)
    return found.with_dtype(dt.float32)


@infer_meta(Lstsq)
def _(x: TensorMeta, y: TensorMeta, *, driver: str, **_: object) -> tuple[TensorMeta, ...]:
    fits = x.rank == y.rank >= 2 and all(map(same_dim, x.shape[:-1], y.shape[:-1]))
    require(fits, "C1", f"{show(x.shape)} and {show(y.shape)} do not fit")
    require(driver in DRIVERS, "C2", f"driver {driver!r} is not in {DRIVERS}")
    batch, (rows, columns) = x.shape[:-2], x.shape[-2:]
    least = UNKNOWN if UNKNOWN in (rows, columns) else min(rows, columns)
    remains = (*batch, y.shape[-1])
    if UNKNOWN in (rows, columns) and driver != "gelsy":
        remains = (UNKNOWN,) * len(remains)
    elif driver == "gelsy" or rows <= columns:
        remains = (0,)
    rank = TensorMeta((0,), dt.int64) if driver == "gels" else TensorMeta(batch, dt.int32)
    values = (*batch, least) if driver in ("gelsd", "gelss") else (0,)
    return (
        x.with_shape((*batch, columns, y.shape[-1])),
        x.with_shape(remains),
        rank,
        x.with_shape(values),
    )


@paddle_meta(Lstsq)
def _(x: TensorMeta, y: TensorMeta, *, rcond: float | None, driver: str) -> tuple[TensorMeta, ...]:
    found: tuple[TensorMeta, ...] = infer_meta.of(Lstsq)(x, y, rcond=rcond, driver=driver)
    least = UNKNOWN if UNKNOWN in x.shape[-2:] else min(x.shape[-2:])
    values = x.with_shape((*x.shape[:-2], least))
    remains = x.with_shape((0,) if found[1].shape == (0,) else (UNKNOWN,))
    return found[0], remains, TensorMeta(x.shape[:-2], dt.float32), values


@reference(Eig)
def _(x: Array) -> tuple[Array, Array]:
    target = np.result_type(x.dtype, np.complex64)
    values, vectors = np.linalg.eig(x)
    return values.astype(target), vectors.astype(target)


@reference(Eigvals)
def _(x: Array) -> Array:
    return np.linalg.eig(x)[0].astype(np.result_type(x.dtype, np.complex64))


@reference(MatrixRank)
def _(x: Array, *, tol: float, use_default_tol: bool, hermitian: bool) -> Array:
    sizes = np.abs(np.linalg.eigh(x)[0]) if hermitian else svd(x)[1]  # as the rule: NaN spreads
    bound: Any = tol
    if use_default_tol:
        most = sizes.max(-1, keepdims=True, initial=0)
        bound = most * np.finfo(x.dtype).eps * max(x.shape[-2:])
    return np.asarray((sizes > bound).sum(-1), np.int64)


@reference(Lstsq)
def _(x: Array, y: Array, *, rcond: float, driver: str) -> tuple[Array, ...]:
    u, sizes, vh = svd(x)
    bound = 0.0 if driver == "gels" else rcond
    significant = sizes > bound * sizes.max(-1, keepdims=True, initial=0)
    inverse = np.where(significant, 1 / np.where(significant, sizes, 1), 0).astype(x.dtype)
    solution = vh.swapaxes(-1, -2) @ (inverse[..., None] * (u.swapaxes(-1, -2) @ y))
    remains = np.zeros(0, x.dtype)
    if driver != "gelsy" and x.shape[-2] > x.shape[-1]:
        remains = np.square(y - x @ solution).sum(-2)
    rank = np.asarray(significant.sum(-1), np.int32)
    if driver == "gels":
        rank = np.zeros(0, np.int64)
    values = sizes if driver in ("gelsd", "gelss") else np.zeros(0, x.dtype)
    return solution, remains, rank, values


def _separated(s: SampleMaker, *batch: int) -> Array:
    """Matrices with real, well separated eigenvalues."""
    small = s.tensor(*batch, 3, 3, low=-0.25, high=0.25)
    return small + s.array(np.diag([1.0, 2.5, 4.0]))


@samples(Eig, Eigvals)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(_separated(s))
    yield s(_separated(s, 2))


@samples(MatrixRank)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), tol=0.0)
    yield s(s.array([[1.0, 2.0], [2.0, 4.0]]), tol=0.0)
    yield s(s.array([[1.0, 2.0], [2.0, 4.0]]), tol=10.0, use_default_tol=False)
    yield s(s.array([[2.0, 0.0], [0.0, -1.0]]), tol=1.5, use_default_tol=False, hermitian=True)


@samples(Lstsq)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 5, 3), s.tensor(2, 5, 2), rcond=1e-6, driver="gelsd")
    yield s(s.tensor(3, 5), s.tensor(3, 1), rcond=1e-6, driver="gelsy")
    yield s(s.tensor(4, 3), s.tensor(4, 2), driver="gels")
    yield s(s.tensor(3, 3), s.tensor(3, 2), rcond=1e-6, driver="gelss")


@bad_samples(Eig, Eigvals)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3))
    yield "C2", s(s.tensor(2, 2, dtype=dt.float16))


@bad_samples(MatrixRank)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3), tol=0.0)
    yield "C1", s(s.tensor(2, 3), tol=0.0, hermitian=True)
    yield "C2", s(s.tensor(2, 3, dtype=dt.bfloat16), tol=0.0)


@bad_samples(Lstsq)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, 2), s.tensor(2, 2))
    yield "C2", s(s.tensor(3, 2), s.tensor(3, 2), driver="gelsx")
