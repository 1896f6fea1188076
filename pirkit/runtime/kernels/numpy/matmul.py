"""Matrix products, through the BLAS that numpy is built with."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.native.blas import warn_of_old_kernels
from pirkit.runtime.registry import kernel

_LOOPED: Final = 1 << 13
"""Multiplications of integers up to which numpy's loops are faster than a BLAS."""
_EXACT: Final = 1 << 53
"""float64 holds all integers up to this one."""


@kernel("matmul", dtypes=dt.NUMBERS, widen=True, portable=True)
def matmul(b: Binding) -> Step:
    """Transposed operands are views, which BLAS reads without a copy."""
    product = b.xp.matmul
    if b.xp is np and b.output().dtype.is_integer and _operations(b) > _LOOPED:
        product = _integers
    warn_of_old_kernels()
    left = b.attrs["transpose_x"] and b.input(0).rank > 1
    right = b.attrs["transpose_y"] and b.input(1).rank > 1
    if b.input(0).rank > 1 < b.input(1).rank and b.input(0).shape[-2 if left else -1] == 1:
        product = b.xp.multiply  # a BLAS takes far longer for sums of one term
    elif b.input(0).rank > 2 and b.input(1).rank == 2 and not left and b.output().numel:
        return _flattened(b, right, product)
    if not left and not right:
        return product

    def step(x: Array, y: Array, out: Array) -> None:
        product(x.swapaxes(-1, -2) if left else x, y.swapaxes(-1, -2) if right else y, out)

    return step


def _operations(b: Binding) -> int:
    return b.output().numel * b.input(0).shape[-1]


def _integers(x: Array, y: Array, out: Array) -> None:
    """Integers by BLAS in float64, if that holds all sums; numpy's loops take ten times as long."""
    largest = [max(-int(a.min()), int(a.max())) for a in (x, y)]
    if prod(largest) * x.shape[-1] > _EXACT:
        np.matmul(x, y, out)
        return
    sums = np.matmul(x.astype(np.float64), y.astype(np.float64))
    # Narrower integers wrap around, which only integers do.
    np.copyto(out, sums.astype(np.int64), casting="unsafe")


def _flattened(b: Binding, transpose: bool, product: Any) -> Step:
    """Many matrices times one: the rows of all of them as a single product."""
    *lead, width = b.input(0).shape
    rows = prod(lead)
    given, made = (rows, width), (rows, b.output().shape[-1])

    def step(x: Array, y: Array, out: Array) -> None:
        factor = y.T if transpose else y
        if x.flags.c_contiguous and out.flags.c_contiguous:
            product(x.reshape(given), factor, out.reshape(made))
        else:
            product(x, factor, out)

    return step


@kernel("bmm", "mv", dtypes=dt.FLOATS, widen=True, portable=True)
def product(b: Binding) -> Step:
    """The function itself."""
    return b.xp.matmul


@kernel("dot", dtypes=dt.NUMBERS, widen=True)
def dot(b: Binding) -> Step:
    """A product without the array of terms; complex numbers are not conjugated."""
    if not b.dtype.is_complex:
        return b.xp.vecdot
    einsum = b.xp.einsum

    def step(x: Array, y: Array, out: Array) -> None:
        einsum("...i,...i->...", x, y, out=out)

    return step


@kernel("addmm", "baddbmm", dtypes=dt.FLOATS, widen=True, portable=True)
def add_product(b: Binding) -> Step:
    """The product is made in the result; what is added is scaled aside if it has a factor.

    A factor of 0 leaves its term out.
    """
    xp = b.xp
    kind = b.dtype.np.type
    alpha, beta = kind(b.attrs["alpha"]), kind(b.attrs["beta"])
    term = b.workspace(b.input(0).shape) if beta not in (0, 1) else None

    def step(input: Array, x: Array, y: Array, out: Array) -> None:
        if alpha == 0:
            out.fill(0)
        else:
            xp.matmul(x, y, out)
        if alpha not in (0, 1):
            xp.multiply(out, alpha, out)
        if beta != 0:
            xp.add(out, input if term is None else xp.multiply(input, beta, term), out)

    return step
