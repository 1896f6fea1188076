"""Maximum pooling with the index of the maximum: one pass per element of the window."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.pool import BLOCK, LOWEST
from pirkit.runtime.kernels.numpy.windows import Geometry, inside
from pirkit.runtime.registry import kernel


@kernel("max_pool2d_with_index", "max_pool3d_with_index", dtypes=dt.FLOATS, widen=True)
def max_pool_with_index(b: Binding) -> Step | None:
    """Windows of one size; adaptive, global and cropped ones run the reference rule."""
    sizes, strides = tuple(b.attrs["kernel_size"]), tuple(b.attrs["strides"])
    paddings = tuple(b.attrs["paddings"])
    is_global = b.attrs["adaptive"] or b.attrs["global_pooling"]
    is_plain = not is_global and len(paddings) == len(sizes) and min(paddings) >= 0
    if not (is_plain and b.input().numel and b.output().numel):
        return None
    lengths, positions = b.input().shape[2:], b.output().shape[2:]
    g = Geometry(lengths, sizes, strides, (1,) * len(sizes), paddings, positions, last=False)
    planes = prod(b.input().shape[:2])
    some = max(min(BLOCK // max(prod(g.padded), 1), planes), 1)
    image, best = b.workspace((some, *g.padded)), b.workspace((some, *positions))
    image.fill(-np.inf)
    numbers = b.workspace((some, *positions), dt.int32)
    target, source = inside(g)
    cuts = [_cut(g, at) for at in b.xp.ndindex(*sizes)]
    count = _counter(b, g, cuts, numbers.shape)
    xp = b.xp

    def step(x: Array, out: Array | None, mask: Array | None) -> None:
        images = x.reshape(planes, *lengths)
        goals = [
            (given, given.reshape(planes, *positions), made)
            for given, made in ((out, best), (mask, numbers))
            if given is not None
        ]
        for first in range(0, planes, some):
            m = min(some, planes - first)
            held, top = image[:m], best[:m]
            held[(slice(None), *target)] = images[first : first + m][(slice(None), *source)]
            xp.copyto(top, held[cuts[0]])
            for cut in cuts[1:]:
                xp.maximum(top, held[cut], out=top)
            count(held, top, numbers[:m])
            for _, goal, made in goals:
                goal[first : first + m] = made[:m]
        for given, goal, _ in goals:
            if not given.flags.c_contiguous:
                given[...] = goal.reshape(given.shape)

    return step


def _cut(g: Geometry, at: tuple[int, ...]) -> tuple[slice, ...]:
    """The elements of the padded images that one place of the window meets."""
    return (
        slice(None),
        *(
            slice(o, o + (n - 1) * s + 1, s)
            for o, n, s in zip(at, g.positions, g.strides, strict=True)
        ),
    )


def _counter(
    b: Binding, g: Geometry, cuts: list[tuple[slice, ...]], shape: tuple[int, ...]
) -> Callable[[Array, Array, Array], None]:
    """Makes ``count(images, maxima, numbers)``, which writes the flat index of each maximum.

    The places of a window are ranked such that the greatest rank is the first place that holds the
    maximum, or the last that holds NaN; ranks are compared without branches.
    """
    xp = b.xp
    places = len(cuts)
    kind = dt.uint8 if 2 * places < 256 else dt.int32
    ranks, rank, same = (
        b.workspace(shape, kind),
        b.workspace(shape, kind),
        b.workspace(shape, dt.bool_),
    )
    shifts = [_number(g.lengths, at) for at in xp.ndindex(*g.sizes)]
    table = np.array([0, *reversed(shifts), *shifts], np.int32)
    corners, firsts, outside = np.zeros((), np.int32), np.zeros((), np.int32), np.zeros((), bool)
    for n, size, stride, before, length in zip(
        g.positions, g.sizes, g.strides, g.before, g.lengths, strict=True
    ):
        starts = np.arange(n, dtype=np.int32) * stride - before
        corners = corners[..., None] * length + starts
        firsts = firsts[..., None] * length + np.maximum(starts, 0)
        outside = np.logical_or.outer(outside, (starts >= length) | (starts + size <= 0))
    firsts[outside] = -1

    def count(images: Array, maxima: Array, numbers: Array) -> None:
        m = len(images)
        best, each, flag = ranks[:m], rank[:m], same[:m]
        best.fill(0)
        for k, cut in enumerate(cuts):
            xp.equal(images[cut], maxima, flag)
            xp.multiply(flag, kind.np.type(places - k), each)
            xp.maximum(best, each, out=best)
        if xp.isnan(maxima, flag).any():
            for k, cut in enumerate(cuts):
                xp.isnan(images[cut], flag)
                xp.multiply(flag, kind.np.type(places + k + 1), each)
                xp.maximum(best, each, out=best)
        xp.add(xp.take(table, best), corners, numbers)
        # Padding is infinite too: there the first element is the maximum, if there is one.
        if xp.isneginf(maxima, flag).any():
            xp.copyto(numbers, xp.broadcast_to(firsts, numbers.shape), where=flag)
            maxima[:, outside] = LOWEST

    return count


def _number(lengths: tuple[int, ...], at: tuple[int, ...]) -> int:
    """The flat index of an element in row-major order."""
    number = 0
    for length, o in zip(lengths, at, strict=True):
        number = number * length + o
    return number
