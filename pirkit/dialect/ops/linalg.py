"""Matrix products and their relatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta

Array = np.ndarray[Any, Any]


@op
class Matmul:
    """Matrix product over the last two dimensions; leading dimensions broadcast.

    A vector on the left is a row, on the right a column; the transpose flag of a vector is ignored.

    C1: `x` and `y` have at least one dimension.
    C2: the last dimension of `x` equals the second-last of `y`, after transposition.
    C3: the leading dimensions broadcast.
    C4: `x` and `y` have the same dtype.
    """

    name = "pd_op.matmul"
    signature = "x, y ; transpose_x: bool = False, transpose_y: bool = False -> out"
    dtypes = dt.NUMBERS


@infer_meta(Matmul)
def _(x: TensorMeta, y: TensorMeta, *, transpose_x: bool, transpose_y: bool) -> TensorMeta:
    require(x.rank > 0 and y.rank > 0, "C1", "an operand of matmul has no dimensions")
    require(x.dtype is y.dtype, "C4", f"dtypes {x.dtype} and {y.dtype} differ")
    xs = x.shape if x.rank == 1 or not transpose_x else (*x.shape[:-2], x.shape[-1], x.shape[-2])
    ys = y.shape if y.rank == 1 or not transpose_y else (*y.shape[:-2], y.shape[-1], y.shape[-2])
    k_y = ys[-1] if y.rank == 1 else ys[-2]
    require(
        same_dim(xs[-1], k_y),
        "C2",
        f"inner dimensions {xs[-1]} and {k_y} of {show(x.shape)} and {show(y.shape)} differ",
        help="a `transpose_x` or `transpose_y` flag may be missing",
    )
    batch = broadcast(xs[:-2], ys[:-2], constraint="C3")
    rows = () if x.rank == 1 else (xs[-2],)
    columns = () if y.rank == 1 else (ys[-1],)
    return TensorMeta((*batch, *rows, *columns), x.dtype)


@reference(Matmul)
def _(x: Array, y: Array, *, transpose_x: bool, transpose_y: bool) -> Array:
    a = x.swapaxes(-1, -2) if transpose_x and x.ndim > 1 else x
    b = y.swapaxes(-1, -2) if transpose_y and y.ndim > 1 else y
    if x.dtype.itemsize < 4 and x.dtype.kind in "fV":  # f16, bf16: accumulate in f32
        return np.asarray(np.matmul(a.astype(np.float32), b.astype(np.float32))).astype(x.dtype)
    return np.asarray(np.matmul(a, b))


@samples(Matmul)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(3, 4))
    yield s(s.tensor(3, 2), s.tensor(4, 3), transpose_x=True, transpose_y=True)
    yield s(s.tensor(2, 1, 3, 4), s.tensor(5, 4, 2))
    yield s(s.tensor(3), s.tensor(3))
    yield s(s.tensor(2, 3), s.tensor(3))
    yield s(s.tensor(2, 0), s.tensor(0, 4))


@bad_samples(Matmul)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(), s.tensor(3))
    yield "C2", s(s.tensor(2, 3), s.tensor(4, 5))
    yield "C3", s(s.tensor(2, 2, 3), s.tensor(3, 3, 5))
