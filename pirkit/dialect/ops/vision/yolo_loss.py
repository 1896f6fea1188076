"""The loss of a detector that predicts boxes on a grid (Redmon and Farhadi 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

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
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "algorithm"

SMALLEST: Final = 1e-6
"""A true box with a smaller side is none."""


@op
class YoloLoss:
    """One number for each image: how far predictions are from the true boxes.

    `x [N, A * (5 + classes), H, W]` holds for each of the `A` anchors of `anchor_mask` and each
    cell of the grid: offsets of the centre, logarithms of the size, whether there is a box, and
    the classes. `gt_box [N, B, 4]` are centres and sizes, in parts of the image; `gt_score` weighs
    them. A true box belongs to the cell of its centre and to the anchor of its shape. A
    prediction whose intersection over union with some true box exceeds `ignore_thresh`, but which
    none belongs to, costs nothing.

    `objectness_mask` is the weight of the box that a prediction belongs to, 0 if it is none and -1
    if that does not count; `gt_match_mask` is the place in `anchor_mask` of each box, or -1. Only
    `x` has a derivative.

    C1: `x` has four dimensions, with 5 + `class_num` channels for each anchor of `anchor_mask`.
    C2: `gt_box`, `gt_label` and `gt_score` agree in the number of boxes.
    C3: `anchors` are pairs of positive numbers, and `anchor_mask` names some of them.
    """

    name = "pd_op.yolo_loss"
    signature = (
        "x, gt_box, gt_label, gt_score? ; anchors: i32[] = [], anchor_mask: i32[] = [], "
        "class_num: i32 = 1, ignore_thresh: f32 = 0.7, downsample_ratio: i32 = 32, "
        "use_label_smooth: bool = True, scale_x_y: f32 = 1.0 "
        "-> loss, objectness_mask~, gt_match_mask~"
    )
    dtypes = (dt.float32, dt.float64)
    same_dtype = ("x", "gt_box", "gt_score")
    operand_dtypes = {"gt_label": dt.INTS}
    no_gradient = ("gt_box", "gt_label", "gt_score")


def smoothed(class_num: int, use_label_smooth: bool) -> tuple[float, float]:
    """What is wanted of the true class, and of the others."""
    part = min(1.0 / class_num, 1.0 / 40) if use_label_smooth else 0.0
    return 1.0 - part, part


def places_of(anchors: Sequence[int], anchor_mask: Sequence[int]) -> list[int]:
    """Where each anchor stands among those that count, or -1."""
    counted = [*anchor_mask]
    return [counted.index(a) if a in counted else -1 for a in range(len(anchors) // 2)]


@infer_meta(YoloLoss)
def _(
    x: TensorMeta,
    gt_box: TensorMeta,
    gt_label: TensorMeta,
    gt_score: TensorMeta | None,
    *,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
    **_: object,
) -> tuple[TensorMeta, ...]:
    each = len(anchor_mask)
    fits = class_num > 0 and x.rank == 4 and same_dim(x.shape[1], each * (5 + class_num))
    require(fits, "C1", f"{x} for {each} anchors and {class_num} classes")
    boxes = gt_box.rank == 3 and same_dim(gt_box.shape[2], 4)
    boxes = boxes and same_dim(gt_box.shape[0], x.shape[0])
    for meta in (gt_label, gt_score) if boxes else ():
        boxes = boxes and (meta is None or _counts(meta, gt_box))
    require(boxes, "C2", f"boxes {gt_box}, labels {gt_label}, scores {gt_score} for {x}")
    pairs = len(anchors) % 2 == 0 and all(a > 0 for a in anchors) and each > 0
    named = all(0 <= i < len(anchors) // 2 for i in anchor_mask)
    require(pairs and named, "C3", f"anchors {list(anchors)}, of which {list(anchor_mask)}")
    n = x.shape[0] if x.shape[0] != UNKNOWN else gt_box.shape[0]
    mask = x.with_shape((n, each, *x.shape[2:]))
    return x.with_shape((n,)), mask, TensorMeta((n, gt_box.shape[1]), dt.int32)


@paddle_meta(YoloLoss)
def _(*operands: TensorMeta, **attributes: Any) -> tuple[TensorMeta, ...]:
    """Paddle declares the indices of anchors with the element type of `x`."""
    loss, mask, match = infer_meta.of(YoloLoss)(*operands, **attributes)
    return loss, mask, match.with_dtype(loss.dtype)


def _counts(meta: TensorMeta, boxes: TensorMeta) -> bool:
    return meta.rank == 2 and all(map(same_dim, meta.shape, boxes.shape[:2]))


@reference(YoloLoss)
def _(
    x: Array,
    gt_box: Array,
    gt_label: Array,
    gt_score: Array | None,
    *,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    use_label_smooth: bool,
    scale_x_y: float,
) -> tuple[Array, Array, Array]:
    # Sizes are shares of the image. Each predicted box is compared with all true boxes: one that
    # overlaps any of them well (`shared`) is ignored and does not count as background.
    kind = x.dtype.type
    n, _, h, w = x.shape
    e: Array = x.reshape(n, len(anchor_mask), 5 + class_num, h, w)
    pairs = np.array(anchors, x.dtype).reshape(-1, 2) / kind(downsample_ratio * h)
    score = np.ones(gt_label.shape, x.dtype) if gt_score is None else gt_score
    gx, gy, gw, gh = np.moveaxis(gt_box, 2, 0)
    is_box = (gw >= kind(SMALLEST)) & (gh >= kind(SMALLEST))
    bias = kind(-0.5 * (scale_x_y - 1))
    centre = 1 / (1 + np.exp(-e[:, :, :2])) * kind(scale_x_y) + bias
    sizes = np.exp(e[:, :, 2:4]) * pairs[list(anchor_mask)][:, :, None, None]
    predicted = (
        (np.arange(w, dtype=x.dtype) + centre[:, :, 0]) / kind(h),
        (np.arange(h, dtype=x.dtype)[:, None] + centre[:, :, 1]) / kind(h),
        sizes[:, :, 0],
        sizes[:, :, 1],
    )
    true = [v[:, None, None, None] for v in (gx, gy, gw, gh)]
    shared = _overlaps([v[..., None] for v in predicted], true)
    shared = np.where(is_box[:, None, None, None], shared, 0).max(axis=-1, initial=0)
    mask: Array = -(shared > kind(ignore_thresh)).astype(x.dtype)
    # The anchor of a true box is the one of the most similar shape: all are centred at 0.
    zero = np.zeros_like(gw)[..., None]
    shapes = _overlaps(
        (zero, zero, gw[..., None], gh[..., None]), (zero, zero, pairs[:, 0], pairs[:, 1])
    )
    best = np.argmax(shapes, axis=-1)
    match = np.where(is_box, np.array(places_of(anchors, anchor_mask))[best], -1)
    column = np.clip((gx * kind(w)).astype(np.int64), 0, w - 1)
    row = np.clip((gy * kind(h)).astype(np.int64), 0, h - 1)
    yes, no = smoothed(class_num, use_label_smooth)
    loss = np.zeros(n, x.dtype)
    for i, t in np.argwhere(match >= 0):
        at = (i, match[i, t], row[i, t], column[i, t])
        found = e[at[0], at[1], :, at[2], at[3]]
        mask[at] = score[i, t]
        width, height = np.log(gt_box[i, t, 2:] / pairs[best[i, t]])
        where = _entropy(found[0], gx[i, t] * kind(h) - column[i, t])
        where += _entropy(found[1], gy[i, t] * kind(h) - row[i, t])
        where += abs(width - found[2]) + abs(height - found[3])
        wanted = np.where(np.arange(class_num) == gt_label[i, t], yes, no).astype(x.dtype)
        classes = np.sum(_entropy(found[5:], wanted))
        # The factor, from 1 to 2, gives small boxes more weight.
        loss[i] += (where * (2 - gw[i, t] * gh[i, t]) + classes) * score[i, t]
    # As in Paddle, a mask within 1e-5 of 0 is background; one below that is ignored.
    is_there = e[:, :, 4]
    counted = np.where(mask > kind(1e-5), _entropy(is_there, kind(1)) * mask, 0)
    counted += np.where(np.abs(mask) <= kind(1e-5), _entropy(is_there, kind(0)), 0)
    return loss + counted.sum(axis=(1, 2, 3)), mask, match.astype(np.int32)


def _overlaps(one: Sequence[Array], other: Sequence[Array]) -> Array:
    """Intersections over unions of boxes (centre, size)."""
    (x, y, w, h), (u, v, p, q) = one, other
    across = np.minimum(x + w / 2, u + p / 2) - np.maximum(x - w / 2, u - p / 2)
    down = np.minimum(y + h / 2, v + q / 2) - np.maximum(y - h / 2, v - q / 2)
    common = np.maximum(across, 0) * np.maximum(down, 0)
    return common / (w * h + p * q - common)


def _entropy(x: Any, wanted: Any) -> Any:
    """Of a sigmoid."""
    return np.maximum(x, 0) - x * wanted + np.log1p(np.exp(-np.abs(x)))


_USUAL: Final[dict[str, Any]] = {
    "anchors": (10, 13, 16, 30, 33, 23),
    "anchor_mask": (0, 2),
    "class_num": 2,
    "ignore_thresh": 0.3,
}


@samples(YoloLoss)
def _(s: SampleMaker) -> Iterator[Sample]:
    boxes = s.tensor(2, 3, 4, low=0.1, high=0.8)
    boxes[1, 2] = 0
    labels = s.array([[0, 1, 1], [1, 0, 0]], dt.int32)
    x = s.tensor(2, 14, 3, 3)
    yield s(x, boxes, labels, **_USUAL)
    scores = s.tensor(2, 3, low=0.2, high=1.0)
    yield s(x, boxes, labels, scores, **_USUAL, use_label_smooth=False, scale_x_y=1.2)


@bad_samples(YoloLoss)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    boxes, labels = s.tensor(2, 3, 4), s.array([[0, 1, 1], [1, 0, 0]], dt.int32)
    x = s.tensor(2, 14, 3, 3)
    yield "C1", s(s.tensor(2, 13, 3, 3), boxes, labels, **_USUAL)
    yield "C2", s(x, boxes[:, :2], labels, **_USUAL)
    yield "C3", s(x, boxes, labels, **{**_USUAL, "anchor_mask": (0, 3)})
