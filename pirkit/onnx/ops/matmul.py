"""Matrix multiplication: `MatMul`, `Gemm` and their integer forms."""

from __future__ import annotations

from functools import partial

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.ops.integer_sums import Integers, centered, matmul_sums, product_of_scaled
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt


@rule("MatMul")
def product(b: NodeBuilder, x: Value, y: Value) -> Value:
    """A matmul. Sums of integers wrap around; dequantized tensors are multiplied as integers."""
    found = None
    if x.dtype.is_float:
        found = product_of_scaled(b, x, y, None, matmul_sums, axis=1)
    return b.matmul(x, y) if found is None else found


@rule("Gemm")
def _(
    b: NodeBuilder, x: Value, y: Value, c: Value | None = None, alpha: float = 1.0,
    beta: float = 1.0, transA: int = 0, transB: int = 0, broadcast: int = 1,
) -> Value:  # fmt: skip
    if not transA and alpha == beta == 1.0 and (c is None or c.rank == 1):
        sums = partial(matmul_sums, transposed=bool(transB))
        found = product_of_scaled(b, x, y, c, sums, axis=0 if transB else 1)
        if found is not None:
            return found
    found = b.matmul(x, y, transpose_x=bool(transA), transpose_y=bool(transB))
    if alpha != 1.0:
        wide = found if x.dtype.is_float else b.cast(found, dt.float64)
        found = b.cast(wide * alpha, x.dtype)
    if c is None or beta == 0.0:
        return found
    return b.add(found, c if beta == 1.0 else c * beta)


@rule("Einsum")
def _(b: NodeBuilder, *values: Value, equation: str) -> Value:
    return b.einsum(list(values), equation=equation.replace(" ", ""))[0]


@rule("Det")
def _(b: NodeBuilder, x: Value) -> Value:
    return b.det(x)


@rule("MatMulInteger")
def _(
    b: NodeBuilder, x: Value, y: Value, x_zero: Value | None = None, y_zero: Value | None = None
) -> Value:
    left, right = centered(b, x, x_zero, rows=True), centered(b, y, y_zero)
    if not 0 <= x.shape[-1] <= 256:  # float32 holds sums of 256 such products exactly
        left, right = b.cast(left, dt.float64), b.cast(right, dt.float64)
    out = b.cast(b.matmul(left, right), dt.int32)
    b.sums[out.ssa] = matmul_sums(b, Integers(x, x_zero), Integers(y, y_zero, axis=1))
    return out
