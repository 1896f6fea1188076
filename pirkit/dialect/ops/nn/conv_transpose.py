"""Transposed convolution: the gradient of a convolution used as an op of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from pirkit.dialect.kinds import CONVOLUTION, TRANSPOSED
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, same_dim
from pirkit.dialect.windows import (
    Slide,
    channels_back,
    channels_first,
    is_channels_last,
    scatter_patches,
    slides,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"

_SIGNATURE_2D = (
    "x, filter, output_size: intarray = [] ; strides: i32[] = [1, 1], paddings: i32[] = [0, 0], "
    'output_padding: i32[] = [], padding_algorithm: str = "EXPLICIT", groups: i32 = 1, '
    'dilations: i32[] = [1, 1], data_format: str = "NCHW" -> out'
)


@op
class Conv2dTranspose:
    """Spread each element of `x [N, C, H, W]` over a window, weighted by `[C, O/groups, kh, kw]`.

    `output_size` chooses among the sizes that a convolution with these strides maps to that of
    `x`; without it the smallest is taken, `output_padding` larger.

    C1: `x` and `filter` have four dimensions and the same dtype.
    C2: `data_format` is a layout with channels first or last.
    C3: the channels of `x` are the first dimension of `filter` and divide into `groups`.
    C4: strides, paddings, dilations and `padding_algorithm` fit two spatial dimensions.
    C5: `output_size` and `output_padding` have one number per spatial dimension, or none.
    C6: the size is at least the smallest, by less than the stride (or dilation) larger.
    """

    name = "pd_op.conv2d_transpose"
    traits = (CONVOLUTION, TRANSPOSED)
    signature = _SIGNATURE_2D
    dtypes = dt.FLOATS


@op
class DepthwiseConv2dTranspose:
    """`conv2d_transpose` with as many groups as channels.

    C1: `x` and `filter` have four dimensions and the same dtype.
    C2: `data_format` is a layout with channels first or last.
    C3: the channels of `x` are the first dimension of `filter` and divide into `groups`.
    C4: strides, paddings, dilations and `padding_algorithm` fit two spatial dimensions.
    C5: `output_size` and `output_padding` have one number per spatial dimension, or none.
    C6: the size is at least the smallest, by less than the stride (or dilation) larger.
    """

    name = "pd_op.depthwise_conv2d_transpose"
    traits = (CONVOLUTION, TRANSPOSED)
    signature = _SIGNATURE_2D
    dtypes = dt.FLOATS


@op
class Conv3dTranspose:
    """`conv2d_transpose` for volumes `[N, C, D, H, W]`, or with the channels last.

    C1: `x` and `filter` have five dimensions and the same dtype.
    C2: `data_format` is a layout with channels first or last.
    C3: the channels of `x` are the first dimension of `filter` and divide into `groups`.
    C4: strides, paddings, dilations and `padding_algorithm` fit three spatial dimensions.
    C5: `output_size` and `output_padding` have one number per spatial dimension, or none.
    C6: the size is at least the smallest, by less than the stride (or dilation) larger.
    """

    name = "pd_op.conv3d_transpose"
    traits = (CONVOLUTION, TRANSPOSED)
    signature = (
        "x, filter ; strides: i32[] = [1, 1, 1], paddings: i32[] = [0, 0, 0], "
        'output_padding: i32[] = [], output_size: i32[] = [], padding_algorithm: str = "EXPLICIT", '
        'groups: i32 = 1, dilations: i32[] = [1, 1, 1], data_format: str = "NCHW" -> out'
    )
    dtypes = dt.FLOATS


def _sizes(
    moves: Sequence[Slide],
    lengths: Sequence[int],
    output_size: Sequence[int | None] | None,
    output_padding: Sequence[int],
) -> tuple[int, ...]:
    """Sizes of the result; checks C5 and C6."""
    n = len(lengths)
    least = [m.length(length) for m, length in zip(moves, lengths, strict=True)]
    for number, (size, m, length) in enumerate(zip(least, moves, lengths, strict=True)):
        known = UNKNOWN not in (length, m.size)  # else -1 is no size
        require(size >= 0 or not known, "C6", f"size {number} of the result is {size}")
    if output_size is None:
        return (UNKNOWN,) * n
    if not output_size:
        extra = output_padding or (0,) * n
        require(len(extra) == n, "C5", f"output_padding {list(extra)} is not {n} numbers")
        for e, m in zip(extra, moves, strict=True):
            fits = 0 <= e < max(m.stride, m.dilation) or e == 0
            require(fits, "C6", f"output_padding {e} with stride {m.stride}")
        return tuple(UNKNOWN if s == UNKNOWN else s + e for s, e in zip(least, extra, strict=True))
    require(len(output_size) == n, "C5", f"output_size {list(output_size)} is not {n} numbers")
    for size, s, m in zip(output_size, least, moves, strict=True):
        fits = size is None or s == UNKNOWN or s <= size < s + m.stride
        require(fits, "C6", f"output_size {size} is not in [{s}, {s + m.stride})")
    return tuple(UNKNOWN if size is None else size for size in output_size)


def _rule(rank: int) -> Callable[..., TensorMeta]:
    def rule(
        x: TensorMeta,
        filter: TensorMeta,
        *,
        output_size: Sequence[int | None] | None,
        strides: Sequence[int],
        paddings: Sequence[int],
        output_padding: Sequence[int],
        padding_algorithm: str,
        groups: int,
        dilations: Sequence[int],
        data_format: str,
    ) -> TensorMeta:
        ranks = f"x {x} and filter {filter} need {rank} dimensions"
        require(x.rank == filter.rank == rank, "C1", ranks)
        require(x.dtype is filter.dtype, "C1", f"dtypes {x.dtype} and {filter.dtype} differ")
        last = is_channels_last(data_format, "C2")
        channels, lengths = (x.shape[-1], x.shape[1:-1]) if last else (x.shape[1], x.shape[2:])
        depth, filters, *sizes = filter.shape
        agree = same_dim(channels, depth) and groups > 0
        divided = agree and (depth == UNKNOWN or depth % groups == 0)
        require(divided, "C3", f"{channels} channels, {filter} and {groups} groups do not agree")
        moves = slides(lengths, sizes, strides, paddings, padding_algorithm, dilations, "C4")
        out = _sizes(moves, lengths, output_size, output_padding)
        made = mul_dims(filters, groups)
        return TensorMeta((x.shape[0], *out, made) if last else (x.shape[0], made, *out), x.dtype)

    return rule


infer_meta(Conv2dTranspose, DepthwiseConv2dTranspose)(_rule(4))
infer_meta(Conv3dTranspose)(_rule(5))


@reference(Conv2dTranspose, DepthwiseConv2dTranspose, Conv3dTranspose)
@in_f32
def _(
    x: Array,
    filter: Array,
    *,
    output_size: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    output_padding: Sequence[int],
    padding_algorithm: str,
    groups: int,
    dilations: Sequence[int],
    data_format: str,
) -> Array:
    last = is_channels_last(data_format, "C2")
    image = channels_first(x, last)
    batch, channels, *lengths = image.shape
    sizes = filter.shape[2:]
    moves = slides(lengths, sizes, strides, paddings, padding_algorithm, dilations, "C4")
    positions = prod(lengths)
    expanded = channels // groups
    columns = np.matmul(
        filter.reshape(groups, expanded, prod(filter.shape[1:])).swapaxes(1, 2),
        image.reshape(batch, groups, expanded, positions),
    )
    windows = columns.reshape(batch, groups * filter.shape[1], *sizes, *lengths)
    out = scatter_patches(windows, moves, _sizes(moves, lengths, output_size, output_padding))
    return channels_back(out, last)


@samples(Conv2dTranspose)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 4, 3, 5)
    yield s(x, s.tensor(4, 3, 3, 2), strides=(2, 1), paddings=(1, 0))
    yield s(x, s.tensor(4, 3, 4, 4), groups=2, strides=(2, 2), output_padding=(1, 1))
    yield s(x, s.tensor(4, 1, 3, 3), output_size=(6, 10), strides=(2, 2), paddings=(1, 1))
    yield s(x, s.tensor(4, 2, 3, 3), padding_algorithm="SAME", strides=(2, 2))
    yield s(
        s.tensor(1, 4, 3, 2), s.tensor(2, 3, 3, 3), data_format="NHWC", dilations=(2, 1),
        paddings=(0, 1, 1, 0),
    )  # fmt: skip
    yield s(s.tensor(0, 4, 3, 3), s.tensor(4, 1, 3, 3))


@samples(DepthwiseConv2dTranspose)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 3, 5), s.tensor(3, 1, 4, 4), groups=3, strides=(2, 2), paddings=(1, 1))
    yield s(s.tensor(1, 2, 3, 4), s.tensor(2, 1, 2, 3), groups=2, strides=(1, 2))


@samples(Conv3dTranspose)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(1, 2, 2, 3, 2), s.tensor(2, 3, 2, 3, 2), strides=(2, 1, 2), paddings=(1, 0, 0))
    yield s(s.tensor(1, 3, 2, 2, 2), s.tensor(2, 1, 2, 2, 2), groups=2, data_format="NHWC")


@bad_samples(Conv2dTranspose, DepthwiseConv2dTranspose)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, filter = s.tensor(1, 4, 3, 3), s.tensor(4, 2, 3, 3)
    yield "C1", s(s.tensor(4, 3, 3), filter)
    yield "C2", s(x, filter, data_format="HWCN")
    yield "C3", s(x, s.tensor(3, 2, 3, 3))
    yield "C3", s(x, filter, groups=3)
    yield "C4", s(x, filter, strides=(2,))
    yield "C5", s(x, filter, output_size=(6,))
    yield "C5", s(x, filter, output_padding=(0, 0, 0))
    yield "C6", s(x, filter, output_size=(9, 5))
    yield "C6", s(x, filter, output_padding=(1, 0))
    yield "C6", s(x, s.tensor(4, 2, 1, 1), paddings=(2, 0))
    yield "C6", s(x, s.tensor(4, 2, 1, 1), paddings=(0, 7))


@bad_samples(Conv3dTranspose)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C6", s(s.tensor(1, 2, 2, 2, 2), s.tensor(2, 2, 1, 1, 1), paddings=(0, 3, 0))
    x, filter = s.tensor(1, 2, 2, 2, 2), s.tensor(2, 2, 2, 2, 2)
    yield "C1", s(s.tensor(1, 2, 2, 2), filter)
    yield "C2", s(x, filter, data_format="DHWCN")
    yield "C3", s(x, filter, groups=0)
    yield "C4", s(x, filter, dilations=(0, 1, 1))
    yield "C5", s(x, filter, output_size=(3, 3))
    yield "C6", s(x, filter, output_size=(2, 3, 3))
