"""RoIAlign: average pooling of regions with fractional edges, by bilinear interpolation."""

from __future__ import annotations

from math import ceil
from typing import Any

from pirkit.diag.limits import check
from pirkit.runtime.lazy_numpy import Array, np


def align_regions(
    x: Array,
    boxes: Array,
    boxes_num: Array | None,
    out: Array,
    *,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> None:
    """The rule of ``pd_op.roi_align``, written to ``out [R, C, pooled_height, pooled_width]``.

    The sample points of a bin form a grid, so pooling is separable: a matmul with a weight matrix
    along each dimension.
    """
    counts = np.array([len(boxes)]) if boxes_num is None else boxes_num
    kind = x.dtype.type
    images: Array = np.repeat(np.arange(len(counts)), counts)
    edges = boxes * kind(spatial_scale) - kind(0.5 if aligned else 0)
    starts, sizes = edges[:, :2], edges[:, 2:] - edges[:, :2]
    if not aligned:
        sizes = np.maximum(sizes, 1)
    for i, (image, (left, top), (width, height)) in enumerate(
        zip(images, starts, sizes, strict=True)
    ):
        first_y, rows = _bin_weights(top, height, pooled_height, sampling_ratio, x.shape[2])
        first_x, columns = _bin_weights(left, width, pooled_width, sampling_ratio, x.shape[3])
        part = x[image, :, first_y : first_y + rows.shape[1], first_x : first_x + columns.shape[1]]
        out[i] = rows @ (part @ columns.T)


def _bin_weights(
    start: np.floating[Any], size: np.floating[Any], bins: int, sampling_ratio: int, length: int
) -> tuple[int, Array]:
    """The weights of elements along one dimension, for each bin.

    Returns the first element with a weight, and the weights ``[bins, elements]`` from there on.
    """
    kind = start.dtype.type
    step = size / kind(bins)
    points = sampling_ratio if sampling_ratio > 0 else ceil(step)
    if points <= 0 or length == 0:
        return 0, np.zeros((bins, 0), kind)
    check("loop_steps", bins * points)
    at = start + np.arange(bins, dtype=kind)[:, None] * step
    at = at + (np.arange(points, dtype=kind) + kind(0.5)) * step / kind(points)
    inside = (at >= -1) & (at <= length)
    at = np.clip(np.where(inside, at, 0), 0, length - 1)  # an edge may be NaN
    low = at.astype(np.int64)
    part = (at - low) * inside
    first, last = int(low.min()), int(min(low.max() + 1, length - 1))
    weights = np.zeros((bins, last - first + 2), kind)
    rows = np.arange(bins)[:, None]
    np.add.at(weights, (rows, low - first), inside - part)
    np.add.at(weights, (rows, low - first + 1), part)
    return first, weights[:, : last - first + 1] / kind(points)
