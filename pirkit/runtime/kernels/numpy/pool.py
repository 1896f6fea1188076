"""Pooling as one pass per element of the window, over strided views of the padded image."""

from __future__ import annotations

from math import prod

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.windows import (
    CHANNELS_LAST,
    Geometry,
    channels_first,
    geometry,
    inside,
)
from pirkit.runtime.registry import kernel

LOWEST = float(np.finfo(np.float32).min)
"""The result of max pooling for a window that lies outside of the image, as in Paddle."""
BLOCK = 1 << 17
"""Elements of the padded images that are pooled at a time."""


@kernel("pool2d", "pool3d", dtypes=dt.FLOATS, widen=True)
def pool(b: Binding) -> Step | None:
    """Windows of one size; adaptive windows of several sizes run the reference rule."""
    if not b.input().numel or not b.output().numel:
        return None
    is_max = b.attrs["pooling_type"] == "max"
    cut = slice(1, -1) if b.attrs["data_format"] in CHANNELS_LAST else slice(2, None)
    lengths, positions = b.input().shape[cut], b.output().shape[cut]
    if b.attrs["global_pooling"] or (b.attrs["adaptive"] and prod(positions) == 1):
        return _global_pool(b, is_max)
    if b.attrs["adaptive"]:
        even = all(n % p == 0 for n, p in zip(lengths, positions, strict=True))
        return _even(b, is_max) if even else None
    g = geometry(b, b.attrs["kernel_size"])
    return _windows(b, g, is_max)


def _global_pool(b: Binding, is_max: bool) -> Step:
    rank = b.input().rank
    last = b.attrs["data_format"] in CHANNELS_LAST
    axes = tuple(range(1, rank - 1) if last else range(2, rank))
    count = prod(b.input().shape[a] for a in axes)
    reduce = b.xp.maximum.reduce if is_max else b.xp.add.reduce
    divide = b.xp.divide

    def step(x: Array, out: Array) -> None:
        reduce(x, axis=axes, keepdims=True, out=out)
        if not is_max:
            divide(out, count, out)

    return step


def _even(b: Binding, is_max: bool) -> Step:
    """Adaptive windows that divide the image evenly: a reshape gives windows axes of their own."""
    last = b.attrs["data_format"] in CHANNELS_LAST
    cut = slice(1, -1) if last else slice(2, None)
    x, out = b.input().shape, b.output().shape
    split = [v for n, p in zip(x[cut], out[cut], strict=True) for v in (p, n // p)]
    first = 1 if last else 2
    shape = (*x[:first], *split, *x[first + len(x[cut]) :])
    axes = tuple(first + 1 + 2 * i for i in range(len(x[cut])))
    count = prod(shape[a] for a in axes)
    reduce = b.xp.maximum.reduce if is_max else b.xp.add.reduce
    divide = b.xp.divide

    def step(x: Array, out: Array) -> None:
        reduce(x.reshape(shape), axis=axes, out=out)
        if not is_max:
            divide(out, count, out)

    return step


def _windows(b: Binding, g: Geometry, is_max: bool) -> Step:
    """One pass for each element of the window, over some planes at a time that fit the cache.

    A cut is the strided view of the padded images that holds this element of every window.
    """
    xp = b.xp
    shape = b.input().shape
    n, channels = shape[0], shape[-1 if g.last else 1]
    planes = n * channels
    some = max(min(BLOCK // max(prod(g.padded), 1), planes), 1)
    fill = -np.inf if is_max else 0
    image = b.workspace((some, *g.padded))
    image[...] = fill
    total = b.workspace((some, *g.positions))
    target, source = inside(g)
    cuts = [
        tuple(
            slice(o, o + (p - 1) * s + 1, s)
            for o, p, s in zip(at, g.positions, g.strides, strict=True)
        )
        for at in xp.ndindex(*g.sizes)
    ]
    combine = xp.maximum if is_max else xp.add
    counts = None if is_max else _counts(b, g)
    outside = _no_elements(g) if is_max else None
    every = (slice(None),)

    def step(x: Array, out: Array) -> None:
        images = channels_first(x, g.last).reshape(planes, *g.lengths)
        plain = channels_first(out, g.last)
        goal = plain.reshape(planes, *g.positions)
        for first in range(0, planes, some):
            m = min(some, planes - first)
            held, sums = image[:m], total[:m]
            held[every + target] = images[first : first + m][every + source]
            xp.copyto(sums, held[every + cuts[0]])
            for cut in cuts[1:]:
                combine(sums, held[every + cut], out=sums)
            if counts is not None:
                xp.divide(sums, counts, sums)
            if outside is not None:
                sums[every + outside] = LOWEST
            goal[first : first + m] = sums
        if not plain.flags.c_contiguous:
            plain[...] = goal.reshape(plain.shape)

    return step


def _no_elements(g: Geometry) -> tuple[Array, ...] | None:
    """The places of the windows that lie outside of the image, if there are any."""
    outside = np.zeros((), np.bool_)
    for axis, (length, size) in enumerate(zip(g.lengths, g.sizes, strict=True)):
        starts = np.arange(g.positions[axis]) * g.strides[axis] - g.before[axis]
        outside = np.logical_or.outer(outside, (starts >= length) | (starts + size <= 0))
    return outside.nonzero() if outside.any() else None


def _counts(b: Binding, g: Geometry) -> Array:
    """The number of elements that each window averages over.

    As in Paddle, an image ends after the padding in front of it, whatever is after
    (``phi/kernels/funcs/pooling.cc``).
    """
    sizes: list[Array] = []
    for axis, (length, size) in enumerate(zip(g.lengths, g.sizes, strict=True)):
        starts = np.arange(g.positions[axis]) * g.strides[axis] - g.before[axis]
        ends = np.minimum(starts + size, length + g.before[axis])
        if b.attrs["exclusive"]:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, length)
        sizes.append(ends - starts)
    counts = sizes[0]
    for more in sizes[1:]:
        counts = np.multiply.outer(counts, more)
    return np.asarray(counts, b.dtype.np)
