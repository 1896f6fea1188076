"""Cofactors of small matrices: the derivatives of a determinant, of any order and of any matrix.

A determinant is a polynomial, so that singular matrices have derivatives like all others; what goes
through the inverse has none there.
"""

from __future__ import annotations

from typing import Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.rules.taylor.series import Coefficient, Series, integrated, times
from pirkit.runtime.meta import UNKNOWN

MOST_ROWS: Final = 8
"""Rows of the largest matrix of which cofactors are computed; an inverse costs less for more."""


def has_cofactors(x: Value) -> bool:
    """Whether they are computed for matrices ``[..., n, n]``."""
    return UNKNOWN not in x.shape and 0 < x.shape[-1] <= MOST_ROWS


def cofactors(b: Builder, x: Value) -> Value:
    """For each element the determinant of the matrix without its row and column, with its sign."""
    if x.shape[-1] == 1:
        return b.ones_like(x)
    return b.det(_minors(b, x)) * _signs(b, x)


def determinants(b: Builder, x: Series) -> Series:
    """Taylor coefficients of the determinants, from 0 on, by those of matrices.

    The slope of a determinant is the sum of the cofactors times the slopes of the elements.
    """
    first = x[0]
    assert first is not None  # the value itself
    found: Series = [b.det(first)]
    if len(x) == 1:
        return found
    local_derivatives = _cofactor_series(b, first, x[:-1])
    for k in range(1, len(x)):
        each = integrated(b, local_derivatives, x, k)
        found.append(None if each is None else b.sum(each, axis=(-2, -1), keepdim=False))
    return found


def _cofactor_series(b: Builder, first: Value, x: Series) -> Series:
    if first.shape[-1] == 1:
        return [b.ones_like(first), *(None for _ in x[1:])]
    minors: list[Coefficient] = [None if v is None else _minors(b, v) for v in x]
    return [times(v, _signs(b, first)) for v in determinants(b, minors)]


def _minors(b: Builder, x: Value) -> Value:
    """``[..., n, n]`` to ``[..., n, n, n - 1, n - 1]``: each matrix without a row and a column."""
    n, rank, batch = x.shape[-1], x.rank, x.shape[:-2]
    others = b.integers([k for left_out in range(n) for k in range(n) if k != left_out])
    rows = b.reshape(b.gather(x, others, axis=rank - 2), shape=(*batch, n, n - 1, n))
    both = b.reshape(b.gather(rows, others, axis=rank), shape=(*batch, n, n - 1, n, n - 1))
    axes = range(rank - 2)
    return b.transpose(both, perm=(*axes, rank - 2, rank, rank - 1, rank + 1))


def _signs(b: Builder, x: Value) -> Value:
    n = x.shape[-1]
    signs = b.integers([(-1) ** (row + column) for row in range(n) for column in range(n)])
    return b.cast(b.reshape(signs, shape=(n, n)), dtype=x.dtype)
