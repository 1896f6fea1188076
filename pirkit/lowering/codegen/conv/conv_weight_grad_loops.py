"""The loops of a weight gradient (see `conv_weight_grad.py`), and the routines that they call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.conv.conv_sums import ClearSums
from pirkit.lowering.codegen.conv.conv_weight_grad import GradTask, operand_bytes
from pirkit.lowering.codegen.conv.conv_weight_grad_emit import WeightGradEmitter
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import Builder, Type
from pirkit.lowering.codegen.ir.loop_ir import Buffer, Count, Invoke, Iteration, Loop, Nest, Node
from pirkit.lowering.codegen.ir.plain_loops import task_nest
from pirkit.lowering.codegen.ir.routine import Functions, Location, PrefetchRoutine, Values, matrix
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.tile_update import Access, TileUpdate

_GROUP, _BLOCK, _IMAGE, _FILTER, _SLICE, _OUTER = range(6)
"""Axes: groups, blocks of windows, images, vectors of filters; then tiles along the last axis of
the positions, and the other axes of the positions."""
_X, _W, _SUMS, _COPIED, _PANELS = range(5)
"""Images, filters and partial sums of all tasks; then scratch memory of a task."""
_HERE = Iteration("p"), Iteration("w")


def weight_grad_nest(t: GradTask) -> Nest:
    """The loops over tasks (part, group, images, filters), in each over blocks of windows."""
    c, cut = t.c, t.cut
    total, filters = prod(cut.window_blocks(c)), cut.filter_tasks(c) * cut.task_vectors
    # The microkernel adds to the partial sums in memory, block after block of windows.
    clear = ClearSums(c.dtype, cut.lanes, cut.sums(c) * t.size)
    pack = Invoke(TransposeWindows(t), (_W, _PANELS), (*_HERE, Iteration("f")))
    blocks = Count("p", total, cut.blocks_per_part(c))
    body: tuple[Node, ...] = (
        Invoke(clear, (_SUMS,), ()),
        Loop("w", (_BLOCK,), 0, blocks, 1, (pack, *_positions(t))),
    )
    tasks = (
        Loop("p", (_BLOCK,), 0, total, cut.blocks_per_part(c), ()),
        Loop("g", (_GROUP,), 0, c.groups, 1, ()),
        Loop("i", (_IMAGE,), 0, c.images, cut.task_images, ()),
        Loop("f", (_FILTER,), 0, filters, cut.task_vectors, ()),
    )
    outer, inner = (c.groups, total, c.images, filters), (cut.slices, *c.positions[:-1])
    return task_nest(outer, inner, tuple(_buffers(t)), tasks, body)


def _buffers(t: GradTask) -> Iterator[Buffer]:
    c, cut, (image, channel, filter_, _) = t.c, t.cut, t.strides
    rank, own = _OUTER + len(c.positions) - 1, ("p", "g", "i", "f")

    def by_axis(strides: dict[int, int]) -> tuple[int, ...]:
        return tuple([strides.get(axis, 0) for axis in range(rank)])

    region, tasks = cut.sums(c) * t.size, cut.filter_tasks(c)
    strides = {_GROUP: c.depth * channel, _IMAGE: image}
    images, filters, sums = operand_bytes(t)
    yield Buffer(c.dtype, by_axis(strides), images, outside=("k",))
    strides = {_GROUP: c.group_filters * filter_, _FILTER: cut.lanes * filter_}
    yield Buffer(c.dtype, by_axis(strides), filters, outside=("v",))
    # Sums of a task are contiguous, so the loops over tasks move further than their axes do.
    per_block = (
        ("p", cut.segments(c) * region),
        ("i", tasks * region - cut.task_images * t.image_sums),
        ("f", region - t.filters_bytes),
    )
    strides = {
        _GROUP: cut.image_tasks(c) * tasks * region, _IMAGE: t.image_sums,
        _FILTER: t.vector_bytes, _SLICE: cut.tile_positions * t.filters_bytes,
    }  # fmt: skip
    position = cut.task_images * t.image_sums
    for k in range(len(c.positions) - 1):
        strides[_OUTER + k] = prod(c.positions[k + 1 : -1]) * position
    yield Buffer(c.dtype, by_axis(strides), sums, per_block=per_block)
    strides = {_IMAGE: t.image_bytes}
    strides[_SLICE] = cut.tile_positions * c.image_stride[-1] * t.size
    if cut.shares_copy:
        strides[rank - 1] = c.image_stride[-2] * cut.width * t.size
    nbytes = cut.task_images * t.image_bytes + 2 * LINE
    yield Buffer(c.dtype, by_axis(strides), nbytes, space="scratch", outside=own)
    # A VxV transpose stores whole tiles, which reach beyond the last panel.
    nbytes = (cut.task_vectors + 1) * t.panel_bytes + cut.lanes * t.vector_bytes
    strides = {_FILTER: t.panel_bytes}
    yield Buffer(c.dtype, by_axis(strides), nbytes, space="scratch", outside=own)


def _positions(t: GradTask) -> tuple[Node, ...]:
    """The loops over the output positions along all axes but the last one."""
    c, cut = t.c, t.cut
    names = [f"o{k}" for k in range(len(c.positions) - 1)]
    count = Count("i", c.images, cut.task_images)
    at = [Iteration(name) for name in (names[:-1] if cut.shares_copy else names)]
    copy = Invoke(CopyImages(t), (_X, _COPIED), (*_HERE, count, *at))
    body = tuple(_tiles(t, count, names[-1]))
    for k in reversed(range(len(names))):
        is_last = k == len(names) - 1
        if is_last and not cut.shares_copy:
            body = (copy, *body)
        body = (Loop(names[k], (_OUTER + k,), 0, c.positions[k], 1, body),)
        if is_last and cut.shares_copy:
            body = (copy, *body)
    return body


def _tiles(t: GradTask, count: Count, row: str) -> Iterator[Node]:
    """All register tiles of one output row: vectors of filters, images, slices."""
    cut = t.cut
    whole = cut.task_vectors // cut.vectors * cut.vectors
    for start, stop, vectors in ((0, whole, cut.vectors),
                                 (whole, cut.task_vectors, cut.task_vectors - whole)):  # fmt: skip
        if not vectors:
            continue
        tile = Invoke(GradTile(t, vectors), (_COPIED, _PANELS, _SUMS), _HERE)
        body: tuple[Node, ...] = (Loop("s", (_SLICE,), 0, cut.slices, 1, (tile,)),)
        # Only whole tiles prefetch, so that each line is prefetched once per row.
        if vectors == cut.vectors:
            numbers = *_HERE, Iteration(row), Iteration("k")
            body = (Invoke(PrefetchWindows(t), (_X, _W), numbers), *body)
        body = (Loop("k", (_IMAGE,), 0, count, cut.tile_images, body),)
        yield Loop("v", (_FILTER,), start, stop, vectors, body)


def _block(t: GradTask, part: int, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first plane, row and window of a block of windows, and their counts."""
    c, cut = t.c, t.cut
    at = np.unravel_index(part * cut.blocks_per_part(c) + number, cut.window_blocks(c))
    sizes, extents = (cut.planes, cut.lines, c.length), (c.planes, c.windows[-2], c.windows[-1])
    first = tuple([int(k) * n for k, n in zip(at, sizes, strict=True)])
    return first, tuple([min(n, e - k) for n, e, k in zip(sizes, extents, first, strict=True)])


