"""Convolutions with filters of one channel: a sum over the elements of the filter.

The padded image is kept by *phase* (remainder of the position by the strides), so that the elements
which meet one element of the filter lie in one run, padding included, whatever the strides are.
What was computed for the padding is left out when the sums are copied to the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.windows import Geometry, channels_first

BLOCK: Final = 1 << 17
"""Elements of the image in one block, which stay in the cache with the sums."""

Cut = tuple[slice, ...]


@dataclass(frozen=True)
class _Phases:
    """The image as ``[channels, phases, *wide]``."""

    wide: tuple[int, ...]
    count: int
    taps: tuple[tuple[int, int], ...]
    """For each element of the filter: phase and first element of the run."""
    parts: tuple[tuple[int, Cut, Cut], ...]
    """What of the input goes where: phase, part of it, part of the input."""


def _phases(g: Geometry) -> _Phases:
    wide = tuple(
        p + d * (k - 1) // s
        for p, s, d, k in zip(g.positions, g.strides, g.dilations, g.sizes, strict=True)
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
        target: list[slice] = []
        source: list[slice] = []
        for r, s, before, length, room in zip(
            remainders, g.strides, g.before, g.lengths, wide, strict=True
        ):
            first = (r - before) % s
            start = (first + before) // s
            count = max(min(-(-(length - first) // s), room - start), 0)
            target.append(slice(start, start + count))
            source.append(slice(first, first + count * s, s) if count else slice(0))
        parts.append((phase, tuple(target), tuple(source)))
    return _Phases(wide, prod(g.strides), tuple(taps), tuple(parts))


def depthwise(b: Binding, g: Geometry, each: int) -> Step:
    """``each`` filters for every channel; some channels of one image at a time."""
    xp = b.xp
    n, channels = b.input(0).shape[0], b.input(1).shape[0] // each
    p = _phases(g)
    area = prod(p.wide)
    room = area + max(first for _, first in p.taps)  # so that each run is as long as the sums
    some = max(min(BLOCK // (room * p.count), channels), 1)
    image = b.workspace((some, p.count, room))
    image.fill(0)
    sums, terms = b.workspace((some, area)), b.workspace((some, area))
    inside = image[..., :area].reshape(some, p.count, *p.wide)
    shown = sums.reshape(some, *p.wide)[(slice(None), *map(slice, g.positions))]
    runs = [image[:, phase, first : first + area] for phase, first in p.taps]
    multiply, add, every = xp.multiply, xp.add, (slice(None),)

    def step(x: Array, filter: Array, out: Array) -> None:
        plain, goal = channels_first(x, g.last), channels_first(out, g.last)
        weights = filter.reshape(channels, each, len(runs), 1)
        for item, first in product(range(n), range(0, channels, some)):
            m = min(some, channels - first)
            given = plain[item, first : first + m]
            for phase, target, source in p.parts:
                inside[:m, phase][every + target] = given[every + source]
            total, term = sums[:m], terms[:m]
            for which in range(each):
                factors = weights[first : first + m, which]
                multiply(runs[0][:m], factors[:, 0], total)
                for tap in range(1, len(runs)):
                    multiply(runs[tap][:m], factors[:, tap], term)
                    add(total, term, total)
                goal[item, first * each + which : (first + m) * each : each] = shown[:m]

    return step
