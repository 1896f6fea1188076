"""Channels moved between groups, pixels and frames; the maximum over each group of channels."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.kinds import MOVEMENT
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, normalize_axis, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = MOVEMENT


def _divide(size: int, by: int, constraint: str, what: str) -> int:
    """``size // by``, or unknown; refuses a remainder."""
    require(
        size == UNKNOWN or size % by == 0, constraint, f"{what} {size} is not divisible by {by}"
    )
    return size if size == UNKNOWN else size // by


def _image(x: TensorMeta, data_format: str) -> int:
    """The axis of the channels of a batch of images. C1: it is one in a known format."""
    known = x.rank == 4 and data_format in ("NCHW", "NHWC")
    require(known, "C1", f"{show(x.shape)} is no batch of {data_format} images")
    return 1 if data_format == "NCHW" else 3


@op
class ChannelShuffle:
    """Channels of `groups` groups interleaved: the first of each group, the second, ...

    C1: `x` is a batch of images, and `data_format` is NCHW or NHWC.
    C2: `groups` is positive and divides the channels.
    """

    name = "pd_op.channel_shuffle"
    signature = "x ; groups: i32, data_format: str = 'NCHW' -> out"
    dtypes = (dt.float32, dt.float64)


@infer_meta(ChannelShuffle)
def _(x: TensorMeta, *, groups: int, data_format: str) -> TensorMeta:
    at = _image(x, data_format)
    require(groups >= 1, "C2", f"{groups} groups")
    _divide(x.shape[at], groups, "C2", "the number of channels")
    return x


@reference(ChannelShuffle)
def _(x: Array, *, groups: int, data_format: str) -> Array:
    at = 1 if data_format == "NCHW" else 3
    channels = x.shape[at]
    split = x.reshape(*x.shape[:at], groups, channels // groups, *x.shape[at + 1 :])
    return split.swapaxes(at, at + 1).reshape(x.shape)


@samples(ChannelShuffle)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 6, 2, 3), groups=3)
    yield s(s.tensor(2, 2, 3, 4), groups=2, data_format="NHWC")


@bad_samples(ChannelShuffle)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(6, 2, 3), groups=3)
    yield "C2", s(s.tensor(2, 6, 2, 3), groups=4)


@op
class PixelUnshuffle:
    """Blocks of pixels rearranged to channels: the inverse of `pixel_shuffle`.

    C1: `x` is a batch of images, and `data_format` is NCHW or NHWC.
    C2: `downscale_factor` is positive and divides height and width.
    """

    name = "pd_op.pixel_unshuffle"
    signature = "x ; downscale_factor: i32 = 1, data_format: str = 'NCHW' -> out"
    dtypes = (dt.float32, dt.float64)


@infer_meta(PixelUnshuffle)
def _(x: TensorMeta, *, downscale_factor: int, data_format: str) -> TensorMeta:
    at = _image(x, data_format)
    by = downscale_factor
    require(by >= 1, "C2", f"the factor {by} is not positive")
    shape = [_divide(d, by, "C2", "a side of") if i not in (0, at) else d
             for i, d in enumerate(x.shape)]  # fmt: skip
    shape[at] = mul_dims(x.shape[at], by * by)
    return x.with_shape(shape)


@reference(PixelUnshuffle)
def _(x: Array, *, downscale_factor: int, data_format: str) -> Array:
    by = downscale_factor
    images = x if data_format == "NCHW" else x.transpose(0, 3, 1, 2)
    n, c, h, w = images.shape
    blocks = images.reshape(n, c, h // by, by, w // by, by).transpose(0, 1, 3, 5, 2, 4)
    out = blocks.reshape(n, c * by * by, h // by, w // by)
    return out if data_format == "NCHW" else out.transpose(0, 2, 3, 1)


@samples(PixelUnshuffle)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4, 6), downscale_factor=2)
    yield s(s.tensor(1, 4, 2, 2), downscale_factor=2, data_format="NHWC")


@bad_samples(PixelUnshuffle)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, 4, 6), downscale_factor=2)
    yield "C2", s(s.tensor(2, 3, 4, 5), downscale_factor=2)


@op
class Maxout:
    """The greatest of each `groups` neighbouring channels.

    C1: `x` has four dimensions, and `axis` is 1, 3 or -1.
    C2: `groups` is at least 2 and divides the channels.
    """

    name = "pd_op.maxout"
    kind = "reduction"
    signature = "x ; groups: i32, axis: i32 = 1 -> out"
    dtypes = (dt.float32, dt.float64)


@infer_meta(Maxout)
def _(x: TensorMeta, *, groups: int, axis: int) -> TensorMeta:
    require(x.rank == 4 and axis in (1, 3, -1), "C1", f"axis {axis} of {show(x.shape)}")
    require(groups >= 2, "C2", f"{groups} groups")
    at = normalize_axis(axis, x.rank)
    channels = _divide(x.shape[at], groups, "C2", "the number of channels")
    return x.with_shape((*x.shape[:at], channels, *x.shape[at + 1 :]))


@reference(Maxout)
def _(x: Array, *, groups: int, axis: int) -> Array:
    at = axis % x.ndim
    split = x.reshape(*x.shape[:at], x.shape[at] // groups, groups, *x.shape[at + 1 :])
    return split.max(axis=at + 1)


@samples(Maxout)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 6, 2, 3), groups=3)
    yield s(s.tensor(2, 2, 3, 4), groups=2, axis=-1)


@bad_samples(Maxout)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 4, 3), groups=2)
    yield "C2", s(s.tensor(2, 6, 2, 3), groups=4)
