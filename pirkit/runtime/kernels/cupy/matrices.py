"""Decompositions and systems of equations, by cuSOLVER through cupy, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.kernels.cupy.results import Unary, computes

_REAL: Final = (dt.float32, dt.float64)
_FIELDS: Final = (*_REAL, *dt.COMPLEX)


def _refusing(function: Callable[..., Any], words: str) -> Callable[..., Any]:
    """Raise RuntimeFault for a matrix that the function refuses; cupy ignores it by default."""
    errstate = import_module("cupyx").errstate

    def run(*arrays: Any) -> Any:
        try:
            with errstate(linalg="raise"):
                return function(*arrays)
        except np.linalg.LinAlgError as error:
            raise RuntimeFault(words) from error

    return run


def _triangle(b: Binding, x: Any, *, upper: bool, diagonal: bool = True) -> Any:
    xp, rows, columns = b.xp, *x.shape[-2:]
    i, j = xp.arange(rows)[:, None], xp.arange(columns)
    in_triangle = (i < j if upper else i > j) | ((i == j) & diagonal)
    return xp.where(in_triangle, x, xp.zeros((), x.dtype))


@computes("cholesky", dtypes=_REAL)
def cholesky(b: Binding) -> Step | None:
    """Of the triangle that is asked for."""
    upper, factor = b.attrs["upper"], b.xp.linalg.cholesky

    def run(x: Any) -> Any:
        lower = _triangle(b, x.swapaxes(-1, -2) if upper else x, upper=False)
        strict = _triangle(b, lower, upper=False, diagonal=False)
        found = factor(lower + strict.swapaxes(-1, -2))
        return found.swapaxes(-1, -2) if upper else found

    return _refusing(run, "cholesky: a matrix is not positive definite")


SINGULAR: Final = "the matrix is not invertible"


@computes("inverse", dtypes=_FIELDS)
def inverse(b: Binding) -> Step | None:
    return _refusing(b.xp.linalg.inv, SINGULAR)


def _solved(b: Binding, x: Any, y: Any) -> Any:
    """Leading dimensions broadcast."""
    xp, batch = b.xp, np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = xp.ascontiguousarray(xp.broadcast_to(x, (*batch, *x.shape[-2:])))
    return xp.linalg.solve(x, xp.ascontiguousarray(xp.broadcast_to(y, (*batch, *y.shape[-2:]))))


@computes("solve", dtypes=_REAL)
def solve(b: Binding) -> Step | None:
    """A right side that is one dimension short of matrices holds vectors."""
    x, y = b.input(0), b.input(1)
    is_vectors = y.rank == 1 or (y.rank == x.rank - 1 and y.shape == x.shape[:-1])

    def run(x: Any, y: Any) -> Any:
        return _solved(b, x, y[..., None])[..., 0] if is_vectors else _solved(b, x, y)

    return _refusing(run, SINGULAR)


@computes("triangular_solve", dtypes=_FIELDS)
def triangular_solve(b: Binding) -> Step | None:
    """A general solve, for the matrix with zeros in its other triangle."""
    xp, attrs = b.xp, b.attrs

    def run(x: Any, y: Any) -> Any:
        unit = attrs["unitriangular"]
        x = _triangle(b, x, upper=attrs["upper"], diagonal=not unit)
        x = x + xp.eye(x.shape[-1], dtype=x.dtype) if unit else x
        return _solved(b, x.swapaxes(-1, -2) if attrs["transpose"] else x, y)

    return _refusing(run, SINGULAR)


@computes("det", dtypes=_FIELDS)
def det(b: Binding) -> Step | None:
    return b.xp.linalg.det


@computes("slogdet", dtypes=_REAL)
def slogdet(b: Binding) -> Unary | None:
    xp = b.xp
    return lambda x: xp.stack(tuple(xp.linalg.slogdet(x)))


@computes("slogdet_v2", dtypes=_REAL)
def slogdet_v2(b: Binding) -> Unary | None:
    parts = b.xp.linalg.slogdet
    return lambda x: tuple(parts(x))


@computes("svd", dtypes=_FIELDS)
def svd(b: Binding) -> Unary | None:
    function, full = b.xp.linalg.svd, b.attrs["full_matrices"]
    return lambda x: tuple(function(x, full_matrices=full))


@computes("qr", dtypes=_REAL)
def qr(b: Binding) -> Unary | None:
    """With the mode ``r`` the first result is empty."""
    xp, mode = b.xp, b.attrs["mode"]
    if mode == "r":
        return lambda x: (xp.zeros((0,), x.dtype), xp.linalg.qr(x, mode="r"))
    return lambda x: tuple(xp.linalg.qr(x, mode=mode))


@computes("eigh", dtypes=_FIELDS)
def eigh(b: Binding) -> Unary | None:
    function, triangle = b.xp.linalg.eigh, b.attrs["UPLO"]
    return lambda x: tuple(function(x, UPLO=triangle))


@computes("lu", dtypes=_FIELDS)
def lu(b: Binding) -> Step | None:
    """Column by column, all matrices at once; the greatest size is the pivot, as in LAPACK."""
    xp, pivots_wanted, shape = b.xp, b.attrs["pivot"], b.input().shape
    rows, columns = shape[-2:]
    least, batch = min(rows, columns), shape[:-2]

    def run(x: Any) -> tuple[Any, ...]:
        out = x.copy().reshape(-1, rows, columns)
        every = xp.arange(len(out))
        pivots = xp.zeros((len(out), least), dt.int32.np)
        infos = xp.zeros(len(out), dt.int32.np)
        for i in range(least):
            place = xp.full(len(out), i)
            if pivots_wanted:
                column = out[:, i:, i]
                place = i + xp.argmax(xp.absolute(column.real) + xp.absolute(column.imag), axis=1)
            pivots[:, i] = place + 1
            upper, lower = out[:, i].copy(), out[every, place]
            out[every, place] = upper
            out[:, i] = lower
            corner = out[:, i, i].copy()
            infos = xp.where((corner == 0) & (infos == 0), i + 1, infos)
            out[:, i + 1 :, i] /= xp.where(corner == 0, 1, corner)[:, None]
            out[:, i + 1 :, i + 1 :] -= out[:, i + 1 :, i, None] * out[:, i, None, i + 1 :]
        return out.reshape(shape), pivots.reshape(*batch, least), infos.reshape(batch)

    return run


# --- Fourier transforms --------------------------------------------------------------------------

_OPPOSITE: Final = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


@computes("fft_c2c", dtypes=dt.COMPLEX)
def fft_c2c(b: Binding) -> Unary | None:
    axes, norm = tuple(b.attrs["axes"]), b.attrs["normalization"]
    transform = b.xp.fft.fftn if b.attrs["forward"] else b.xp.fft.ifftn
    return lambda x: transform(x, axes=axes, norm=norm)


@computes("fft_r2c", dtypes=_REAL)
def fft_r2c(b: Binding) -> Unary | None:
    """Half of the terms are the conjugates of the others, and are not computed."""
    fft, axes, norm = b.xp.fft, tuple(b.attrs["axes"]), b.attrs["normalization"]
    target, forward = b.output().dtype.np, b.attrs["forward"]
    if not b.attrs["onesided"]:
        transform = fft.fftn if forward else fft.ifftn
        return lambda x: transform(x.astype(target), axes=axes, norm=norm)
    if forward:
        return lambda x: fft.rfftn(x, axes=axes, norm=norm)
    return lambda x: fft.rfftn(x, axes=axes, norm=_OPPOSITE[norm]).conj()


@computes("fft_c2r", dtypes=dt.COMPLEX)
def fft_c2r(b: Binding) -> Unary | None:
    fft, axes, norm = b.xp.fft, tuple(b.attrs["axes"]), b.attrs["normalization"]
    shape = b.output().shape
    sizes = tuple([shape[int(a)] for a in axes])
    if not b.attrs["forward"]:
        return lambda x: fft.irfftn(x, s=sizes, axes=axes, norm=norm)
    return lambda x: fft.irfftn(x.conj(), s=sizes, axes=axes, norm=_OPPOSITE[norm])
