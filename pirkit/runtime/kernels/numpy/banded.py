"""Depthwise convolutions of narrow images: each row of a filter as a matrix with few diagonals.

An image row times that matrix is the row convolved. BLAS multiplies many zeros so, and still is
faster than adding up one element of the filter after the other where the rows are short.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from math import isfinite
from typing import Any, Final

from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.depthwise import depthwise
from pirkit.runtime.kernels.numpy.windows import Geometry, channels_first

BLOCK: Final = 1 << 18
"""Elements of the products of one block: what the cache holds."""

WIDEST: Final = 8
"""How much longer than a row of the filter a row of the image may be."""


def suits(g: Geometry) -> bool:
    """True for images whose rows are short."""
    return len(g.sizes) == 2 and g.padded[1] <= WIDEST * g.sizes[1]


@dataclass(frozen=True)
class _Phase:
    """Rows of the image that are a stride apart, and the rows of the filter that meet them."""

    number: int
    elements: tuple[tuple[int, int], ...]
    """Row of the filter, and how many rows further it looks."""
    place: slice
    """Where the rows of the image lie among those with padding."""
    source: slice


def _phases(g: Geometry, rows: int) -> list[_Phase]:
    found: list[_Phase] = []
    stride, before, length = g.strides[0], g.before[0], g.lengths[0]
    moves = [divmod(k * g.dilations[0], stride) for k in range(g.sizes[0])]
    for number in sorted({phase for _, phase in moves}):
        elements = tuple((k, move) for k, (move, phase) in enumerate(moves) if phase == number)
        first = max(-(-(before - number) // stride), 0)
        start = first * stride + number - before
        count = max(min(-(-(length - start) // stride), rows - first), 0)
        source = slice(start, start + count * stride, stride) if count else slice(0)
        found.append(_Phase(number, elements, slice(first, first + count), source))
    return found


def banded(b: Binding, g: Geometry, each: int) -> Step:
    """``each`` filters for every channel; some channels and images at a time."""
    xp = b.xp
    n, channels = b.input(0).shape[0], b.input(1).shape[0] // each
    (height, width), wide = g.positions, g.padded[1]
    rows = height + (g.sizes[0] - 1) * g.dilations[0] // g.strides[0]
    size = rows * max(g.sizes[0] * width, wide)
    images = max(min(BLOCK // size, n), 1)
    some = max(min(BLOCK // (images * size), channels), 1)
    phases = _phases(g, rows)
    image = b.workspace((len(phases), some, images, rows, wide))
    image.fill(0)
    sums = b.workspace((some, images, height, width))
    shown = max(min(g.lengths[1], wide - g.before[1]), 0)
    across = slice(g.before[1], g.before[1] + shown)
    bands: list[tuple[Array, Array]] = []
    for phase in phases:
        band = b.workspace((some, wide, len(phase.elements), width))
        band.fill(0)
        bands.append((band, _diagonals(xp, band, g)))
    most = max(len(phase.elements) for phase in phases)
    room = b.workspace((some * images * rows * most * width,))

    @cache
    def by_elements() -> Step:
        return depthwise(b, g, each)

    def convolve(m: int, count: int) -> Array:
        """Products of each phase with its rows of the filter, added up where they belong."""
        total, is_first = sums[:m, :count], True
        for phase, part, (band, _) in zip(phases, image, bands, strict=True):
            lines = part[:m, :count].reshape(m, count * rows, wide)
            factors = band[:m].reshape(m, wide, -1)
            held = room[: m * count * rows * factors.shape[2]]
            xp.matmul(lines, factors, held.reshape(m, count * rows, -1))
            shares = held.reshape(m, count, rows, -1, width)
            for i, (_, move) in enumerate(phase.elements):
                share = shares[:, :, move : move + height, i]
                if is_first:
                    xp.copyto(total, share)
                else:
                    xp.add(total, share, total)
                is_first = False
        return total

    def step(x: Array, filter: Array, out: Array) -> None:
        plain, goal = channels_first(x, g.last), channels_first(out, g.last)
        weights = filter.reshape(channels, each, *g.sizes)
        checked = 0.0
        for first, item in product(range(0, channels, some), range(0, n, images)):
            m, count = min(some, channels - first), min(images, n - item)
            given = plain[item : item + count, first : first + m].swapaxes(0, 1)
            for part, phase in zip(image, phases, strict=True):
                part[:m, :count, phase.place, across] = given[:, :, phase.source, :shown]
            for which in range(each):
                for phase, (_, diagonals) in zip(phases, bands, strict=True):
                    for i, (k, _) in enumerate(phase.elements):
                        diagonals[:m, i] = weights[first : first + m, which, k, :, None]
                total = convolve(m, count)
                checked += float(total.sum())
                made = slice(first * each + which, (first + m) * each, each)
                goal[item : item + count, made] = total.swapaxes(0, 1)
        if not isfinite(checked):  # a zero of a matrix has met what is infinite or no number
            by_elements()(x, filter, out)

    return step


def _diagonals(xp: Any, band: Array, g: Geometry) -> Array:
    """The elements of a band that are not zero, as ``[channels, rows, columns, width]``."""
    channel, down, row, right = band.strides
    shape = (band.shape[0], band.shape[2], g.sizes[1], band.shape[3])
    strides = (channel, row, g.dilations[1] * down, g.strides[1] * down + right)
    return xp.lib.stride_tricks.as_strided(band, shape, strides)
