"""Boxes of a detector whose scores decay by how much better boxes overlap them."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "gather"


@op
class MatrixNms:
    """Boxes that detectors report, as `multiclass_nms3`, but with scores that decay (SOLOv2).

    In each image and class but `background_label`, the `nms_top_k` best of the boxes with more than
    `score_threshold` compete. The score of a box is multiplied by the least decay that a better one
    gives it: `(1 - iou) / (1 - most)`, or `exp((most**2 - iou**2) * gaussian_sigma)`, where `most`
    is the largest overlap of that better one with one better still. Scores above `post_threshold`
    stay, the `keep_top_k` best of an image. Rows of `out` are the class, the score and the corners;
    `index` is the number of the box among all, and `roisnum` counts the rows of each image.

    C1: `bboxes [N, M, 4]` has three dimensions, and four numbers for each box.
    C2: `scores [N, C, M]` has a number for each class and box.
    """

    name = "pd_op.matrix_nms"
    signature = (
        "bboxes, scores ; score_threshold: f32, nms_top_k: i32, keep_top_k: i32, "
        "post_threshold: f32 = 0.0, use_gaussian: bool = False, gaussian_sigma: f32 = 2.0, "
        "background_label: i32 = 0, normalized: bool = True -> out, index, roisnum"
    )
    dtypes = (dt.float32, dt.float64)


@infer_meta(MatrixNms)
def _(bboxes: TensorMeta, scores: TensorMeta, **_: object) -> tuple[TensorMeta, ...]:
    require(bboxes.rank == 3 and same_dim(bboxes.shape[2], 4), "C1", f"{bboxes} holds no boxes")
    fits = scores.rank == 3 and same_dim(scores.shape[0], bboxes.shape[0])
    require(fits and same_dim(scores.shape[2], bboxes.shape[1]), "C2", f"{scores} for {bboxes}")
    return (
        bboxes.with_shape((UNKNOWN, 6)),
        TensorMeta((UNKNOWN, 1), dt.int32),
        TensorMeta((bboxes.shape[0],), dt.int32),
    )


@reference(MatrixNms)
def _(
    bboxes: Array, scores: Array, *, score_threshold: float, nms_top_k: int, keep_top_k: int,
    post_threshold: float, use_gaussian: bool, gaussian_sigma: float, background_label: int,
    normalized: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    rows: list[tuple[float, ...]] = []
    index: list[int] = []
    counts: list[int] = []
    extra = 0.0 if normalized else 1.0
    for image, (boxes, classes) in enumerate(zip(bboxes, scores, strict=True)):
        found: list[tuple[float, int, int]] = []
        for kind, each in enumerate(classes):
            if kind == background_label:
                continue
            order = np.argsort(-each, kind="stable")
            order = order[each[order] > score_threshold]
            order = order[:nms_top_k] if nms_top_k > -1 else order
            if not len(order):
                continue
            iou = _overlaps(boxes[order], extra)
            most = np.max(np.tril(iou, -1), axis=1, initial=0)
            if use_gaussian:
                decay = np.exp((most[None] ** 2 - iou**2) * gaussian_sigma)
            else:
                decay = (1 - iou) / (1 - most[None])
            better = np.tri(len(order), k=-1, dtype=bool)
            least = np.min(np.where(better, decay, 1), axis=1, initial=1)
            decayed = (least * each[order]).astype(each.dtype)
            pairs = zip(decayed.tolist(), order.tolist(), strict=True)
            found += [(score, kind, box) for score, box in pairs if score > post_threshold]
        found.sort(key=lambda one: -one[0])
        found = found[:keep_top_k] if keep_top_k > -1 else found
        rows += [(kind, score, *boxes[box]) for score, kind, box in found]
        index += [image * boxes.shape[0] + box for _, _, box in found]
        counts.append(len(found))
    return (
        np.array(rows, bboxes.dtype).reshape(-1, 6),
        np.array(index, np.int32).reshape(-1, 1),
        np.array(counts, np.int32),
    )


def _overlaps(boxes: Array, extra: float) -> Array:
    """Intersection over union of each pair; ``extra`` is added to sides (1 for boxes in pixels)."""
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = np.where((high < low).any(axis=2), 0, np.prod(high - low + extra, axis=2))
    sizes = boxes[:, 2:] - boxes[:, :2]
    area = np.where((sizes < 0).any(axis=1), 0, np.prod(sizes + extra, axis=1))
    total = area[:, None] + area[None] - common
    return np.divide(common, total, out=np.zeros_like(common), where=total > 0)


@samples(MatrixNms)
def _(s: SampleMaker) -> Iterator[Sample]:
    corners = s.tensor(2, 7, 2, low=0.0, high=2.0)
    boxes = np.concatenate([corners, corners + s.tensor(2, 7, 2, low=0.5, high=2.0)], axis=2)
    scores = s.tensor(2, 3, 7, low=0.1, high=1.0)
    usual = {"score_threshold": 0.3, "nms_top_k": 5, "keep_top_k": 4}
    yield s(boxes, scores, **usual)
    yield s(boxes, scores, **{**usual, "keep_top_k": -1}, use_gaussian=True, background_label=-1)
    yield s(boxes, scores, **usual, post_threshold=0.4, normalized=False)
    yield s(boxes, scores, **{**usual, "score_threshold": 2.0})


@bad_samples(MatrixNms)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    usual = {"score_threshold": 0.3, "nms_top_k": 5, "keep_top_k": 4}
    yield "C1", s(s.tensor(2, 7, 5), s.tensor(2, 3, 7), **usual)
    yield "C2", s(s.tensor(2, 7, 4), s.tensor(2, 3, 6), **usual)