class TransposeWindows(Struct, frozen=True):
    """Packs the windows of some filters: `[vectors, planes, windows, lanes]`.

    Numbers are the part of the windows, the block in it, and the task of filters.
    """

    t: GradTask

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = transpose {buffers[0]} [block {numbers[1]} of windows]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        t, c, cut = self.t, self.t.c, self.t.cut
        part, number, task = numbers
        (plane, row, window), (planes, rows, windows) = _block(t, part, number)
        filters = cut.task_vectors * cut.lanes
        some = min(filters, c.group_filters - task * filters)
        count = rows * c.length if c.segments == 1 else windows
        for p in range(planes):
            channel, rest = divmod(plane + p, c.planes // c.depth)
            at = ((rest * c.windows[-2] + row) * c.windows[-1] + window) * t.size
            begin = memory[0][0], memory[0][1] + channel * t.strides[3] + at
            found = matrix(begin, c.dtype, (some, count), (t.strides[2], t.size))
            found = found[np.minimum(np.arange(filters), some - 1)].reshape(-1, cut.lanes, count)
            begin = memory[1][0], memory[1][1] + p * cut.lines * c.length * t.vector_bytes
            steps = t.panel_bytes, t.vector_bytes, t.size
            panel = matrix(begin, c.dtype, (cut.task_vectors, count, cut.lanes), steps)
            panel[...] = found.swapaxes(1, 2)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        emitter = WeightGradEmitter(b, self.t)
        block = emitter.window_block(*numbers[:2])
        emitter.transpose_windows(addresses[0], addresses[1], numbers[2], block)


class CopyImages(Struct, frozen=True):
    """Copies what the positions of a row read of the images, or of all rows, with padding.

    Numbers are the part of the windows, the block in it, the images, and the position along all
    axes but the last, or but the last two.
    """

    t: GradTask

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = copy {buffers[0]} [{numbers[2]} images], with padding"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        t, c, cut = self.t, self.t.c, self.t.cut
        part, number, count, *position = numbers
        (plane, row, window), (planes, rows, _) = _block(t, part, number)
        top, step = row * c.window_stride[-2] - c.before[-2], c.window_stride[-2]
        if cut.shares_copy:
            rows, step = (rows - cut.lines) * step + cut.copied_rows, 1
        else:
            top += position[-1] * c.image_stride[-2]
        dense = [prod(c.lengths[k + 1 :]) * t.size for k in range(len(c.lengths))]
        columns = np.arange(cut.width) + window * c.window_stride[-1] - c.before[-1]
        exists = (columns >= 0) & (columns < c.lengths[-1])
        for p in range(planes):
            channel, *at = np.unravel_index(plane + p, (c.depth, *c.windows[:-2]))
            places = [int(w) * s + o * m - f for w, s, o, m, f in zip(
                at, c.window_stride, position, c.image_stride, c.before, strict=False)]  # fmt: skip
            begin = memory[0][0], memory[0][1] + int(channel) * t.strides[1]
            images = matrix(begin, c.dtype, (count, *c.lengths), (t.strides[0], *dense))
            begin = memory[1][0], memory[1][1] + p * cut.copied_rows * cut.width * t.size
            steps = t.image_bytes, cut.width * t.size, t.size
            copied = matrix(begin, c.dtype, (count, rows, cut.width), steps)
            for j in range(rows):
                here = (*places, top + j * step)
                inside = all(0 <= x < n for x, n in zip(here, c.lengths, strict=False))
                line = images[(slice(None), *(x * inside for x in here))]
                copied[:, j] = np.where(exists & inside, line[:, np.where(exists, columns, 0)], 0)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        part, number, count, *position = numbers
        emitter = WeightGradEmitter(b, self.t)
        emitter.copy(addresses, emitter.window_block(part, number), count, position)


class PrefetchWindows(PrefetchRoutine, frozen=True):
    """Prefetches a tile's share of the images and filters of the next block of windows.

    Numbers are the part of the windows, the block in it, the output row and the tile of images.
    """

    t: GradTask

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"prefetch part {numbers[2]}, {numbers[3]} of the next windows of {buffers[0]}"

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        part, number, row, tile = numbers
        emitter, cut = WeightGradEmitter(b, self.t), self.t.cut
        tile = b.plus(b.times(row, cut.task_images // cut.tile_images), tile)
        emitter.prefetch(addresses, emitter.window_block(part, number), tile)


class GradTile(Struct, frozen=True):
    """Adds products of copied images and panels to the sums of some vectors of filters.

    Numbers are the part of the windows and the block in it.
    """

    t: GradTask
    vectors: int

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        cut = self.t.cut
        extent = f"[{cut.tile_images * cut.tile_positions} x {self.vectors * cut.lanes}]"
        copied, panels, sums = buffers
        return f"microkernel {sums}{extent} += {copied} {panels}, block {numbers[1]} of windows"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        _, extents = _block(self.t, *numbers)
        self._update().run(memory, self.t.c.dtype, extents)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        block = WeightGradEmitter(b, self.t).window_block(*numbers)
        extents = [block.planes, block.rows, block.windows]
        self._update().call(b, functions, addresses, extents)

    def _update(self) -> TileUpdate:
        t, c, cut = self.t, self.t.c, self.t.cut
        shape = [(k, n) for k in range(cut.tile_images) for n in range(cut.tile_positions)]
        row, panel_row = cut.width * t.size, c.length * t.vector_bytes
        position = c.image_stride[-1] * t.size
        rows = row * (c.window_stride[-2] if cut.shares_copy else 1)
        steps = cut.copied_rows * row, rows, c.window_stride[-1] * t.size
        panels = tuple([k * t.panel_bytes for k in range(self.vectors)])
        sums = [
            k * t.image_sums + n * t.filters_bytes + v * t.vector_bytes
            for k, n in shape
            for v in range(self.vectors)
        ]
        return TileUpdate(
            Type(element(c.dtype), cut.lanes),
            Access(tuple([k * t.image_bytes + n * position for k, n in shape]), steps),
            Access(panels, (cut.lines * panel_row, panel_row, t.vector_bytes)),
            tuple(sums),
        )
