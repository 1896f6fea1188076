"""Pooling of boxes with edges rounded to elements: the maximum of a bin, or its mean."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "algorithm"


@op
class RoiPool:
    """The greatest element of each bin of boxes of `x [N, C, H, W]`, and its place in the image.

    Row i of `boxes [R, 4]` (x1, y1, x2, y2, times `spatial_scale`, rounded, ends included) becomes
    `out[i, C, pooled_height, pooled_width]`. The first `boxes_num[0]` boxes are in image 0, and so
    on. A bin outside of the image is 0, its place -1 (Girshick 2015).

    C1: `x` has four dimensions and `boxes` is `[R, 4]`.
    C2: `pooled_height` and `pooled_width` are positive.
    C3: `boxes_num` has one number per image; it may be absent for one image.
    """

    name = "pd_op.roi_pool"
    no_gradient = ("boxes",)
    signature = (
        "x, boxes, boxes_num? ; pooled_height: i32 = 1, pooled_width: i32 = 1, "
        "spatial_scale: f32 = 1.0 -> out, arg_max~"
    )
    dtypes = (dt.float32, dt.float64)
    operand_dtypes = {"boxes_num": dt.INTS}


@op
class PsroiPool:
    """Means of bins of boxes of `x`, each bin of channels of its own (Dai et al. 2016).

    Bin (i, j) of output channel c reads channel `(c * pooled_height + i) * pooled_width + j`.
    Corners of boxes are rounded and then multiplied with `spatial_scale`; a bin outside of the
    image is 0. The first `boxes_num[0]` boxes are in image 0, and so on.

    C1: `x` has four dimensions and `boxes` is `[R, 4]`.
    C2: `pooled_height`, `pooled_width` and `output_channels` are positive, and `x` has as many
        channels as their product.
    C3: `boxes_num` has one number per image; it may be absent for one image.
    """

    name = "pd_op.psroi_pool"
    no_gradient = ("boxes",)
    signature = (
        "x, boxes, boxes_num? ; pooled_height: i32 = 1, pooled_width: i32 = 1, "
        "output_channels: i32 = 1, spatial_scale: f32 = 1.0 -> out"
    )
    dtypes = (dt.float32, dt.float64)
    operand_dtypes = {"boxes_num": dt.INTS}


def _check(x: TensorMeta, boxes: TensorMeta, boxes_num: TensorMeta | None, *sizes: int) -> None:
    fits = x.rank == 4 and boxes.rank == 2 and same_dim(boxes.shape[-1], 4)
    require(fits, "C1", f"x {x} and boxes {boxes}")
    require(min(sizes) > 0, "C2", f"sizes {sizes} are not positive")
    counts = 1 if boxes_num is None else boxes_num.shape[0] if boxes_num.rank == 1 else 0
    require(same_dim(counts, x.shape[0]), "C3", f"{x.shape[0]} images, boxes_num {boxes_num}")


@infer_meta(RoiPool)
def _(
    x: TensorMeta,
    boxes: TensorMeta,
    boxes_num: TensorMeta | None,
    *,
    pooled_height: int,
    pooled_width: int,
    **_: object,
) -> tuple[TensorMeta, TensorMeta]:
    _check(x, boxes, boxes_num, pooled_height, pooled_width)
    out = x.with_shape((boxes.shape[0], x.shape[1], pooled_height, pooled_width))
    return out, out.with_dtype(dt.int64)


@infer_meta(PsroiPool)
def _(
    x: TensorMeta,
    boxes: TensorMeta,
    boxes_num: TensorMeta | None,
    *,
    pooled_height: int,
    pooled_width: int,
    output_channels: int,
    **_: object,
) -> TensorMeta:
    _check(x, boxes, boxes_num, pooled_height, pooled_width, output_channels)
    channels = output_channels * pooled_height * pooled_width
    require(same_dim(x.shape[1], channels), "C2", f"{x.shape[1]} channels for {channels}")
    return x.with_shape((boxes.shape[0], output_channels, pooled_height, pooled_width))


def _rounded(x: Array) -> Array:
    """Halves away from zero."""
    return np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)


def _inside(start: Array, size: Array, bins: int, length: int, *, entire: bool) -> Array:
    """Whether element k of an image is in bin j of box i, ``[R, bins, length]``."""
    bin_ = np.arange(bins, dtype=size.dtype)
    first, last = size[:, None] * bin_, size[:, None] * (bin_ + 1)
    if entire:
        first, last = np.floor(first) + start[:, None], np.ceil(last) + start[:, None]
    else:
        first, last = np.floor(first + start[:, None]), np.ceil(last + start[:, None])
    places = np.arange(length)
    return np.asarray((places >= first[..., None]) & (places < last[..., None]))


def _images(boxes_num: Array | None, count: int) -> Array:
    numbers = np.array([count]) if boxes_num is None else boxes_num
    told = f"{numbers.sum()} boxes in boxes_num, {count} in boxes"
    require(bool((numbers >= 0).all()) and int(numbers.sum()) == count, "C3", told)
    return np.repeat(np.arange(len(numbers)), numbers)


@reference(RoiPool)
def _(
    x: Array,
    boxes: Array,
    boxes_num: Array | None,
    *,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> tuple[Array, Array]:
    height, width = x.shape[2:]
    edges = _rounded(boxes.astype(x.dtype) * x.dtype.type(spatial_scale))
    ways = ((0, pooled_width, width), (1, pooled_height, height))
    columns, rows = [
        _inside(
            edges[:, i],
            np.maximum(edges[:, i + 2] - edges[:, i] + 1, 1) / x.dtype.type(bins),
            bins,
            length,
            entire=True,
        )
        for i, bins, length in ways
    ]
    regions: Array = x[_images(boxes_num, len(boxes))]
    # As in Paddle NaN is not greater than any number; infinite elements are still in their bin.
    least = np.finfo(x.dtype).min
    shown = np.where(regions > least, regions, least)
    out = np.zeros((len(boxes), x.shape[1], pooled_height, pooled_width), x.dtype)
    places = np.full(out.shape, -1, np.int64)
    for i, j in np.ndindex(pooled_height, pooled_width):
        mask: Array = np.logical_and(rows[:, i, :, None], columns[:, j, None])
        held = np.where(mask[:, None], shown, -np.inf).reshape(*out.shape[:2], height * width)
        at = np.argmax(held, -1) if held.size else np.zeros(out.shape[:2], np.int64)
        is_empty: Array = np.logical_not(np.any(mask, axis=(1, 2))).reshape(-1, 1)
        places[:, :, i, j] = np.where(is_empty, -1, at)
        flat = regions.reshape(held.shape)
        found = np.take_along_axis(flat, at[..., None], -1)[..., 0] if held.size else 0
        out[:, :, i, j] = np.where(is_empty, 0, found)
    return out, places


@reference(PsroiPool)
def _(
    x: Array,
    boxes: Array,
    boxes_num: Array | None,
    *,
    pooled_height: int,
    pooled_width: int,
    output_channels: int,
    spatial_scale: float,
) -> Array:
    kind = x.dtype.type
    corners = _rounded(boxes.astype(x.dtype)) + np.array([0, 0, 1, 1], x.dtype)
    edges = corners * kind(spatial_scale)
    ways = ((0, pooled_width, x.shape[3]), (1, pooled_height, x.shape[2]))
    columns, rows = [
        _inside(
            edges[:, i],
            np.maximum(edges[:, i + 2] - edges[:, i], kind(0.1)) / kind(bins),
            bins,
            length,
            entire=False,
        ).astype(x.dtype)
        for i, bins, length in ways
    ]
    regions = x.reshape(len(x), output_channels, pooled_height, pooled_width, *x.shape[2:])
    regions = regions[_images(boxes_num, len(boxes))]
    total = np.einsum("rcijhw,rih,rjw->rcij", regions, rows, columns)
    area = rows.sum(-1)[:, None, :, None] * columns.sum(-1)[:, None, None]
    return np.asarray(total / np.maximum(area, 1)).astype(x.dtype)


@samples(RoiPool)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 3, 6, 7)
    boxes = s.array([[0, 0, 4, 5], [1.5, 2, 6.5, 4], [-3, 1, 2, 12], [20, 20, 22, 25]])
    counts = s.array([3, 1], dt.int32)
    yield s(x, boxes, counts, pooled_height=2, pooled_width=3)
    yield s(x, boxes, counts, pooled_height=3, pooled_width=2, spatial_scale=0.5)
    yield s(x, s.tensor(0, 4), s.array([0, 0], dt.int32), pooled_height=2, pooled_width=2)
    yield s(x[:1], boxes[:2], s.array([2], dt.int32), pooled_height=2)


@samples(PsroiPool)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 12, 6, 7)
    boxes = s.array([[0, 0, 4, 5], [1.5, 2, 6.5, 4], [-3, 1, 2, 12], [20, 20, 22, 25]])
    counts = s.array([3, 1], dt.int32)
    yield s(x, boxes, counts, pooled_height=2, pooled_width=3, output_channels=2)
    yield s(x, boxes, counts, pooled_height=2, pooled_width=2, output_channels=3, spatial_scale=0.5)
    yield s(x[:1, :4], boxes[:2], s.array([2], dt.int32), pooled_height=2, output_channels=2)


@bad_samples(RoiPool)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, boxes, counts = s.tensor(1, 2, 4, 4), s.tensor(3, 4), s.array([3], dt.int32)
    yield "C1", s(x, s.tensor(3, 5), counts)
    yield "C2", s(x, boxes, counts, pooled_height=0)
    yield "C3", s(x, boxes, s.array([1, 2], dt.int32))


@bad_samples(PsroiPool)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, boxes, counts = s.tensor(1, 4, 4, 4), s.tensor(3, 4), s.array([3], dt.int32)
    yield "C1", s(x, s.tensor(3, 5), counts, output_channels=4)
    yield "C2", s(x, boxes, counts, pooled_height=0)
    yield "C2", s(x, boxes, counts, output_channels=3)
    yield "C3", s(x, boxes, s.array([1, 2], dt.int32), output_channels=4)
