"""Which blocked convolutions are computed in Winograd's domain, and their filters there."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np
from xdsl.ir import SSAValue

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.dialect.winograd import points_of, tiles_of, transforms_of
from pirkit.passes.block_values import Layouts, image_meta
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta

_PER_FILTER: Final = 7
_PER_CHANNEL: Final = 6
"""Multiplications of a point in whose time a channel of it is transformed, to be divided by the
filters; and those for a sum, by the channels (64 channels to 64 at 56 x 56 on a Zen 4: 4x4 0.64 ms,
2x2 1.14, direct 2.01; 16 to 64: 0.18, 0.30, 0.49)."""
_PER_BYTE: Final = 4
"""Multiplications in the time of reading a byte of the transformed filter from memory, of which
there are up to four times as many (512 to 512 at 7 x 7: 4x4 1.94 ms, 2x2 1.46, direct 1.94)."""
_GAIN: Final = 0.9
"""The cost beside that of a direct convolution below which tiles pay."""


def tile_of(op: PirOp) -> tuple[int, ...]:
    """The tiles in which a convolution costs least; empty for a direct one."""
    x, filter = op.operands
    made = meta_of(op.results[0].type)
    filters, channels, *taps = image_meta(filter).shape
    tiles = tiles_of(taps)
    if (
        not tiles
        or prod(op.attribute("strides")) * prod(op.attribute("dilations")) > 1
        or op.attribute("groups") > 1
        or not isinstance(made, TensorMeta)
        or image_meta(x).dtype is not dt.float32
    ):
        return ()
    pairs = filters * channels

    def cost(tile: tuple[int, ...]) -> float:
        points = points_of(tile, taps)
        count = prod([-(-n // m) for n, m in zip(made.shape[2:], tile, strict=True)])
        transforms = 1 + _PER_FILTER / filters + _PER_CHANNEL / channels
        reads = _PER_BYTE * points * pairs * dt.float32.itemsize
        return max(points * made.shape[0] * count * pairs * transforms, reads)

    best = min(tiles, key=cost)
    direct = prod(taps) * made.shape[0] * prod(made.shape[2:]) * pairs
    return best if cost(best) < _GAIN * direct else ()


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
