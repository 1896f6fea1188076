"""Pooling and resizing of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.libtorch import torch
from pirkit.torch.rules import rule


def _sizes(given: Any, rank: int, default: Any = None) -> tuple[int, ...]:
    """One number for each dimension of a window; a single one stands for all."""
    if given is None or len(given) == 0:
        return _sizes(default, rank)
    return tuple(given) * rank if len(given) == 1 else tuple(given)


def _batched(b: AtenBuilder, x: Value, rank: int) -> Value:
    """An image or volume without a batch gets one."""
    return x if x.rank == rank + 2 else b.reshape(x, (1, *x.shape))


def _windows(b: AtenBuilder, x: Value, kernel: Any, stride: Any, padding: Any, kind: str,
             *, adaptive: bool = False, exclusive: bool = False) -> Value:  # fmt: skip
    """Paddle's pooling of an image or volume with a batch; ``kind`` is `max` or `avg`."""
    rank = x.rank - 2
    layout = {2: "NCHW", 3: "NCDHW"}[rank]
    return b(f"pd_op.pool{rank}d", x, kernel_size=_sizes(kernel, rank),
             strides=_sizes(stride, rank, kernel), paddings=_sizes(padding, rank),
             ceil_mode=False, exclusive=exclusive, data_format=layout, pooling_type=kind,
             global_pooling=False, adaptive=adaptive, padding_algorithm="EXPLICIT")  # fmt: skip


