"""Convolution whose windows are deformed by learned offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.nn.conv import correlate
from pirkit.dialect.ops.vision.grid_sample import read_between
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, same_dim, show
from pirkit.dialect.windows import Slide, require_positions, slides
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"


@op
class DeformableConv:
    """`conv2d` that reads each window at positions moved by `offset` (Dai et al. 2017).

    `x` is `[N, C, H, W]`, `filter` `[O, C/groups, kh, kw]`; `offset [N, D*kh*kw*2, H', W']` has a
    (row, column) pair for each element of each window, for each of the `D` deformable groups into
    which the channels divide. `mask [N, D*kh*kw, H', W']` weighs what is read (version 2).

    C1: `x`, `offset`, `filter` and `mask` have four dimensions.
    C2: strides, paddings and dilations fit two spatial dimensions.
    C3: the channels of `x` are `groups` times those of `filter`, and `groups` divides the filters.
    C4: the filter fits into the padded input.
    C5: `offset` and `mask` have the sizes above, and `deformable_groups` divides the channels.
    """

    name = "pd_op.deformable_conv"
    signature = (
        "x, offset, filter, mask? ; strides: i32[], paddings: i32[], dilations: i32[], "
        "deformable_groups: i32, groups: i32, im2col_step: i32 -> out"
    )
    dtypes = dt.FLOATS
    same_dtype = ("x", "offset", "filter", "mask")


@infer_meta(DeformableConv)
def _(
    x: TensorMeta,
    offset: TensorMeta,
    filter: TensorMeta,
    mask: TensorMeta | None,
    *,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    deformable_groups: int,
    groups: int,
    **_: object,
) -> TensorMeta:
    tensors = [m for m in (x, offset, filter, mask) if m is not None]
    require(all(m.rank == 4 for m in tensors), "C1", f"{', '.join(map(str, tensors))}: not 4-D")
    filters, depth, *sizes = filter.shape
    lengths = x.shape[2:]
    moves = slides(lengths, sizes, strides, paddings, "EXPLICIT", dilations, "C2")
    divides = groups > 0 and (filters == UNKNOWN or filters % groups == 0)
    agree = divides and same_dim(x.shape[1], mul_dims(depth, groups))
    require(agree, "C3", f"x {x} and filter {filter} in {groups} groups")
    out = [m.positions(n) for m, n in zip(moves, lengths, strict=True)]
    require_positions(out, "C4", lengths)
    divided = deformable_groups > 0 and (
        x.shape[1] == UNKNOWN or x.shape[1] % deformable_groups == 0
    )
    require(divided, "C5", f"{deformable_groups} deformable groups of {x.shape[1]} channels")
    elements = mul_dims(deformable_groups, *sizes)
    for what, meta, count in (("offset", offset, mul_dims(2, elements)), ("mask", mask, elements)):
        if meta is not None:
            wanted = (x.shape[0], count, *out)
            fits = all(map(same_dim, meta.shape, wanted))
            require(fits, "C5", f"{what} {meta} is not {show(wanted)}")
    return x.with_shape((x.shape[0], filters, *out))


@reference(DeformableConv)
def _(
    x: Array,
    offset: Array,
    filter: Array,
    mask: Array | None,
    *,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    deformable_groups: int,
    groups: int,
    **_: object,
) -> Array:
    moves = slides(x.shape[2:], filter.shape[2:], strides, paddings, "EXPLICIT", dilations, "C2")
    weights = np.ones((), x.dtype) if mask is None else mask
    return in_f32(_bent)(
        x, offset, filter, weights, moves=moves, parts=deformable_groups, groups=groups
    )


def _bent(
    x: Array,
    offset: Array,
    filter: Array,
    mask: Array,
    *,
    moves: Sequence[Slide],
    parts: int,
    groups: int,
) -> Array:
    batch, channels = x.shape[:2]
    sizes, out = filter.shape[2:], offset.shape[2:]
    shifts = offset.reshape(batch * parts, *sizes, 2, *out)
    rows, columns = (
        shifts[:, :, :, i] + _regular(move, i, sizes, out).astype(x.dtype)
        for i, move in enumerate(moves)
    )
    flat = (batch * parts, prod((*sizes, *out)))
    images = x.reshape(batch * parts, channels // parts, *x.shape[2:])
    read = read_between(images, [rows.reshape(flat), columns.reshape(flat)])
    read = read.reshape(batch, parts, channels // parts, *sizes, *out)
    if mask.ndim:
        read = read * mask.reshape(batch, parts, 1, *sizes, *out)
    windows = read.reshape(batch, channels, *sizes, *out).transpose(0, 1, 4, 5, 2, 3)
    return correlate(windows, filter, groups)


def _regular(move: Slide, i: int, sizes: Sequence[int], out: Sequence[int]) -> Array:
    """Positions along dimension ``i`` without offsets, for an array ``[*sizes, *out]``."""
    inside = np.arange(sizes[i]) * move.dilation - move.before
    start = np.arange(out[i]) * move.stride
    shape = [1, 1, 1, 1]
    shape[i] = sizes[i]
    other = [1, 1, 1, 1]
    other[2 + i] = out[i]
    return inside.reshape(shape) + start.reshape(other)


@samples(DeformableConv)
def _(s: SampleMaker) -> Iterator[Sample]:
    plain = {"strides": (1, 1), "paddings": (0, 0), "dilations": (1, 1), "im2col_step": 1}
    one = {**plain, "deformable_groups": 1, "groups": 1}
    x, filter = s.tensor(2, 4, 5, 6), s.tensor(3, 4, 3, 2)
    yield s(x, s.tensor(2, 12, 3, 5), filter, s.tensor(2, 6, 3, 5), **one)
    yield s(x, s.tensor(2, 12, 3, 5), filter, None, **one)
    yield s(
        x, s.tensor(2, 36, 3, 2), s.tensor(4, 2, 3, 3), s.tensor(2, 18, 3, 2),
        **{
            **plain, "strides": (2, 2), "paddings": (1, 1), "dilations": (1, 2),
            "deformable_groups": 2, "groups": 2,
        },
    )  # fmt: skip


@bad_samples(DeformableConv)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    good: dict[str, Any] = {
        "strides": (1, 1), "paddings": (0, 0), "dilations": (1, 1), "deformable_groups": 1,
        "groups": 1, "im2col_step": 1,
    }  # fmt: skip
    x, offset, filter = s.tensor(1, 2, 4, 4), s.tensor(1, 8, 3, 3), s.tensor(2, 2, 2, 2)
    yield "C1", s(s.tensor(2, 4, 4), offset, filter, None, **good)
    yield "C2", s(x, offset, filter, None, **{**good, "strides": (1,)})
    yield "C3", s(x, offset, s.tensor(2, 3, 2, 2), None, **good)
    yield "C4", s(x, offset, s.tensor(2, 2, 6, 2), None, **good)
    yield "C5", s(x, s.tensor(1, 4, 3, 3), filter, None, **good)
    yield "C5", s(x, offset, filter, s.tensor(1, 4, 2, 3), **good)
    yield "C5", s(x, offset, filter, None, **{**good, "deformable_groups": 3})
