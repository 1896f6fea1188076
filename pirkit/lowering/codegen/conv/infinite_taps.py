"""Elements of a transposed filter that are infinite or NaN, which reach no position of padding.

A panel has zeros where taps lie outside of the image. Their products are zeros too, unless the tap
is infinite or NaN: a transposed convolution has no such product. So finite numbers stand for these
taps in the filter that is multiplied, and a flag says which tiles have any (`limit_taps.py`).
Afterwards the products of these taps alone are added, where the image is. In the usual case this
costs a look at each flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.conv.conv_blocking import ConvProblem
from pirkit.lowering.codegen.conv.filter_packing import filter_steps
from pirkit.lowering.codegen.conv.limit_taps import FLAG, is_infinite
from pirkit.lowering.codegen.conv.panel_lines import image_bytes
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.loop_ir import Buffer, Invoke, Iteration, Loop, Nest
from pirkit.lowering.codegen.ir.plain_loops import task_nest
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values, matrix
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.blocking import block_extent
from pirkit.runtime import dtype as dt


def infinite_taps_nest(c: ConvProblem, rows: int, flags: Buffer) -> Nest:
    """The loops over tiles of ``rows`` filters; operands are filter, images, flags and result."""
    size, tiles = c.dtype.itemsize, -(-c.group_filters // rows)
    plane, room = prod(c.lengths) * size, prod(c.room) * size
    images, results = image_bytes(c)
    group = c.group_filters * c.depth * prod(c.sizes) * size
    buffers = (
        Buffer(c.dtype, (group, rows * filter_steps(c)[0]), c.groups * group),
        Buffer(c.dtype, (c.depth * plane, 0), c.n * images),
        flags,
        Buffer(c.dtype, (c.group_filters * room, rows * room), c.n * results),
    )
    body = (Invoke(AddInfiniteTaps(c, rows), (0, 1, 2, 3), (Iteration("t"),)),)
    tasks = Loop("g", (0,), 0, c.groups, 1, ()), Loop("t", (1,), 0, tiles, 1, ())
    return task_nest((c.groups, tiles), (), buffers, tasks, body)


class AddInfiniteTaps(Struct, frozen=True):
    """Adds the products of taps of a tile that are not finite, where the image is.

    Buffers are filter, images, flag and result; the number is that of the tile.
    """

    c: ConvProblem
    rows: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[3]} += {buffers[1]} * infinite taps of {buffers[0]} if {buffers[2]}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        c, rows, size = self.c, self.rows, self.c.dtype.itemsize
        count = min(rows, c.group_filters - numbers[0] * rows)
        taps, lengths, rooms = (_strides(extents, size) for extents in (c.sizes, c.lengths, c.room))
        filters = matrix(memory[0], c.dtype, (count, c.depth, *c.sizes), (*filter_steps(c), *taps))
        steps = image_bytes(c)[0], prod(c.lengths) * size, *lengths
        images = matrix(memory[1], c.dtype, (c.n, c.depth, *c.lengths), steps)
        flag = matrix(memory[2], dt.int64, (1,), (FLAG,))
        steps = image_bytes(c)[1], prod(c.room) * size, *rooms
        result = matrix(memory[3], c.dtype, (c.n, count, *c.room), steps)
        if not flag[0]:
            return
        for f, d, *at in product(range(count), range(c.depth), *(range(t.count) for t in c.taps)):
            weight = filters[
                (f, d, *(t.first + k * t.step for k, t in zip(at, c.taps, strict=True)))
            ]
            if not np.isfinite(weight):
                source, goal = zip(*self._met(at), strict=True)
                with np.errstate(invalid="ignore"):
                    result[:, f][(slice(None), *goal)] += (
                        images[:, d][(slice(None), *source)] * weight
                    )

    def _met(self, at: Sequence[int]) -> Iterator[tuple[slice, slice]]:
        """The ranges of image and result that a tap connects, along each axis."""
        c = self.c
        for axis, (k, t) in enumerate(zip(at, c.taps, strict=True)):
            offset, step = t.offset + k * t.shift, c.result_stride[axis]
            # Position q reads element q + offset of the image, which is none at either border.
            first = max(-offset, 0)
            end = max(min(c.positions[axis], c.lengths[axis] - offset), first)
            start = c.result_start[axis]
            # A negative end would count from the end of the axis.
            goal = slice(start + first * step, max(start + (end - 1) * step + 1, 0), step)
            yield slice(first + offset, end + offset), goal if end > first else slice(0, 0)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        flag = b.load(I64, addresses[2], FLAG)
        b.branch(b.compare("ne", flag, 0), lambda: self._filters(b, addresses, numbers[0]))

    def _filters(self, b: Builder, addresses: Values, tile: Value) -> Sequence[Value]:
        """The loops over filters, channels and taps."""
        c, size = self.c, self.c.dtype.itemsize
        filters, images, _, result = addresses
        steps, strides = filter_steps(c), _strides(c.sizes, size)
        count = block_extent(b, self.rows, c.group_filters, b.times(tile, self.rows))

        def filter_(f: Value, _: list[Value]) -> Sequence[Value]:
            goal = b.at(result, b.times(f, prod(c.room) * size))

            def channel(d: Value, _: list[Value]) -> Sequence[Value]:
                base = b.at(b.at(filters, b.times(f, steps[0])), b.times(d, steps[1]))
                taps(base, b.at(images, b.times(d, prod(c.lengths) * size)), goal, [])
                return []

            b.loop(0, c.depth, 1, [], channel)
            return []

        def taps(base: Value, source: Value, goal: Value, offsets: list[Value]) -> None:
            axis = len(offsets)
            if axis == len(c.taps):
                self._tap(b, base, source, goal, offsets)
                return
            t = c.taps[axis]

            def tap(k: Value, _: list[Value]) -> Sequence[Value]:
                place = b.plus(b.times(k, t.step), t.first)
                offset = b.plus(b.times(k, t.shift), t.offset)
                taps(b.at(base, b.times(place, strides[axis])), source, goal, [*offsets, offset])
                return []

            b.loop(0, t.count, 1, [], tap)

        b.loop(0, count, 1, [], filter_)
        return []

    def _tap(self, b: Builder, tap: Value, source: Value, goal: Value, at: list[Value]) -> None:
        """Add the products of a tap, if it is not finite."""
        c, size, scalar = self.c, self.c.dtype.itemsize, Type(element(self.c.dtype))
        lengths, rooms = _strides(c.lengths, size), _strides(c.room, size)
        weight = b.load(scalar, tap, size)

        def along(source: Value, goal: Value, axis: int) -> None:
            if axis == len(at):
                x, y = (b.load(scalar, p, size) for p in (source, goal))
                b.store(b.muladd(x, weight, y), goal, size)
                return
            # The loop ends at the borders, as in `_met`: nothing is tested inside it.
            less = b.emit(I64, f"sub i64 0, {at[axis].text}")
            end = b.emit(I64, f"sub i64 {c.lengths[axis]}, {at[axis].text}")
            first = b.binary("smax", less, Value("0", I64))
            last = b.binary("smin", end, Value(str(c.positions[axis]), I64))

            def position(q: Value, _: list[Value]) -> Sequence[Value]:
                there = b.plus(b.times(q, c.result_stride[axis]), c.result_start[axis])
                here = b.at(source, b.times(b.plus(q, at[axis]), lengths[axis]))
                along(here, b.at(goal, b.times(there, rooms[axis])), axis + 1)
                return []

            b.loop(first, last, 1, [], position)

        def add() -> Sequence[Value]:
            images, results = image_bytes(c)

            def image(n: Value, _: list[Value]) -> Sequence[Value]:
                along(b.at(source, b.times(n, images)), b.at(goal, b.times(n, results)), 0)
                return []

            b.loop(0, c.n, 1, [], image)
            return []

        b.branch(is_infinite(b, weight, c.dtype), add)


def _strides(extents: Sequence[int], size: int) -> list[int]:
    return [prod(extents[k + 1 :]) * size for k in range(len(extents))]
