"""Detection ops on boxes ``(x1, y1, x2, y2)``: areas, overlaps, suppression, proposals, priors.

The number of selected boxes depends on the data, so these functions return new arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, Final

from pirkit.runtime.lazy_numpy import Array, np

MAX_LOG_SCALE: Final = log(1000 / 16)
"""Bound on the predicted logarithm of a size ratio."""


def areas(boxes: Array, pixel_offset: bool) -> Array:
    """Areas of ``boxes [R, 4]``; zero if the corners are swapped. Pixels have a width of one."""
    sizes = boxes[:, 2:] - boxes[:, :2]
    area: Array = np.prod(sizes + boxes.dtype.type(pixel_offset), axis=1)
    area[(sizes < 0).any(axis=1)] = 0
    return area


def _overlaps(
    box: Array, area: Any, boxes: Array, others: Array, pixel_offset: bool, per_class: bool
) -> Array:
    """Intersection over union of one box with each of ``boxes [R, 4]``.

    ``area`` and ``others`` are their areas. With ``pixel_offset`` boxes that touch share a row of
    pixels; if ``per_class``, that counts as no overlap.
    """
    extra = boxes.dtype.type(pixel_offset)
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    common = np.prod(np.maximum(high - low + extra, 0), axis=1)
    if per_class:
        common[(high < low).any(axis=1)] = 0
    union = area + others - common
    return np.divide(common, union, out=np.zeros_like(common), where=common > 0)


def suppress(
    boxes: Array,
    threshold: float,
    eta: float,
    limit: int,
    pixel_offset: bool,
    *,
    per_class: bool = False,
) -> list[int]:
    """Non-maximum suppression: the indices of the selected boxes, at most ``limit``; ``boxes
    [R, 4]`` are sorted by score.
    """
    selected: list[int] = []
    area = areas(boxes, pixel_offset)
    left = np.arange(len(boxes))
    worst = np.zeros(len(boxes), boxes.dtype)
    while len(left) and len(selected) < limit:
        best = int(left[0])
        selected.append(best)
        left = left[1:]
        shared = _overlaps(
            boxes[best], area[best], boxes[left], area[left], pixel_offset, per_class
        )
        worst[left] = np.maximum(worst[left], shared)
        if eta < 1 and threshold > 0.5:
            threshold *= eta
        left = left[worst[left] <= threshold]
    return selected


def decoded(anchors: Array, deltas: Array, pixel_offset: bool) -> Array:
    """Boxes ``[R, 4]``: anchors shifted and scaled by ``deltas`` of centre and logarithmic size."""
    kind = anchors.dtype.type
    extra = kind(pixel_offset)
    sizes = anchors[:, 2:] - anchors[:, :2] + extra
    centres = deltas[:, :2] * sizes + anchors[:, :2] + kind(0.5) * sizes
    sizes = np.exp(np.minimum(deltas[:, 2:], kind(MAX_LOG_SCALE))) * sizes
    half = kind(0.5) * sizes
    return np.concatenate([centres - half, centres + half - extra], axis=1)


def distribute(
    fpn_rois: Array,
    rois_num: Array | None,
    *,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool,
) -> tuple[list[Array], list[Array], Array]:
    """The rule of ``pd_op.distribute_fpn_proposals``: boxes and counts by level."""
    counts = np.array([len(fpn_rois)]) if rois_num is None else rois_num.astype(np.int64)
    image = np.repeat(np.arange(len(counts)), counts)
    scale = np.sqrt(areas(fpn_rois, pixel_offset))
    exact = np.log2(scale / fpn_rois.dtype.type(refer_scale) + fpn_rois.dtype.type(1e-8))
    kept = np.fmin(np.fmax(np.floor(exact + refer_level), min_level), max_level)  # NaN the lowest
    level = kept.astype(np.int64)
    chosen = [np.flatnonzero(level == k) for k in range(min_level, max_level + 1)]
    order = np.concatenate(chosen)
    restore = np.empty(len(order), np.int32)
    restore[order] = np.arange(len(order))
    numbers = [np.bincount(image[at], minlength=len(counts)).astype(np.int32) for at in chosen]
    return [fpn_rois[at] for at in chosen], numbers, restore[:, None]


def propose(
    scores: Array,
    bbox_deltas: Array,
    im_shape: Array,
    anchors: Array,
    variances: Array,
    *,
    pre_nms_top_n: int,
    post_nms_top_n: int,
    nms_thresh: float,
    min_size: float,
    eta: float,
    pixel_offset: bool,
) -> tuple[Array, Array, Array]:
    """The rule of ``pd_op.generate_proposals``: boxes, their scores, and how many of each image."""
    images, per_image, height, width = scores.shape
    ranked = scores.transpose(0, 2, 3, 1).reshape(images, -1)
    moved = bbox_deltas.reshape(images, per_image, 4, height, width).transpose(0, 3, 4, 1, 2)
    deltas = moved.reshape(images, -1, 4) * variances.reshape(-1, 4)
    found: list[tuple[Array, Array]] = []
    for score, delta, shape in zip(ranked, deltas, im_shape, strict=True):
        order = np.argsort(-score, kind="stable")
        order = order[:pre_nms_top_n] if pre_nms_top_n > 0 else order
        boxes = decoded(anchors.reshape(-1, 4)[order], delta[order], pixel_offset)
        limit = np.tile(shape[[1, 0]], 2) - shape.dtype.type(pixel_offset)
        boxes = np.clip(boxes, 0, limit.astype(boxes.dtype))
        large = np.flatnonzero(_large_enough(boxes, min_size, shape, pixel_offset))
        if not len(large):
            found.append((np.zeros((1, 4), scores.dtype), np.zeros((1, 1), scores.dtype)))
            continue
        boxes, order = boxes[large], order[large]
        if nms_thresh > 0:
            top = post_nms_top_n if post_nms_top_n > 0 else len(boxes)
            selected = suppress(boxes, nms_thresh, eta, top, pixel_offset)
            boxes, order = boxes[selected], order[selected]
        found.append((boxes, score[order][:, None]))
    counts = np.array([len(b) for b, _ in found], np.int32)
    return np.concatenate([b for b, _ in found]), np.concatenate([p for _, p in found]), counts


def _large_enough(boxes: Array, min_size: float, shape: Array, pixel_offset: bool) -> Array:
    sizes = boxes[:, 2:] - boxes[:, :2] + boxes.dtype.type(pixel_offset)
    large = (sizes >= max(min_size, 1.0)).all(axis=1)
    if not pixel_offset:
        return large
    centres = boxes[:, :2] + sizes / 2
    return large & (centres <= shape[[1, 0]]).all(axis=1)


# --- boxes on a grid ---


def ratios(aspect_ratios: Sequence[float], flip: bool) -> list[float]:
    """1, then each new ratio, followed by its inverse with ``flip``."""
    found = [1.0]
    for ratio in aspect_ratios:
        if all(abs(ratio - other) >= 1e-6 for other in found):
            found += [ratio, 1 / ratio] if flip else [ratio]
    return found


def _prior_box_sizes(
    min_sizes: Sequence[float],
    max_sizes: Sequence[float],
    shapes: Sequence[float],
    maximum_second: bool,
) -> list[tuple[float, float]]:
    """(width, height) of the boxes around one element."""
    found: list[tuple[float, float]] = []
    for i, size in enumerate(min_sizes):
        one = [(size * ratio**0.5, size / ratio**0.5) for ratio in shapes]
        if max_sizes:
            mean = (size * max_sizes[i]) ** 0.5
            one.insert(1 if maximum_second else len(one), (mean, mean))
        found += one
    return found


def priors(
    elements: Sequence[int],
    pixels: Sequence[int],
    *,
    min_sizes: Sequence[float],
    max_sizes: Sequence[float],
    aspect_ratios: Sequence[float],
    flip: bool,
    clip: bool,
    step_w: float,
    step_h: float,
    offset: float,
    min_max_aspect_ratios_order: bool,
    **_: object,
) -> Array:
    """The boxes of ``pd_op.prior_box``, ``[H, W, P, 4]`` in float64.

    ``elements`` are height and width of the features, ``pixels`` those of the image.
    """
    (height, width), whole = elements, np.array(pixels[::-1])
    if step_w == 0 or step_h == 0:
        step_w, step_h = pixels[1] / width, pixels[0] / height
    shapes = ratios(aspect_ratios, flip)
    sizes = np.array(_prior_box_sizes(min_sizes, max_sizes, shapes, min_max_aspect_ratios_order))
    centres = (np.moveaxis(cell_centres(width, height), 0, -1) + offset) * (step_w, step_h)
    centres = centres[:, :, None]
    boxes = np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=-1)
    boxes = boxes / np.tile(whole, 2)
    return np.clip(boxes, 0, 1) if clip else boxes


def cell_centres(width: int, height: int) -> Array:
    """Column and row of every element: ``[2, height, width]``."""
    rows, columns = np.indices((height, width))
    return np.stack([columns, rows])
