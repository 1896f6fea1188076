"""Convolutions as one product of the filter and the columns of all windows."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.kernels.cupy.results import computes
from pirkit.runtime.kernels.numpy.windows import Geometry, channels_first, geometry, inside

_EVERY = (slice(None), slice(None))


def _cuts(g: Geometry, counts: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """For each element of the filter the part of the padded area that it meets."""
    return [
        tuple(
            slice(o * d, o * d + (n - 1) * s + 1, s)
            for o, d, n, s in zip(at, g.dilations, counts, g.strides, strict=True)
        )
        for at in product(*map(range, g.sizes))
    ]


def _as_asked(x: Any, last: bool) -> Any:
    return x.transpose(0, *range(2, x.ndim), 1) if last else x


@computes("conv2d", "conv3d", "depthwise_conv2d", dtypes=dt.FLOATS, widen=True)
def conv(b: Binding) -> Step | None:
    """Columns of windows by element of the filter, with the channels of each group apart."""
    xp, dtype = b.xp, b.dtype.np
    filters, depth, *sizes = b.input(1).shape
    if not b.output().numel or not b.input(0).numel:
        return None
    groups, n = b.attrs["groups"], b.input(0).shape[0]
    g = geometry(b, sizes, b.attrs["dilations"])
    target, source = inside(g)
    cuts, k = _cuts(g, g.positions), depth * prod(sizes)

    def run(x: Any, filter: Any) -> Any:
        padded = xp.zeros((n, depth * groups, *g.padded), dtype)
        padded[_EVERY + target] = channels_first(x, g.last)[_EVERY + source]
        columns = xp.stack([padded[_EVERY + cut] for cut in cuts], axis=2)
        columns = columns.reshape(n, groups, k, prod(g.positions))
        found = xp.matmul(filter.reshape(groups, filters // groups, k), columns)
        return _as_asked(found.reshape(n, filters, *g.positions), g.last)

    return run


@computes(
    "conv2d_transpose",
    "depthwise_conv2d_transpose",
    "conv3d_transpose",
    dtypes=dt.FLOATS,
    widen=True,
)
def conv_transpose(b: Binding) -> Step | None:
    """One matmul, whose result is added up at the places that each element of the filter writes."""
    xp, dtype = b.xp, b.dtype.np
    channels, each, *sizes = b.input(1).shape
    if not all(m.numel for m in (b.output(), b.input(0), b.input(1))):
        return None
    groups, n = b.attrs["groups"], b.input(0).shape[0]
    g = geometry(b, sizes, b.attrs["dilations"])
    depth, taps = channels // groups, prod(sizes)
    room = tuple(
        max((m - 1) * s + d * (k - 1) + 1, before + out)
        for m, s, d, k, before, out in zip(
            g.lengths, g.strides, g.dilations, g.sizes, g.before, g.positions, strict=True
        )
    )
    shown = tuple(
        slice(before, before + out) for before, out in zip(g.before, g.positions, strict=True)
    )
    cuts = _cuts(g, g.lengths)

    def run(x: Any, filter: Any) -> Any:
        weights = filter.reshape(groups, depth, each, taps).transpose(0, 2, 3, 1)
        pixels = channels_first(x, g.last).reshape(n, groups, depth, prod(g.lengths))
        shares = xp.matmul(weights.reshape(groups, each * taps, depth), pixels)
        shares = shares.reshape(n, groups * each, taps, *g.lengths)
        sums = xp.zeros((n, groups * each, *room), dtype)
        for tap, cut in enumerate(cuts):
            sums[_EVERY + cut] += shares[:, :, tap]
        return _as_asked(sums[_EVERY + shown], g.last)

    return run
