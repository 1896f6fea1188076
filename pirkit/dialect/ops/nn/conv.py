"""Convolution over two and three spatial dimensions, plain and depthwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from pirkit.dialect.kinds import CONVOLUTION
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, same_dim, show
from pirkit.dialect.windows import (
    channels_back,
    channels_first,
    is_channels_last,
    patches,
    require_positions,
    slides,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"


class _Convolution:
    """C1: `input` and `filter` have four dimensions and the same dtype.
    C2: `data_format` is a layout with channels first or last.
    C3: `groups` is positive and divides the number of filters.
    C4: the channels of `input` are `groups` times those of `filter`.
    C5: strides, paddings, dilations and `padding_algorithm` fit two spatial dimensions.
    C6: the filter fits into the padded input.
    """

    dtypes = dt.FLOATS


@op
class Conv2d(_Convolution):
    """Cross-correlation of images `[N, C, H, W]` (or NHWC) with `filter [O, C/groups, kh, kw]`."""

    name = "pd_op.conv2d"
    traits = (CONVOLUTION,)
    signature = (
        "input, filter ; strides: i32[] = [1, 1], paddings: i32[] = [0, 0], "
        'padding_algorithm: str = "EXPLICIT", dilations: i32[] = [1, 1], groups: i32 = 1, '
        'data_format: str = "NCHW" -> out'
    )


@op
class DepthwiseConv2d(_Convolution):
    """`conv2d` with as many groups as channels; the same numbers from a kernel of its own."""

    name = "pd_op.depthwise_conv2d"
    traits = (CONVOLUTION,)
    signature = (
        "input, filter ; strides: i32[] = [1, 1], paddings: i32[] = [0, 0], "
        'padding_algorithm: str = "EXPLICIT", groups: i32 = 1, dilations: i32[] = [1, 1], '
        'data_format: str = "NCHW" -> out'
    )


@op
class Conv3d(_Convolution):
    """Cross-correlation of volumes `[N, C, D, H, W]` (or NDHWC) with `[O, C/groups, kd, kh, kw]`.

    C1: `input` and `filter` have five dimensions and the same dtype.
    C2: `data_format` is a layout with channels first or last.
    C3: `groups` is positive and divides the number of filters.
    C4: the channels of `input` are `groups` times those of `filter`.
    C5: strides, paddings, dilations and `padding_algorithm` fit three spatial dimensions.
    C6: the filter fits into the padded input.
    """

    name = "pd_op.conv3d"
    traits = (CONVOLUTION,)
    signature = (
        "input, filter ; strides: i32[] = [1, 1, 1], paddings: i32[] = [0, 0, 0], "
        'padding_algorithm: str = "EXPLICIT", groups: i32 = 1, dilations: i32[] = [1, 1, 1], '
        'data_format: str = "NCDHW" -> out'
    )


def _rule(rank: int) -> Any:
    def rule(
        x: TensorMeta,
        filter: TensorMeta,
        *,
        strides: Sequence[int],
        paddings: Sequence[int],
        padding_algorithm: str,
        dilations: Sequence[int],
        groups: int,
        data_format: str,
    ) -> TensorMeta:
        ranks = f"input {x} and filter {filter} need {rank} dimensions"
        require(x.rank == filter.rank == rank, "C1", ranks)
        require(x.dtype is filter.dtype, "C1", f"dtypes {x.dtype} and {filter.dtype} differ")
        last = is_channels_last(data_format, "C2")
        channels, lengths = (x.shape[-1], x.shape[1:-1]) if last else (x.shape[1], x.shape[2:])
        filters, depth, *sizes = filter.shape
        divides = groups > 0 and (filters == UNKNOWN or filters % groups == 0)
        require(divides, "C3", f"{groups} groups do not divide {filters} filters")
        require(
            same_dim(channels, mul_dims(depth, groups)),
            "C4",
            f"input {show(x.shape)} has {channels} channels, "
            f"filter {show(filter.shape)} in {groups} groups takes {mul_dims(depth, groups)}",
        )
        moves = slides(lengths, sizes, strides, paddings, padding_algorithm, dilations, "C5")
        out = [m.positions(n) for m, n in zip(moves, lengths, strict=True)]
        require_positions(out, "C6", lengths)
        shape = (x.shape[0], *out, filters) if last else (x.shape[0], filters, *out)
        return TensorMeta(shape, x.dtype)

    return rule


infer_meta(Conv2d, DepthwiseConv2d)(_rule(4))
infer_meta(Conv3d)(_rule(5))


@reference(Conv2d, DepthwiseConv2d, Conv3d)
@in_f32
def _(
    x: Array,
    filter: Array,
    *,
    strides: Sequence[int],
    paddings: Sequence[int],
    padding_algorithm: str,
    dilations: Sequence[int],
    groups: int,
    data_format: str,
) -> Array:
    last = is_channels_last(data_format, "C2")
    image = channels_first(x, last)
    moves = slides(
        image.shape[2:], filter.shape[2:], strides, paddings, padding_algorithm, dilations, "C5"
    )
    return channels_back(correlate(patches(image, moves), filter, groups), last)


def correlate(windows: Array, filter: Array, groups: int) -> Array:
    """Windows ``[N, C, *positions, *sizes]`` times ``filter [O, C/groups, *sizes]``.

    One image at a time: the copy that the matrix product needs is as many times larger than the
    image as the filter has elements.
    """
    n = filter.ndim - 2
    batch, filters, positions = windows.shape[0], filter.shape[0], windows.shape[2 : 2 + n]
    rows = filter.reshape(groups, filters // groups, prod(filter.shape[1:]))
    out = np.empty((batch, groups, filters // groups, prod(positions)), windows.dtype)
    order = (0, *range(1 + n, 1 + 2 * n), *range(1, 1 + n))
    for image, result in zip(windows, out, strict=True):
        columns = image.transpose(order).reshape(groups, rows.shape[2], out.shape[3])
        np.matmul(rows, columns, out=result)
    return out.reshape(batch, filters, *positions)


@samples(Conv2d)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 5, 6), s.tensor(4, 3, 3, 2), strides=(2, 1), paddings=(1, 0))
    yield s(s.tensor(1, 4, 6, 6), s.tensor(6, 2, 3, 3), groups=2, paddings=(0, 1, 2, 0))
    yield s(s.tensor(1, 7, 6, 2), s.tensor(3, 2, 3, 3), data_format="NHWC", dilations=(2, 1))
    yield s(
        s.tensor(1, 2, 7, 8), s.tensor(3, 2, 3, 4), padding_algorithm="SAME", strides=(2, 3),
        dilations=(2, 2),
    )  # fmt: skip
    yield s(s.tensor(1, 2, 4, 4), s.tensor(3, 2, 1, 1), padding_algorithm="VALID", paddings=(1, 1))
    yield s(s.tensor(0, 2, 4, 4), s.tensor(3, 2, 3, 3))


@samples(DepthwiseConv2d)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 5, 6), s.tensor(3, 1, 3, 3), groups=3, paddings=(1, 1))
    yield s(s.tensor(1, 3, 5, 6), s.tensor(6, 1, 3, 2), groups=3, strides=(2, 2))
    yield s(
        s.tensor(1, 5, 6, 2), s.tensor(2, 1, 3, 3), groups=2, data_format="NHWC",
        paddings=(1, 1), dilations=(2, 2),
    )  # fmt: skip


@samples(Conv3d)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(1, 2, 4, 5, 4), s.tensor(4, 1, 2, 3, 2), groups=2, paddings=(1, 0, 1))
    yield s(
        s.tensor(1, 4, 3, 5, 2), s.tensor(2, 2, 2, 2, 2), data_format="NDHWC", strides=(2, 1, 2)
    )


@bad_samples(Conv2d, DepthwiseConv2d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, filter = s.tensor(1, 3, 4, 4), s.tensor(4, 3, 3, 3)
    yield "C1", s(s.tensor(3, 4, 4), filter)
    yield "C1", s(x, s.tensor(4, 3, 3, 3, dtype=dt.int32))
    yield "C2", s(x, filter, data_format="HWCN")
    yield "C3", s(x, filter, groups=3)
    yield "C4", s(s.tensor(1, 2, 4, 4), filter)
    yield "C5", s(x, filter, strides=(0, 1))
    yield "C5", s(x, filter, paddings=(1, 1, 1))
    yield "C5", s(x, filter, padding_algorithm="FULL")
    yield "C6", s(s.tensor(1, 3, 1, 4), filter)


@bad_samples(Conv3d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, filter = s.tensor(1, 2, 4, 4, 4), s.tensor(4, 2, 3, 3, 3)
    yield "C1", s(s.tensor(1, 2, 4, 4), filter)
    yield "C2", s(x, filter, data_format="DHWCN")
    yield "C3", s(x, filter, groups=0)
    yield "C4", s(x, s.tensor(4, 1, 3, 3, 3))
    yield "C5", s(x, filter, dilations=(1, 1))
    yield "C6", s(x, s.tensor(4, 2, 3, 5, 3))
