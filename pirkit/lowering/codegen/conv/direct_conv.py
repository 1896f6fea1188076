"""Direct convolution as a loop nest, for groups too narrow for a blocked kernel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import prod

from pirkit.lowering.codegen.conv.transposed_conv_phases import ConvSizes
from pirkit.lowering.codegen.ir.loopnest import Kernel, LoopPhase, Operand, Reduce, Store
from pirkit.lowering.codegen.ir.nest_builder import DataAssertion, StatementBuilder
from pirkit.runtime import dtype as dt


def convolution(c: ConvSizes, is_transposed: bool = False) -> Kernel:
    """The nest of a convolution; operands are images, filters, result.

    With ``is_transposed`` the filter has the shape ``[groups, depth, group_filters, *sizes]`` and
    is read backwards, which makes it a transposed convolution.
    """
    size = c.dtype.itemsize
    rows, taps, places = _dense(c.lengths), _dense(c.sizes), _dense(c.positions)
    area, many, room = prod(c.lengths), prod(c.sizes), prod(c.positions)
    zero = (0,) * len(c.sizes)
    channels, filters = c.groups * c.depth, c.groups * c.group_filters

    def operand(outer: Sequence[int], inner: Sequence[int], count: int, first: int = 0) -> Operand:
        """An operand from strides and sizes in elements."""
        outer_strides, inner_strides = (
            tuple([s * size for s in strides]) for strides in (outer, inner)
        )
        return Operand(c.dtype, outer_strides, inner_strides, count * size, first * size)

    moved = [d * s for d, s in zip(c.dilations, rows, strict=True)]
    start = -sum(p * s for p, s in zip(c.before, rows, strict=True))
    image = (channels * area, c.depth * area, 0,
             *[n * s for n, s in zip(rows, c.strides, strict=True)])  # fmt: skip
    group = c.group_filters * c.depth * many
    to_filter, to_channel = (
        (many, c.group_filters * many) if is_transposed else (c.depth * many, many)
    )
    # Strides by outer axis: image, group, filter, output position.
    weights = (0, group, to_filter, *zero)
    # A transposed convolution reads the filter backwards: from its last tap, with negative strides.
    last = many - 1 if is_transposed else 0
    taps = tuple([-t for t in taps]) if is_transposed else taps
    result = (filters * room, c.group_filters * room, room, *places)
    operands = (
        operand(image, (area, *moved), c.n * channels * area, start),
        operand(weights, (to_channel, *taps), c.groups * group, last),
        operand(result, (0, *zero), c.n * filters * room),
    )
    builder = StatementBuilder(count(1), _no_assertions)
    x = builder.load(0, predicate=_is_inside(c, builder))
    term = builder.compute("multiply", [x, builder.load(1)], c.dtype)
    total = builder.fresh()
    body = (*builder.statements, Reduce(total, "sum", term))
    outer = (c.n, c.groups, c.group_filters, *c.positions)
    return Kernel(outer, (c.depth, *c.sizes), operands, (LoopPhase(body, (Store(2, total),)),))


def _is_inside(c: ConvSizes, builder: StatementBuilder) -> str | None:
    """The predicate that a padded position is inside the image; None if all are."""
    holds: str | None = None
    for axis, (length, extent, positions, stride, d, before) in enumerate(
        zip(c.lengths, c.sizes, c.positions, c.strides, c.dilations, c.before, strict=True)
    ):
        last = (positions - 1) * stride + d * (extent - 1)
        kind = dt.int32 if max(last, before + length) < 1 << 31 else dt.int64
        place = builder.index(3 + axis, kind)
        if stride != 1:
            factor = builder.constant(stride, kind)
            place = builder.compute("multiply", [place, factor], kind)
        step = builder.index(4 + len(c.lengths) + axis, kind)
        if d != 1:
            step = builder.compute("multiply", [step, builder.constant(d, kind)], kind)
        place = builder.compute("add", [place, step], kind)
        if before:
            bound = builder.constant(before, kind)
            holds = builder.both(holds, builder.compute("greater_equal", [place, bound], dt.bool_))
        # Compare only with bounds that some position crosses.
        if last - before >= length:
            bound = builder.constant(before + length, kind)
            holds = builder.both(holds, builder.compute("less_than", [place, bound], dt.bool_))
    return holds


def _no_assertions(what: DataAssertion) -> int:
    raise AssertionError(f"a convolution asserts {what}")


def _dense(extents: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(extents[k + 1 :]) for k in range(len(extents)))
