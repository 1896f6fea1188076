"""Blocked convolution: the filter is packed once, then tasks multiply it with panels of the images.

A task computes some lines of the result for some filters of a group. For a block of channels at a
time it fills a panel with what the taps read (`im2col.py`, `implicit_im2col.py`) and accumulates in
scratch; at the end it copies the sums to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from pirkit.lowering.codegen.conv.conv_blocking import ConvBlocking, ConvProblem
from pirkit.lowering.codegen.conv.filter_packing import tiles_of
from pirkit.lowering.codegen.conv.im2col import Im2colPanel, PanelLines, row_bytes, zero_bytes
from pirkit.lowering.codegen.conv.implicit_im2col import ImplicitIm2colPanel, channel_bytes
from pirkit.lowering.codegen.emit.memory_access import Memory, store
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import address_at, argument, split_index, tail_mask
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.blocking import ScratchLayout, block_extent, clear
from pirkit.lowering.codegen.matmul.tile_update import Access, TileUpdate

_MAX_PANELS = 8
"""Addresses from which a tile prefetches at most."""


def task_count(c: ConvProblem, cut: ConvBlocking) -> int:
    """Tasks of the convolution."""
    return c.groups * -(-tiles_of(c, cut) // cut.filter_tiles) * prod(_panel_groups(c, cut))


class BlockedConvEmitter:
    """Emits the multiplication: operands are images, packed filter, result."""

    def __init__(
        self, b: Builder, routines: Routines, c: ConvProblem, cut: ConvBlocking
    ) -> None:  # fmt: skip
        self.b, self.routines, self.c, self.cut = b, routines, c, cut
        self.size = c.dtype.itemsize
        self.vector = Type(element(c.dtype), cut.lanes)
        self.row = row_bytes(c, cut)
        self.layout = ScratchLayout()
        self.tables = [self.layout.reserve(8 * cut.lines) for _ in range(2 + len(c.positions))]
        self.zeros = self.layout.reserve(zero_bytes(c, cut))
        # The last vector of the last row may reach beyond the panel.
        channel = channel_bytes(c, cut) if cut.pitch else self.row * c.terms
        self.panel = self.layout.reserve(channel * cut.channel_block + 2 * self.row)
        self.sums = self.layout.reserve(self.row * cut.filter_tiles * cut.rows)

    def emit(self) -> None:
        """The loop over tasks: tables of lines, zeroed sums, all channels, then the stores."""
        b, c, cut = self.b, self.c, self.cut
        image, factors, result = (argument(b, k) for k in range(3))
        tiles = tiles_of(c, cut)
        images, heaps = _panel_groups(c, cut)
        stacks, total = -(-tiles // cut.filter_tiles), _line_count(c, cut) // images
        room = prod(c.room) * self.size
        clear(b, self.vector, self.layout.at(b, self.zeros), zero_bytes(c, cut))

        def task(number: Value, _: list[Value]) -> Sequence[Value]:
            group, stack, which, heap = split_index(b, number, [c.groups, stacks, images, heaps])
            within = b.times(heap, cut.lines)
            first_line = b.plus(b.times(which, total), within)
            lines = self._lines(first_line, block_extent(b, cut.lines, total, within))
            first = b.times(stack, cut.filter_tiles)
            tile_count = block_extent(b, cut.filter_tiles, tiles, first)
            # Sums are accumulated over the blocks of channels.
            clear(
                b, self.vector, self.layout.at(b, self.sums), self.row * cut.filter_tiles * cut.rows
            )
            source = b.at(image, b.times(group, c.depth * prod(c.lengths) * self.size))
            at = b.plus(b.times(group, tiles), first)
            tile_bytes = cut.rows * c.depth * c.terms * self.size
            filters = b.times(first, cut.rows)
            count = block_extent(b, cut.filter_tiles * cut.rows, c.group_filters, filters)
            dest = b.at(result, b.times(b.plus(b.times(group, c.group_filters), filters), room))
            self._channels(source, b.at(factors, b.times(at, tile_bytes)), tile_count, lines, dest)
            self._copy(dest, count, lines)
            return []

        b.block_loop(task)

    def _lines(self, first: Value, count: Value) -> PanelLines:
        """Store the tables of a task: where each of its lines is in image and result."""
        b, c, cut, size = self.b, self.c, self.cut, self.size
        image, result, *starts = (self.layout.at(b, t) for t in self.tables)
        steps = [prod(c.lengths[k + 1 :]) * size for k in range(len(c.lengths))]
        places = [prod(c.room[k + 1 :]) * size for k in range(len(c.room))]
        images = c.groups * c.depth * prod(c.lengths) * size
        results = c.groups * c.group_filters * prod(c.room) * size

        def line(r: Value, _: list[Value]) -> Sequence[Value]:
            at = split_index(b, b.plus(first, r), [c.n, *c.positions[:-1], cut.line_parts])
            at[-1] = b.times(at[-1], cut.width)
            moved = [b.times(q, m) for q, m in zip(at[1:], c.image_stride, strict=True)]
            result_at = [
                b.plus(b.times(q, s), f)
                for q, s, f in zip(at[1:], c.result_stride, c.result_start, strict=True)
            ]
            sources = address_at(b, Value("null", PTR), [images, *steps], [at[0], *moved])
            result_lines = address_at(
                b, Value("null", PTR), [results, *places], [at[0], *result_at]
            )
            for table, value in ((image, sources), (result, result_lines)):
                number = b.emit(I64, f"ptrtoint {value} to i64")
                b.emit_void(f"store {number}, {b.at(table, b.times(r, 8))}, align 8")
            for table, value in zip(starts, [*moved[:-1], at[-1]], strict=True):
                b.emit_void(f"store {value}, {b.at(table, b.times(r, 8))}, align 8")
            return []

        b.loop(0, count, 1, [], line)
        return PanelLines(image, result, tuple(starts), count)

    def _channels(
        self, images: Value, factors: Value, tiles: Value, lines: PanelLines, dest: Value
    ) -> None:  # fmt: skip
        """Accumulate all channels: fill the panel, then run the tiles over it."""
        b, c, cut, size = self.b, self.c, self.cut, self.size
        panel = self.layout.at(b, self.panel)
        filler = (ImplicitIm2colPanel if cut.pitch else Im2colPanel)(
            b, c, cut, panel, self.layout.at(b, self.zeros)
        )
        # The whole tiles with positions in them; the vectors that no whole tile covers follow.
        vector_bytes = cut.vectors * cut.lanes
        whole = cut.panel // cut.vectors
        used = b.times(lines.count, cut.pitch or cut.width)
        used = b.plus(used, cut.width - cut.pitch if cut.pitch else 0)
        needed = b.emit(I64, f"udiv {b.plus(used, vector_bytes - 1)}, {vector_bytes}")
        needed = b.binary("smin", needed, Value(str(whole), I64))
        left = cut.panel - whole * cut.vectors
        reach = (1 if cut.reads_filter_in_place else cut.rows) * c.terms * size

        def channels(d: Value, _: list[Value]) -> Sequence[Value]:
            block_channels = block_extent(b, cut.channel_block, c.depth, d)
            filler.fill(b.at(images, b.times(d, prod(c.lengths) * size)), block_channels, lines)
            begin = b.at(factors, b.times(d, reach))
            prefetch_base = self._prefetch_address(images, d, lines)
            # The result is only stored after the last block of channels.
            last = b.compare("sge", b.plus(d, cut.channel_block), c.depth)

            def tile(i: Value, column: Value, count: int, stacked: int = 1) -> None:
                at = b.times(column, cut.lanes * size)
                sums = b.at(b.at(self.layout.at(b, self.sums), b.times(i, cut.rows * self.row)), at)
                row_stride, term = (
                    (c.depth * c.terms, 1) if cut.reads_filter_in_place else (1, cut.rows)
                )
                tile_bytes = cut.rows * c.depth * c.terms * size
                starts = [n * tile_bytes for n in range(stacked)]
                rows = [
                    start + row * row_stride * size for start in starts for row in range(cut.rows)
                ]
                vectors = [k * cut.lanes * size for k in range(count)]
                update = TileUpdate(
                    self.vector,
                    Access(tuple(rows), filler.factor_steps(term * size)),
                    filler.access(vectors),
                    tuple([row * self.row + at for row in range(len(rows)) for at in vectors]),
                )
                bases = [b.at(begin, b.times(i, tile_bytes)), b.at(panel, at), sums]
                update.call(b, self.routines, bases, filler.counts(block_channels))

            def columns(v: Value, _: list[Value]) -> Sequence[Value]:
                def down(i: Value, _: list[Value]) -> Sequence[Value]:
                    self._prefetch_image(prefetch_base, i, v, max(whole, 1))

                    def prefetch_last() -> Sequence[Value]:
                        self._prefetch_result(dest, lines, i, v, max(whole, 1))
                        return []

                    if prod(c.result_stride) == 1:
                        b.branch(last, prefetch_last)
                    tile(i, b.times(v, cut.vectors), cut.vectors)
                    return []

                b.loop(0, tiles, 1, [], down)
                return []

            if whole:
                b.loop(0, needed, 1, [], columns)
            if left:

                def rest() -> Sequence[Value]:
                    def down(stacked: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
                        def one(i: Value, _: list[Value]) -> Sequence[Value]:
                            tile(i, Value(str(whole * cut.vectors), I64), left, stacked)
                            return []

                        return one

                    stacks = b.times(b.emit(I64, f"udiv {tiles}, {cut.stacked}"), cut.stacked)
                    b.loop(0, stacks, cut.stacked, [], down(cut.stacked))
                    b.loop(stacks, tiles, 1, [], down(1))
                    return []

                b.branch(b.compare("ugt", used, whole * vector_bytes), rest)
            return []

        if c.terms:
            b.loop(0, c.depth, cut.channel_block, [], channels)

    def _prefetch_address(self, images: Value, d: Value, lines: PanelLines) -> Value:
        """What the panel is filled with next: the next channels, or the lines after this panel."""
        b, c, cut = self.b, self.c, self.cut
        first = b.at(images, lines.entry(b, lines.image, Value("0", I64)))
        further = b.plus(d, cut.channel_block)
        channels = b.times(further, prod(c.lengths) * self.size)
        behind = Value(str(self._line_bytes(c.lengths, c.image_stride)), I64)
        return b.at(first, b.select(b.compare("slt", further, c.depth), channels, behind))

    def _line_bytes(self, extents: tuple[int, ...], steps: tuple[int, ...]) -> int:
        """Bytes from the first line of a panel to the first one of the next panel."""
        rows = self.cut.lines * steps[-2] * extents[-1] // self.cut.line_parts
        return min(rows, prod(extents)) * self.size

    def _prefetch_image(self, prefetch_base: Value, i: Value, column: Value, columns: int) -> None:
        """Prefetch a tile's share of what the panel is filled with next."""
        b, c, cut = self.b, self.c, self.cut
        piece_bytes = self._prefetch_share(self._line_bytes(c.lengths, c.image_stride), columns)
        channel = prod(c.lengths) * self.size
        first = b.at(b.at(prefetch_base, b.times(column, piece_bytes)), b.times(i, channel))
        each = min(-(-cut.channel_block // cut.filter_tiles), _MAX_PANELS)
        end = Value(str(piece_bytes), I64)
        if cut.filter_tiles > cut.channel_block:
            end = b.select(b.compare("slt", i, cut.channel_block), end, Value("0", I64))
        self._prefetch_lines(
            [b.at(first, k * cut.filter_tiles * channel) for k in range(each)], end
        )

    def _prefetch_result(
        self, dest: Value, lines: PanelLines, i: Value, column: Value, columns: int
    ) -> None:  # fmt: skip
        """Prefetch a tile's share of the result for writing."""
        b, c, cut = self.b, self.c, self.cut
        piece_bytes = self._prefetch_share(self._line_bytes(c.room, c.result_stride), columns)
        room = prod(c.room) * self.size
        first = b.at(dest, lines.entry(b, lines.result, Value("0", I64)))
        first = b.at(first, b.plus(b.times(i, cut.rows * room), b.times(column, piece_bytes)))
        starts = [b.at(first, k * room) for k in range(min(cut.rows, _MAX_PANELS))]
        self._prefetch_lines(starts, Value(str(piece_bytes), I64))

    def _prefetch_share(self, share_bytes: int, columns: int) -> int:
        """Bytes per tile, in whole cache lines."""
        return -(-share_bytes // (columns * LINE)) * LINE

    def _prefetch_lines(self, starts: Sequence[Value], end: Value) -> None:
        """Prefetch the lines from some addresses on; they may be invalid."""

        def line(offset: Value, _: list[Value]) -> Sequence[Value]:
            for start in starts:
                self.b.prefetch(self.b.at(start, offset))
            return []

        self.b.loop(0, end, LINE, [], line)

    def _copy(self, dest: Value, count: Value, lines: PanelLines) -> None:
        """Copy the sums of ``count`` filters to the result."""
        b, c, cut, size = self.b, self.c, self.cut, self.size
        vector = Type(element(c.dtype), cut.lanes)
        step = c.result_stride[-1] * size

        def filter_(e: Value, _: list[Value]) -> Sequence[Value]:
            sums = b.at(self.layout.at(b, self.sums), b.times(e, self.row))
            result_lines = b.at(dest, b.times(e, prod(c.room) * size))

            def line(r: Value, _: list[Value]) -> Sequence[Value]:
                source = b.at(sums, b.times(r, (cut.pitch or cut.width) * size))
                target = b.at(result_lines, lines.entry(b, lines.result, r))
                left: Value | None = None
                if cut.line_parts * cut.width != c.positions[-1]:
                    start = lines.entry(b, lines.starts[-1], r)
                    left = b.emit(I64, f"sub i64 {c.positions[-1]}, {start.text}")

                def one(first: Value, mask: Value | None) -> None:
                    address = b.at(source, b.times(first, size))
                    value = b.emit(vector, f"load {vector}, {address}, align {size}")
                    _store_strided(b, c, value, b.at(target, b.times(first, step)), mask)

                def along(first: Value, _: list[Value]) -> Sequence[Value]:
                    one(first, mask_at(first))
                    return []

                def mask_at(first: Value) -> Value | None:
                    if left is None:
                        return None
                    short = b.emit(I64, f"sub {left}, {first.text}")
                    return tail_mask(b, cut.lanes, b.binary("smax", short, Value("0", I64)))

                full = cut.width // cut.lanes * cut.lanes
                b.loop(0, full, cut.lanes, [], along)
                if cut.width > full:
                    first = Value(str(full), I64)
                    tail = tail_mask(b, cut.lanes, cut.width - full)
                    other = mask_at(first)
                    one(first, tail if other is None else b.op("and", tail, other))
                return []

            b.loop(0, lines.count, 1, [], line)
            return []

        b.loop(0, count, 1, [], filter_)


def _store_strided(
    b: Builder, c: ConvProblem, value: Value, address: Value, mask: Value | None
) -> None:
    """Store a vector with the stride of the result along its last axis."""
    lanes, size, spread = value.type.lanes, c.dtype.itemsize, c.result_stride[-1]
    # For stride 2, two masked stores of duplicated lanes replace a scatter.
    if spread != 2:
        store(b, value, c.dtype, Memory(address, spread * size), mask)
        return
    off = b.const(value.type.mask, False)
    on = b.const(value.type.mask, True) if mask is None else mask
    for half in range(2):
        picks = [half * lanes // 2 + k // 2 for k in range(lanes)]
        lane_mask = b.shuffle(on, off, [p + k % 2 * lanes for k, p in enumerate(picks)])
        memory = Memory(b.at(address, half * lanes * size), size)
        store(b, b.shuffle(value, value, picks), c.dtype, memory, lane_mask)


def _panel_groups(c: ConvProblem, cut: ConvBlocking) -> tuple[int, int]:
    """Ranges of lines that no panel crosses, and panels per range."""
    images = c.n * prod(c.positions[:-2]) if cut.pitch else 1
    return images, -(-_line_count(c, cut) // images // cut.lines)


def _line_count(c: ConvProblem, cut: ConvBlocking) -> int:
    """Lines of all images."""
    return c.n * prod(c.positions[:-1]) * cut.line_parts
