"""Convolutions as loop nests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

from pirkit.lowering.codegen.loopnest import Fold, Kernel, Operand, Stage, Store
from pirkit.lowering.codegen.writing import Demanded, Lines
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType


@dataclass(frozen=True, slots=True)
class Convolution:
    """Sizes of a convolution of ``n`` images with ``each`` filters for each of ``groups``.

    Filters and groups have ``depth`` channels. What follows is by spatial axis; ``before`` is the
    padding in front. With ``turned`` filters lie as ``[groups, depth, each, *sizes]`` and are read
    from their last element to the first: then it is a transposed convolution.
    """

    n: int
    groups: int
    each: int
    depth: int
    lengths: tuple[int, ...]
    sizes: tuple[int, ...]
    positions: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    dtype: DType
    turned: bool = False


def convolution(c: Convolution) -> Kernel:
    """The nest of a convolution with strides of 1: operands are images, filters, result."""
    size = c.dtype.itemsize
    rows, taps, places = _dense(c.lengths), _dense(c.sizes), _dense(c.positions)
    area, many, room = prod(c.lengths), prod(c.sizes), prod(c.positions)
    zero = (0,) * len(c.sizes)
    channels, filters = c.groups * c.depth, c.groups * c.each

    def operand(outer: Sequence[int], inner: Sequence[int], count: int, first: int = 0) -> Operand:
        far, near = (tuple([s * size for s in strides]) for strides in (outer, inner))
        return Operand(c.dtype, far, near, count * size, first * size)

    moved = [d * s for d, s in zip(c.dilations, rows, strict=True)]
    start = -sum(p * s for p, s in zip(c.before, rows, strict=True))
    image = (channels * area, c.depth * area, 0, *rows)
    group = c.each * c.depth * many
    to_filter, to_channel = (many, c.each * many) if c.turned else (c.depth * many, many)
    weights = (0, group, to_filter, *zero)
    last = many - 1 if c.turned else 0
    taps = tuple([-t for t in taps]) if c.turned else taps
    result = (filters * room, c.each * room, room, *places)
    operands = (
        operand(image, (area, *moved), c.n * channels * area, start),
        operand(weights, (to_channel, *taps), c.groups * group, last),
        operand(result, (0, *zero), c.n * filters * room),
    )
    lines = Lines(count(1), _no_flag)
    x = lines.load(0, where=_inside(c, lines))
    term = lines.compute("multiply", [x, lines.load(1)], c.dtype)
    total = lines.fresh()
    body = (*lines.statements, Fold(total, "sum", term))
    outer = (c.n, c.groups, c.each, *c.positions)
    return Kernel(outer, (c.depth, *c.sizes), operands, (Stage(body, (Store(2, total),)),))


def _inside(c: Convolution, lines: Lines) -> str | None:
    """Whether a place of the padded image is one of the image; None where all are."""
    holds: str | None = None
    for axis, (length, extent, positions, d, before) in enumerate(
        zip(c.lengths, c.sizes, c.positions, c.dilations, c.before, strict=True)
    ):
        place = lines.index(3 + axis, dt.int32)
        step = lines.index(4 + len(c.lengths) + axis, dt.int32)
        if d != 1:
            step = lines.compute("multiply", [step, lines.constant(d, dt.int32)], dt.int32)
        place = lines.compute("add", [place, step], dt.int32)
        if before:
            bound = lines.constant(before, dt.int32)
            holds = lines.both(holds, lines.compute("greater_equal", [place, bound], dt.bool_))
        if positions - 1 + d * (extent - 1) - before >= length:
            bound = lines.constant(before + length, dt.int32)
            holds = lines.both(holds, lines.compute("less_than", [place, bound], dt.bool_))
    return holds


def _no_flag(what: Demanded) -> int:
    raise AssertionError(f"a convolution demands {what}")


def _dense(extents: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(extents[k + 1 :]) for k in range(len(extents)))
