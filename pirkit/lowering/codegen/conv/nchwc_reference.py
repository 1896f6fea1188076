"""Computes a tile of a convolution over blocked channels with numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from pirkit.dialect.ops.nn.nchwc_conv import ACTIVATIONS
from pirkit.lowering.codegen.conv.nchwc_blocking import NchwcFrame, Part
from pirkit.lowering.codegen.ir.routine import Array, Location, matrix
from pirkit.runtime.dtype import DType


def run_tile(
    e: NchwcFrame, width: int, parts: Sequence[Part], memory: Mapping[str, Location],
    numbers: Sequence[int],
) -> None:  # fmt: skip
    """Run a tile on operands at their places. Raises ValueError for what leaves a buffer."""
    c, (blocks, first, rows, *place) = e.c, numbers
    filters = e.cut.filters

    def pixels(name: str) -> Array:
        dtype = e.dtype_of(name)
        size, shape = dtype.itemsize, (filters, width, c.block)
        return matrix(memory[name], dtype, shape, (e.plane * size, c.block * size, size))

    def of_filters(name: str, kind: DType = c.wide) -> Array:
        size = kind.itemsize
        return matrix(memory[name], kind, (filters, 1, c.block), (c.block * size, 0, size))

    out = pixels("y")
    least: Any = -inf if c.pool and c.dtype.is_float else 0
    sums = np.full(out.shape, least, c.summed.np)
    if c.bias and not c.quantized:
        sums += of_filters("s")
    if c.offsets:
        sums += of_filters("o", c.summed)
    # With several ranges of channels (0 is the first, 2 the last) the result holds sums in between.
    if place and place[0] > 0:
        sums[...] = out
    add = _add_channels if c.depthwise else _add_products
    for part in parts:
        given = sums[:, part.first : part.end]
        add(e, memory, part, (blocks, first, rows), given, not place or place[0] == 2)
    if place and place[0] < 2:
        out[...] = sums
        return
    found: Array = sums
    if c.quantized:
        found = sums.astype(np.float32) * of_filters("q")
        found = found + of_filters("s") if c.bias else found
    if c.residual:
        summand: Array = pixels("r")
        if c.narrow_residual:
            summand = (summand.astype(np.int32) - c.zeros[1]).astype(np.float32)
            summand = summand * matrix(memory["p"], c.wide, (1,), (0,))
        found = found + summand
    found = ACTIVATIONS[c.activation](found)
    if c.narrow:
        found = np.rint(found * matrix(memory["v"], c.wide, (1,), (0,))) + c.zeros[0]
        found = np.nan_to_num(np.clip(found, 0, 255), nan=0)
    out[...] = found


def _add_products(
    e: NchwcFrame, memory: Mapping[str, Location], part: Part, counts: tuple[int, int, int],
    sums: Array, last: bool,
) -> None:  # fmt: skip
    """Add products with some columns of the filter, of the last block those of its ``tail``."""
    c, (blocks, first, rows) = e.c, counts
    block, row, column, channel = e.image
    size, taps = e.size, part.taps
    tap_bytes = c.depth * c.block * size
    # Channels of the last block after the ``tail`` are padding.
    ranges = [(0, blocks, c.depth)]
    if c.tail and last:
        ranges = [(0, blocks - 1, c.depth), (blocks - 1, 1, c.tail)]
    for start, count, depth in ranges:
        down, across = first * c.dilations[0], part.tap * c.dilations[1]
        where = start * block + down * row + (across + part.first * c.strides[1]) * column
        x = matrix(
            _further(memory["x"], where), c.dtype,
            (count, rows, taps, depth // c.group, c.group, part.end - part.first),
            (block, c.dilations[0] * row, c.dilations[1] * column, channel, size,
             c.strides[1] * column),
        )  # fmt: skip
        filter_block = c.sizes[0] * e.filter_row
        where = start * filter_block + first * e.filter_row + part.tap * tap_bytes
        w = matrix(
            _further(memory["w"], where), e.dtype_of("w"),
            (e.cut.filters, count, rows, taps, depth // c.group, c.group, c.block),
            (e.filter_bytes, filter_block, e.filter_row, tap_bytes, c.group * c.block * size, size,
             c.group * size),
        )  # fmt: skip
        pairs = (1, 2, 3, 4, 5), (0, 1, 2, 3, 4)
        products: Array = np.tensordot(w.astype(c.summed.np), x.astype(c.summed.np), pairs)
        sums += products.swapaxes(1, 2)


def _add_channels(
    e: NchwcFrame, memory: Mapping[str, Location], part: Part, counts: tuple[int, int, int],
    sums: Array, _last: bool,
) -> None:  # fmt: skip
    """The same where each channel has a filter of its own; or maxima."""
    c, (_, first, rows) = e.c, counts
    _, row, column, _ = e.image
    down, across = first * c.dilations[0], part.tap * c.dilations[1]
    where = down * row + (across + part.first * c.strides[1]) * column
    x = matrix(
        _further(memory["x"], where), c.dtype,
        (rows, part.taps, part.end - part.first, c.block),
        (c.dilations[0] * row, c.dilations[1] * column, c.strides[1] * column, e.size),
    )  # fmt: skip
    if c.pool:
        sums[...] = np.maximum(sums, x.max((0, 1), initial=-inf if c.dtype.is_float else 0))
        return
    pixel = c.block * e.size
    start = first * e.filter_row + part.tap * pixel
    w = matrix(
        _further(memory["w"], start), c.dtype, (rows, part.taps, 1, c.block),
        (e.filter_row, pixel, 0, e.size),
    )  # fmt: skip
    sums += (x * w).sum((0, 1))


def _further(location: Location, nbytes: int) -> Location:
    return location[0], location[1] + nbytes
