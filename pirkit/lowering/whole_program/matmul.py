"""Lowers matmuls: small or thin ones to loop nests, others to the blocked GEMM."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Store,
)
from pirkit.lowering.codegen.matmul.gemm import Gemm, MatrixBatch
from pirkit.lowering.codegen.matmul.macrokernel import tile_shape_for
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import host

PACKED: Final = "pir.packed_matmul"

MAX_NEST_SIZE: Final = 1 << 18
"""Multiply-adds of a matmul up to which a loop nest is as fast as the blocked GEMM."""
MAX_DOT_NEST_SIZE: Final = 1 << 15
"""The same, of a matmul with a transposed right operand."""
MAX_THIN_EXTENT: Final = 8
"""Rows or columns of a result below which packing does not pay: no panel would be reused."""


def matmul_of(
    a: TensorMeta, b: TensorMeta, c: TensorMeta, transposed: tuple[bool, bool]
) -> Gemm | Kernel:  # fmt: skip
    """``c = a b`` over batches of matrices, each operand ``transposed`` or not; vectors are a row
    on the left and a column on the right.

    Raises NotNativeError for operands without axes, empty ones, types other than floats, and
    large matmuls of types other than float32 and float64.
    """
    (a, b, c), transposed = _as_matrices(a, b, c, transposed)
    if a.rank < 2 or b.rank < 2 or not c.dtype.is_float:
        raise NotNativeError(
            "a matmul of operands other than float vectors and matrices has no native form"
        )
    if c.numel == 0 or a.numel == 0:
        raise NotNativeError("an empty matmul has no native form")
    left, right = (
        m.shape[-2:][::-1] if t else m.shape[-2:] for m, t in zip((a, b), transposed, strict=True)
    )
    (rows, depth), columns = left, right[1]
    batch = c.shape[:-2]
    if b.rank == 2 and not transposed[0]:
        # many matrices times one: their rows together
        batch, rows = (), prod(a.shape[:-1])
    ab = (matrix_batch(a, batch, transposed[0]), matrix_batch(b, batch, transposed[1]))
    result = matrix_batch(c, batch, False)
    # Terms along the lanes of both operands: a nest adds lanes at the end of each element.
    is_dot = transposed[1] and not transposed[0]
    most = MAX_DOT_NEST_SIZE if is_dot else MAX_NEST_SIZE
    if (
        rows * columns * depth > most
        and min(rows, columns) >= MAX_THIN_EXTENT
        and c.dtype in (dt.float32, dt.float64)
    ):
        return Gemm(batch, rows, columns, depth, c.dtype, *ab, result)
    if rows * columns * depth > MAX_NEST_SIZE and min(rows, columns) >= MAX_THIN_EXTENT:
        raise NotNativeError(
            f"a product of {c.numel * depth:,} multiplications in {c.dtype} has no native form"
        )
    return _nest((*batch, rows, columns), depth, (a, b, c), (*ab, result))


def packed_matmul_of(x: TensorMeta, panels: TensorMeta, out: TensorMeta) -> Gemm:
    """``x`` times panels, as the pass `pack-matmuls` makes them.

    Raises NotNativeError for panels that do not suit this CPU, and for nothing to compute.
    """
    _, depth, columns = panels.shape
    if x.dtype not in (dt.float32, dt.float64) or not (out.numel and depth):
        raise NotNativeError(f"`{PACKED}` of {x} has no native form")
    if columns != tile_shape_for(x.dtype, host()).columns:
        raise NotNativeError(f"`{PACKED}` has no native form for panels of {columns} columns here")
    rows, size = out.numel // out.shape[-1], x.dtype.itemsize
    a, c = (MatrixBatch((), (m.shape[-1] * size, size), m.numel * size) for m in (x, out))
    b = MatrixBatch((), (columns * size, depth * size), panels.numel * size)
    return Gemm((), rows, out.shape[-1], depth, x.dtype, a, b, c, panel=columns)


def _as_matrices(
    a: TensorMeta, b: TensorMeta, c: TensorMeta, transposed: tuple[bool, bool]
) -> tuple[tuple[TensorMeta, TensorMeta, TensorMeta], tuple[bool, bool]]:
    """The operands and the result where vectors have a second axis of size 1."""
    row, column = a.rank == 1, b.rank == 1
    if column:
        b, c = b.with_shape((*b.shape, 1)), c.with_shape((*c.shape, 1))
    if row:
        at = c.rank - 1
        a, c = a.with_shape((1, *a.shape)), c.with_shape((*c.shape[:at], 1, *c.shape[at:]))
    return (a, b, c), (transposed[0] and not row, transposed[1] and not column)


def matrix_batch(meta: TensorMeta, batch: Sequence[int], transposed: bool) -> MatrixBatch:
    """The strides, in bytes, of an operand as a batch of matrices; broadcast axes have stride 0."""
    size = meta.dtype.itemsize
    last = meta.shape[-1] * size
    own = meta.shape[:-2] if batch else ()
    lead = [1] * (len(batch) - len(own)) + list(own)
    strides = [
        0 if extent == 1 else prod(lead[k + 1 :]) * prod(meta.shape[-2:]) * size
        for k, extent in enumerate(lead)
    ]
    return MatrixBatch(
        tuple(strides), (size, last) if transposed else (last, size), meta.numel * size
    )


def _nest(
    outer: tuple[int, ...], depth: int, metas: Sequence[TensorMeta], places: Sequence[MatrixBatch]
) -> Kernel:  # fmt: skip
    a, b, c = (
        Operand(
            meta.dtype,
            (*m.batch, *((m.strides[0], 0), (0, m.strides[1]), m.strides)[k]),
            ((m.strides[1], m.strides[0], 0)[k],),
            m.size,
        )
        for k, (meta, m) in enumerate(zip(metas, places, strict=True))
    )
    body = (
        Load("x", 0),
        Load("y", 1),
        Compute("xy", "multiply", ("x", "y"), metas[2].dtype),
        Reduce("total", "sum", "xy"),
    )
    return Kernel(outer, (depth,), (a, b, c), (LoopPhase(body, (Store(2, "total"),)),))
