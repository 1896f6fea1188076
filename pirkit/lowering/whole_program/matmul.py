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
from pirkit.lowering.codegen.matmul.few_columns import has_few_columns
from pirkit.lowering.codegen.matmul.few_rows import has_few_rows
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm, MatrixBatch
from pirkit.lowering.codegen.matmul.quantized_rows import (
    DIRECT_ROWS,
    FEW_ROWS,
    exact_group,
    native_rows_product,
    product_tile,
)
from pirkit.lowering.codegen.matmul.quantized_tile import RowsProduct
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host

_BLOCKED: Final = (dt.float32, dt.float64, dt.bfloat16)
MAX_NEST_SIZE: Final = 1 << 18
"""Multiply-adds of a matmul up to which a loop nest is as fast as the blocked GEMM."""
MAX_TAILED_SIZE: Final = 1 << 16
MAX_PAIRED_SIZE: Final = 1 << 12
"""The same in bfloat16, which a nest widens (32x32x32 by a transposed one: 4.3 us, GEMM 1.0)."""
MIN_TAILED_DEPTH: Final = 16
"""The same where the columns are no whole vectors, from so many terms on: a nest masks the last
vector of each row at each term (256x20x20: 6.1 us, GEMM 4.4; with 8 lanes 6.8 and 5.0)."""
MIN_DOT_DEPTH: Final = 8
"""Terms from which a matmul with a transposed right operand is a GEMM, if its result has as many
elements: a nest adds lanes at the end of each (256x32x20 with 16 lanes: 32 us, GEMM 6; with 8
lanes the same)."""
NARROW: Final = 16
"""Columns below which a nest along them is slow (256x12 by 12x8: 53 us, GEMM 2.7; with 8 lanes,
where they fill a vector, 21 and 2.8)."""
MAX_THIN_EXTENT: Final = 8
"""Rows or columns of a result below which no panel is packed: it would not be reused."""


def matmul_of(
    a: TensorMeta, b: TensorMeta, c: TensorMeta, transposed: tuple[bool, bool]
) -> Gemm | Kernel:  # fmt: skip
    """``c = a b`` over batches of matrices, each operand ``transposed`` or not; vectors are a row
    on the left and a column on the right.

    Raises NotNativeError for operands without axes, empty ones, types other than floats, and
    large matmuls in float16.
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
    reused = depth >= MIN_DOT_DEPTH and rows * columns >= depth
    is_tailed = depth >= MIN_TAILED_DEPTH and columns * c.dtype.itemsize * 8 % host().vector_bits
    most = MAX_TAILED_SIZE if is_tailed else MAX_NEST_SIZE
    if c.dtype is dt.bfloat16:
        most = MAX_PAIRED_SIZE
    gemm = Gemm(batch, rows, columns, depth, c.dtype, *ab, result)
    if (
        (rows * columns * depth > most or (reused and (is_dot or columns < NARROW)))
        and (min(rows, columns) >= MAX_THIN_EXTENT or _is_thin_gemm(gemm))
        and c.dtype in _BLOCKED
    ):
        return gemm
    if rows * columns * depth > MAX_NEST_SIZE and min(rows, columns) >= MAX_THIN_EXTENT:
        raise NotNativeError(
            f"a matmul of {c.numel * depth:,} multiplications in {c.dtype} has no native form"
        )
    return _nest((*batch, rows, columns), depth, (a, b, c), (*ab, result))


def is_blocked(p: Gemm) -> bool:
    """Whether a matmul has the blocked loops, whose tiles add summands."""
    # A sum in bfloat16 is rounded before something is added.
    few = has_few_rows(p) or has_few_columns(p, host())
    return p.dtype is not dt.bfloat16 and not few


def _is_thin_gemm(p: Gemm) -> bool:
    """Whether a matmul of few rows or columns has loops of its own, which pack no panel."""
    return (p.columns >= MAX_THIN_EXTENT and has_few_rows(p)) or has_few_columns(p, host())


def panel_product(
    metas: Sequence[TensorMeta | None], out: TensorMeta
) -> tuple[NativeFunction | Gemm, tuple[int, ...]]:
    """The function of a product with weights in panels, or its sizes as a GEMM, and which of its
    operands and the result it takes, by their numbers. The operands are ``x`` and panels, then
    perhaps the scales of columns, those of rows, and what is added to sums of columns.

    Raises NotNativeError for weights in rows, for panels that do not suit this CPU, for float16
    where the CPU does not convert it, and for nothing to compute.
    """
    x, weights, scales, x_scales, added = (*metas, None, None, None)[:5]
    assert x is not None
    assert weights is not None
    exact, scaled, target = x_scales is not None, scales is not None, host()
    kind = dt.float32 if exact else x.dtype
    depth, columns, rows = x.shape[-1], out.shape[-1], out.numel // max(out.shape[-1], 1)
    if kind not in (dt.float32, dt.float64) or not (out.numel and depth):
        raise NotNativeError(f"a matmul of {x} by packed weights has no native form")
    if weights.rank != 3 + exact:
        raise NotNativeError("a matmul by quantized weights that are not packed has no native form")
    width = product_tile(target, exact, columns, kind).columns
    if weights.shape[2] != width:
        raise NotNativeError(f"panels of {weights.shape[2]} columns have no native form here")
    if weights.dtype is dt.float16 and target.x86 and not target.has("f16c"):
        raise NotNativeError("this CPU has no instructions for float16")
    group = weights.shape[3] if exact else 1
    if exact and group not in (2, exact_group(target)):
        raise NotNativeError(f"panels of {group} terms together have no native form here")
    adds, unsigned = added is not None, x.dtype is dt.uint8
    operands = (0, 1, len(metas), *[2] * scaled, *[3] * exact, *[4] * adds)
    # Several tiles of rows read a panel again, at once only if it stays in the L2 cache.
    stays = weights.dtype is kind and width * depth * 4 <= target.l2_bytes // 4
    if exact or (rows <= (DIRECT_ROWS if stays else FEW_ROWS) and kind is dt.float32):
        each = x_scales is not None and x_scales.numel == rows
        product = RowsProduct(
            rows, columns, depth, weights.dtype, scaled, exact, each, group, unsigned, adds
        )
        return native_rows_product(product), operands
    item, size = weights.dtype.itemsize, kind.itemsize
    a, c = (MatrixBatch((), (m.shape[-1] * size, size), m.numel * size) for m in (x, out))
    b = MatrixBatch((), (width * item, depth * item), weights.numel * item)
    stored = None if weights.dtype is kind else weights.dtype
    how = Gemm((), rows, columns, depth, kind, a, b, c, panel=width, stored=stored, scales=scaled)
    return how, operands


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
