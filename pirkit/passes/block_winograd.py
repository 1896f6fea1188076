"""Which blocked convolutions are computed in Winograd's domain, and their filters there."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np
from xdsl.ir import SSAValue

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp
from pirkit.dialect.windows import padding_pairs
from pirkit.dialect.winograd import points_of, tiles_of, transforms_of
from pirkit.passes.block_values import Epilogue, Layouts, image_meta
from pirkit.runtime import dtype as dt

_PER_FILTER: Final = 7
_PER_CHANNEL: Final = 6
"""Multiplications of a point in whose time a channel of it is transformed, to be divided by the
filters; and those for a sum, by the channels (64 channels to 64 at 56 x 56 on a Zen 4: 4x4 0.64 ms,
2x2 1.14, direct 2.01; 16 to 64: 0.18, 0.30, 0.49)."""
_PER_BYTE: Final = 4
"""Multiplications in the time of reading a byte of the transformed filter from memory, of which
there are up to four times as many (512 to 512 at 7 x 7: 4x4 1.94 ms, 2x2 1.46, direct 1.94)."""
_PER_MOVE: Final = 30
"""Multiplications in the time of copying an element, where dilations divide an image."""
_GAIN: Final = 0.9
"""The cost beside that of a direct convolution below which tiles pay."""


def convolution(at: Layouts, b: Builder, op: PirOp, end: Epilogue) -> Value | None:
    """The blocked form of a convolution in Winograd's domain; None if a direct one costs less.

    With dilations it is that of several smaller images, one for each remainder of a position by
    them, whose pixels are neighbours.
    """
    x, filter = op.operands
    filters, channels, *taps = image_meta(filter).shape
    steps, out = list(op.attribute("dilations")), image_meta(op.results[0])
    is_dilated = prod(steps) > 1
    if prod(op.attribute("strides")) * op.attribute("groups") > 1 or (is_dilated and end.residual):
        return None
    tile = _cheapest(op, [-(-n // step) for n, step in zip(out.shape[2:], steps, strict=True)])
    if not tile:
        return None
    image, paddings = at.in_blocks(b, x), op.attribute("paddings")
    if is_dilated:
        image, paddings = _phases(b, image, padding_pairs(paddings, 2, "C3"), steps), (0, 0)
    made = b(
        "pir.nchwc_winograd_conv2d", image, packed_filter(at, b, filter, tile),
        at.bias(b, end, filters), None if end.residual is None else at.blocked[end.residual],
        kernel_size=taps, tile=tile, paddings=paddings, activation=end.activation,
        channels=channels if channels % at.block else 0,
    )  # fmt: skip
    at.ctx.count("winograd")
    return _from_phases(b, made, out.shape, steps) if is_dilated else made


def _cheapest(op: PirOp, positions: Sequence[int]) -> tuple[int, ...]:
    """The tiles in which a convolution costs least; empty for a direct one.

    ``positions`` are those of each of the images into which dilations divide the result.
    """
    x, filter = map(image_meta, op.operands)
    filters, channels, *taps = filter.shape
    out, steps = image_meta(op.results[0]), op.attribute("dilations")
    tiles, pairs = tiles_of(taps), filters * channels
    if not tiles or x.dtype is not dt.float32:
        return ()
    images, moved = out.shape[0] * prod(steps), 0
    if prod(steps) > 1:
        moved = _PER_MOVE * (channels + filters) * prod(out.shape[2:]) * out.shape[0]

    def cost(tile: tuple[int, ...]) -> float:
        points = points_of(tile, taps)
        count = prod([-(-n // m) for n, m in zip(positions, tile, strict=True)])
        transforms = 1 + _PER_FILTER / filters + _PER_CHANNEL / channels
        reads = _PER_BYTE * points * pairs * dt.float32.itemsize
        return moved + max(points * images * count * pairs * transforms, reads)

    # A direct convolution skips what taps read of the padding.
    before = [first for first, _ in padding_pairs(op.attribute("paddings"), 2, "C3")]
    met = [
        sum(0 <= p - start + tap * step < length for p in range(places) for tap in range(count))
        for places, start, step, length, count in zip(
            out.shape[2:], before, steps, x.shape[2:], taps, strict=True
        )
    ]
    best = min(tiles, key=cost)
    return best if cost(best) < _GAIN * out.shape[0] * prod(met) * pairs else ()


def _phases(
    b: Builder, image: Value, paddings: Sequence[tuple[int, int]], steps: Sequence[int]
) -> Value:
    """The padded image as one for each remainder of a row and a column by ``steps``."""
    n, blocks, *sides, size = image.shape
    whole = [m + before + after for m, (before, after) in zip(sides, paddings, strict=True)]
    ends = [after + -m % step
            for m, (_, after), step in zip(whole, paddings, steps, strict=True)]  # fmt: skip
    edges = [(0, 0), (0, 0), *((p[0], end) for p, end in zip(paddings, ends, strict=True)), (0, 0)]
    flat = tuple([edge for pair in edges for edge in pair])
    padded = b("pd_op.pad", image, pad_value=0.0, paddings=flat) if any(flat) else image
    (rows, columns), (down, across) = padded.shape[2:4], steps
    split = b.reshape(padded, (n, blocks, rows // down, down, columns // across, across, size))
    apart = b.transpose(split, perm=(0, 3, 5, 1, 2, 4, 6))
    return b.reshape(apart, (n * down * across, blocks, rows // down, columns // across, size))


def _from_phases(b: Builder, made: Value, shape: Sequence[int], steps: Sequence[int]) -> Value:
    """The image of which `_phases` has made several, without what is beyond its sides."""
    (_, blocks, rows, columns, size), (down, across) = made.shape, steps
    split = b.reshape(made, (shape[0], down, across, blocks, rows, columns, size))
    joined = b.transpose(split, perm=(0, 3, 4, 1, 5, 2, 6))
    whole = b.reshape(joined, (shape[0], blocks, rows * down, columns * across, size))
    if whole.shape[2:4] == tuple(shape[2:]):
        return whole
    return b("pd_op.slice", whole, starts=(0, 0), ends=tuple(shape[2:]), axes=(2, 3))


def packed_filter(at: Layouts, b: Builder, filter: SSAValue, tile: Sequence[int]) -> Value:
    """The filter at the points of a tile, ``[points, K/b, C/b, b, b]`` with filters last."""
    given, size = at.filled(b, b.wrap(filter), 0, 1), at.block
    filters, channels, *taps = given.shape
    count = prod(taps)
    split = b.reshape(given, (filters // size, size, channels // size, size, count))
    columns = b.reshape(b.transpose(split, perm=(4, 0, 2, 3, 1)), (count, -1))
    down, across = (np.array(transforms_of(m, r).filter) for m, r in zip(tile, taps, strict=True))
    both = np.kron(down, across)
    factors = b.assign_value(
        shape=both.shape, dtype=given.dtype, values=tuple(both.reshape(-1).tolist())
    )
    shape = (len(both), filters // size, channels // size, size, size)
    return b.reshape(b.matmul(factors, columns), shape)
