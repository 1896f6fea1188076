"""Matrix products, through the BLAS that numpy is built with."""

from __future__ import annotations

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.registry import kernel


@kernel("matmul", dtypes=dt.NUMBERS, widen=True)
def matmul(b: Binding) -> Step:
    """Transposed operands are views, which BLAS reads without a copy."""
    product = b.xp.matmul
    left = b.attrs["transpose_x"] and b.input(0).rank > 1
    right = b.attrs["transpose_y"] and b.input(1).rank > 1
    if not left and not right:
        return product

    def step(x: Array, y: Array, out: Array) -> None:
        product(x.swapaxes(-1, -2) if left else x, y.swapaxes(-1, -2) if right else y, out)

    return step
