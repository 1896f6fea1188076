"""Linear algebra of traced values, as ``numpy.linalg`` and the array API define it."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.rules.reduction.vector_norm import euclidean
from pirkit.frontend.numpy_elements import conj
from pirkit.frontend.numpy_reductions import total
from pirkit.frontend.numpy_rules import FUNCTIONS, axes_of, function, together, value_of
from pirkit.frontend.numpy_shapes import (
    broadcast_arrays,
    diagonal,
    expand_dims,
    moveaxis,
    reshape,
    swapaxes,
)
from pirkit.frontend.numpy_ufuncs import apply_ufunc, refused, size_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.tensor.meta_cache import DTypeLike
from pirkit.runtime.tensor.methods import Axis


class Eigenpairs(NamedTuple):
    """Eigenvalues and eigenvectors."""

    eigenvalues: Value
    eigenvectors: Value


class Orthogonal(NamedTuple):
    """A matrix as ``Q @ R``."""

    Q: Value
    R: Value


class SignedLogarithm(NamedTuple):
    """A determinant as ``sign * exp(logabsdet)``."""

    sign: Value
    logabsdet: Value


class Singular(NamedTuple):
    """A matrix as ``U @ diag(S) @ Vh``."""

    U: Value
    S: Value
    Vh: Value


def _matrices(b: Builder, x: Any, *, square: bool = False) -> Value:
    """A stack of matrices of floating-point numbers."""
    x = value_of(b, x)
    if x.rank < 2:
        raise refused(f"a matrix is needed, not a {x.meta}", "give at least two axes")
    if square and x.shape[-1] != x.shape[-2]:
        raise refused(f"a square matrix is needed, not a {x.meta}", "make it square")
    return _inexact(b, x)


def _inexact(b: Builder, x: Value) -> Value:
    return x if x.dtype.is_float or x.dtype.is_complex else b.cast(x, dt.float64)


def _real_of(dtype: DType) -> DType:
    return dt.REAL_OF.get(dtype, dtype)


@function("linalg.matmul")
def _matmul(b: Builder, x: Any, y: Any) -> Value:
    return apply_ufunc(b, np.matmul, (x, y))


@function("linalg.cholesky")
def _cholesky(b: Builder, x: Any, upper: bool = False) -> Value:
    return b.cholesky(_matrices(b, x, square=True), upper=upper)


@function("linalg.det")
def _det(b: Builder, x: Any) -> Value:
    return b.det(_matrices(b, x, square=True))


@function("linalg.inv")
def inverse(b: Builder, x: Any) -> Value:
    """The inverse of matrices (..., N, N). Raises TraceError for another shape."""
    return b.inverse(_matrices(b, x, square=True))


@function("linalg.slogdet")
def _slogdet(b: Builder, x: Any) -> SignedLogarithm:
    return SignedLogarithm(*b.slogdet_v2(_matrices(b, x, square=True)))


@function("linalg.solve")
def _solve(b: Builder, x1: Any, x2: Any) -> Value:
    x, y = together(b, _matrices(b, x1, square=True), _inexact(b, value_of(b, x2)))
    if y.rank > 1:
        return b.solve(x, y)
    found = b.solve(x, expand_dims(b, y, -1))
    return b.squeeze(found, axis=(found.rank - 1,))


@function("linalg.eigh")
def _eigh(b: Builder, x: Any, UPLO: str = "L") -> Eigenpairs:
    return Eigenpairs(*b.eigh(_matrices(b, x, square=True), UPLO=UPLO))


@function("linalg.eigvalsh")
def _eigvalsh(b: Builder, x: Any, UPLO: str = "L") -> Value:
    return b.eigvalsh(_matrices(b, x, square=True), uplo=UPLO)[0]


@function("linalg.qr")
def _qr(b: Builder, x: Any, mode: str = "reduced") -> Any:
    found = b.qr(_matrices(b, x), mode=mode)
    return Orthogonal(*found) if mode != "r" else found[1]


@function("linalg.svd")
def svd(b: Builder, x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """The singular value decomposition of matrices (..., M, N), or their singular values alone."""
    x = _matrices(b, x)
    if not compute_uv and not x.dtype.is_complex:
        return b.svdvals(x)
    found = Singular(*b.svd(x, full_matrices=full_matrices and compute_uv))
    return found if compute_uv else found.S


@function("linalg.svdvals")
def singular_values(b: Builder, x: Any) -> Value:
    """The singular values of matrices (..., M, N) in descending order: (..., min(M, N))."""
    return svd(b, x, compute_uv=False)


@function("linalg.matrix_power")
def _matrix_power(b: Builder, x: Any, n: int) -> Value:
    x = value_of(b, x)
    x = inverse(b, x) if n < 0 else x
    if n == 0:
        eye = b.value(np.eye(size_of(x, -1)).astype(x.dtype.np))
        return broadcast_arrays(b, eye, x)[0]
    return _power(b, x, abs(n))


def _power(b: Builder, x: Value, n: int) -> Value:
    if n == 1:
        return x
    half = _power(b, x, n // 2)
    found = _matmul(b, half, half)
    return _matmul(b, found, x) if n % 2 else found


@function("linalg.matrix_rank")
def _matrix_rank(
    b: Builder, x: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Value:
    """The number of singular values above ``tol``, or above ``rtol`` times the largest one.

    ``hermitian`` changes nothing: all elements are read.
    """
    x = _matrices(b, x)
    values = singular_values(b, x)
    if tol is not None:
        small = expand_dims(b, tol, -1) if isinstance(tol, Value) and tol.rank else tol
    else:
        largest = FUNCTIONS["max"](b, values, -1, keepdims=True)
        small = apply_ufunc(b, np.multiply, (largest, _tolerance(b, x, rtol)))
    return total(b, apply_ufunc(b, np.greater, (values, small)), -1)


def _tolerance(b: Builder, x: Value, rtol: Any) -> Any:
    """A factor of the largest singular value, below which the others count as zero."""
    if rtol is None:
        return float(_real_of(x.dtype).limits.eps) * max(size_of(x, -2), size_of(x, -1))
    return float(rtol) if not isinstance(rtol, Value) else expand_dims(b, rtol, -1)


@function("linalg.pinv")
def _pinv(
    b: Builder, x: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Value:
    """The pseudoinverse; ``hermitian`` changes nothing: all elements are read."""
    return _with_slope()(_matrices(b, x), rtol if rcond is None else rcond)


@cache
def _with_slope() -> Any:
    """`_pseudo_inverse` with its derivative."""
    # Imported late: `custom_rules` imports traced values, and these import this file.
    rules = import_module("pirkit.frontend.custom_rules")
    made = rules.custom_jvp(_pseudo_inverse, nondiff_argnums=1)
    made.defjvp(_slope_of_pseudo_inverse)
    return made


def _pseudo_inverse(x: Value, rtol: Any) -> Value:
    b = cast(Builder, x.b)
    u, values, vh = svd(b, x, full_matrices=False)
    largest = FUNCTIONS["max"](b, values, -1, keepdims=True)
    small = apply_ufunc(b, np.multiply, (largest, _tolerance(b, x, rtol)))
    is_kept = apply_ufunc(b, np.greater, (values, small))
    inverted = b.where(is_kept, 1.0 / b.where(is_kept, values, 1.0), 0.0)
    left = apply_ufunc(b, np.multiply, (_adjoint(b, vh), expand_dims(b, inverted, -2)))
    return _matmul(b, left, _adjoint(b, u))


def _slope_of_pseudo_inverse(
    rtol: Any, primals: tuple[Value], tangents: tuple[Value]
) -> tuple[Value, Value]:
    """The pseudoinverse and its derivative, by the formula of Golub and Pereyra (1973).

    It needs no derivatives of singular vectors, which are not unique where singular values are
    equal. It holds where the rank is constant in a neighbourhood.
    """
    (x,), (dx,) = primals, tangents
    b, y = cast(Builder, x.b), _with_slope()(x, rtol)
    times = partial(_matmul, b)
    yh, dxh = _adjoint(b, y), _adjoint(b, dx)
    outside = dxh - times(times(dxh, x), y)
    inside = dxh - times(y, times(x, dxh))
    return y, times(times(y, yh), outside) + times(inside, times(yh, y)) - times(times(y, dx), y)


def _adjoint(b: Builder, x: Value) -> Value:
    return conj(b, swapaxes(b, x, -1, -2))


@function("linalg.cross", "cross")
def _cross(b: Builder, x: Any, y: Any, axis: int = -1) -> Value:
    x, y = broadcast_arrays(b, *together(b, x, y))
    axis = normalize_axis_tuple(axis, x.rank)[0]
    if x.shape[axis] != 3:
        raise refused(f"`cross` along axis {axis} of a {x.meta}", "vectors have 3 elements")
    return b.cross(x, y, axis=axis)


@function("linalg.diagonal")
def _diagonal(b: Builder, x: Any, offset: int = 0) -> Value:
    return diagonal(b, value_of(b, x), offset, -2, -1)


@function("linalg.trace")
def _trace(b: Builder, x: Any, offset: int = 0, dtype: DTypeLike | None = None) -> Value:
    return total(b, _diagonal(b, x, offset), -1, dtype=dtype)


@function("linalg.matrix_transpose")
def _matrix_transpose(b: Builder, x: Any) -> Value:
    return swapaxes(b, value_of(b, x), -1, -2)


# --- norms ---------------------------------------------------------------------------------------


@function("linalg.vector_norm")
def vector_norm(
    b: Builder, x: Any, axis: Axis = None, keepdims: bool = False, ord: Any = 2
) -> Value:
    """The ``ord`` norm over some axes, all of them by default."""
    x = _inexact(b, value_of(b, x))
    axes = axes_of(x, axis)
    size = b.abs(x)
    if ord in (np.inf, -np.inf):
        return FUNCTIONS["max" if ord > 0 else "min"](b, size, axes, keepdims=keepdims)
    if ord == 0:
        counted = b.cast(apply_ufunc(b, np.not_equal, (size, 0)), size.dtype)
        return total(b, counted, axes, keepdims=keepdims)
    if ord == 1:
        return total(b, size, axes, keepdims=keepdims)
    if ord == 2 and not x.dtype.is_complex:  # not by `size`, whose derivative at 0 is 0
        return b.cast(euclidean(b, b.wide(x), axes, keepdims), x.dtype)
    if ord == 2:
        return b.sqrt(total(b, size * size, axes, keepdims=keepdims))
    powers = apply_ufunc(b, np.power, (size, float(ord)))
    summed = total(b, powers, axes, keepdims=keepdims)
    return apply_ufunc(b, np.power, (summed, 1.0 / ord))


@function("linalg.matrix_norm")
def matrix_norm(b: Builder, x: Any, keepdims: bool = False, ord: Any = "fro") -> Value:
    """The norm of matrices (..., M, N): ``fro``, ``nuc``, or 1, 2, infinity and their negatives.

    Raises TraceError for another ``ord``.
    """
    x = _matrices(b, x)
    if ord == "fro":
        return vector_norm(b, x, (-2, -1), keepdims)
    if ord in ("nuc", 2, -2):
        values = singular_values(b, x)
        pick = {"nuc": "sum", 2: "max", -2: "min"}[ord]
        found = FUNCTIONS[pick](b, values, -1)
    elif ord in (1, -1, np.inf, -np.inf):
        axis = -2 if abs(ord) == 1 else -1
        sums = total(b, b.abs(x), axis)
        found = FUNCTIONS["max" if ord > 0 else "min"](b, sums, -1)
    else:
        raise refused(f"a matrix norm of order {ord!r}", "take 'fro', 'nuc', 1, 2, inf or -inf")
    return reshape(b, found, (*found.shape, 1, 1)) if keepdims else found


@function("linalg.norm")
def _norm(b: Builder, x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Value:
    x = value_of(b, x)
    if ord is None:
        return vector_norm(b, x, axis, keepdims)
    places = axes_of(x, axis)
    if len(places) == 1:
        return vector_norm(b, x, places, keepdims, ord)
    if len(places) != 2:
        raise refused(f"`norm` over axes {places}", "take one axis or two")
    found = matrix_norm(b, moveaxis(b, x, cast(Any, axis or places), (-2, -1)), ord=ord)
    return expand_dims(b, found, places) if keepdims else found
