"""Normalisation to zero mean and unit variance, over the group of elements that an op names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, numel, same_dim
from pirkit.dialect.windows import channels_back, channels_first, is_channels_last
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import HALF_TYPES, widened
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "normalization"


@op
class LayerNorm:
    """Normalise over the dimensions from `begin_norm_axis` on, then scale and shift them.

    `mean` and `variance` (the biased one) have the dimensions in front, and at least float32.

    C1: `begin_norm_axis` is between 1 and the last dimension of `x`.
    C2: `scale` and `bias` are vectors with one element for each normalised one.
    """

    name = "pd_op.layer_norm"
    signature = (
        "x, scale?, bias? ; epsilon: f32 = 1e-5, begin_norm_axis: i32 = 1 -> out, mean~, variance~"
    )
    dtypes = dt.FLOATS


@op
class GroupNorm:
    """Normalise each image over groups of channels, then scale and shift each channel.

    `x` is `[N, C, ...]` or has the channels last; `mean` and `variance` are `[N, groups]`.

    C1: `x` has at least two dimensions.
    C2: `data_format` is a layout with channels first or last.
    C3: `groups` is positive and divides the channels.
    C4: `scale` and `bias` are vectors with one element per channel.
    """

    name = "pd_op.group_norm"
    signature = (
        "x, scale?, bias? ; epsilon: f64 = 1e-5, groups: i32 = -1, "
        'data_format: str = "NCHW" -> y, mean~, variance~'
    )
    dtypes = dt.FLOATS


@op
class InstanceNorm:
    """Normalise each channel of each image of `x [N, C, ...]`, then scale and shift the channels.

    `saved_mean` and `saved_variance` have `N * C` elements; the second is `1 / sqrt(variance +
    epsilon)`.

    C1: `x` has two to five dimensions.
    C2: `scale` and `bias` are vectors with one element per channel.
    """

    name = "pd_op.instance_norm"
    signature = "x, scale?, bias? ; epsilon: f32 = 1e-5 -> y, saved_mean~, saved_variance~"
    dtypes = dt.FLOATS


@op
class RmsNorm:
    """Divide by the root of the mean square over the last dimensions, then scale.

    `normalized_shape` is the shape of those dimensions and of `scale`; `invvar` is what is
    multiplied with, one number per row.

    C1: `normalized_shape` is the end of the shape of `x`, and not empty.
    C2: `scale` has as many elements as `normalized_shape`.
    """

    name = "pd_op.rms_norm"
    signature = "x, scale? ; normalized_shape: i64[] = [], epsilon: f64 = 1e-5 -> y, invvar~"
    dtypes = dt.FLOATS


def statistics_dtype(x: DType) -> DType:
    """Element type of means and variances: never narrower than float32."""
    return dt.float32 if x in HALF_TYPES else x


def moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Mean and biased variance over ``axes``, which stay as ones; zero of nothing."""
    count = max(prod(x.shape[a] for a in axes), 1)
    mean = np.sum(x, axis=axes, keepdims=True) / x.dtype.type(count)
    variance = np.sum(np.square(x - mean), axis=axes, keepdims=True) / x.dtype.type(count)
    return mean, variance


def check_weights(
    scale: TensorMeta | None, bias: TensorMeta | None, size: int, constraint: str
) -> None:
    """Raise ConstraintError unless scale and bias are absent or vectors of ``size`` elements."""
    for what, weight in (("scale", scale), ("bias", bias)):
        if weight is not None:
            fits = weight.rank == 1 and same_dim(weight.shape[0], size)
            require(fits, constraint, f"{what} {weight} is no vector of {size} elements")


def scaled(x: Array, scale: Array | None, bias: Array | None, shape: Sequence[int]) -> Array:
    """``x * scale + bias``, with the weights seen as arrays of ``shape``."""
    if scale is not None:
        x = x * widened(scale).reshape(shape)
    return x if bias is None else x + widened(bias).reshape(shape)


@infer_meta(LayerNorm)
def _(
    x: TensorMeta,
    scale: TensorMeta | None,
    bias: TensorMeta | None,
    *,
    begin_norm_axis: int,
    **_: object,
) -> tuple[TensorMeta, ...]:
    inside = 0 < begin_norm_axis < x.rank
    require(inside, "C1", f"begin_norm_axis {begin_norm_axis} for {x}")
    check_weights(scale, bias, numel(x.shape[begin_norm_axis:]), "C2")
    rows = TensorMeta(x.shape[:begin_norm_axis], statistics_dtype(x.dtype))
    return x, rows, rows


@reference(LayerNorm)
def _(
    x: Array, scale: Array | None, bias: Array | None, *, epsilon: float, begin_norm_axis: int
) -> tuple[Array, ...]:
    wide = widened(x)
    axes = tuple(range(begin_norm_axis, x.ndim))
    mean, variance = moments(wide, axes)
    normal = (wide - mean) / np.sqrt(variance + wide.dtype.type(epsilon))
    out = scaled(normal, scale, bias, x.shape[begin_norm_axis:])
    return out.astype(x.dtype), np.squeeze(mean, axes), np.squeeze(variance, axes)


@infer_meta(GroupNorm)
def _(
    x: TensorMeta,
    scale: TensorMeta | None,
    bias: TensorMeta | None,
    *,
    groups: int,
    data_format: str,
    **_: object,
) -> tuple[TensorMeta, ...]:
    require(x.rank >= 2, "C1", f"{x} has fewer than two dimensions")
    channels = x.shape[-1 if is_channels_last(data_format, "C2") else 1]
    divides = groups > 0 and (channels == UNKNOWN or channels % groups == 0)
    require(divides, "C3", f"{groups} groups do not divide {channels} channels")
    check_weights(scale, bias, channels, "C4")
    rows = TensorMeta((x.shape[0], groups), statistics_dtype(x.dtype))
    return x, rows, rows


