"""Packs filters as the tiles of a convolution read them: `[groups, tiles, terms, rows]`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.conv.conv_blocking import ConvBlocking, ConvProblem
from pirkit.lowering.codegen.conv.limit_taps import LimitTaps, flags_of
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.loop_ir import Buffer, Invoke, Iteration, Loop, Nest, Node
from pirkit.lowering.codegen.ir.plain_loops import task_nest
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values, matrix
from pirkit.lowering.codegen.math.casts import element


def tiles_of(c: ConvProblem, cut: ConvBlocking) -> int:
    """Register tiles along the filters of a group."""
    return -(-c.group_filters // cut.rows)


def packed_bytes(c: ConvProblem, cut: ConvBlocking) -> int:
    """Bytes of the packed filter."""
    return c.groups * tiles_of(c, cut) * cut.rows * c.depth * c.terms * c.dtype.itemsize


def packing_tasks(c: ConvProblem, cut: ConvBlocking) -> int:
    """Tasks of packing."""
    return c.groups * tiles_of(c, cut)


def packing_nest(c: ConvProblem, cut: ConvBlocking) -> Nest:
    """The loops over tiles of filters; operands are the filter and its packed copy."""
    size, tiles, filters = c.dtype.itemsize, tiles_of(c, cut), filter_steps(c)[0]
    tile = cut.rows * c.depth * c.terms * size
    group = c.group_filters * c.depth * prod(c.sizes) * size
    buffers: tuple[Buffer, ...] = (
        Buffer(c.dtype, (group, cut.rows * filters), c.groups * group),
        Buffer(c.dtype, (tiles * tile, tile), packed_bytes(c, cut)),
    )
    body: tuple[Node, ...] = (Invoke(PackFilters(c, cut), (0, 1), (Iteration("t"),)),)
    if c.spares_padding:
        buffers += (flags_of(c.groups, tiles),)
        body += (Invoke(LimitTaps(c.dtype, cut.lanes, tile // size), (1, 1, 2), ()),)
    tasks = Loop("g", (0,), 0, c.groups, 1, ()), Loop("t", (1,), 0, tiles, 1, ())
    return task_nest((c.groups, tiles), (), buffers, tasks, body)


def filter_steps(c: ConvProblem) -> tuple[int, int]:
    """Bytes from a filter to the next one, and from a channel to the next one."""
    many = prod(c.sizes) * c.dtype.itemsize
    return (many, c.group_filters * many) if c.is_transposed else (c.depth * many, many)


class PackFilters(Struct, frozen=True):
    """Packs a tile of filters, whose number it gets."""

    c: ConvProblem
    cut: ConvBlocking

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = pack {buffers[0]} [{self.cut.rows} filters of {self.c.depth}]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        c, rows, size = self.c, self.cut.rows, self.c.dtype.itemsize
        count = min(rows, c.group_filters - numbers[0] * rows)
        steps = [prod(c.sizes[k + 1 :]) * size for k in range(len(c.sizes))]
        filters = matrix(memory[0], c.dtype, (count, c.depth, *c.sizes), (*filter_steps(c), *steps))
        taps = [[t.first + k * t.step for k in range(t.count)] for t in c.taps]
        found = filters[(slice(None), slice(None), *np.ix_(*taps))].reshape(count, -1)
        packed = matrix(memory[1], c.dtype, (found.shape[1], rows), (rows * size, size))
        packed[...] = found.T[:, np.minimum(np.arange(rows), count - 1)]

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        _emit_tile(b, self.c, self.cut, addresses, numbers[0])


def _emit_tile(
    b: Builder, c: ConvProblem, cut: ConvBlocking, addresses: Sequence[Value], which: Value
) -> None:
    """The loops over channels and taps, with a copy of an element of each filter inside."""
    size, scalar = c.dtype.itemsize, Type(element(c.dtype))
    many = prod(c.sizes)
    strides = [prod(c.sizes[k + 1 :]) * size for k in range(len(c.sizes))]
    filters, channels = filter_steps(c)
    base, goal_base = addresses
    all_taps = [t.count == k for t, k in zip(c.taps, c.sizes, strict=True)]
    # From such an axis on the taps are contiguous in the filter: one loop copies them.
    all_taps_inside = [all(all_taps[axis:]) for axis in range(len(all_taps))]
    # Rows beyond the last filter repeat it; their sums are not stored.
    left = b.plus(b.times(which, -cut.rows), c.group_filters - 1)
    ends = [b.binary("smin", left, Value(str(row), I64)) for row in range(cut.rows)]
    starts = [b.at(base, b.times(end, filters)) for end in ends]

    def copy(offset: Value, term: Value) -> None:
        for row, start in enumerate(starts):
            one = b.load(scalar, b.at(start, offset), size)
            address = b.at(goal_base, b.plus(b.times(term, cut.rows * size), row * size))
            b.store(one, address, size)

    def channel(d: Value, _: list[Value]) -> Sequence[Value]:
        taps(b.times(d, channels), b.times(d, c.terms), 0)
        return []

    def copy_contiguous(offset: Value, term: Value, count: int) -> None:
        """Copy terms that are contiguous in the filter and in its packed copy."""

        def one(k: Value, _: list[Value]) -> Sequence[Value]:
            copy(b.plus(offset, b.times(k, size)), b.plus(term, k))
            return []

        b.loop(0, count, 1, [], one)

    def taps(offset: Value, term: Value, axis: int) -> None:
        inner = prod([t.count for t in c.taps[axis + 1 :]])
        t = c.taps[axis]
        if all_taps_inside[axis]:
            copy_contiguous(offset, term, t.count * inner)
            return

        def tap(k: Value, _: list[Value]) -> Sequence[Value]:
            at = b.plus(b.times(k, t.step), t.first)
            moved = b.plus(offset, b.times(at, strides[axis]))
            further = b.plus(term, b.times(k, inner))
            if axis == len(c.taps) - 1:
                copy(moved, further)
            else:
                taps(moved, further, axis + 1)
            return []

        b.loop(0, t.count, 1, [], tap)

    if all_taps_inside[0] and channels == many * size:
        copy_contiguous(Value("0", I64), Value("0", I64), c.depth * c.terms)
        return
    b.loop(0, c.depth, 1, [], channel)
