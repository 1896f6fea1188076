"""Matrix multiplication: `MatMul`, `Gemm` and their integer forms."""

from __future__ import annotations

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt


@rule("MatMul")
def product(b: NodeBuilder, x: Value, y: Value) -> Value:
    """A matmul; integers are summed as integers, in float64."""
    if x.dtype.is_float or x.dtype.is_complex:
        return b.matmul(x, y)
    return b.cast(b.matmul(b.cast(x, dt.float64), b.cast(y, dt.float64)), x.dtype)


@rule("Gemm")
def _(
    b: NodeBuilder, x: Value, y: Value, c: Value | None = None, alpha: float = 1.0,
    beta: float = 1.0, transA: int = 0, transB: int = 0, broadcast: int = 1,
) -> Value:  # fmt: skip
    exact = x.dtype.is_float
    left, right = (x, y) if exact else (b.cast(x, dt.float64), b.cast(y, dt.float64))
    found = b.matmul(left, right, transpose_x=bool(transA), transpose_y=bool(transB))
    found = b.cast(found if alpha == 1.0 else found * alpha, x.dtype)
    if c is None or beta == 0.0:
        return found
    return b.add(found, c if beta == 1.0 else c * beta)


@rule("Einsum")
def _(b: NodeBuilder, *values: Value, equation: str) -> Value:
    return b.einsum(list(values), equation=equation.replace(" ", ""))[0]


@rule("Det")
def _(b: NodeBuilder, x: Value) -> Value:
    return b.det(x)


def centered(b: NodeBuilder, x: Value, zero: Value | None, *, rows: bool = False) -> Value:
    """An integer tensor less its zero point, as float32, which holds it exactly."""
    wide = b.cast(x, dt.float32)
    if zero is None:
        return wide
    point = b.cast(zero, dt.float32)
    if rows and point.rank == 1 and point.shape != (1,):
        point = b.unsqueezed(point, (1,))
    return b.subtract(wide, point)


@rule("MatMulInteger")
def _(
    b: NodeBuilder, x: Value, y: Value, x_zero: Value | None = None, y_zero: Value | None = None
) -> Value:
    left, right = centered(b, x, x_zero, rows=True), centered(b, y, y_zero)
    if x.shape[-1] > 256:  # float32 holds sums of 256 such products exactly
        left, right = b.cast(left, dt.float64), b.cast(right, dt.float64)
    return b.cast(b.matmul(left, right), dt.int32)
