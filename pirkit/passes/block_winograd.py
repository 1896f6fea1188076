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
from pirkit.dialect.winograd import TAPS, TILES, transforms_of
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


def tile_of(op: PirOp) -> int:
    """The rows and columns of the tiles in which a convolution costs least; 0 for a direct one."""
    x, filter = op.operands
    made = meta_of(op.results[0].type)
    filters, channels, *taps = image_meta(filter).shape
    if (
        taps != [TAPS, TAPS]
        or prod(op.attribute("strides")) * prod(op.attribute("dilations")) > 1
        or op.attribute("groups") > 1
        or not isinstance(made, TensorMeta)
        or image_meta(x).dtype is not dt.float32
    ):
        return 0
    pairs = filters * channels

    def cost(tile: int) -> float:
        points = (tile + TAPS - 1) ** 2
        tiles = made.shape[0] * prod([-(-n // tile) for n in made.shape[2:]])
        transforms = 1 + _PER_FILTER / filters + _PER_CHANNEL / channels
        reads = _PER_BYTE * points * pairs * dt.float32.itemsize
        return max(points * tiles * pairs * transforms, reads)

    best = min(TILES, key=cost)
    direct = TAPS**2 * made.shape[0] * prod(made.shape[2:]) * pairs
    return best if cost(best) < _GAIN * direct else 0


def packed_filter(at: Layouts, b: Builder, filter: SSAValue, tile: int) -> Value:
    """The filter at the points of a tile, ``[points, K/b, C/b, b, b]`` with filters last."""
    given, size = at.filled(b, b.wrap(filter), 0, 1), at.block
    filters, channels = given.shape[:2]
    split = b.reshape(given, (filters // size, size, channels // size, size, TAPS**2))
    taps = b.reshape(b.transpose(split, perm=(4, 0, 2, 3, 1)), (TAPS**2, -1))
    one = np.array(transforms_of(tile).filter)
    both = np.kron(one, one)
    factors = b.assign_value(
        shape=both.shape, dtype=given.dtype, values=tuple(both.reshape(-1).tolist())
    )
    shape: Sequence[int] = (len(both), filters // size, channels // size, size, size)
    return b.reshape(b.matmul(factors, taps), shape)