@reference(GroupNorm)
def _(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    *,
    epsilon: float,
    groups: int,
    data_format: str,
) -> tuple[Array, ...]:
    last = is_channels_last(data_format, "C2")
    image = channels_first(widened(x), last)
    batch, channels, *rest = image.shape
    grouped = image.reshape(batch, groups, channels // groups, *rest)
    axes = tuple(range(2, grouped.ndim))
    mean, variance = moments(grouped, axes)
    normal = (grouped - mean) / np.sqrt(variance + image.dtype.type(epsilon))
    y = scaled(normal.reshape(image.shape), scale, bias, (channels, *(1,) * len(rest)))
    return (
        channels_back(y, last).astype(x.dtype),
        mean.reshape(batch, groups),
        variance.reshape(batch, groups),
    )


@infer_meta(InstanceNorm)
def _(
    x: TensorMeta, scale: TensorMeta | None, bias: TensorMeta | None, **_: object
) -> tuple[TensorMeta, ...]:
    require(2 <= x.rank <= 5, "C1", f"{x} has not two to five dimensions")
    check_weights(scale, bias, x.shape[1], "C2")
    rows = TensorMeta((mul_dims(*x.shape[:2]),), statistics_dtype(x.dtype))
    return x, rows, rows


@reference(InstanceNorm)
def _(x: Array, scale: Array | None, bias: Array | None, *, epsilon: float) -> tuple[Array, ...]:
    wide = widened(x)
    mean, variance = moments(wide, tuple(range(2, x.ndim)))
    inverse = 1 / np.sqrt(variance + wide.dtype.type(epsilon))
    y = scaled((wide - mean) * inverse, scale, bias, (x.shape[1], *(1,) * (x.ndim - 2)))
    return y.astype(x.dtype), mean.reshape(-1), inverse.reshape(-1)


@infer_meta(RmsNorm)
def _(
    x: TensorMeta, scale: TensorMeta | None, *, normalized_shape: Sequence[int], **_: object
) -> tuple[TensorMeta, ...]:
    n = len(normalized_shape)
    ends = 0 < n <= x.rank and all(map(same_dim, x.shape[-n:], normalized_shape))
    require(ends, "C1", f"the shape of {x} does not end in {list(normalized_shape)}")
    if scale is not None:
        fits = same_dim(numel(scale.shape), prod(normalized_shape))
        require(fits, "C2", f"scale {scale} has not {prod(normalized_shape)} elements")
    return x, TensorMeta(x.shape[:-n], statistics_dtype(x.dtype))


@reference(RmsNorm)
def _(
    x: Array, scale: Array | None, *, normalized_shape: Sequence[int], epsilon: float
) -> tuple[Array, ...]:
    wide = widened(x)
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    count = max(prod(x.shape[a] for a in axes), 1)
    square = np.sum(np.square(wide), axis=axes, keepdims=True) / wide.dtype.type(count)
    inverse = 1 / np.sqrt(square + wide.dtype.type(epsilon))
    y = scaled(wide * inverse, scale, None, normalized_shape)
    return y.astype(x.dtype), np.squeeze(inverse, axes)


@samples(LayerNorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 3, 4)
    yield s(x, s.tensor(12), s.tensor(12))
    yield s(x, None, s.tensor(4), begin_norm_axis=2, epsilon=1e-3)
    yield s(s.tensor(3, 5), s.tensor(5), None)
    yield s(s.tensor(0, 3), None, None)


@samples(GroupNorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    wide = statistics_dtype(s.dtype)
    x = s.tensor(2, 4, 3, 2)
    yield s(x, s.tensor(4, dtype=wide), s.tensor(4, dtype=wide), groups=2)
    yield s(s.tensor(2, 3, 2, 4), s.tensor(4, dtype=wide), None, groups=2, data_format="NHWC")
    yield s(x, None, None, groups=4, epsilon=0.1)
    yield s(s.tensor(2, 6), None, None, groups=1)


@samples(InstanceNorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    wide = statistics_dtype(s.dtype)
    yield s(s.tensor(2, 3, 4, 2), s.tensor(3, dtype=wide), s.tensor(3, dtype=wide))
    yield s(s.tensor(2, 3, 4), None, None, epsilon=0.1)


@samples(RmsNorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), s.tensor(4), normalized_shape=(4,))
    yield s(s.tensor(2, 3, 4), s.tensor(3, 4), normalized_shape=(3, 4), epsilon=0.5)
    yield s(s.tensor(0, 4), None, normalized_shape=(4,))


@bad_samples(LayerNorm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), None, None, begin_norm_axis=2)
    yield "C1", s(s.tensor(2, 3), None, None, begin_norm_axis=0)
    yield "C2", s(s.tensor(2, 3, 4), s.tensor(4), None)


@bad_samples(GroupNorm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4), None, None, groups=2)
    yield "C2", s(s.tensor(2, 4), None, None, groups=2, data_format="CN")
    yield "C3", s(s.tensor(2, 4), None, None, groups=3)
    yield "C4", s(s.tensor(2, 4), None, s.tensor(2), groups=2)


@bad_samples(InstanceNorm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4), None, None)
    yield "C2", s(s.tensor(2, 3, 4), s.tensor(4), None)


@bad_samples(RmsNorm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), None, normalized_shape=(2,))
    yield "C2", s(s.tensor(2, 3), s.tensor(2), normalized_shape=(3,))
