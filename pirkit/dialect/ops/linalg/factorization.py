"""Factors of matrices: Cholesky, QR, LU, singular values, eigenvalues of symmetric matrices.

Leading dimensions are a batch of matrices. Vectors are unique up to their sign only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, cast

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
from pirkit.dialect.ops.linalg.lapack import svd, svdvals
from pirkit.dialect.ops.linalg.solve import FIELDS, REAL_FIELDS, square_matrices
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "factorization"


def _sizes(x: TensorMeta) -> tuple[tuple[int, ...], int, int, int]:
    """Batch, rows, columns, and the smaller of the two."""
    require(x.rank >= 2, "C1", f"shape {show(x.shape)} is no matrix")
    rows, columns = x.shape[-2:]
    least = UNKNOWN if UNKNOWN in (rows, columns) else min(rows, columns)
    return x.shape[:-2], rows, columns, least


@op
class Cholesky:
    """The lower triangle L with `x = L @ L^T`, or the upper one with `x = U^T @ U`.

    Refuses at run time a matrix that is not positive definite.

    C1: the last two dimensions of `x` are equal.
    """

    name = "pd_op.cholesky"
    signature = "x ; upper: bool = False -> out"
    dtypes = REAL_FIELDS


@infer_meta(Cholesky)
def _(x: TensorMeta, **_: object) -> TensorMeta:
    square_matrices(x)
    return x


@reference(Cholesky)
def _(x: Array, *, upper: bool) -> Array:
    lower = np.tril(x.swapaxes(-1, -2) if upper else x)
    symmetric = lower + np.tril(lower, -1).swapaxes(-1, -2)
    try:
        factor = np.linalg.cholesky(symmetric)
    except np.linalg.LinAlgError as error:
        raise RuntimeFault("cholesky: a matrix is not positive definite") from error
    return factor.swapaxes(-1, -2) if upper else factor


def _definite(s: SampleMaker, *batch: int) -> Array:
    half = s.tensor(*batch, 3, 3, low=-1, high=1)
    return half @ half.swapaxes(-1, -2) + s.array(np.eye(3))


@samples(Cholesky)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(_definite(s))
    yield s(_definite(s, 2), upper=True)


@bad_samples(Cholesky)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3))


@op
class Svd:
    """`u`, `s`, `vh` with `x = u @ diag(s) @ vh`; with `full_matrices`, `u` and `vh` are square.

    C1: `x` has at least two dimensions.
    """

    name = "pd_op.svd"
    signature = "x ; full_matrices: bool = False -> u, s, vh"
    dtypes = FIELDS
    skippable = ("u", "vh")


@op
class SvdVals:
    """The singular values, in descending order.

    C1: `x` has at least two dimensions.
    """

    name = "pd_op.svdvals"
    signature = "x -> s"
    dtypes = REAL_FIELDS


@infer_meta(Svd)
def _(x: TensorMeta, *, full_matrices: bool) -> tuple[TensorMeta, ...]:
    batch, rows, columns, least = _sizes(x)
    u = (rows, rows if full_matrices else least)
    vh = (columns if full_matrices else least, columns)
    values = TensorMeta((*batch, least), dt.REAL_OF.get(x.dtype, x.dtype))
    return x.with_shape((*batch, *u)), values, x.with_shape((*batch, *vh))


@infer_meta(SvdVals)
def _(x: TensorMeta) -> TensorMeta:
    batch, _, _, least = _sizes(x)
    return x.with_shape((*batch, least))


@paddle_meta(Svd)
def _(x: TensorMeta, *, full_matrices: bool) -> tuple[TensorMeta, ...]:
    u, values, vh = infer_meta.of(Svd)(x, full_matrices=full_matrices)
    return u, values.with_dtype(x.dtype), vh


@reference(Svd)
def _(x: Array, *, full_matrices: bool) -> tuple[Array, ...]:
    return svd(x, full_matrices=full_matrices)


@reference(SvdVals)
def _(x: Array) -> Array:
    return svdvals(x)


@samples(Svd)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor(2, 3, 2), full_matrices=True)


@samples(SvdVals)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor(2, 3, 2))


@bad_samples(Svd, SvdVals)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3))


@op
class Qr:
    """`q` with orthonormal columns and upper triangular `r`, `x = q @ r`.

    `mode` is `reduced`, `complete` (square `q`) or `r` (`q` is left out).

    C1: `x` has at least two dimensions.
    C2: `mode` is one of those.
    """

    name = "pd_op.qr"
    signature = "x ; mode: str = 'reduced' -> q?, r"
    dtypes = REAL_FIELDS
    skippable = ("q",)


_MODES: Final = ("reduced", "complete", "r")


@infer_meta(Qr)
def _(x: TensorMeta, *, mode: str) -> tuple[TensorMeta, TensorMeta]:
    batch, rows, columns, least = _sizes(x)
    require(mode in _MODES, "C2", f"mode {mode!r} is not in {_MODES}")
    inner = rows if mode == "complete" else least
    q = (0,) if mode == "r" else (*batch, rows, inner)
    return x.with_shape(q), x.with_shape((*batch, inner, columns))


@reference(Qr)
def _(x: Array, *, mode: str) -> tuple[Array, Array]:
    if mode == "r":
        return np.zeros((0,), x.dtype), np.asarray(np.linalg.qr(x, mode="r"))
    q, r = np.linalg.qr(x, mode=cast("Literal['reduced', 'complete']", mode))
    return q, r


@samples(Qr)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 2))
    yield s(s.tensor(2, 3, 2), mode="complete")
    yield s(s.tensor(2, 3), mode="r")


@bad_samples(Qr)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3))
    yield "C2", s(s.tensor(3, 3), mode="q")


@op
class Eigh:
    """Eigenvalues in ascending order, and eigenvectors, of a symmetric or Hermitian matrix.

    Of `x` only the triangle that `UPLO` names (L or U) is read.

    C1: the last two dimensions of `x` are equal.
    C2: `UPLO` is L or U.
    """

    name = "pd_op.eigh"
    signature = "x ; UPLO: str = 'L' -> out_w, out_v"
    dtypes = FIELDS
    skippable = ("out_v",)


@op
class EigvalsH:
    """Eigenvalues in ascending order of a symmetric or Hermitian matrix.

    The eigenvectors are what the gradient needs; Paddle computes none if `is_test`.

    C1: the last two dimensions of `x` are equal.
    C2: `uplo` is L or U.
    """

    name = "pd_op.eigvalsh"
    signature = "x ; uplo: str = 'L', is_test: bool = False -> eigenvalues, eigenvectors~"
    dtypes = FIELDS


@infer_meta(Eigh)
def _(x: TensorMeta, *, UPLO: str) -> tuple[TensorMeta, TensorMeta]:
    return _eigen(x, UPLO)


@infer_meta(EigvalsH)
def _(x: TensorMeta, *, uplo: str, **_: object) -> tuple[TensorMeta, TensorMeta]:
    return _eigen(x, uplo)


def _eigen(x: TensorMeta, triangle: str) -> tuple[TensorMeta, TensorMeta]:
    square_matrices(x)
    require(triangle in ("L", "U"), "C2", f"no triangle is called {triangle!r}")
    return TensorMeta(x.shape[:-1], dt.REAL_OF.get(x.dtype, x.dtype)), x


@reference(Eigh)
def _(x: Array, *, UPLO: str) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(x, cast("Literal['L', 'U']", UPLO))
    return values, vectors


@reference(EigvalsH)
def _(x: Array, *, uplo: str, **_: object) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(x, cast("Literal['L', 'U']", uplo))
    return values, vectors


@samples(Eigh)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(_definite(s))
    yield s(_definite(s, 2), UPLO="U")


@samples(EigvalsH)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(_definite(s))
    yield s(_definite(s, 2), uplo="U", is_test=True)


@bad_samples(Eigh)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3))
    yield "C2", s(s.tensor(3, 3), UPLO="X")


@bad_samples(EigvalsH)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3))
    yield "C2", s(s.tensor(3, 3), uplo="X")
