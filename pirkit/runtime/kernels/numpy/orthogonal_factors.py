"""QR factors, singular values and eigenvalues of symmetric matrices, by LAPACK itself.

numpy.linalg computes float32 in float64. A matrix in memory is the transpose of the one that LAPACK
sees: its LQ factors there are the QR factors here, and its left singular vectors the right ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.elimination import REAL, is_large, matrices_of
from pirkit.runtime.native.lapack import lapack
from pirkit.runtime.registry import kernel


@kernel("qr", dtypes=REAL)
def qr(b: Binding) -> Step | None:
    gelqf, orglq = lapack("gelqf", b.dtype), lapack("orglq", b.dtype)
    if gelqf is None or orglq is None or not is_large(b.input()):
        return None
    rows, columns = b.input().shape[-2:]
    least, has_q = min(rows, columns), b.outputs[0] is not None and b.attrs["mode"] != "r"
    inner = rows if b.attrs["mode"] == "complete" else least
    width = max(columns, inner)
    room, scales = b.workspace((rows, width)), b.workspace((least,))
    work = b.workspace((64 * max(rows, columns),))
    factor = gelqf.on(columns, rows, room, width, scales, work, work.size)
    form_q = orglq.on(inner, rows, least, room, width, scales, work, work.size)
    below = np.tri(inner, columns, k=-1, dtype=np.bool_)

    def step(x: Array, q: Array | None, r: Array) -> None:
        triangles = matrices_of(r)
        for k, matrix in enumerate(matrices_of(x)):
            room[:, :columns] = matrix
            factor()
            triangles[k] = room[:inner, :columns]
            np.copyto(triangles[k], 0, where=below)
            if has_q and q is not None:
                form_q()
                matrices_of(q)[k] = room[:, :inner]

    return step


@kernel("svd", "svdvals", dtypes=REAL)
def svd(b: Binding) -> Step | None:
    """By divide and conquer, which may loop for ever on numbers that are not finite."""
    gesdd = lapack("gesdd", b.dtype)
    if gesdd is None or not is_large(b.input()):
        return None
    rows, columns = b.input().shape[-2:]
    least, has_vectors = min(rows, columns), b.outputs[::2] not in ((None, None), b.outputs)
    full = has_vectors and b.attrs["full_matrices"]
    wide, tall = (columns, rows) if full else (least, least)
    room, found = b.workspace((rows, columns)), b.workspace((least,))
    right = b.workspace((wide, columns) if has_vectors else (1, 1))
    left = b.workspace((rows, tall) if has_vectors else (1, 1))
    numbers = b.workspace((8 * least,), dt.int64)
    job = ("A" if full else "S") if has_vectors else "N"

    def on(work: Array, size: int) -> Callable[[], int]:
        return gesdd.on(
            job, columns, rows, room, columns, found, right, columns, left, left.shape[1],
            work, size, numbers,
        )  # fmt: skip

    asked = np.zeros(1, b.dtype.np)
    on(asked, -1)()
    work = b.workspace((int(asked[0] * 1.01) + 1,))
    decompose = on(work, work.size)

    def step(x: Array, *outs: Any) -> None:
        u, values, vh = outs if len(outs) == 3 else (None, outs[0], None)
        for k, matrix in enumerate(matrices_of(x)):
            if not np.isfinite(matrix).all():
                raise np.linalg.LinAlgError("SVD of a matrix with infinite or NaN elements")
            room[...] = matrix
            if decompose():
                raise np.linalg.LinAlgError("SVD did not converge")
            values.reshape(-1, least)[k] = found
            for vectors, out in ((left, u), (right, vh)):
                if out is not None:
                    matrices_of(out)[k] = vectors

    return step


def _symmetric(b: Binding) -> Step | None:
    syevd = lapack("syevd", b.dtype)
    if syevd is None or not is_large(b.input()):
        return None
    n, has_vectors = b.input().shape[-1], b.outputs[1] is not None
    triangle = "L" if b.attrs["UPLO" if "UPLO" in b.attrs else "uplo"] == "U" else "U"
    room, found, job = b.workspace((n, n)), b.workspace((n,)), "V" if has_vectors else "N"

    operands = job, triangle, n, room, n, found
    asked, counted = np.zeros(1, b.dtype.np), np.zeros(1, np.int64)
    syevd(*operands, asked, -1, counted, -1)
    work = b.workspace((int(asked[0] * 1.01) + 1,))
    numbers = b.workspace((int(counted[0]),), dt.int64)
    decompose = syevd.on(*operands, work, work.size, numbers, numbers.size)

    def step(x: Array, values: Array, vectors: Array | None) -> None:
        for k, matrix in enumerate(matrices_of(x)):
            room[...] = matrix
            if decompose():
                raise np.linalg.LinAlgError("Eigenvalues did not converge")
            values.reshape(-1, n)[k] = found
            if vectors is not None:
                matrices_of(vectors)[k] = room.T

    return step


kernel("eigh", "eigvalsh", dtypes=REAL)(_symmetric)
