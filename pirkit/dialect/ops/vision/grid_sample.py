"""Interpolated reads of images at fractional positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from pirkit.diag.limits import check
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.roi_align import align_regions

KIND = "gather"

MODES: Final = ("bilinear", "nearest")
PADDING_MODES: Final = ("zeros", "border", "reflection")


@op
class GridSample:
    """Read images `x [N, C, H, W]` (or volumes) at the positions in `grid [N, H', W', 2]`.

    Positions are in (width, height) order, -1 and 1 being the outermost elements (or, without
    `align_corners`, their outer edges). What is read outside is zero, the nearest element
    (`border`) or the mirror image (`reflection`).

    C1: `x` has four or five dimensions and `grid` as many.
    C2: the last dimension of `grid` has one number per spatial dimension.
    C3: `x` and `grid` have as many images, and the same dtype.
    C4: `mode` is `bilinear` or `nearest`, `padding_mode` is `zeros`, `border` or `reflection`.
    C5: the images of `x` have elements.
    """

    name = "pd_op.grid_sample"
    signature = (
        'x, grid ; mode: str = "bilinear", padding_mode: str = "zeros", '
        "align_corners: bool = True -> out"
    )
    dtypes = dt.FLOATS
    domain = (-1.5, 1.5)


@op
class RoiAlign:
    """Average pooling of boxes of `x [N, C, H, W]` with edges between elements (He et al. 2017).

    Row i of `boxes [R, 4]` (x1, y1, x2, y2, times `spatial_scale`) becomes
    `out[i, C, pooled_height, pooled_width]`. The first `boxes_num[0]` boxes are in image 0, and so
    on. Each bin averages `sampling_ratio` points per direction, or as many as its size when that
    is not positive; LimitError for more than `loop_steps`. `aligned` counts from the centres of the
    elements.

    C1: `x` has four dimensions and `boxes` is `[R, 4]`.
    C2: `pooled_height` and `pooled_width` are positive.
    C3: `boxes_num` has one number per image, together those of all boxes; it may be absent for one
    image.
    C4: the numbers are floating.
    """

    name = "pd_op.roi_align"
    no_gradient = ("boxes",)
    signature = (
        "x, boxes, boxes_num? ; pooled_height: i32 = 1, pooled_width: i32 = 1, "
        "spatial_scale: f32 = 1.0, sampling_ratio: i32 = -1, aligned: bool = False -> out"
    )
    dtypes = dt.FLOATS
    same_dtype = ("x", "boxes")
    operand_dtypes = {"boxes_num": dt.INTS}


@infer_meta(GridSample)
def _(x: TensorMeta, grid: TensorMeta, *, mode: str, padding_mode: str, **_: object) -> TensorMeta:
    require(x.rank in (4, 5) and grid.rank == x.rank, "C1", f"{x} with a grid {grid}")
    require(same_dim(grid.shape[-1], x.rank - 2), "C2", f"the grid {grid} for {x}")
    agree = same_dim(x.shape[0], grid.shape[0]) and x.dtype is grid.dtype
    require(agree, "C3", f"{x} and {grid} disagree in images or dtype")
    require(mode in MODES, "C4", f"mode {mode!r} is not in {MODES}")
    require(padding_mode in PADDING_MODES, "C4", f"padding_mode {padding_mode!r}")
    require(0 not in x.shape[2:], "C5", f"{x} has nothing to read")
    return x.with_shape((x.shape[0], x.shape[1], *grid.shape[1:-1]))


@reference(GridSample)
@in_f32
def _(x: Array, grid: Array, *, mode: str, padding_mode: str, align_corners: bool) -> Array:
    n = x.ndim - 2
    batch, channels, *lengths = x.shape
    points = grid.reshape(batch, prod(grid.shape[1:-1]), n)
    places = [
        _place(points[..., n - 1 - i], length, padding_mode, align_corners)
        for i, length in enumerate(lengths)
    ]
    if mode == "nearest":
        places = [np.rint(p) for p in places]
    found = read_between(x, places)
    return found.reshape(batch, channels, *grid.shape[1:-1])


def _place(at: Array, length: int, padding_mode: str, align_corners: bool) -> Array:
    """Positions in elements, moved into the image unless outside is zero."""
    kind = at.dtype.type
    last = kind(length - 1)
    if align_corners:
        at = (at + kind(1)) * kind(0.5) * last
    else:
        at = (at + kind(1)) * kind(0.5) * kind(length) - kind(0.5)
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        edge = kind(0 if align_corners else 0.5)
        period = kind(2) * (last if align_corners else kind(length))
        away = np.abs(at + edge)
        away = away - np.floor(away / period) * period if period else np.zeros_like(away)
        at = np.minimum(away, period - away) - edge
    return np.clip(at, 0, last)


def read_between(x: Array, places: Sequence[Array]) -> Array:
    """Multilinear interpolation of images ``x [N, C, *lengths]``, with zeros around.

    ``places`` has one array ``[N, L]`` per spatial dimension; the result is ``[N, C, L]``.
    """
    batch, channels, *lengths = x.shape
    rows = np.moveaxis(x.reshape(batch, channels, prod(lengths)), 1, 2)
    images: Array = np.arange(len(x))[:, None]
    total = np.zeros((*places[0].shape, channels), x.dtype)
    if not rows.shape[1]:
        return np.moveaxis(total, 2, 1)
    lows = [np.floor(p) for p in places]
    for corner in product((0, 1), repeat=len(places)):
        weight: Array = np.ones((), x.dtype)
        index: Array = np.zeros((), np.int64)
        for place, low, step, length in zip(places, lows, corner, lengths, strict=True):
            part = place - low
            at = low + step
            inside = (at >= 0) & (at <= length - 1)
            weight = weight * np.where(inside, part if step else 1 - part, 0)
            index = index * length + np.where(inside, at, 0).astype(np.int64)
        total += rows[images, index] * weight[..., None]
    return np.moveaxis(total, 2, 1)


@infer_meta(RoiAlign)
def _(
    x: TensorMeta,
    boxes: TensorMeta,
    boxes_num: TensorMeta | None,
    *,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    **_: object,
) -> TensorMeta:
    fits = x.rank == 4 and boxes.rank == 2 and same_dim(boxes.shape[-1], 4)
    require(fits, "C1", f"x {x} and boxes {boxes}")
    require(x.dtype.is_float, "C4", f"an average of {x}")
    positive = pooled_height > 0 and pooled_width > 0
    require(positive, "C2", f"a result of {pooled_height} by {pooled_width}")
    counts = 1 if boxes_num is None else boxes_num.shape[0] if boxes_num.rank == 1 else 0
    require(same_dim(counts, x.shape[0]), "C3", f"{x.shape[0]} images, boxes_num {boxes_num}")
    check("loop_steps", sampling_ratio * max(pooled_height, pooled_width))
    return x.with_shape((boxes.shape[0], x.shape[1], pooled_height, pooled_width))


@reference(RoiAlign)
def _(x: Array, boxes: Array, boxes_num: Array | None, **attributes: Any) -> Array:
    if boxes_num is not None:
        fits = bool((boxes_num >= 0).all()) and int(boxes_num.sum()) == len(boxes)
        require(fits, "C3", f"boxes_num {boxes_num.tolist()} for {len(boxes)} boxes")

    def pooled(x: Array, boxes: Array) -> Array:
        sizes = attributes["pooled_height"], attributes["pooled_width"]
        out = np.zeros((len(boxes), x.shape[1], *sizes), x.dtype)
        align_regions(x, boxes, boxes_num, out, **attributes)
        return out

    return in_f32(pooled)(x, boxes)


@samples(GridSample)
def _(s: SampleMaker) -> Iterator[Sample]:
    x, grid = s.tensor(2, 3, 4, 5), s.tensor(2, 3, 2, 2)
    yield s(x, grid)
    yield s(x, grid, align_corners=False, padding_mode="border")
    yield s(x, grid, align_corners=False, padding_mode="reflection")
    yield s(x, grid, padding_mode="reflection", mode="nearest")
    yield s(s.tensor(1, 2, 3, 4, 2), s.tensor(1, 2, 3, 4, 3), align_corners=False)
    yield s(x[:0], grid[:0])


@samples(RoiAlign)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 3, 6, 7)
    boxes = s.array([[0, 0, 4, 5], [1.5, 2, 6.5, 4], [-3, 1, 2, 12], [2, 2, 2.25, 2.5]])
    counts = s.array([3, 1], dt.int32)
    yield s(x, boxes, counts, pooled_height=2, pooled_width=3)
    yield s(x, boxes, counts, pooled_height=3, pooled_width=2, aligned=True, spatial_scale=0.5)
    yield s(x, boxes, counts, pooled_height=2, pooled_width=2, sampling_ratio=2, aligned=True)
    yield s(x, s.tensor(0, 4), s.array([0, 0], dt.int32), pooled_height=2, pooled_width=2)
    yield s(x[:1], boxes[:2], s.array([2], dt.int32), pooled_height=2)


@bad_samples(GridSample)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(1, 2, 4, 4)
    yield "C1", s(x, s.tensor(1, 3, 2))
    yield "C2", s(x, s.tensor(1, 3, 3, 3))
    yield "C3", s(x, s.tensor(2, 3, 3, 2))
    yield "C4", s(x, s.tensor(1, 3, 3, 2), mode="bicubic")
    yield "C4", s(x, s.tensor(1, 3, 3, 2), padding_mode="wrap")
    yield "C5", s(s.tensor(1, 2, 4, 0), s.tensor(1, 3, 3, 2))


@bad_samples(RoiAlign)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, boxes, counts = s.tensor(1, 2, 4, 4), s.tensor(3, 4), s.array([3], dt.int32)
    yield "C1", s(x, s.tensor(3, 5), counts)
    yield "C2", s(x, boxes, counts, pooled_height=0)
    yield "C3", s(x, boxes, s.array([1, 2], dt.int32))
    yield "C3", s(x, boxes, s.array([2], dt.int32))
    yield "C4", s(s.ints((1, 2, 4, 4), 0, 9), s.ints((3, 4), 0, 3), counts)
    yield "C3", s(s.tensor(2, 2, 4, 4), boxes, None)
