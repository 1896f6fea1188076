"""Triangles of matrices, and selections of elements by a mask or by an index."""

from __future__ import annotations

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Bind, Binding, Step
from pirkit.runtime.registry import kernel


def _triangle(*, lower: bool) -> Bind:
    """Zeros are copied over the other triangle, under a mask that is made while binding."""

    def bind(b: Binding) -> Step:
        rows, columns = b.input().shape[-2:]
        diagonal: int = b.attrs["diagonal"]
        remaining = np.tri(rows, columns, diagonal if lower else diagonal - 1, dtype=np.bool_)
        gone = ~remaining if lower else remaining
        zero = np.zeros((), b.dtype.np)

        def step(x: Array, out: Array) -> None:
            if out is not x:
                np.copyto(out, x)
            np.copyto(out, zero, where=gone)

        return step

    return bind


_NUMERIC = (*dt.NUMBERS, dt.bool_)

kernel("tril", dtypes=_NUMERIC, inplace={"out": "x"})(_triangle(lower=True))
kernel("triu", dtypes=_NUMERIC, inplace={"out": "x"})(_triangle(lower=False))


@kernel("masked_fill", dtypes=_NUMERIC, inplace={"out": "x"})
def masked_fill(b: Binding) -> Step | None:
    """The value is copied where the mask holds."""
    if b.input(2).dtype is not b.dtype:
        return None
    single = b.input(2).numel == 1

    def step(x: Array, mask: Array, value: Array, out: Array) -> None:
        if out is not x:
            np.copyto(out, x)
        np.copyto(out, value.reshape(()) if single else value, where=mask)

    return step


@kernel("one_hot", dtypes=dt.INTS)
def one_hot(b: Binding) -> Step:
    """Writes a one into each row of zeros."""
    count, classes = b.input().numel, b.output().shape[-1]
    starts = np.arange(count, dtype=np.int64) * classes
    places = b.workspace((count,), dt.int64)

    def step(x: Array, out: Array) -> None:
        if count and not (np.min(x) >= 0 and np.max(x) < classes):
            raise RuntimeFault(f"one_hot: an index is outside [0, {classes})")
        np.add(starts, x.reshape(-1), places)
        out.fill(0)
        out.reshape(-1)[places] = 1

    return step
