"""Linear systems: inverse, determinant, powers of matrices, solutions.

Leading dimensions are a batch of matrices. A singular matrix is refused at run time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "factorization"

FIELDS = (dt.float32, dt.float64, dt.complex64, dt.complex128)
"""Element types in which LAPACK computes."""

REAL_FIELDS = (dt.float32, dt.float64)


def square_matrices(x: TensorMeta) -> None:
    """Refuse a tensor whose last two dimensions are no square."""
    fits = x.rank >= 2 and same_dim(x.shape[-1], x.shape[-2])
    require(fits, "C1", f"`x` of shape {show(x.shape)} is no square matrix")


@contextmanager
def _invertible() -> Generator[None]:
    """Refuse matrices that LAPACK's elimination finds singular."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise RuntimeFault("the matrix is not invertible") from error


@op
class Inverse:
    """Inverse of a square matrix.

    C1: the last two dimensions of `x` are equal.
    """

    name = "pd_op.inverse"
    signature = "x -> out"
    dtypes = FIELDS


@op
class Det:
    """Determinant of a square matrix.

    C1: the last two dimensions of `x` are equal.
    """

    name = "pd_op.det"
    signature = "x -> out"
    dtypes = FIELDS


@op
class SlogDet:
    """Sign of the determinant and logarithm of its size, stacked in front.

    C1: the last two dimensions of `x` are equal.
    """

    name = "pd_op.slogdet"
    signature = "x -> out"
    dtypes = REAL_FIELDS


@op
class SlogDetV2:
    """Sign of the determinant, and logarithm of its size.

    C1: the last two dimensions of `x` are equal.
    """

    name = "pd_op.slogdet_v2"
    signature = "x -> sign, logdet"
    dtypes = REAL_FIELDS


@op
class MatrixPower:
    """Product of `n` copies of a square matrix; of its inverse for negative `n`.

    C1: the last two dimensions of `x` are equal.
    """

    name = "pd_op.matrix_power"
    signature = "x ; n: i32 -> out"
    dtypes = REAL_FIELDS


@infer_meta(Inverse)
def _(x: TensorMeta) -> TensorMeta:
    square_matrices(x)
    return x


@infer_meta(MatrixPower)
def _(x: TensorMeta, **_: object) -> TensorMeta:
    square_matrices(x)
    return x


@infer_meta(Det)
def _(x: TensorMeta) -> TensorMeta:
    square_matrices(x)
    return x.with_shape(x.shape[:-2])


@infer_meta(SlogDet)
def _(x: TensorMeta) -> TensorMeta:
    square_matrices(x)
    return x.with_shape((2, *x.shape[:-2]))


@paddle_meta(SlogDet)
def _(x: TensorMeta) -> TensorMeta:
    return x


@infer_meta(SlogDetV2)
def _(x: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    square_matrices(x)
    out = x.with_shape(x.shape[:-2])
    return out, out


@reference(Inverse)
def _(x: Array) -> Array:
    with _invertible():
        return np.linalg.inv(x)


@reference(MatrixPower)
def _(x: Array, *, n: int) -> Array:
    wide = widened(x)
    with _invertible():
        return np.linalg.matrix_power(wide, n).astype(x.dtype, copy=False)


@reference(Det)
def _(x: Array) -> Array:
    return np.asarray(np.linalg.det(x))


@reference(SlogDet)
def _(x: Array) -> Array:
    return np.stack(np.linalg.slogdet(x))


@reference(SlogDetV2)
def _(x: Array) -> tuple[Array, Array]:
    sign, logarithm = np.linalg.slogdet(x)
    return np.asarray(sign), np.asarray(logarithm)


@samples(Inverse, Det, SlogDet, SlogDetV2)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.array([[4.0, 1.0], [1.0, 3.0]]))
    yield s(s.tensor(2, 3, 3) + s.array(np.eye(3) * 6))


@samples(MatrixPower)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 3), n=3)
    yield s(s.tensor(2, 2, 2), n=0)
    yield s(s.array([[4.0, 1.0], [1.0, 3.0]]), n=-2)


@bad_samples(Inverse, Det, SlogDet, SlogDetV2)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3))
    yield "C1", s(s.tensor(3))


@bad_samples(MatrixPower)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), n=2)


@op
class Solve:
    """The `out` with `x @ out = y`; batches broadcast, and `y` may be one vector per matrix.

    C1: the last two dimensions of `x` are equal.
    C2: `y` has as many rows.
    C3: the leading dimensions broadcast.
    """

    name = "pd_op.solve"
    same_dtype = ("x", "y")
    signature = "x, y -> out"
    dtypes = FIELDS


