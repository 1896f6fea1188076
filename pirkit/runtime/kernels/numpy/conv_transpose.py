"""Transposed convolutions: products for some channels, added up where each element falls.

With strides above one, an element of the filter reaches only positions of one *phase* (remainder by
the strides). Sums are kept by phase, in rows as far apart as those of the input, so that adding the
share of one element of the filter is a shift of long runs. Phases are interleaved at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.windows import Geometry, channels_first, geometry
from pirkit.runtime.registry import kernel

BLOCK: Final = 1 << 17
"""Elements that one product makes, before they are added up: what the cache holds."""

LEAST: Final = 256
"""Columns of a product at least, if there are so many: narrower ones leave BLAS idle."""

Cut = tuple[slice, ...]
_EVERY: Final = (slice(None), slice(None))


@dataclass(frozen=True)
class _Phases:
    """Where sums are kept: ``[phases, channels, images, area]``."""

    wide: tuple[int, ...]
    """Sizes of a phase, spatial dimensions only."""
    count: int
    taps: tuple[tuple[int, int], ...]
    """For each element of the filter: phase and shift."""
    parts: tuple[tuple[int, Cut, Cut], ...]
    """What of a phase goes where into the result: phase, part of it, part of the result."""

    @property
    def area(self) -> int:
        return prod(self.wide)

    @property
    def room(self) -> int:
        """The area, and what a shift of all of it needs beyond."""
        return self.area + max(shift for _, shift in self.taps)


def _phases(g: Geometry) -> _Phases:
    wide = tuple(
        max(n + d * (k - 1) // s, (before + out - 1) // s + 1)
        for n, s, d, k, before, out in zip(
            g.lengths, g.strides, g.dilations, g.sizes, g.before, g.positions, strict=True
        )
    )
    steps = [prod(wide[i + 1 :]) for i in range(len(wide))]
    scale = [prod(g.strides[i + 1 :]) for i in range(len(wide))]
    taps: list[tuple[int, int]] = []
    for at in product(*map(range, g.sizes)):
        moves = [divmod(o * d, s) for o, d, s in zip(at, g.dilations, g.strides, strict=True)]
        phase = sum(m[1] * n for m, n in zip(moves, scale, strict=True))
        taps.append((phase, sum(m[0] * n for m, n in zip(moves, steps, strict=True))))
    parts: list[tuple[int, Cut, Cut]] = []
    for phase, remainders in enumerate(product(*map(range, g.strides))):
        source: list[slice] = []
        target: list[slice] = []
        for r, s, before, out in zip(remainders, g.strides, g.before, g.positions, strict=True):
            first = (r - before) % s
            start = (first + before) // s
            source.append(slice(start, start + max(-(-(out - first) // s), 0)))
            target.append(slice(first, out, s))
        parts.append((phase, tuple(source), tuple(target)))
    return _Phases(wide, prod(g.strides), tuple(taps), tuple(parts))


@kernel(
    "conv2d_transpose",
    "depthwise_conv2d_transpose",
    "conv3d_transpose",
    dtypes=dt.FLOATS,
    widen=True,
)
def conv_transpose(b: Binding) -> Step | None:
    """Chooses by shape: a product for each group, or one factor for each channel."""
    channels, each, *sizes = b.input(1).shape
    if not all(m.numel for m in (b.output(), b.input(0), b.input(1))):
        return None
    g = geometry(b, sizes, b.attrs["dilations"])
    groups = b.attrs["groups"]
    if groups == channels and each == 1 and groups > 1:
        return _depthwise(b, g)
    return _products(b, g, groups)


def _products(b: Binding, g: Geometry, groups: int) -> Step:
    xp = b.xp
    channels, each = b.input(1).shape[:2]
    depth, taps, images = channels // groups, prod(g.sizes), b.input(0).shape[0]
    p = _phases(g)
    some = min(-(-LEAST // p.area), images)
    batch = min(max(BLOCK // (taps * some * p.area), 1), each)
    sums = b.workspace((p.count, batch, some, p.room))
    shares = b.workspace((batch * taps, some * p.area))
    image = b.workspace((depth, some, p.area))
    image.fill(0)
    inside = image.reshape(depth, some, *p.wide)[_EVERY + tuple(map(slice, g.lengths))]
    shown = sums[..., : p.area].reshape(p.count, batch, some, *p.wide)
    flip = (1, 0, *range(2, b.input(0).rank))

    def step(x: Array, filter: Array, out: Array) -> None:
        source = channels_first(x, g.last).transpose(flip)
        goal = channels_first(out, g.last).transpose(flip)
        weights = filter.reshape(channels, each * taps)
        for group, item in product(range(groups), range(0, images, some)):
            m = min(some, images - item)
            part = slice(group * depth, (group + 1) * depth)
            xp.copyto(inside[:, :m], source[part, item : item + m])
            for first in range(0, each, batch):
                count = min(batch, each - first)
                held, remaining = shares[: count * taps], sums[:, :count]
                factors = weights[part, first * taps : (first + count) * taps]
                xp.matmul(factors.T, image.reshape(depth, -1), held)
                blocks = held.reshape(count, taps, some, p.area)
                _clear_padding(blocks.reshape(count, taps, some, *p.wide), g.lengths)
                remaining.fill(0)
                for tap, (phase, shift) in enumerate(p.taps):
                    place = remaining[phase, ..., shift : shift + p.area]
                    xp.add(place, blocks[:, tap], place)
                made = group * each + first
                target = goal[made : made + count, item : item + m]
                for phase, taken, given in p.parts:
                    target[_EVERY + given] = shown[phase][:count, :m][_EVERY + taken]

    return step


def _clear_padding(shares: Array, lengths: tuple[int, ...]) -> None:
    """Zero what lies behind the image in the last dimensions.

    It is a product by zero, which is NaN for an infinite weight, and is added to other positions.
    """
    lead = (slice(None),) * (shares.ndim - len(lengths))
    for axis, (length, size) in enumerate(zip(lengths, shares.shape[len(lead) :], strict=True)):
        if length < size:
            shares[(*lead, *(slice(None),) * axis, slice(length, None))] = 0


def _depthwise(b: Binding, g: Geometry) -> Step:
    xp = b.xp
    images, channels, taps = b.input(0).shape[0], b.input(1).shape[0], prod(g.sizes)
    p = _phases(g)
    some = min(max(BLOCK // (p.count * p.room), 1), channels)
    sums = b.workspace((p.count, some, p.room))
    image, shares = b.workspace((some, p.area)), b.workspace((some, p.area))
    image.fill(0)
    every = _EVERY[:1]
    inside = image.reshape(some, *p.wide)[every + tuple(map(slice, g.lengths))]
    shown = sums[..., : p.area].reshape(p.count, some, *p.wide)

    def step(x: Array, filter: Array, out: Array) -> None:
        source, goal = channels_first(x, g.last), channels_first(out, g.last)
        weights = filter.reshape(channels, taps)
        for item in range(images):
            for first in range(0, channels, some):
                part = slice(first, min(first + some, channels))
                count = part.stop - first
                share = shares[:count]
                xp.copyto(inside[:count], source[item, part])
                sums.fill(0)
                for tap, (phase, shift) in enumerate(p.taps):
                    xp.multiply(image[:count], weights[part, tap, None], share)
                    _clear_padding(share.reshape(count, *p.wide), g.lengths)
                    place = sums[phase, :count, shift : shift + p.area]
                    xp.add(place, share, place)
                for phase, taken, given in p.parts:
                    goal[item, part][every + given] = shown[phase][:count][every + taken]

    return step
