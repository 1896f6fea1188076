"""Convolutions as matrix products of blocks that stay in cache.

The padded input is laid out as ``[channels, images, pixels]``. A tap of the filter then is a shift
of the pixels, so the columns that belong to one block of positions are copied in long runs, rows of
the image included with their padding; the product is one BLAS call for each block, and what was
computed for the padding is left out when the block is copied to the result.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.windows import Geometry, channels_first, geometry, inside
from pirkit.runtime.registry import kernel

BLOCK: Final = 1 << 19
"""Elements of the columns of one block: what the second-level cache holds."""

LEAST: Final = 256
"""Columns of one block at least: narrower products leave BLAS idle."""


@kernel("conv2d", "conv3d", dtypes=dt.FLOATS, widen=True)
def conv(b: Binding) -> Step | None:
    """Chooses by shape: a plain product, or blocks of columns; none with a channel in a group."""
    depth, *sizes = b.input(1).shape[1:]
    groups = b.attrs["groups"]
    if not b.output().numel or not b.input(0).numel or (depth == 1 and groups > 1):
        return None
    g = geometry(b, sizes, b.attrs["dilations"])
    is_plain = prod(sizes) == 1 and prod(g.strides) == 1 and g.lengths == g.positions
    if is_plain and groups == 1 and not g.last:
        return _pointwise(b)
    return _columns(b, g, groups)


def _pointwise(b: Binding) -> Step:
    """A filter of one element: each image times the filter matrix."""
    n, channels, *rest = b.input(0).shape
    filters, pixels = b.output().shape[1], prod(rest)
    product = b.xp.matmul

    def step(x: Array, filter: Array, out: Array) -> None:
        images = x.reshape(n, channels, pixels)
        weights = filter.reshape(filters, channels)
        if out.flags.c_contiguous:
            product(weights, images, out.reshape(n, filters, pixels))
        else:
            out[...] = product(weights, images).reshape(out.shape)

    return step


def _columns(b: Binding, g: Geometry, groups: int) -> Step:
    """im2col: windows as the columns of a matrix, a block at a time, times the filter by BLAS.

    Views over the padded image have an axis for each tap, so that one copy fills the columns.
    Without strides (`is_dense`) the row of a tap is one contiguous run of the padded image, from
    the first position to the last: what lies in the padding between is multiplied too, and left
    out by ``rows``. A block of columns stays in the cache.
    """
    xp = b.xp
    n = b.input(0).shape[0]
    filters, depth = b.input(1).shape[:2]
    channels, each = depth * groups, filters // groups
    padded, taps = g.padded, prod(g.sizes)
    rank = len(padded)
    area = prod(padded)
    steps = [prod(padded[i + 1 :]) for i in range(rank)]
    run = sum((p - 1) * s for p, s in zip(g.positions, steps, strict=True)) + 1
    is_dense = prod(g.strides) == 1
    width = run if is_dense else prod(g.positions)
    k = depth * taps
    count = max(BLOCK // max(k, 1), LEAST)
    images = max(min(count // width, n), 1)
    span = min(count, width) if images == 1 and is_dense else width

    image = b.workspace((channels, n, area))
    image[...] = 0
    columns = b.workspace((k * images * span,))
    wide = b.workspace((each, images * width))
    target, source = inside(g)
    item = image.itemsize
    strided = xp.lib.stride_tricks.as_strided
    shape = (depth, *g.sizes, n)
    tap_strides = [d * s * item for d, s in zip(g.dilations, steps, strict=True)]
    base = (n * area * item, *tap_strides, area * item)
    views: list[Any] = []
    for group in range(groups):
        part = image[group * depth : (group + 1) * depth]
        if is_dense:
            views.append(strided(part, (*shape, run), (*base, item), writeable=False))
        else:
            moves = tuple(s * t * item for s, t in zip(g.strides, steps, strict=True))
            views.append(strided(part, (*shape, *g.positions), (*base, *moves), writeable=False))
    padded_view = image.reshape(channels, n, *padded)[(slice(None), slice(None), *target)]
    order = (1, 0, *range(2, 2 + rank))
    copyto, product = xp.copyto, xp.matmul
    lead = (slice(None),) * (1 + rank)

    def rows(block: Array, m: int) -> Any:
        """The positions in a block of the result, without those of the padding."""
        if not is_dense:
            return block.reshape(each, m, *g.positions)
        strides = tuple([s * item for s in steps])
        full = (block.strides[0], width * item, *strides)
        return strided(block, (each, m, *g.positions), full)

    def step(x: Array, filter: Array, out: Array) -> None:
        plain = channels_first(x, g.last)
        copyto(padded_view, plain[(slice(None), slice(None), *source)].transpose(order))
        result = channels_first(out, g.last).transpose(order)
        for group in range(groups):
            weights = filter[group * each : (group + 1) * each].reshape(each, k)
            view = views[group]
            goal = result[group * each : (group + 1) * each]
            for first in range(0, n, images):
                m = min(images, n - first)
                block = wide[:, : m * width]
                for begin in range(0, width, span) if images == 1 else (0,):
                    size = min(span, width - begin)
                    held = columns[: k * m * size].reshape(k, m * size)
                    part = view[(*lead, slice(first, first + m))]
                    if span < width:
                        part = part[..., begin : begin + size]
                    copyto(held.reshape(part.shape), part)
                    product(weights, held, block[:, begin : begin + size] if m == 1 else block)
                copyto(goal[:, first : first + m], rows(block, m))

    return step
