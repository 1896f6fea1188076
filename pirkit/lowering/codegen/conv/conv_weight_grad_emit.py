"""Emits the copies of a weight gradient: windows to panels, images with their padding."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec import Struct

from pirkit.lowering.codegen.conv.conv_weight_grad import GradTask
from pirkit.lowering.codegen.emit.memory_access import masked_load
from pirkit.lowering.codegen.emit.vector_emit import split_index, tail_mask
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.blocking import block_extent, pack_square

_MAX_UNROLLED = 8
"""Vectors of an image row up to which its copy is unrolled."""


class WindowBlock(Struct, frozen=True):
    """A block of windows: first plane, row and window, and the extents."""

    plane: Value
    row: Value
    window: Value
    planes: Value
    rows: Value
    windows: Value


class WeightGradEmitter:
    """Emits the copies and prefetches of a task for a block of windows."""

    def __init__(self, b: Builder, t: GradTask) -> None:
        self.b, self.t, self.c, self.cut, self.batch_strides = b, t, t.c, t.cut, t.strides
        self.size, self.vector_bytes = t.size, t.vector_bytes
        self.vector = Type(element(t.c.dtype), t.cut.lanes)

    def window_block(self, part: Value, number: Value) -> WindowBlock:
        """A block of a part of the windows."""
        b, c, cut = self.b, self.c, self.cut
        block = b.plus(b.times(part, cut.blocks_per_part(c)), number)
        plane, row, segment = split_index(b, block, cut.window_blocks(c))
        plane, row = b.times(plane, cut.planes), b.times(row, cut.lines)
        first = b.times(segment, c.length)
        planes = block_extent(b, cut.planes, c.planes, plane)
        rows = block_extent(b, cut.lines, c.windows[-2], row)
        return WindowBlock(
            plane, row, first, planes, rows, block_extent(b, c.length, c.windows[-1], first)
        )

    def transpose_windows(
        self, filters: Value, panels: Value, task: Value, window_block: WindowBlock
    ) -> None:
        """Pack the windows of some filters: `[vectors, planes, windows, lanes]`."""
        b, c, cut = self.b, self.c, self.cut
        row = c.windows[-1] * self.size
        last = b.plus(b.times(task, -cut.task_vectors * cut.lanes), c.group_filters - 1)

        def vector(v: Value, _: list[Value]) -> Sequence[Value]:
            starts: list[Value] = []
            for k in range(cut.lanes):
                # Lanes beyond the last filter load it again; their sums are not stored.
                at = b.binary("smin", b.plus(b.times(v, cut.lanes), k), last)
                starts.append(b.at(filters, b.times(at, self.batch_strides[2])))

            def plane(p: Value, _: list[Value]) -> Sequence[Value]:
                planes = [c.depth, c.planes // c.depth]
                channel, rest = split_index(b, b.plus(window_block.plane, p), planes)
                moved = b.plus(
                    b.times(channel, self.batch_strides[3]), b.times(rest, c.windows[-2] * row)
                )
                moved = b.plus(moved, b.times(window_block.row, row))
                moved = b.plus(moved, b.times(window_block.window, self.size))
                dest = b.at(panels, b.times(v, self.t.panel_bytes))
                dest = b.at(dest, b.times(p, cut.lines * c.length * self.vector_bytes))
                # Unsegmented rows are contiguous: one loop covers all of them.
                count = (
                    b.times(window_block.rows, c.length)
                    if c.segments == 1
                    else window_block.windows
                )

                def square(x: Value, _: list[Value]) -> Sequence[Value]:
                    offset = b.plus(moved, b.times(x, self.size))
                    mask = tail_mask(b, cut.lanes, b.emit(I64, f"sub {count}, {x.text}"))
                    lines = [b.at(s, offset) for s in starts]
                    first = b.at(dest, b.times(x, self.vector_bytes))
                    pack_square(b, self.vector, lines, mask, first, self.vector_bytes)
                    return []

                b.loop(0, count, cut.lanes, [], square)
                return []

            b.loop(0, window_block.planes, 1, [], plane)
            return []

        b.loop(0, cut.task_vectors, 1, [], vector)

    def copy(
        self, addresses: Sequence[Value], window_block: WindowBlock, count: Value,
        positions: Sequence[Value],
    ) -> None:  # fmt: skip
        """Copy what these positions read of the images, with padding: `[images, planes, rows]`."""
        b, c, cut, (images, copied) = self.b, self.c, self.cut, addresses
        at, moved = list(positions[: len(c.positions) - 2]), Value("0", I64)
        if not cut.shares_copy:
            moved = b.times(positions[-1], c.image_stride[-2])
        step = 1 if cut.shares_copy else c.window_stride[-2]
        rows = window_block.rows
        if cut.shares_copy:
            rows = b.plus(
                b.times(rows, c.window_stride[-2]),
                cut.copied_rows - cut.lines * c.window_stride[-2],
            )
        top = b.plus(b.plus(b.times(window_block.row, c.window_stride[-2]), moved), -c.before[-2])

        def image(k: Value, _: list[Value]) -> Sequence[Value]:
            base = b.at(images, b.times(k, self.batch_strides[0]))
            dest = b.at(copied, b.times(k, self.t.image_bytes))

            def plane(p: Value, _: list[Value]) -> Sequence[Value]:
                source, inside = self._plane(base, b.plus(window_block.plane, p), at)
                here = b.at(dest, b.times(p, cut.copied_rows * cut.width * self.size))

                def row(j: Value, _: list[Value]) -> Sequence[Value]:
                    self._row(
                        source,
                        inside,
                        here,
                        (b.plus(top, b.times(j, step)), j),
                        window_block.window,
                    )
                    return []

                b.loop(0, rows, 1, [], row)
                return []

            b.loop(0, window_block.planes, 1, [], plane)
            return []

        b.loop(0, count, 1, [], image)

    def _plane(self, base: Value, number: Value, at: list[Value]) -> tuple[Value, Value]:
        """The address of the image plane that a plane of windows reads, and whether it exists."""
        b, c = self.b, self.c
        channel, *window = split_index(b, number, [c.depth, *c.windows[:-2]])
        source = b.at(base, b.times(channel, self.batch_strides[1]))
        inside = Value("true", Type("i1"))
        for axis, (t, w) in enumerate(zip(at, window, strict=True)):
            place = b.plus(b.times(t, c.image_stride[axis]), b.times(w, c.window_stride[axis]))
            place = b.plus(place, -c.before[axis])
            source = b.at(source, b.times(place, prod(c.lengths[axis + 1 :]) * self.size))
            holds = b.compare("ult", place, c.lengths[axis])
            inside = holds if inside.text == "true" else b.op("and", inside, holds)
        return source, inside

    def _row(
        self, plane: Value, inside: Value, dest: Value, rows: tuple[Value, Value], window: Value
    ) -> None:  # fmt: skip
        """Copy row ``rows[0]`` of the image plane to row ``rows[1]``; zeros outside."""
        b, c, cut = self.b, self.c, self.cut
        source = b.at(plane, b.times(rows[0], c.lengths[-1] * self.size))
        holds = b.compare("ult", rows[0], c.lengths[-2])
        holds = holds if inside.text == "true" else b.op("and", inside, holds)
        there = b.at(dest, b.times(rows[1], cut.width * self.size))
        skipped = b.times(window, c.window_stride[-1])

        def part(x: Value, _: list[Value]) -> Sequence[Value]:
            first = b.plus(b.plus(x, skipped), -c.before[-1])
            on = self._bounded(first)
            on = b.select(holds, on, b.const(on.type, False))
            address = b.at(source, b.times(first, self.size))
            value = masked_load(b, self.vector, address, self.size, on)
            b.store(value, b.at(there, b.times(x, self.size)), self.size)
            return []

        if cut.width > _MAX_UNROLLED * cut.lanes:
            b.loop(0, cut.width, cut.lanes, [], part)
            return
        for x in range(0, cut.width, cut.lanes):
            part(Value(str(x), I64), [])

    def _bounded(self, first: Value) -> Value:
        """The lanes inside an image row."""
        b = self.b
        index = Type("i32" if self.size == 4 else "i64", self.cut.lanes)
        # As unsigned numbers, negative positions are beyond the end: one comparison checks both.
        start = first if index.elem == "i64" else b.cast("trunc", first, "i32")
        positions = b.op("add", b.splat(start, index.lanes), b.iota(index))
        return b.compare("ult", positions, self.c.lengths[-1])

    def _prefetch_addresses(
        self, images: Value, filters: Value, window_block: WindowBlock
    ) -> tuple[Value, Value]:
        """The addresses of the next block of windows, in the first image and the first filter.

        After the last segment of a row is the next row.
        """
        b, c, cut = self.b, self.c, self.cut
        if c.segments > 1:
            channel, rest = split_index(b, window_block.plane, [c.depth, c.planes // c.depth])
            row = b.plus(b.times(rest, c.windows[-2]), window_block.row)
            window = b.plus(window_block.window, c.length)
            at = b.plus(b.times(row, c.windows[-1]), window)
            image_row = b.plus(b.times(window_block.row, c.window_stride[-2]), -c.before[-2])
            column = b.plus(b.times(window, c.window_stride[-1]), -c.before[-1])
            column = b.plus(b.times(image_row, c.lengths[-1]), column)
            image = b.at(images, b.times(channel, self.batch_strides[1]))
            filter_ = b.at(filters, b.times(channel, self.batch_strides[3]))
            return b.at(image, b.times(column, self.size)), b.at(filter_, b.times(at, self.size))
        is_whole = cut.lines == c.windows[-2]
        plane = b.plus(window_block.plane, cut.planes * is_whole)
        channel, rest = split_index(b, plane, [c.depth, c.planes // c.depth])
        row = b.plus(window_block.row, 0 if is_whole else cut.lines)
        window = b.plus(b.times(rest, c.windows[-2]), row)
        window = b.times(window, c.windows[-1] * self.size)
        skipped = 0 if is_whole else max(cut.copied_rows - cut.lines * c.window_stride[-2], 0)
        image_row = b.plus(b.times(row, c.window_stride[-2]), skipped - c.before[-2])
        image = b.at(images, b.times(channel, self.batch_strides[1]))
        filter_ = b.at(filters, b.times(channel, self.batch_strides[3]))
        return b.at(image, b.times(image_row, c.lengths[-1] * self.size)), b.at(filter_, window)

    def prefetch(self, addresses: Sequence[Value], window_block: WindowBlock, tile: Value) -> None:
        """Prefetch a tile's share of the next block; the addresses may be invalid."""
        b, c, cut = self.b, self.c, self.cut
        prefetch_addresses = self._prefetch_addresses(addresses[0], addresses[1], window_block)
        tiles = cut.task_images // cut.tile_images * c.positions[-2]
        starts: list[Value] = []
        for first, batch_strides, count in zip(
            prefetch_addresses,
            (self.batch_strides[0], self.batch_strides[2]),
            (cut.task_images, cut.task_vectors * cut.lanes),
            strict=True,
        ):
            each = -(-count // tiles)
            starts.append(b.at(first, b.times(tile, each * batch_strides)))
            for _ in range(each - 1):
                starts.append(b.at(starts[-1], batch_strides))
        rows = min(cut.lines * c.window_stride[-2], c.lengths[-2]) * c.lengths[-1]
        length = max(rows, cut.lines * c.windows[-1]) * self.size
        if c.segments > 1:
            length = c.length * c.window_stride[-1] * self.size

        def line(at: Value, _: list[Value]) -> Sequence[Value]:
            for start in starts:
                b.prefetch(b.at(start, at))
            return []

        b.loop(0, length, LINE, [], line)
