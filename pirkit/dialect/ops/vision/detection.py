"""Proposed boxes of detectors: distribution over levels, and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.bounding_boxes import distribute, propose
from pirkit.runtime.lazy_numpy import np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

KIND = "algorithm"

MOST_LEVELS: Final = 64
"""Each level is for boxes twice as large as those of the one below."""


@op
class DistributeFpnProposals:
    """Send each box to the level of a feature pyramid that suits its size (Lin et al. 2017).

    The level is `refer_level + floor(log2(sqrt(area) / refer_scale))`, kept in range.
    `multi_level_rois_num` counts the boxes of each image per level, and
    `restore_index [R, 1]` tells where each box went. Without `rois_num` all boxes are of one image.

    C1: `fpn_rois` is `[R, 4]`.
    C2: `min_level` is at most `max_level`, and there are at most 64 levels.
    C3: `rois_num` is a vector.
    """

    name = "pd_op.distribute_fpn_proposals"
    signature = (
        "fpn_rois, rois_num? ; min_level: i32, max_level: i32, refer_level: i32, "
        "refer_scale: i32, pixel_offset: bool "
        "-> multi_fpn_rois[], multi_level_rois_num[], restore_index"
    )
    dtypes = (dt.float32, dt.float64)
    operand_dtypes = {"rois_num": dt.INTS}
    domain = (0.0, 300.0)


@op
class GenerateProposals:
    """Boxes that a region proposal network finds: the best of all anchors, moved and filtered.

    For each image: the `pre_nms_top_n` best `scores [N, A, H, W]`, their `anchors [H, W, A, 4]`
    moved by `bbox_deltas [N, 4A, H, W]` times `variances`, clipped to the image, without those
    smaller than `min_size`, and of those that overlap by more than `nms_thresh` the best. `eta`
    below 1 lowers that threshold after each box. An image without boxes yields one of zeros.

    `rpn_rois_num` is int32, though Paddle's programs state float32.

    C1: `scores` and `bbox_deltas` have four dimensions, the deltas four times the channels.
    C2: `anchors` and `variances` have four numbers per anchor.
    C3: `im_shape` has a height and a width per image.
    """

    name = "pd_op.generate_proposals"
    signature = (
        "scores, bbox_deltas, im_shape, anchors, variances ; pre_nms_top_n: i32, "
        "post_nms_top_n: i32, nms_thresh: f32, min_size: f32, eta: f32, "
        "pixel_offset: bool = True -> rpn_rois, rpn_roi_probs, rpn_rois_num"
    )
    dtypes = (dt.float32,)


@infer_meta(DistributeFpnProposals)
def _(
    fpn_rois: TensorMeta,
    rois_num: TensorMeta | None,
    *,
    min_level: int,
    max_level: int,
    **_: object,
) -> tuple[VecMeta, VecMeta, TensorMeta]:
    boxes = fpn_rois.rank == 2 and same_dim(fpn_rois.shape[1], 4)
    require(boxes, "C1", f"{fpn_rois} are no boxes")
    require(
        min_level <= max_level < min_level + MOST_LEVELS, "C2", f"levels {min_level} to {max_level}"
    )
    require(rois_num is None or rois_num.rank == 1, "C3", f"rois_num {rois_num} is no vector")
    levels = max_level - min_level + 1
    images = 1 if rois_num is None else rois_num.shape[0]
    return (
        VecMeta((fpn_rois.with_shape((UNKNOWN, 4)),) * levels),
        VecMeta((TensorMeta((images,), dt.int32),) * levels),
        TensorMeta((fpn_rois.shape[0], 1), dt.int32),
    )


reference(DistributeFpnProposals)(distribute)


@infer_meta(GenerateProposals)
def _proposals(
    scores: TensorMeta,
    bbox_deltas: TensorMeta,
    im_shape: TensorMeta,
    anchors: TensorMeta,
    variances: TensorMeta,
    **_: object,
) -> tuple[TensorMeta, ...]:
    fits = scores.rank == bbox_deltas.rank == 4
    images, each, *sizes = scores.shape
    wanted = (images, mul_dims(4, each), *sizes)
    agree = fits and all(map(same_dim, bbox_deltas.shape, wanted))
    require(agree, "C1", f"scores {scores} with bbox_deltas {bbox_deltas}")
    for what, meta in (("anchors", anchors), ("variances", variances)):
        four = meta.rank >= 2 and same_dim(meta.shape[-1], 4)
        is_valid = four and same_dim(meta.numel, mul_dims(4, each, *sizes))
        require(is_valid, "C2", f"{what} {meta} for scores {scores}")
    require(
        im_shape.rank == 2 and same_dim(im_shape.shape[0], images), "C3", f"im_shape {im_shape}"
    )
    return (
        scores.with_shape((UNKNOWN, 4)),
        scores.with_shape((UNKNOWN, 1)),
        TensorMeta((images,), dt.int32),
    )


@paddle_meta(GenerateProposals)
def _(*operands: TensorMeta, **attributes: object) -> tuple[TensorMeta, ...]:
    rois, probs, counts = _proposals(*operands, **attributes)
    return rois, probs, counts.with_dtype(dt.float32)


reference(GenerateProposals)(propose)


@samples(DistributeFpnProposals)
def _(s: SampleMaker) -> Iterator[Sample]:
    attributes = {"min_level": 2, "max_level": 5, "refer_level": 4, "refer_scale": 224}
    corners, sizes = s.tensor(9, 2), s.tensor(9, 2)
    boxes = np.concatenate([corners, corners + sizes * sizes / 50], axis=1)
    counts = s.array([4, 0, 5], dt.int32)
    yield s(boxes, counts, **attributes, pixel_offset=False)
    yield s(boxes, counts, **{**attributes, "min_level": 3, "refer_scale": 60}, pixel_offset=True)


@samples(GenerateProposals)
def _(s: SampleMaker) -> Iterator[Sample]:
    attributes = {
        "pre_nms_top_n": 40, "post_nms_top_n": 8, "nms_thresh": 0.5, "min_size": 2.0, "eta": 1.0,
    }  # fmt: skip
    corners = s.tensor(4, 5, 3, 2, low=0, high=60)
    sizes = s.tensor(4, 5, 3, 2, low=5, high=40)
    anchors = np.concatenate([corners, corners + sizes], axis=-1)
    scores, deltas = s.tensor(2, 3, 4, 5), s.tensor(2, 12, 4, 5, low=-1, high=1)
    shapes, variances = s.array([[64, 80], [70, 60]]), s.tensor(4, 5, 3, 4, low=0.1, high=1)
    yield s(scores, deltas, shapes, anchors, variances, **attributes, pixel_offset=False)
    yield s(scores, deltas, shapes, anchors, variances, **attributes)
    yield s(
        scores, deltas, shapes, anchors, variances,
        **{**attributes, "eta": 0.8, "nms_thresh": 0.7, "post_nms_top_n": 30, "min_size": 20.0},
    )  # fmt: skip
    yield s(
        scores, deltas, shapes, anchors, variances, **{**attributes, "min_size": 500.0},
        pixel_offset=False,
    )  # fmt: skip


@bad_samples(DistributeFpnProposals)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    attributes = {"refer_level": 4, "refer_scale": 224, "pixel_offset": False}
    counts = s.array([3], dt.int32)
    yield "C1", s(s.tensor(3, 5), counts, min_level=2, max_level=5, **attributes)
    yield "C2", s(s.tensor(3, 4), counts, min_level=5, max_level=2, **attributes)
    yield "C3", s(s.tensor(3, 4), s.tensor(1, 1), min_level=2, max_level=5, **attributes)


@bad_samples(GenerateProposals)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    attributes = {
        "pre_nms_top_n": 40, "post_nms_top_n": 8, "nms_thresh": 0.5, "min_size": 2.0, "eta": 1.0,
    }  # fmt: skip
    scores, deltas, anchors = s.tensor(1, 2, 2, 2), s.tensor(1, 8, 2, 2), s.tensor(2, 2, 2, 4)
    shape = s.tensor(1, 2)
    yield "C1", s(scores, s.tensor(1, 4, 2, 2), shape, anchors, anchors, **attributes)
    yield "C2", s(scores, deltas, shape, s.tensor(2, 2, 3, 4), anchors, **attributes)
    yield "C3", s(scores, deltas, s.tensor(2, 2), anchors, anchors, **attributes)