def holds_vectors(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    """True if `y` is one vector, or one for each matrix of `x`."""
    return len(y) == 1 or (len(y) == len(x) - 1 and all(map(same_dim, y, x[:-1])))


@infer_meta(Solve)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    square_matrices(x)
    vectors = holds_vectors(x.shape, y.shape)
    lead = y.shape[:-1] if vectors else y.shape[:-2]
    rows = y.shape[len(lead) :][:1]
    fits = all(same_dim(r, x.shape[-1]) for r in rows) and y.rank > 0
    require(fits, "C2", f"`y` of shape {show(y.shape)} for matrices of shape {show(x.shape)}")
    batch = broadcast(x.shape[:-2], lead, constraint="C3")
    tail = (x.shape[-1],) if vectors else (x.shape[-1], y.shape[-1])
    return x.with_shape((*batch, *tail))


@paddle_meta(Solve)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    """Paddle's programs take one vector for each matrix as one matrix for all of them."""
    if y.rank < 2:
        return infer_meta.of(Solve)(x, y)
    batch = broadcast(x.shape[:-2], y.shape[:-2], constraint="C3")
    return x.with_shape((*batch, x.shape[-1], y.shape[-1]))


@reference(Solve)
def _(x: Array, y: Array) -> Array:
    with _invertible():
        if not holds_vectors(x.shape, y.shape):
            return np.linalg.solve(x, y)
        return np.linalg.solve(x, y[..., None])[..., 0]


@samples(Solve)
def _(s: SampleMaker) -> Iterator[Sample]:
    matrices = s.tensor(2, 3, 3) + s.array(np.eye(3) * 6)
    yield s(matrices[0], s.tensor(3, 2))
    yield s(matrices[0], s.tensor(3))
    yield s(matrices, s.tensor(2, 3, 2))
    yield s(matrices, s.tensor(2, 3))
    yield s(matrices[0], s.tensor(2, 3, 2))


@bad_samples(Solve)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(3, 2))
    yield "C2", s(s.tensor(3, 3), s.tensor(2, 2))
    yield "C3", s(s.tensor(2, 3, 3), s.tensor(3, 3, 2))


@op
class TriangularSolve:
    """The `out` with `x @ out = y`, where only one triangle of `x` counts.

    `transpose` solves for the transposed triangle; `unitriangular` takes its diagonal as ones.

    C1: the last two dimensions of `x` are equal.
    C2: `y` has as many rows.
    C3: the leading dimensions broadcast.
    """

    name = "pd_op.triangular_solve"
    same_dtype = ("x", "y")
    signature = (
        "x, y ; upper: bool = True, transpose: bool = False, unitriangular: bool = False -> out"
    )
    dtypes = FIELDS


@op
class CholeskySolve:
    """The `out` with `A @ out = x`, where `y` is the Cholesky factor of `A`.

    C1: the last two dimensions of `y` are equal.
    C2: `x` has as many rows.
    C3: the leading dimensions broadcast.
    """

    name = "pd_op.cholesky_solve"
    same_dtype = ("x", "y")
    signature = "x, y ; upper: bool = False -> out"
    dtypes = REAL_FIELDS


@infer_meta(TriangularSolve)
def _(x: TensorMeta, y: TensorMeta, **_: bool) -> TensorMeta:
    return _triangular(x, y)


@infer_meta(CholeskySolve)
def _(x: TensorMeta, y: TensorMeta, **_: object) -> TensorMeta:
    return _triangular(y, x)


def _triangular(matrix: TensorMeta, right: TensorMeta) -> TensorMeta:
    square_matrices(matrix)
    fits = right.rank >= 2 and same_dim(right.shape[-2], matrix.shape[-1])
    require(fits, "C2", f"{show(right.shape)} on the right of {show(matrix.shape)}")
    batch = broadcast(matrix.shape[:-2], right.shape[:-2], constraint="C3")
    return right.with_shape((*batch, matrix.shape[-1], right.shape[-1]))


@reference(TriangularSolve)
def _(x: Array, y: Array, *, upper: bool, transpose: bool, unitriangular: bool) -> Array:
    triangle = np.triu(x) if upper else np.tril(x)
    if unitriangular:
        triangle = np.where(np.eye(x.shape[-1], dtype=np.bool_), x.dtype.type(1), triangle)
    with _invertible():
        return np.linalg.solve(triangle.swapaxes(-1, -2) if transpose else triangle, y)


@reference(CholeskySolve)
def _(x: Array, y: Array, *, upper: bool) -> Array:
    lower = np.triu(y).swapaxes(-1, -2) if upper else np.tril(y)
    with _invertible():
        return np.linalg.solve(lower.swapaxes(-1, -2), np.linalg.solve(lower, x))


@samples(TriangularSolve)
def _(s: SampleMaker) -> Iterator[Sample]:
    matrix = s.tensor(3, 3) + s.array(np.eye(3) * 6)
    yield s(matrix, s.tensor(3, 2))
    yield s(matrix, s.tensor(3, 2), upper=False, unitriangular=True)
    yield s(matrix, s.tensor(2, 3, 2), transpose=True)


@samples(CholeskySolve)
def _(s: SampleMaker) -> Iterator[Sample]:
    factor = s.tensor(3, 3) + s.array(np.eye(3) * 6)
    yield s(s.tensor(3, 2), factor)
    yield s(s.tensor(2, 3, 1), np.stack([factor, factor]), upper=True)


@bad_samples(TriangularSolve)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(3, 2))
    yield "C2", s(s.tensor(3, 3), s.tensor(2, 2))
    yield "C3", s(s.tensor(2, 3, 3), s.tensor(3, 3, 2))


@bad_samples(CholeskySolve)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, 2), s.tensor(2, 3))
    yield "C2", s(s.tensor(2, 2), s.tensor(3, 3))
    yield "C3", s(s.tensor(3, 3, 2), s.tensor(2, 3, 3))
