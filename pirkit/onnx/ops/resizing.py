"""Resizing and sampling of images, and operators on boxes of object detection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN

Array = np.ndarray[Any, Any]


def _places(
    n: int, size: int, scale: float, mode: str, corners: tuple[float, float]
) -> Array:  # fmt: skip
    """The coordinate in an input of ``n`` elements of each of ``size`` outputs.

    ``mode`` is ONNX's ``coordinate_transformation_mode``; ``corners`` are the bounds of the region
    of interest. The formulas are those of the operator `Resize`.
    """
    i = np.arange(size, dtype=np.float64)
    if mode == "align_corners":
        whole = scale * n  # the standard does not round it
        return i * (n - 1) / (whole - 1) if whole != 1 else np.zeros(size)
    if mode == "asymmetric":
        return i / scale
    if mode == "pytorch_half_pixel" and size == 1:
        return np.zeros(size)
    if mode == "tf_crop_and_resize":
        first, last = corners
        if size == 1:
            return np.full(size, 0.5 * (first + last) * (n - 1))
        return first * (n - 1) + i * (last - first) * (n - 1) / (size - 1)
    if mode == "half_pixel_symmetric":
        whole = scale * n
        shift = n / 2 * (1 - size / whole)
        return shift + (i + 0.5) / scale - 0.5
    return (i + 0.5) / scale - 0.5


def _nearest(places: Array, how: str) -> Array:
    """The index of the element nearest to each coordinate; may be out of range."""
    if how in ("floor", "ceil"):
        return np.floor(places) if how == "floor" else np.ceil(places)
    return np.ceil(places - 0.5) if how == "round_prefer_floor" else np.floor(places + 0.5)


def _weights(
    mode: str, places: Array, n: int, scale: float, antialias: bool, cubic: float, exclude: bool
) -> Array:
    """The interpolation as a matrix of ``len(places)`` rows and ``n`` columns."""
    stretch = max(1.0, 1.0 / scale) if antialias else 1.0
    reach = math.ceil((2 if mode == "cubic" else 1) * stretch) + 1
    found: Array = np.zeros((len(places), n))
    for row, x in enumerate(places):
        first = math.floor(x) - reach
        taps = np.asarray(range(first, first + 2 * reach + 2), np.int64)
        near = np.abs((x - taps) / stretch)
        if mode == "linear":
            w = np.maximum(0.0, 1.0 - near)
        else:
            a = cubic
            inner = (a + 2) * near**3 - (a + 3) * near**2 + 1
            outer = a * near**3 - 5 * a * near**2 + 8 * a * near - 4 * a
            w = np.where(near <= 1, inner, np.where(near < 2, outer, 0.0))
        if exclude:
            w = np.where((taps >= 0) & (taps < n), w, 0.0)
        w = w / w.sum()
        np.add.at(found[row], np.clip(taps, 0, n - 1), w)
    return found


@rule("Resize", "Upsample")
def _(
    b: NodeBuilder, x: Value, roi: Value | None = None, scales: Value | None = None,
    sizes: Value | None = None, *, antialias: int = 0, axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:  # fmt: skip
    """By an op for images where one computes the same (`_native`), else axis by axis: a selection
    for ``nearest``, a matmul for the other modes."""
    transform = coordinate_transformation_mode
    if b.node.op_type == "Upsample" or b.opset < 11:
        scales, transform = (roi if scales is None else scales), "asymmetric"
        nearest_mode = "floor"
    dims = [b.axis(a, x.rank) for a in (range(x.rank) if axes is None else axes)]
    factors = b.known(scales, "scales") if scales is not None and scales.shape != (0,) else None
    if UNKNOWN in x.shape and factors is not None:
        ratios = [float(n) for n in factors]
        fast = _native(b, x, dims, ratios, [], mode, transform, nearest_mode, bool(antialias),
                       cubic_coeff_a, bool(exclude_outside))  # fmt: skip
        if fast is not None:
            return fast
    shape = b.static(x)
    window = b.known(roi, "roi") if transform == "tf_crop_and_resize" else None
    if factors is not None:
        ratios = [float(f) for f in factors]
        out = [math.floor(shape[d] * f) for d, f in zip(dims, ratios, strict=True)]
    else:
        out = b.integers_of(sizes, "sizes") or []
        ratios = [o / shape[d] for d, o in zip(dims, out, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            pick = min if keep_aspect_ratio_policy == "not_larger" else max
            ratios = [pick(ratios)] * len(dims)
            out = [math.floor(shape[d] * r + 0.5) for d, r in zip(dims, ratios, strict=True)]
    fast = _native(b, x, dims, ratios, out, mode, transform, nearest_mode, bool(antialias),
                   cubic_coeff_a, bool(exclude_outside))  # fmt: skip
    if fast is not None:
        return fast
    outside: Value | None = None
    for i, (d, ratio, size) in enumerate(zip(dims, ratios, out, strict=True)):
        corners = (0.0, 1.0) if window is None else (float(window[i]),
                                                     float(window[i + len(dims)]))  # fmt: skip
        places = _places(shape[d], size, ratio, transform, corners)
        if size == shape[d] and np.array_equal(places, np.arange(size)):
            continue
        if transform == "tf_crop_and_resize":
            beyond = (places < 0) | (places > shape[d] - 1)
            mask = b.array(beyond.reshape(size, *[1] * (x.rank - 1 - d)))
            outside = mask if outside is None else b.logical_or(outside, mask)
        if mode == "nearest":
            index = np.clip(_nearest(places, nearest_mode), 0, shape[d] - 1).astype(np.int64)
            x = b.index_select(x, b.array(index), axis=d)
            continue
        matrix = _weights(mode, places, shape[d], ratio, bool(antialias), cubic_coeff_a,
                          bool(exclude_outside))  # fmt: skip
        last = b.moved(b.widened(x), d, x.rank - 1)
        product = b.matmul(last, b.array(matrix.T.astype(last.dtype.np)))
        x = b.cast(b.moved(product, x.rank - 1, d), x.dtype)
    if outside is not None:
        x = b.where(b.expanded(outside, x.shape), b.scalar(extrapolation_value, x), x)
    return x


def _native(
    b: NodeBuilder, x: Value, dims: list[int], ratios: list[float], out: list[int], mode: str,
    transform: str, nearest: str, antialias: bool, cubic: float, exclude: bool,
) -> Value | None:  # fmt: skip
    """The resize of an image by one op; None where no op computes the same."""
    factor = {**dict.fromkeys(range(x.rank), 1.0), **dict(zip(dims, ratios, strict=True))}
    if x.rank != 4 or antialias or factor[0] != 1 or factor[1] != 1 or x.dtype is not dt.float32:
        return None
    sizes: dict[str, Any]
    if UNKNOWN in x.shape:  # the result has those sizes times integers
        if not all(factor[d].is_integer() for d in (2, 3)) or transform == "align_corners":
            return None
        sizes, large = {"scale": (factor[2], factor[3])}, factor[2] > 1 and factor[3] > 1
    else:
        full = dict(zip(dims, out, strict=True))
        if any(abs(factor[d] * x.shape[d] - o) >= 1e-6 for d, o in full.items()):
            return None
        sizes = {f"out_{n}": full.get(d, x.shape[d]) for d, n in ((2, "h"), (3, "w"))}
        large = all(o > 1 for o in out[-2:])
    half = transform in ("half_pixel", "pytorch_half_pixel") and large
    if mode == "linear" and (half or transform == "align_corners"):
        return b.bilinear_interp(x, **sizes, align_corners=not half, align_mode=0,
                                 interp_method="bilinear")  # fmt: skip
    if mode == "nearest" and transform == "asymmetric" and nearest == "floor":
        return b.nearest_interp(x, **sizes, align_corners=False, align_mode=0,
                                interp_method="nearest")  # fmt: skip
    if mode == "cubic" and cubic == -0.75 and not exclude and half:
        return b.bicubic_interp(x, **sizes, align_corners=False, align_mode=0,
                                interp_method="bicubic")  # fmt: skip
    return None


@rule("GridSample")
def _(
    b: NodeBuilder, x: Value, grid: Value, align_corners: int = 0, mode: str = "linear",
    padding_mode: str = "zeros",
) -> Value:  # fmt: skip
    kind, corners = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode), bool(align_corners)
    if kind == "bicubic":
        return _cubic_samples(b, x, grid, corners, padding_mode)
    return b.grid_sample(x, grid, mode=kind, padding_mode=padding_mode, align_corners=corners)


def _cubic_samples(b: NodeBuilder, x: Value, grid: Value, corners: bool, padding: str) -> Value:
    """The weighted sum of the sixteen nearest pixels, each read by `grid_sample` at its place.

    So padding modes apply to each pixel, as ONNX says.
    """
    if x.rank != 4:
        raise b.unsupported("of volumes with cubic interpolation has no rule")
    rows, columns = x.shape[2:] if UNKNOWN not in x.shape[2:] else b.static(x)[2:]
    steps = [b.const((size - corners) / 2, grid.dtype) for size in (columns, rows)]
    firsts: list[Value] = []
    weights: list[list[Value]] = []
    for d, (step, size) in enumerate(zip(steps, (columns, rows), strict=True)):
        middle = b.const((size - 1) / 2, grid.dtype)
        place = b.add(b.multiply(b.cut(grid, 3, d, d + 1), step), middle)
        first = b.floor(place)
        part = b.subtract(place, first)
        firsts.append(b.subtract(first, middle))
        weights.append([_cubic_weight(b, b.abs(b.subtract(part, b.const(float(k), grid.dtype))),
                                      k in (0, 1)) for k in range(-1, 3)])  # fmt: skip
    total: Value | None = None
    for row in range(4):
        for column in range(4):
            offsets = [b.const(k - 1.0, grid.dtype) for k in (column, row)]
            found = [b.divide(b.add(v, offset), step)
                     for v, offset, step in zip(firsts, offsets, steps, strict=True)]  # fmt: skip
            near = b.grid_sample(x, b.concat(found, 3), mode="nearest", padding_mode=padding,
                                 align_corners=corners)  # fmt: skip
            weight = b.permute(b.multiply(weights[0][column], weights[1][row]), (0, 3, 1, 2))
            term = b.multiply(near, weight)
            total = term if total is None else b.add(total, term)
    assert total is not None
    return total


def _cubic_weight(b: NodeBuilder, far: Value, is_near: bool) -> Value:
    """Keys' cubic kernel, a = -0.75, at the distance ``far``: up to 1 (``is_near``), or 1 to 2."""
    terms = (1.25, -2.25, 0.0, 1.0) if is_near else (-0.75, 3.75, -6.0, 3.0)
    found = b.const(terms[0], far.dtype)
    for term in terms[1:]:
        found = b.add(b.multiply(found, far), b.const(term, far.dtype))
    return found