def _maxima(
    rank: int, b: AtenBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """The maxima and their places.

    In torch the last window begins inside of the image or its padding in front; a window that
    Paddle has beyond that is cut off.
    """
    if any(n != 1 for n in dilation):
        sizes = (_sizes(kernel, rank), _sizes(stride, rank, kernel), _sizes(padding, rank))
        return _dilated_maxima(b, _batched(b, x, rank), *sizes, _sizes(dilation, rank))
    found = b(f"pd_op.max_pool{rank}d_with_index", _batched(b, x, rank),
              kernel_size=_sizes(kernel, rank), strides=_sizes(stride, rank, kernel),
              paddings=_sizes(padding, rank), ceil_mode=ceil_mode)  # fmt: skip
    made: list[Value] = []
    for value, shape in zip(found, b.shapes, strict=True):
        for dim in range(2, rank + 2):
            value = b.cut(value, dim, 0, shape[dim - rank - 2])
        made.append(b.reshape(value, shape))
    return made


def _dilated_maxima(
    b: AtenBuilder, x: Value, kernels: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int],
) -> Any:  # fmt: skip
    """The maxima of windows that are laid side by side, and their places in the image.

    What a window has in the padding is replaced by its first or last element in the image, which
    changes neither the maximum nor its place.
    """
    rank, grid = len(kernels), b.const(0, dt.int64)
    lengths = x.shape[2:]
    moves = zip(lengths, kernels, strides, pads, dilations, strict=True)
    for d, (length, k, s, p, step) in enumerate(moves):
        starts = np.arange(b.shape[d - rank])[:, None] * s - p
        number = np.clip(np.arange(k), -(starts // step), (length - 1 - starts) // step)
        places = starts + number * step
        if (number < 0).any() or (number >= k).any() or (places < 0).any():
            return NotImplemented  # a window lies in the padding
        along = b.integers(places.reshape(-1).tolist())
        x = b.index_select(x, along, axis=2 + d)
        below = along * math.prod(lengths[d + 1 :])
        grid = b.add(grid, b.reshape(below, (-1, *[1] * (rank - 1 - d))))
    out, at = b(f"pd_op.max_pool{rank}d_with_index", x, kernel_size=kernels, strides=kernels,
                paddings=(0,) * rank)  # fmt: skip
    found = b.index_select(b.reshape(grid, (-1,)), b.reshape(at, (-1,)), axis=0)
    return [b.reshape(v, shape) for v, shape in zip((out, found), b.shapes, strict=True)]


def _means(
    rank: int, b: AtenBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
    divisor: int | None = None,
) -> Any:  # fmt: skip
    """Average pooling, by one op if no window reaches beyond the padding and no divisor is given.

    Otherwise means of full windows in an image padded with zeros, times the size of the window over
    the number of elements that count: a product of one factor per dimension.
    """
    image = _batched(b, x, rank)
    kernels, pads = _sizes(kernel, rank), _sizes(padding, rank)
    strides = _sizes(stride, rank, kernel)
    lengths = zip(image.shape[2:], b.shape[-rank:], kernels, strides, pads, strict=True)
    if divisor is None and all((n - 1) * s + k <= i + 2 * p for i, n, k, s, p in lengths):
        exclusive = any(pads) and not count_include_pad
        out = _windows(b, image, kernels, strides, pads, "avg", exclusive=exclusive)
        return b.reshape(out, b.shape)
    around = [0] * (2 * image.rank)
    factors: list[list[float]] = []
    for d, (k, s, p) in enumerate(zip(kernels, strides, pads, strict=True)):
        size, count = image.shape[2 + d], b.shape[d - rank]
        beyond = (count - 1) * s + k - size - p
        around[4 + 2 * d], around[5 + 2 * d] = p, max(beyond, 0)
        starts = [i * s - p for i in range(count)]
        ends = [min(i + k, size + p) for i in starts]
        if not count_include_pad:
            starts, ends = [max(i, 0) for i in starts], [min(i, size) for i in ends]
        held = [k if divisor else end - i for i, end in zip(starts, ends, strict=True)]
        factors.append([k / n for n in held])
    if any(around):
        image = b("pd_op.pad", image, pad_value=0.0, paddings=tuple(around))
    out = b.reshape(_windows(b, image, kernel, strides, (0,), "avg"), b.shape)
    if divisor is not None:
        return out * (math.prod(kernels) / divisor)
    for d, factor in enumerate(factors):
        if any(f != 1 for f in factor):
            shape = (len(factor), *[1] * (rank - 1 - d))
            row = b.assign_value(shape=shape, dtype=dt.float64, values=tuple(factor))
            out = b.multiply(out, b.cast(row, x.dtype))
    return out


for _rank in (2, 3):
    rule(f"max_pool{_rank}d_with_indices")(partial(_maxima, _rank))
    rule(f"avg_pool{_rank}d")(partial(_means, _rank))


def _adaptive(rank: int, b: AtenBuilder, x: Value, size: Sequence[int]) -> Value:
    if set(size) == {1}:
        return b("pd_op.mean", x, axis=tuple(range(x.rank - rank, x.rank)), keepdim=True)
    out = _windows(b, _batched(b, x, rank), size, size, (0,), "avg", adaptive=True)
    return b.reshape(out, b.shape)


def _adaptive_maxima(rank: int, b: AtenBuilder, x: Value, size: Sequence[int]) -> Any:
    image = _batched(b, x, rank)
    found = b(f"pd_op.max_pool{rank}d_with_index", image, kernel_size=tuple(size), adaptive=True)
    return [b.reshape(v, shape) for v, shape in zip(found, b.shapes, strict=True)]


rule("adaptive_max_pool2d")(partial(_adaptive_maxima, 2))
rule("adaptive_max_pool3d")(partial(_adaptive_maxima, 3))
rule("_adaptive_avg_pool2d")(partial(_adaptive, 2))
rule("_adaptive_avg_pool3d")(partial(_adaptive, 3))


MAX_COLUMNS: Final = 128
"""Rows and columns up to which an image is resized by dense matrices; torch reads neighbours only,
which takes less time for larger images."""


def _resized(op: str, corners: bool, b: AtenBuilder, x: Value, sizes: Any) -> Any:
    """Resize to the sizes that torch infers; without ``sizes``, only by integer factors."""
    out = b.shape[2:]
    if sizes is None and any(o % i for o, i in zip(out, x.shape[2:], strict=True)):
        return NotImplemented
    names = {4: ("out_h", "out_w"), 5: ("out_d", "out_h", "out_w")}[x.rank]
    method = {"nearest_interp": "nearest", "bicubic_interp": "bicubic"}.get(op, "bilinear")
    return b(f"pd_op.{op}", x, **dict(zip(names, out, strict=True)), align_corners=corners,
             align_mode=0, interp_method=method)  # fmt: skip


def _nearest(b: AtenBuilder, x: Value, size: Any, *factors: Any) -> Any:
    if size is not None and any(f is not None for f in factors):
        return NotImplemented
    return _resized("nearest_interp", False, b, x, size)


def _smooth(op: str, b: AtenBuilder, x: Value, size: Any, corners: bool, *factors: Any) -> Any:
    if size is not None and any(f is not None for f in factors):
        return NotImplemented
    return _resized(op, corners, b, x, size)


rule("upsample_nearest2d.vec", "upsample_nearest2d")(_nearest)
rule("upsample_bilinear2d.vec", "upsample_bilinear2d")(partial(_smooth, "bilinear_interp"))
rule("upsample_bicubic2d.vec", "upsample_bicubic2d")(partial(_smooth, "bicubic_interp"))


def _by_matrices(
    b: AtenBuilder, x: Value, _: Any, corners: bool, high: float | None = None,
    wide: float | None = None,
) -> Any:  # fmt: skip
    """Resizing with antialiasing, as a product with a matrix along each axis.

    A row of a matrix holds the weights of the neighbours of one output. Torch computes it now, by
    resizing the identity matrix.
    """
    if not x.dtype.is_float or max(x.shape[2:]) > MAX_COLUMNS:
        return NotImplemented
    dtype = x.dtype if x.dtype.itemsize > 2 else dt.float32
    matrices: list[Value] = []
    for n, out, factor in zip(x.shape[2:], b.shape[2:], (high, wide), strict=True):
        eye = torch.eye(n, dtype=torch.float64)[None, None]
        weights = b.node.target(eye, [out, n], corners, factor, None)[0, 0]
        held = tuple(weights.flatten().tolist())
        row = b.assign_value(shape=(out, n), dtype=dt.float64, values=held)
        matrices.append(b.cast(row, dtype))
    down, across = matrices
    return b.matmul(down, b.matmul(b.cast(x, dtype), across, transpose_y=True))


rule("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")(_by_matrices)


@rule("grid_sampler_2d", "grid_sampler_3d")
def _(b: AtenBuilder, x: Value, grid: Value, mode: int, padding: int, corners: bool) -> Any:
    return b.grid_sample(x, grid, mode=("bilinear", "nearest")[mode], align_corners=corners,
                         padding_mode=("zeros", "border", "reflection")[padding])  # fmt: skip
