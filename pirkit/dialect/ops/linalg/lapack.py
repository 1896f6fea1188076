"""Calls of LAPACK that end for every input."""

from __future__ import annotations

from pirkit.runtime.lazy_numpy import Array, np


def svd(x: Array, *, full_matrices: bool = False) -> tuple[Array, Array, Array]:
    """The singular value decomposition. Raises LinAlgError for an infinite or NaN element.

    LAPACK (`gesdd`) may loop for ever on such matrices, at some alignments of memory.
    """
    _require_finite(x)
    found = np.linalg.svd(x, full_matrices=full_matrices)
    return found.U, found.S, found.Vh


def svdvals(x: Array) -> Array:
    """The singular values alone. Raises LinAlgError for an infinite or NaN element."""
    _require_finite(x)
    return np.linalg.svd(x, compute_uv=False)


def _require_finite(x: Array) -> None:
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("SVD of a matrix with infinite or NaN elements")
