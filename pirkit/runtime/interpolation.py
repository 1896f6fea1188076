"""Interpolation: the source elements of each result element, and their weights."""

from __future__ import annotations

from pirkit.runtime.lazy_numpy import Array, np

Taps = list[tuple[Array, Array | None]]
"""For each tap the source index of each result element, and its weight (None: 1)."""


def taps_along(
    method: str, length: int, size: int, factor: float | None, align_corners: bool, align_mode: int
) -> Taps:
    """Source indices and weights along one dimension, for ``length`` elements resized to ``size``.

    The ratio of the sizes is computed in float32, as in Paddle, to select the same neighbours.
    """
    f32 = np.float32
    i = np.arange(size, dtype=f32)
    if size == 1 and (align_corners or method.startswith("bi")):
        ratio = f32(0)  # only the kernels for images do so when the corners are not aligned
    elif align_corners:
        ratio = f32(length - 1) / f32(size - 1)
    else:
        ratio = f32(1 / factor) if factor else f32(length) / f32(size)
    if method == "nearest":
        at = ratio * i + f32(0.5 if align_corners else 0)
        return [(np.minimum(at.astype(np.int64), length - 1), None)]
    edges = not align_corners and (align_mode == 0 or method == "bicubic")
    at = np.float64(ratio) * (i + 0.5) - 0.5 if edges else ratio * i
    if method == "bicubic":
        return _cubic_taps(at, length)
    at = np.maximum(at, 0)
    low = at.astype(np.int64)
    part = at - low
    return [(np.minimum(low, length - 1), 1 - part), (np.minimum(low + 1, length - 1), part)]


def _cubic_taps(at: Array, length: int) -> Taps:
    slope = -0.75
    low = np.floor(at)
    part = (at - low).astype(np.float64)

    def near(t: Array) -> Array:
        return ((slope + 2) * t - (slope + 3)) * t * t + 1

    def far(t: Array) -> Array:
        return ((slope * t - 5 * slope) * t + 8 * slope) * t - 4 * slope

    weights = (far(part + 1), near(part), near(1 - part), far(2 - part))
    start = low.astype(np.int64) - 1
    return [(np.clip(start + k, 0, length - 1), w) for k, w in enumerate(weights)]


def filter_matrix(
    method: str, length: int, size: int, factor: float | None, align_corners: bool
) -> Array:
    """Weights `[size, length]` of a filter that gets wider where the image shrinks.

    ``method`` is `bilinear` or `bicubic` (of slope -0.5). The filter reaches over all elements
    that one of the result covers, as `antialias` does in PIL and torch.
    """
    if align_corners:
        step = (length - 1) / (size - 1) if size > 1 else 0.0
    else:
        step = 1 / factor if factor else length / size
    wide = max(step, 1.0)
    middle = step * (np.arange(size)[:, None] + 0.5)
    reach = (1.0 if method == "bilinear" else 2.0) * wide
    low = np.maximum((middle - reach + 0.5).astype(np.int64), 0)
    high = np.minimum((middle + reach + 0.5).astype(np.int64), length)
    at = np.arange(length)[None]
    t = np.abs((at - middle + 0.5) / wide)
    if method == "bilinear":
        weights = np.maximum(1 - t, 0)
    else:
        near, far = (1.5 * t - 2.5) * t * t + 1, ((-0.5 * t + 2.5) * t - 4) * t + 2
        weights = np.where(t < 1, near, np.where(t < 2, far, 0))
    weights = np.where((at >= low) & (at < high), weights, 0)
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total == 0, 1, total)
