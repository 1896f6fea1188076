"""Reading images at positions between their elements: grid_sample, deformable_conv.

Images are copied with their channels last, so that the elements at a position are contiguous.
Positions are read in blocks, which stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.cache_blocks import BLOCK
from pirkit.runtime.registry import kernel

LEAST: Final = 64
"""Smallest number of positions that are read at a time."""

COLUMNS: Final = 1 << 19
"""Largest number of elements in the columns of one matmul."""


def _sides(at: Array, length: int) -> list[tuple[Array, Array]]:
    """Elements on both sides of positions, and their weights; no weight outside of the image."""
    low = np.floor(at)
    part = at - low
    found: list[tuple[Array, Array]] = []
    for side, weight in ((low, 1 - part), (low + 1, part)):
        inside = (side >= 0) & (side <= length - 1)
        places = np.where(inside, side, 0).astype(np.intp)
        found.append((places, np.where(inside, weight, 0)))
    return found


def _read(
    rows: Array, lengths: Sequence[int], places: Sequence[Array], total: Array, room: Array
) -> None:
    """Multilinear interpolation of ``rows [elements, C]``, written to ``total [L, C]``.

    ``room`` is scratch memory, with as many rows as positions are read at a time.
    """
    some = len(room)
    for first in range(0, len(total), some):
        part = slice(first, first + some)
        sides = [_sides(p[part], n) for p, n in zip(places, lengths, strict=True)]
        found = total[part]
        goal, spare = found, room[: len(found)]
        for corner in product(*sides):
            index, weight = corner[0]
            for (further, share), length in zip(corner[1:], lengths[1:], strict=True):
                index, weight = index * length + further, weight * share
            rows.take(index, 0, goal, "clip")
            np.multiply(goal, weight[:, None], goal)
            if goal is spare:
                np.add(found, spare, found)
            goal = spare


def _room(b: Binding, channels: int) -> Array:
    return b.workspace((max(BLOCK // channels, LEAST), channels))


def _placed(length: int, padding_mode: str, align_corners: bool) -> Callable[[Array], Array]:
    """A function from the numbers of a grid, in [-1, 1], to positions in elements."""
    last = length - 1
    edge = 0.0 if align_corners else 0.5
    period = 2.0 * (last if align_corners else length)

    def position(at: Array) -> Array:
        if align_corners:
            return (at + 1) * 0.5 * last
        return (at + 1) * 0.5 * length - 0.5

    def nearest(at: Array) -> Array:
        return np.clip(position(at), 0, last)

    def mirrored(at: Array) -> Array:
        away = np.abs(position(at) + edge)
        away = away - np.floor(away / period) * period if period else np.zeros_like(away)
        return np.clip(np.minimum(away, period - away) - edge, 0, last)

    return {"zeros": position, "border": nearest, "reflection": mirrored}[padding_mode]


@kernel("grid_sample", dtypes=dt.FLOATS, widen=True)
def grid_sample(b: Binding) -> Step | None:
    images, channels, *lengths = b.input(0).shape
    if not b.input(0).numel or not b.output().numel:
        return None
    n, positions = len(lengths), prod(b.output().shape[2:])
    mode, corners = b.attrs["padding_mode"], b.attrs["align_corners"]
    rounds: bool = b.attrs["mode"] == "nearest"
    moves = [_placed(length, mode, corners) for length in lengths]
    image = b.workspace((prod(lengths), channels))
    result, room = b.workspace((positions, channels)), _room(b, channels)

    def step(x: Array, grid: Array, out: Array) -> None:
        for item in range(images):
            image.T[...] = x[item].reshape(channels, -1)
            points = grid[item].reshape(-1, n)
            places = [move(points[:, n - 1 - i]) for i, move in enumerate(moves)]
            if rounds:
                places = [np.rint(p) for p in places]
            _read(image, lengths, places, result, room)
            out[item] = result.T.reshape(out.shape[1:])

    return step


@kernel("deformable_conv", dtypes=dt.FLOATS, widen=True)
def deformable_conv(b: Binding) -> Step | None:
    """Windows are read into columns for a block of result positions; a matmul follows."""
    images, channels, *lengths = b.input(0).shape
    if not b.input(0).numel or not b.output().numel:
        return None
    filters, depth, *sizes = b.input(2).shape
    a = b.attrs
    groups: int = a["groups"]
    parts: int = a["deformable_groups"]
    taps, each, out_sizes = prod(sizes), channels // parts, b.output().shape[2:]
    positions, made = prod(out_sizes), filters // groups
    some = min(max(COLUMNS // (channels * taps), LEAST), positions)
    regular = _regular(b, sizes, out_sizes)
    image = b.workspace((parts, prod(lengths), each))
    columns = b.workspace((some, taps, channels))
    total, room = b.workspace((some * taps, each)), _room(b, each)
    weights = b.workspace((groups, taps, depth, made))
    sums, result = b.workspace((some, made)), b.workspace((filters, positions))

    def read(bent: Array, shares: Array | None, m: int) -> None:
        """``bent [parts, taps, 2, m]`` are positions, ``shares [parts, taps, m]`` their weights."""
        found = total[: m * taps]
        for part in range(parts):
            places = [bent[part, :, i].T.reshape(-1) for i in (0, 1)]
            _read(image[part], lengths, places, found, room)
            if shares is not None:
                np.multiply(found, shares[part].T.reshape(-1, 1), found)
            columns[:m, :, part * each : (part + 1) * each] = found.reshape(m, taps, each)

    def step(x: Array, offset: Array, filter: Array, mask: Array | None, out: Array) -> None:
        weights[...] = filter.reshape(groups, made, depth, taps).transpose(0, 3, 2, 1)
        for item in range(images):
            image.swapaxes(1, 2)[...] = x[item].reshape(parts, each, -1)
            shifts = offset[item].reshape(parts, taps, 2, positions)
            shares = None if mask is None else mask[item].reshape(parts, taps, positions)
            for first in range(0, positions, some):
                cut = slice(first, min(first + some, positions))
                m = cut.stop - first
                read(
                    shifts[..., cut] + regular[:, :, cut],
                    None if shares is None else shares[..., cut],
                    m,
                )
                for group in range(groups):
                    window = columns[:m, :, group * depth : (group + 1) * depth].reshape(m, -1)
                    np.matmul(window, weights[group].reshape(-1, made), sums[:m])
                    result[group * made : (group + 1) * made, cut] = sums[:m].T
            out[item] = result.reshape(out.shape[1:])

    return step


def _regular(b: Binding, sizes: Sequence[int], out_sizes: Sequence[int]) -> Array:
    """Positions without offsets: ``[taps, 2, positions]``."""
    a = b.attrs
    found: list[Any] = []
    before = a["paddings"] if len(a["paddings"]) == 2 else a["paddings"][::2]
    for i, (stride, pad, dilation) in enumerate(
        zip(a["strides"], before, a["dilations"], strict=True)
    ):
        inside = np.indices(sizes)[i].reshape(-1, 1) * dilation - pad
        start = np.indices(out_sizes)[i].reshape(1, -1) * stride
        found.append(inside + start)
    return np.stack(found, axis=1).astype(b.dtype.np)
