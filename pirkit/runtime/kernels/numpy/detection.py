"""Kernels for detectors: proposals, boxes on a grid, pooling of regions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.bounding_boxes import cell_centres, distribute, priors, propose
from pirkit.runtime.registry import kernel
from pirkit.runtime.roi_align import align_regions


def _by_reference(rule: Callable[..., Any]) -> Callable[[Binding], Step]:
    """The kernel of a rule on arrays, where the elements decide the sizes of results."""
    return lambda b: partial(rule, **b.attrs)


kernel("distribute_fpn_proposals", dtypes=(dt.float32, dt.float64), form="new")(
    _by_reference(distribute)
)
kernel("generate_proposals", dtypes=(dt.float32,), form="new")(_by_reference(propose))


@kernel("roi_align", dtypes=dt.FLOATS, widen=True)
def roi_align(b: Binding) -> Step:
    attributes = dict(b.attrs)

    def step(x: Array, boxes: Array, boxes_num: Array | None, out: Array) -> None:
        align_regions(x, boxes, boxes_num, out, **attributes)

    return step


@kernel("prior_box", dtypes=(dt.float32,))
def prior_box(b: Binding) -> Step:
    """The boxes follow from the shapes, so that they are made once."""
    boxes = priors(b.input(0).shape[2:], b.input(1).shape[2:], **b.attrs).astype(np.float32)
    variances = np.array(b.attrs["variances"], np.float32)

    def step(_input: Array, _image: Array, out: Array | None, var: Array | None) -> None:
        if out is not None:
            out[...] = boxes
        if var is not None:
            var[...] = variances

    return step


def _sigmoid(x: Array, out: Array) -> None:
    np.negative(x, out)
    np.exp(out, out)
    np.add(out, 1, out)
    np.reciprocal(out, out)


@kernel("yolo_box", dtypes=(dt.float32,))
def yolo_box(b: Binding) -> Step:
    """Computed with the numbers of a box last, as the results have them."""
    a, kind = b.attrs, b.dtype.np.type
    images, _, height, width = b.input().shape
    classes: int = a["class_num"]
    count = len(a["anchors"]) // 2
    skipped = count if a["iou_aware"] else 0
    heads = (images, count, height, width)
    sure, room = b.workspace(heads), b.workspace((*heads, 4))
    class_scores = b.workspace((*heads, classes))
    overlap = b.workspace(heads if skipped else (0,))
    low, high = room[..., :2], room[..., 2:]
    half = b.workspace((*heads, 2))
    grid = np.array([width, height], kind)
    at = np.moveaxis(cell_centres(width, height), 0, -1).astype(kind)
    stretch, shift = kind(a["scale_x_y"]), kind(-0.5 * (a["scale_x_y"] - 1))
    shapes = np.array(a["anchors"], kind).reshape(count, 1, 1, 2)
    shapes = shapes / (kind(a["downsample_ratio"]) * grid)
    factor = kind(a["iou_aware_factor"])

    def step(x: Array, img_size: Array, boxes: Array | None, scores: Array | None) -> None:
        plain = x[:, skipped:].reshape(images, count, 5 + classes, height, width)
        head = plain.transpose(0, 1, 3, 4, 2)
        _sigmoid(head[..., 4], sure)
        if skipped:
            _sigmoid(x[:, :skipped], overlap)
            np.power(sure, kind(1) - factor, sure)
            np.power(overlap, factor, overlap)
            np.multiply(sure, overlap, sure)
        missing = ~(sure >= kind(a["conf_thresh"]))[..., None]
        if boxes is not None:
            entire = img_size[:, ::-1].astype(kind).reshape(images, 1, 1, 1, 2)
            _sigmoid(head[..., :2], low)
            np.multiply(low, stretch, low)
            np.add(low, at + shift, low)
            np.multiply(low, entire / grid, low)
            np.exp(head[..., 2:4], half)
            np.multiply(half, shapes * entire * kind(0.5), half)
            np.add(low, half, high)  # in front of the other: a half may be infinite
            np.subtract(low, half, low)
            if a["clip_bbox"]:
                np.maximum(low, 0, out=low)
                np.minimum(high, entire - 1, out=high)
            np.copyto(room, 0, where=missing)
            boxes[...] = room.reshape(boxes.shape)
        if scores is not None:
            _sigmoid(head[..., 5:], class_scores)
            np.multiply(class_scores, sure[..., None], class_scores)
            np.copyto(class_scores, 0, where=missing)
            scores[...] = class_scores.reshape(scores.shape)

    return step
