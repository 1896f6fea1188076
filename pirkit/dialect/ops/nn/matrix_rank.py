"""Ranks of matrices for computed tolerances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.ops.linalg.lapack import svdvals
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "factorization"


@op
class MatrixRankTol:
    """The number of singular values above `atol_tensor`; if `hermitian`, of |eigenvalues|.

    With `use_default_tol` only those count that also exceed the greatest of them, times the larger
    size of the matrix, times the machine epsilon.

    C1: `x` holds matrices that have elements; they are square if they are `hermitian`.
    C2: `atol_tensor` broadcasts with the batch of `x`.
    C3: both have elements of float32 or float64.
    """

    name = "pd_op.matrix_rank_tol"
    signature = "x, atol_tensor ; use_default_tol: bool = True, hermitian: bool = False -> out"
    dtypes = (dt.float32, dt.float64)


@op
class MatrixRankAtolRtol:
    """The number of singular values above both `atol` and `rtol` times the greatest of them.

    If `hermitian`, absolute values of eigenvalues are compared. Where `rtol` is absent it is the
    larger size of the matrix times the machine epsilon if `atol` is 0, and else 0.

    C1: `x` holds matrices that have elements; they are square if they are `hermitian`.
    C2: the tolerances broadcast with the batch of `x`.
    C3: all have elements of float32 or float64.
    """

    name = "pd_op.matrix_rank_atol_rtol"
    signature = "x, atol, rtol? ; hermitian: bool = False -> out"
    dtypes = (dt.float32, dt.float64)


def _ranks(x: TensorMeta, *tolerances: TensorMeta | None, hermitian: bool) -> TensorMeta:
    fits = x.rank >= 2 and 0 not in x.shape[-2:]
    fits = fits and (not hermitian or same_dim(x.shape[-2], x.shape[-1]))
    require(fits, "C1", f"the rank of {show(x.shape)}")
    floats = (dt.float32, dt.float64)
    require(all(m.dtype in floats for m in (x, *tolerances) if m), "C3", f"{x} has no rank")
    given = [t.shape for t in tolerances if t is not None]
    return TensorMeta(broadcast(x.shape[:-2], *given, constraint="C2"), dt.int64)


@infer_meta(MatrixRankTol)
def _(x: TensorMeta, atol_tensor: TensorMeta, *, hermitian: bool, **_: object) -> TensorMeta:
    return _ranks(x, atol_tensor, hermitian=hermitian)


@infer_meta(MatrixRankAtolRtol)
def _(x: TensorMeta, atol: TensorMeta, rtol: TensorMeta | None, *, hermitian: bool) -> TensorMeta:
    return _ranks(x, atol, rtol, hermitian=hermitian)


@paddle_meta(MatrixRankTol, MatrixRankAtolRtol)
def _(x: TensorMeta, *tolerances: TensorMeta | None, hermitian: bool, **_: object) -> TensorMeta:
    return _ranks(x, *tolerances, hermitian=hermitian).with_dtype(dt.float32)


def default_share(x: TensorMeta | Array) -> float:
    """The larger size of a matrix, times the machine epsilon of its element type."""
    dtype = x.dtype.np if isinstance(x, TensorMeta) else x.dtype
    return float(np.finfo(dtype).eps) * max(x.shape[-2:])


def _count(x: Array, atol: Array, rtol: Any, hermitian: bool) -> Array:
    sizes = np.abs(np.linalg.eigvalsh(x)) if hermitian else svdvals(x)
    bound = np.maximum(atol, rtol * sizes.max(-1, initial=0))
    return np.asarray((sizes > bound[..., None]).sum(-1), np.int64)


@reference(MatrixRankTol)
def _(x: Array, atol_tensor: Array, *, use_default_tol: bool, hermitian: bool) -> Array:
    return _count(x, atol_tensor, default_share(x) if use_default_tol else 0.0, hermitian)


@reference(MatrixRankAtolRtol)
def _(x: Array, atol: Array, rtol: Array | None, *, hermitian: bool) -> Array:
    share = np.where(atol == 0, default_share(x), 0.0) if rtol is None else rtol
    return _count(x, atol, share, hermitian)


@samples(MatrixRankTol)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), s.array(0.0))
    yield s(s.array([[1.0, 2.0], [2.0, 4.0]]), s.array([0.0, 10.0]))
    yield s(s.array([[2.0, 0.0], [0.0, -1.0]]), s.array(1.5), use_default_tol=False, hermitian=True)
    yield s(s.tensor(0, 3, 2), s.array(0.0))


@samples(MatrixRankAtolRtol)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), s.array(0.0), s.array(1e-3))
    yield s(s.array([[1.0, 2.0], [2.0, 4.0]]), s.array([0.0, 0.125, 10.0]))
    yield s(s.array([[2.0, 0.0], [0.0, -1.0]]), s.array(0.0), s.array(0.75), hermitian=True)


@bad_samples(MatrixRankTol, MatrixRankAtolRtol)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3), s.array(0.0))
    yield "C1", s(s.tensor(2, 3), s.array(0.0), hermitian=True)
    yield "C2", s(s.tensor(2, 3, 3), s.tensor(3))
    yield "C3", s(s.tensor(2, 3, dtype=dt.bfloat16), s.array(0.0))
