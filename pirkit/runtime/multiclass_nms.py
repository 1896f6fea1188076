"""Multi-class non-maximum suppression."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from pirkit.diag.errors import ConstraintError
from pirkit.runtime.bounding_boxes import suppress
from pirkit.runtime.lazy_numpy import Array, np


def report(
    bboxes: Array,
    scores: Array,
    rois_num: Array | None,
    *,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float,
    normalized: bool,
    nms_eta: float,
    background_label: int,
) -> tuple[Array, Array, Array]:
    """The rule of ``pd_op.multiclass_nms3``.

    Returns rows ``(class, score, box)``, the index of each box, and the row count of each image.

    The rows of an image are sorted by class and score, or by class and index if ``rois_num`` is
    given.
    """
    rows: list[Array] = []
    numbers: list[Array] = []
    for boxes, score, number in _images(bboxes, scores, rois_num):
        selected_rows: list[Array] = []
        for label, its in enumerate(score):
            if label != background_label:
                above = np.flatnonzero(its > its.dtype.type(score_threshold))
                order = _best(above, its[above], nms_top_k)
                selected = suppress(
                    boxes[label, order], nms_threshold, nms_eta, len(order), not normalized,
                    per_class=True,
                )  # fmt: skip
                chosen = order[selected] if rois_num is None else np.sort(order[selected])
                selected_rows.append(np.stack([np.full_like(chosen, label), chosen], axis=1))
        found = np.concatenate(selected_rows) if selected_rows else np.zeros((0, 2), np.int64)
        if 0 <= keep_top_k < len(found):
            found = _best(found, score[*found.T], keep_top_k)
            found = found[np.argsort(found[:, 0], kind="stable")]
            found = found if rois_num is None else found[np.lexsort((found[:, 1], found[:, 0]))]
        label, at = found.T
        columns = (label[:, None].astype(boxes.dtype), score[label, at, None], boxes[label, at])
        rows.append(np.concatenate(columns, axis=1))
        numbers.append(number[label, at])
    counts = np.array([len(r) for r in rows], np.int32)
    if not rows:
        return np.zeros((0, 6), bboxes.dtype), np.zeros((0, 1), np.int32), counts
    return np.concatenate(rows), np.concatenate(numbers)[:, None].astype(np.int32), counts


def _images(
    bboxes: Array, scores: Array, rois_num: Array | None
) -> list[tuple[Array, Array, Array]]:
    """For each image its boxes and scores by class, and their indices among those of all images."""
    if rois_num is None:
        images, classes, per_image = scores.shape
        shared = np.broadcast_to(bboxes[:, None], (images, classes, per_image, 4))
        numbers = np.broadcast_to(_counted(images, 1, per_image), scores.shape)
        return [(shared[i], scores[i], numbers[i]) for i in range(images)]
    numbers = _counted(*scores.shape)
    ends: list[int] = np.cumsum(rois_num).tolist()
    if np.any(rois_num < 0) or ends[-1:] != [len(bboxes)]:
        counts = f"the images have {rois_num.tolist()} boxes of {len(bboxes)}"
        raise ConstraintError("C4", counts)
    cuts = [slice(start, end) for start, end in pairwise([0, *ends])]
    return [
        (bboxes[c].swapaxes(0, 1), scores[c].swapaxes(0, 1), numbers[c].swapaxes(0, 1))
        for c in cuts
    ]


def _best(items: Array, scores: Array, limit: int) -> Array:
    order = np.argsort(-scores, kind="stable")
    return items[order if limit < 0 else order[:limit]]


def _counted(*shape: int) -> Array:
    numbers: Array = np.arange(prod(shape), dtype=np.int64)
    return numbers.reshape(shape)
