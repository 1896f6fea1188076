"""Matmul whose right operand is packed into panels of columns."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"


@op
class PackedMatmul:
    """`matmul` of `x [..., M, K]` with the first `columns` columns N of `panels [P, K, n]`.

    Panel p holds columns `p n` to `(p + 1) n` of the right operand, row by row, as the microkernel
    of a matmul reads them (Goto and van de Geijn, 2008; BLIS). The result is `[..., M, N]`.
    Programs of inference get this op from the pass `pack-matmuls`.

    C1: `x` has two dimensions or more, `panels` three, with the same dtype.
    C2: `x` and `panels` have the same K.
    C3: the last of the P panels has at least one of the `columns`.
    """

    name = "pir.packed_matmul"
    dtypes = (dt.float32, dt.float64)
    signature = "x, panels ; columns: i64 -> out"


@infer_meta(PackedMatmul)
def _(x: TensorMeta, panels: TensorMeta, *, columns: int) -> TensorMeta:
    fits = x.rank >= 2 and panels.rank == 3
    require(fits, "C1", f"input {x} and panels {panels} have other dimensions")
    require(x.dtype is panels.dtype, "C1", f"dtypes {x.dtype} and {panels.dtype} differ")
    agree = same_dim(x.shape[-1], panels.shape[1])
    require(agree, "C2", f"input {show(x.shape)} does not fit panels {show(panels.shape)}")
    count, width = panels.shape[0], panels.shape[2]
    known = UNKNOWN not in (count, width)
    full = not known or (count - 1) * width < columns <= count * width
    require(full, "C3", f"{columns} columns do not fill panels {show(panels.shape)}")
    return x.with_shape((*x.shape[:-1], columns))


@reference(PackedMatmul)
def _(x: Array, panels: Array, *, columns: int) -> Array:
    right = panels.transpose(1, 0, 2).reshape(panels.shape[1], -1)[:, :columns]
    return np.matmul(x, right)


@samples(PackedMatmul)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4), s.tensor(2, 4, 3), columns=5)
    yield s(s.tensor(2, 3, 4), s.tensor(1, 4, 6), columns=6)


@bad_samples(PackedMatmul)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4), s.tensor(2, 4, 3), columns=5)
    yield "C1", s(s.tensor(3, 4), s.tensor(2, 4, 3, dtype=dt.int32), columns=5)
    yield "C2", s(s.tensor(3, 5), s.tensor(2, 4, 3), columns=5)
    yield "C3", s(s.tensor(3, 4), s.tensor(2, 4, 3), columns=3)
    yield "C3", s(s.tensor(3, 4), s.tensor(2, 4, 3), columns=7)
