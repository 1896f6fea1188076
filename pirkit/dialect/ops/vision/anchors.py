"""Boxes on a regular grid: priors, and their decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.bounding_boxes import cell_centres, priors, ratios
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "algorithm"


@op
class PriorBox:
    """Boxes of several sizes around each element of `input [N, C, H, W]` (SSD, Liu et al. 2016).

    `out` and `var` are `[H, W, P, 4]`; boxes are (x1, y1, x2, y2) as fractions of `image`. Each
    minimal size gives a box per aspect ratio, and one of the geometric mean with its maximal size.

    C1: `input` and `image` have four dimensions.
    C2: there are minimal sizes, and no maximal sizes or as many, each larger.
    C3: there are four variances.
    """

    name = "pd_op.prior_box"
    signature = (
        "input, image ; min_sizes: f32[], max_sizes: f32[] = [], aspect_ratios: f32[] = [], "
        "variances: f32[] = [], flip: bool = True, clip: bool = True, step_w: f32 = 0.0, "
        "step_h: f32 = 0.0, offset: f32 = 0.5, min_max_aspect_ratios_order: bool = False "
        "-> out, var"
    )
    dtypes = (dt.float32,)


@op
class YoloBox:
    """Boxes and class scores from the output `x [N, A * (5 + classes), H, W]` of a YOLO v3 head.

    Element (y, x) of anchor a moves and stretches that anchor: centre, size, objectness, classes.
    Boxes (x1, y1, x2, y2) are in pixels of images of size `img_size [N, 2]` (height, width). Where
    the objectness is below `conf_thresh` boxes and scores are zero. `iou_aware` heads have `A`
    channels more, in front, that predict the overlap: the objectness is then
    `objectness ** (1 - iou_aware_factor) * overlap ** iou_aware_factor`.

    C1: `x` has four dimensions and `img_size` is `[N, 2]`.
    C2: `anchors` are pairs of a width and a height, at least one.
    C3: `class_num` is positive and the channels are as many as above.
    """

    name = "pd_op.yolo_box"
    signature = (
        "x, img_size ; anchors: i32[] = [], class_num: i32 = 1, conf_thresh: f32 = 0.01, "
        "downsample_ratio: i32 = 32, clip_bbox: bool = True, scale_x_y: f32 = 1.0, "
        "iou_aware: bool = False, iou_aware_factor: f32 = 0.5 -> boxes, scores"
    )
    dtypes = (dt.float32,)
    operand_dtypes = {"img_size": dt.INTS}


@infer_meta(PriorBox)
def _(
    input: TensorMeta,
    image: TensorMeta,
    *,
    min_sizes: Sequence[float],
    max_sizes: Sequence[float],
    aspect_ratios: Sequence[float],
    variances: Sequence[float],
    flip: bool,
    **_: object,
) -> tuple[TensorMeta, TensorMeta]:
    require(input.rank == image.rank == 4, "C1", f"input {input}, image {image}")
    pairs = list(zip(min_sizes, max_sizes, strict=False))
    fit = len(min_sizes) > 0 and len(max_sizes) in (0, len(min_sizes))
    larger = fit and all(low < high for low, high in pairs)
    require(larger, "C2", f"min_sizes {list(min_sizes)}, max_sizes {list(max_sizes)}")
    require(len(variances) == 4, "C3", f"{len(variances)} variances")
    count = len(min_sizes) * len(ratios(aspect_ratios, flip)) + len(max_sizes)
    out = input.with_shape((*input.shape[2:], count, 4))
    return out, out


@reference(PriorBox)
def _(
    input: Array, image: Array, *, variances: Sequence[float], **attributes: Any
) -> tuple[Array, Array]:
    out = priors(input.shape[2:], image.shape[2:], **attributes).astype(input.dtype)
    return out, np.broadcast_to(np.array(variances, input.dtype), out.shape)


@infer_meta(YoloBox)
def _(
    x: TensorMeta,
    img_size: TensorMeta,
    *,
    anchors: Sequence[int],
    class_num: int,
    iou_aware: bool,
    **_: object,
) -> tuple[TensorMeta, TensorMeta]:
    sized = img_size.rank == 2 and same_dim(img_size.shape[-1], 2)
    fits = x.rank == 4 and sized and same_dim(x.shape[0], img_size.shape[0])
    require(fits, "C1", f"x {x} with img_size {img_size}")
    require(len(anchors) > 0 and len(anchors) % 2 == 0, "C2", f"anchors {list(anchors)}")
    count = len(anchors) // 2
    wanted = count * (5 + class_num + iou_aware)
    channels = class_num > 0 and same_dim(x.shape[1], wanted)
    require(channels, "C3", f"{x.shape[1]} channels, {wanted} expected")
    boxes = mul_dims(count, *x.shape[2:])
    return x.with_shape((x.shape[0], boxes, 4)), x.with_shape((x.shape[0], boxes, class_num))


@reference(YoloBox)
def _(
    x: Array,
    img_size: Array,
    *,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool,
    scale_x_y: float,
    iou_aware: bool,
    iou_aware_factor: float,
) -> tuple[Array, Array]:
    kind = x.dtype.type
    images, _, height, width = x.shape
    count = len(anchors) // 2
    head = x[:, count if iou_aware else 0 :].reshape(images, count, 5 + class_num, height, width)
    confidence = _sigmoid(head[:, :, 4])
    if iou_aware:
        overlap = _sigmoid(x[:, :count])
        confidence = confidence ** kind(1 - iou_aware_factor) * overlap ** kind(iou_aware_factor)
    # From cells of the grid to pixels of the image, whose size is given as height and width.
    entire = img_size[:, ::-1].astype(x.dtype).reshape(images, 1, 2, 1, 1)
    grid = np.array([width, height], x.dtype).reshape(2, 1, 1)
    at = cell_centres(width, height).astype(x.dtype)
    shift = kind(-0.5 * (scale_x_y - 1))
    centres = (at + _sigmoid(head[:, :, :2]) * kind(scale_x_y) + shift) * entire / grid
    shapes = np.array(anchors, x.dtype).reshape(count, 2, 1, 1)
    sizes = np.exp(head[:, :, 2:4]) * shapes * entire / (kind(downsample_ratio) * grid)
    low, high = centres - sizes / 2, centres + sizes / 2
    if clip_bbox:
        low, high = np.maximum(low, 0), np.minimum(high, entire - 1)
    found = (confidence >= kind(conf_thresh))[:, :, None]
    boxes = np.where(found, np.concatenate([low, high], axis=2), kind(0))
    scores = np.where(found, confidence[:, :, None] * _sigmoid(head[:, :, 5:]), kind(0))
    return _rows(boxes), _rows(scores)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _rows(x: Array) -> Array:
    """``[N, A, K, H, W]`` as ``[N, A * H * W, K]``."""
    return np.moveaxis(x, 2, -1).reshape(x.shape[0], x.shape[1] * prod(x.shape[3:]), x.shape[2])


@samples(PriorBox)
def _(s: SampleMaker) -> Iterator[Sample]:
    x, image = s.tensor(1, 2, 3, 4), s.tensor(1, 3, 24, 40)
    four = (0.1, 0.1, 0.2, 0.2)
    yield s(x, image, min_sizes=(4.0, 8.0), max_sizes=(9.0, 12.0), aspect_ratios=(2.0, 1.0, 3.0),
            variances=four)  # fmt: skip
    yield s(x, image, min_sizes=(4.0,), aspect_ratios=(1.0, 0.5), variances=four, flip=False,
            clip=False, step_w=8.0, step_h=6.0, offset=0.25)  # fmt: skip
    yield s(x, image, min_sizes=(4.0, 8.0), max_sizes=(9.0, 12.0), aspect_ratios=(2.0,),
            variances=four, min_max_aspect_ratios_order=True)  # fmt: skip


@samples(YoloBox)
def _(s: SampleMaker) -> Iterator[Sample]:
    sizes = s.array([[60, 80], [50, 40]], dt.int32)
    anchors = (10, 13, 16, 30)
    yield s(s.tensor(2, 16, 3, 2), sizes, anchors=anchors, class_num=3)
    yield s(s.tensor(2, 18, 3, 2), sizes, anchors=anchors, class_num=3, iou_aware=True,
            iou_aware_factor=0.4, conf_thresh=0.5)  # fmt: skip
    yield s(s.tensor(2, 14, 2, 4), sizes, anchors=anchors, class_num=2, clip_bbox=False,
            scale_x_y=1.2, downsample_ratio=16)  # fmt: skip


@bad_samples(PriorBox)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, four = s.tensor(1, 2, 3, 4), (0.1, 0.1, 0.2, 0.2)
    yield "C1", s(s.tensor(2, 3, 4), x, min_sizes=(4.0,), variances=four)
    yield "C2", s(x, x, min_sizes=(), variances=four)
    yield "C2", s(x, x, min_sizes=(4.0,), max_sizes=(3.0,), variances=four)
    yield "C3", s(x, x, min_sizes=(4.0,), variances=(0.1, 0.2))


@bad_samples(YoloBox)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, sizes = s.tensor(1, 7, 2, 2), s.array([[60, 80]], dt.int32)
    yield "C1", s(x, s.array([60, 80], dt.int32), anchors=(10, 13), class_num=2)
    yield "C2", s(x, sizes, anchors=(10, 13, 16), class_num=2)
    yield "C3", s(x, sizes, anchors=(10, 13), class_num=3)