@rule("AffineGrid")
def _(b: NodeBuilder, theta: Value, size: Value, align_corners: int = 0) -> Value:
    return b.affine_grid(theta, output_shape=tuple(b.integers_of(size, "size") or ()),
                         align_corners=bool(align_corners))  # fmt: skip


@rule("NonMaxSuppression")
def _(
    b: NodeBuilder, boxes: Value, scores: Value, limit: Value | None = None,
    threshold: Value | None = None, score: Value | None = None, center_point_box: int = 0,
) -> Value:  # fmt: skip
    numbers = [b.known(v, "limit") for v in (limit, threshold, score)]
    defaults = zip(numbers, (0, 0.0, -3e38), strict=True)
    most, shared, least = [other if n is None else n.item() for n, other in defaults]
    return b("pir.non_max_suppression", boxes, scores, limit=int(most), threshold=float(shared),
             score_threshold=float(least), centered=bool(center_point_box))  # fmt: skip


@rule("RoiAlign")
def _(
    b: NodeBuilder, x: Value, rois: Value, batch: Value, mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
    coordinate_transformation_mode: str | None = None,
) -> Value:  # fmt: skip
    if mode != "avg":
        raise b.unsupported("with the maximum has no rule")
    images = b.known(batch, "batch_indices")
    if (np.diff(images) < 0).any():
        raise b.unsupported("of boxes that are not sorted by image has no rule")
    counts = b.array(np.bincount(images, minlength=b.static(x)[0]).astype(np.int32))
    default = "half_pixel" if b.opset >= 16 else "output_half_pixel"
    half = (coordinate_transformation_mode or default) == "half_pixel"
    return b.roi_align(x, rois, counts, pooled_height=output_height, pooled_width=output_width,
                       spatial_scale=spatial_scale, sampling_ratio=sampling_ratio or -1,
                       aligned=half)  # fmt: skip
