"""Emits the partial sums of a weight gradient (see `conv_weight_grad.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from pirkit.lowering.codegen.conv.conv_weight_grad import (
    BatchStrides,
    WeightGrad,
    WeightGradBlocking,
)
from pirkit.lowering.codegen.emit.memory_access import masked_load
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import argument, split_index, tail_mask
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.blocking import block_extent, clear, pack_square
from pirkit.lowering.codegen.matmul.tile_update import Access, TileUpdate

_MAX_UNROLLED = 8
"""Vectors of an image row up to which its copy is unrolled."""


@dataclass(frozen=True, slots=True)
class _WindowBlock:
    """A block of windows: first plane, row and window, and the extents."""

    plane: Value
    row: Value
    window: Value
    planes: Value
    rows: Value
    windows: Value


@dataclass(frozen=True, slots=True)
class _ImageBlock:
    """The images of a task, and the addresses from which tiles prefetch."""

    first: Value
    count: Value
    prefetch_addresses: tuple[Value, Value]


class WeightGradEmitter:
    """Emits the partial sums of all tasks.

    Operands are images, filters, a table of four strides in bytes (`BatchStrides`), and the partial
    sums of all tasks. There is no table if the strides are ``known``.
    """

    def __init__(
        self, b: Builder, routines: Routines, c: WeightGrad, cut: WeightGradBlocking,
        known: BatchStrides | None = None,
    ) -> None:  # fmt: skip
        self.b, self.routines, self.c, self.cut, self.known = b, routines, c, cut, known
        self.size = c.dtype.itemsize
        self.vector = Type(element(c.dtype), cut.lanes)
        self.vector_bytes = cut.lanes * self.size
        # An odd number of cache lines, so that images map to different cache sets.
        lines = -(-(cut.planes * cut.copied_rows * cut.width * self.size) // LINE)
        self.image_bytes = (lines | 1) * LINE
        self.panel_bytes = cut.planes * cut.lines * c.length * self.vector_bytes
        self.panels = cut.task_images * self.image_bytes + 2 * LINE
        # A VxV transpose stores whole tiles, which reach beyond the last panel.
        self.scratch = (
            self.panels + (cut.task_vectors + 1) * self.panel_bytes + cut.lanes * self.vector_bytes
        )
        self.scratch = -(-self.scratch // LINE) * LINE

    def emit(self) -> None:
        """The loop over tasks (part, group, images, filters), in each over blocks of windows."""
        b, c, cut = self.b, self.c, self.cut
        image, filters, *table, sums = (argument(b, k) for k in range(3 + (not self.known)))
        self.batch_strides = (
            [Value(str(d), I64) for d in self.known]
            if self.known
            else [b.emit(I64, f"load i64, {b.at(table[0], 8 * k)}, align 8") for k in range(4)]
        )
        region = cut.sums(c) * self.size

        def task(number: Value, _: list[Value]) -> Sequence[Value]:
            part, group, image_task, filter_task = split_index(
                b, number, [cut.parts, c.groups, cut.image_tasks(c), cut.filter_tasks(c)]
            )
            dest = b.at(sums, b.times(number, region))
            # The microkernel adds to the partial sums in memory, block after block of windows.
            clear(b, self.vector, dest, region)
            first = b.times(image_task, cut.task_images)
            images = b.at(image, self._mul(first, self.batch_strides[0]))
            channel = b.times(group, c.depth)
            images = b.at(images, self._mul(channel, self.batch_strides[1]))
            count = block_extent(b, cut.task_images, c.images, first)
            begin = b.times(part, cut.blocks_per_part(c))
            block_total = Value(str(prod(cut.window_blocks(c))), I64)
            end = b.binary("smin", b.plus(begin, cut.blocks_per_part(c)), block_total)
            lane = b.times(filter_task, cut.task_vectors * cut.lanes)

            def one_block(block: Value, _: list[Value]) -> Sequence[Value]:
                window_block = self._window_block(block)
                self._transpose_windows(filters, group, lane, window_block)
                first = self._mul(
                    b.plus(b.times(group, c.group_filters), lane), self.batch_strides[2]
                )
                prefetch_addresses = self._prefetch_addresses(
                    images, b.at(filters, first), window_block
                )
                self._outer(_ImageBlock(images, count, prefetch_addresses), window_block, dest, [])
                return []

            b.loop(begin, end, 1, [], one_block)
            return []

        b.block_loop(task)

    def _window_block(self, block: Value) -> _WindowBlock:
        """The block of windows with a linear index."""
        b, c, cut = self.b, self.c, self.cut
        plane, row, segment = split_index(b, block, cut.window_blocks(c))
        plane, row = b.times(plane, cut.planes), b.times(row, cut.lines)
        first = b.times(segment, c.length)
        planes = block_extent(b, cut.planes, c.planes, plane)
        rows = block_extent(b, cut.lines, c.windows[-2], row)
        return _WindowBlock(
            plane, row, first, planes, rows, block_extent(b, c.length, c.windows[-1], first)
        )

    def _mul(self, index: Value, distance: Value) -> Value:
        """``index * distance``, by a constant if strides are known."""
        if index.text == "0":
            return index
        if self.known:
            return self.b.times(index, int(distance.text))
        return self.b.emit(I64, f"mul {index}, {distance.text}")

    def _panel(self, vector: Value) -> Value:
        """The address of the panel of a vector of filters."""
        base = self.b.at(Value("%scratch", PTR), self.panels)
        return self.b.at(base, self.b.times(vector, self.panel_bytes))

    def _transpose_windows(
        self, filters: Value, group: Value, lane: Value, window_block: _WindowBlock
    ) -> None:
        """Pack the windows of some filters: `[vectors, planes, windows, lanes]`."""
        b, c, cut = self.b, self.c, self.cut
        row = c.windows[-1] * self.size

        def vector(v: Value, _: list[Value]) -> Sequence[Value]:
            starts: list[Value] = []
            for k in range(cut.lanes):
                at = b.plus(b.plus(lane, b.times(v, cut.lanes)), k)
                # Lanes beyond the last filter load it again; their sums are not stored.
                at = b.binary("smin", at, Value(str(c.group_filters - 1), I64))
                at = b.plus(b.times(group, c.group_filters), at)
                starts.append(b.at(filters, self._mul(at, self.batch_strides[2])))

            def plane(p: Value, _: list[Value]) -> Sequence[Value]:
                planes = [c.depth, c.planes // c.depth]
                channel, rest = split_index(b, b.plus(window_block.plane, p), planes)
                moved = b.plus(
                    self._mul(channel, self.batch_strides[3]), b.times(rest, c.windows[-2] * row)
                )
                moved = b.plus(moved, b.times(window_block.row, row))
                moved = b.plus(moved, b.times(window_block.window, self.size))
                dest = b.at(self._panel(v), b.times(p, cut.lines * c.length * self.vector_bytes))
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

    def _outer(
        self, images: _ImageBlock, window_block: _WindowBlock, dest: Value, at: list[Value]
    ) -> None:
        """The loops over the output positions along all axes but the last one."""
        b, c, cut = self.b, self.c, self.cut
        is_last = len(at) == len(c.positions) - 2
        bytes_ = prod(c.positions[len(at) + 1 : -1]) * cut.sums(c) // c.outer * self.size
        if is_last and cut.shares_copy:
            self._copy(images, window_block, at, Value("0", I64))

        def position(t: Value, _: list[Value]) -> Sequence[Value]:
            further = b.at(dest, b.times(t, bytes_))
            moved = b.times(t, c.image_stride[-2])
            if not is_last:
                self._outer(images, window_block, further, [*at, t])
            elif cut.shares_copy:
                self._tiles(images, window_block, further, b.times(moved, cut.width * self.size), t)
            else:
                self._copy(images, window_block, at, moved)
                self._tiles(images, window_block, further, Value("0", I64), t)
            return []

        b.loop(0, c.positions[len(at)], 1, [], position)

    def _copy(
        self, images: _ImageBlock, window_block: _WindowBlock, at: list[Value], moved: Value
    ) -> None:
        """Copy what these positions read of the images, with padding: `[images, planes, rows]`."""
        b, c, cut = self.b, self.c, self.cut
        step = 1 if cut.shares_copy else c.window_stride[-2]
        rows = window_block.rows
        if cut.shares_copy:
            rows = b.plus(
                b.times(rows, c.window_stride[-2]),
                cut.copied_rows - cut.lines * c.window_stride[-2],
            )
        top = b.plus(b.plus(b.times(window_block.row, c.window_stride[-2]), moved), -c.before[-2])

        def image(k: Value, _: list[Value]) -> Sequence[Value]:
            base = b.at(images.first, self._mul(k, self.batch_strides[0]))
            dest = b.at(Value("%scratch", PTR), b.times(k, self.image_bytes))

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

        b.loop(0, images.count, 1, [], image)

    def _plane(self, base: Value, number: Value, at: list[Value]) -> tuple[Value, Value]:
        """The address of the image plane that a plane of windows reads, and whether it exists."""
        b, c = self.b, self.c
        channel, *window = split_index(b, number, [c.depth, *c.windows[:-2]])
        source = b.at(base, self._mul(channel, self.batch_strides[1]))
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
            b.emit_void(f"store {value}, {b.at(there, b.times(x, self.size))}, align {self.size}")
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
        start = first if index.elem == "i64" else b.cast("trunc", first, "i32")
        positions = b.op("add", b.splat(start, index.lanes), b.iota(index))
        return b.compare("ult", positions, self.c.lengths[-1])

    def _prefetch_addresses(
        self, images: Value, filters: Value, window_block: _WindowBlock
    ) -> tuple[Value, Value]:
        """The addresses of the next block of windows, in the first image and the first filter."""
        b, c, cut = self.b, self.c, self.cut
        is_whole = cut.lines == c.windows[-2]
        plane = b.plus(window_block.plane, cut.planes * is_whole)
        channel, rest = split_index(b, plane, [c.depth, c.planes // c.depth])
        row = b.plus(window_block.row, 0 if is_whole else cut.lines)
        window = b.plus(b.times(rest, c.windows[-2]), row)
        window = b.times(window, c.windows[-1] * self.size)
        skipped = 0 if is_whole else max(cut.copied_rows - cut.lines * c.window_stride[-2], 0)
        image_row = b.plus(b.times(row, c.window_stride[-2]), skipped - c.before[-2])
        image = b.at(images, self._mul(channel, self.batch_strides[1]))
        filter_ = b.at(filters, self._mul(channel, self.batch_strides[3]))
        return b.at(image, b.times(image_row, c.lengths[-1] * self.size)), b.at(filter_, window)

    def _prefetch(self, prefetch_addresses: tuple[Value, Value], tile: Value) -> None:
        """Prefetch a tile's share of the next block; the addresses may be invalid."""
        b, c, cut = self.b, self.c, self.cut
        tiles = cut.task_images // cut.tile_images * c.positions[-2]
        starts: list[Value] = []
        for first, batch_strides, count in zip(
            prefetch_addresses,
            (self.batch_strides[0], self.batch_strides[2]),
            (cut.task_images, cut.task_vectors * cut.lanes),
            strict=True,
        ):
            each = -(-count // tiles)
            starts.append(b.at(first, self._mul(b.times(tile, each), batch_strides)))
            for _ in range(each - 1):
                starts.append(b.at(starts[-1], batch_strides))
        rows = min(cut.lines * c.window_stride[-2], c.lengths[-2]) * c.lengths[-1]
        length = max(rows, cut.lines * c.windows[-1]) * self.size

        def line(at: Value, _: list[Value]) -> Sequence[Value]:
            for start in starts:
                b.prefetch(b.at(start, at))
            return []

        b.loop(0, length, LINE, [], line)

    def _tiles(
        self, images: _ImageBlock, window_block: _WindowBlock, dest: Value, start: Value, t: Value
    ) -> None:  # fmt: skip
        """All register tiles of one output row: images, slices, vectors of filters."""
        b, c, cut = self.b, self.c, self.cut
        broad_bytes = cut.task_vectors * self.vector_bytes
        image_sums = cut.slices * cut.tile_positions * broad_bytes
        stacks = b.emit(I64, f"udiv {b.plus(images.count, cut.tile_images - 1)}, {cut.tile_images}")
        shape = [(k, t) for k in range(cut.tile_images) for t in range(cut.tile_positions)]
        row, panel_row = cut.width * self.size, c.length * self.vector_bytes
        position_bytes = c.image_stride[-1] * self.size

        def tile(i: Value, s: Value, v: Value, vectors: int) -> None:
            moved = b.plus(
                b.times(i, cut.tile_images * self.image_bytes),
                b.times(s, cut.tile_positions * position_bytes),
            )
            update = TileUpdate(
                self.vector,
                Access(
                    tuple([k * self.image_bytes + t * position_bytes for k, t in shape]),
                    (
                        cut.copied_rows * row,
                        row * (c.window_stride[-2] if cut.shares_copy else 1),
                        c.window_stride[-1] * self.size,
                    ),
                ),
                Access(
                    tuple([k * self.panel_bytes for k in range(vectors)]),
                    (cut.lines * panel_row, panel_row, self.vector_bytes),
                ),
                tuple(
                    [
                        k * image_sums + t * broad_bytes + n * self.vector_bytes
                        for k, t in shape
                        for n in range(vectors)
                    ]
                ),
            )
            sums = b.plus(b.times(i, cut.tile_images * image_sums), b.times(v, self.vector_bytes))
            sums = b.at(dest, b.plus(sums, b.times(s, cut.tile_positions * broad_bytes)))
            bases = [b.at(b.at(Value("%scratch", PTR), start), moved), self._panel(v), sums]
            extents = [window_block.planes, window_block.rows, window_block.windows]
            update.call(b, self.routines, bases, extents)

        def down(v: Value, vectors: int) -> None:
            def stack(i: Value, _: list[Value]) -> Sequence[Value]:
                # Only whole tiles prefetch, so that each line is prefetched once per row.
                if vectors == cut.vectors:
                    self._prefetch(
                        images.prefetch_addresses,
                        b.plus(b.times(t, cut.task_images // cut.tile_images), i),
                    )

                def along(s: Value, _: list[Value]) -> Sequence[Value]:
                    tile(i, s, v, vectors)
                    return []

                b.loop(0, cut.slices, 1, [], along)
                return []

            b.loop(0, stacks, 1, [], stack)

        def column(v: Value, _: list[Value]) -> Sequence[Value]:
            down(v, cut.vectors)
            return []

        whole = cut.task_vectors // cut.vectors * cut.vectors
        b.loop(0, whole, cut.vectors, [], column)
        if cut.task_vectors > whole:
            down(Value(str(whole), I64), cut.task_vectors - whole)
