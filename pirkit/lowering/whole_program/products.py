"""Products of matrices in native code: small ones as loop nests, others in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from pirkit.lowering.codegen.gemm import Matrices, Product
from pirkit.lowering.codegen.loopnest import Compute, Fold, Kernel, Load, Operand, Stage, Store
from pirkit.lowering.whole_program.graph import Refused
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta

SMALL: Final = 1 << 18
"""Multiplications of a product of two matrices that a loop nest does as well as blocks."""
THIN: Final = 8
"""Rows or columns of a result below which nothing that is packed would be read again."""


def product_of(
    a: TensorMeta, b: TensorMeta, c: TensorMeta, turned: tuple[bool, bool]
) -> Product | Kernel:  # fmt: skip
    """``c = a b``, each of the two ``turned`` or not. Raises Refused where there is no native form."""  # noqa: E501
    if a.rank < 2 or b.rank < 2 or not c.dtype.is_float:
        raise Refused("a product of other than matrices of floats has no native form")
    if c.numel == 0 or a.numel == 0:
        raise Refused("a product of nothing has no native form")
    left, right = (
        m.shape[-2:][::-1] if t else m.shape[-2:] for m, t in zip((a, b), turned, strict=True)
    )
    (rows, depth), columns = left, right[1]
    batch = c.shape[:-2]
    if b.rank == 2 and not turned[0]:
        # many matrices times one: their rows together
        batch, rows = (), prod(a.shape[:-1])
    factors = (matrices(a, batch, turned[0]), matrices(b, batch, turned[1]))
    result = matrices(c, batch, False)
    if (
        rows * columns * depth > SMALL
        and min(rows, columns) >= THIN
        and c.dtype in (dt.float32, dt.float64)
    ):
        return Product(batch, rows, columns, depth, c.dtype, *factors, result)
    if rows * columns * depth > SMALL and min(rows, columns) >= THIN:
        raise Refused(
            f"a product of {c.numel * depth:,} multiplications in {c.dtype} has no native form"
        )
    return _nest((*batch, rows, columns), depth, (a, b, c), (*factors, result))


def matrices(meta: TensorMeta, batch: Sequence[int], turned: bool) -> Matrices:
    """Where the matrices of an operand lie, for each point of a batch."""
    size = meta.dtype.itemsize
    last = meta.shape[-1] * size
    own = meta.shape[:-2] if batch else ()
    lead = [1] * (len(batch) - len(own)) + list(own)
    strides = [
        0 if extent == 1 else prod(lead[k + 1 :]) * prod(meta.shape[-2:]) * size
        for k, extent in enumerate(lead)
    ]
    return Matrices(tuple(strides), (size, last) if turned else (last, size), meta.numel * size)


def _nest(
    outer: tuple[int, ...], depth: int, metas: Sequence[TensorMeta], places: Sequence[Matrices]
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
        Fold("total", "sum", "xy"),
    )
    return Kernel(outer, (depth,), (a, b, c), (Stage(body, (Store(2, "total"),)),))
