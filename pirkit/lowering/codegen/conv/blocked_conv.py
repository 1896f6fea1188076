"""Blocked convolution: the filter is packed once, then tasks multiply it with panels of the images.

A task computes some lines of the result for some filters of a group. For a block of channels at a
time it fills a panel with what the taps read (`im2col.py`, `implicit_im2col.py`) and accumulates in
scratch; at the end it copies the sums to the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.conv.conv_blocking import ConvBlocking, ConvProblem
from pirkit.lowering.codegen.conv.conv_sums import ClearSums, CopySums
from pirkit.lowering.codegen.conv.filter_packing import packed_bytes, tiles_of
from pirkit.lowering.codegen.conv.im2col import (
    Im2colPanel,
    access,
    row_bytes,
    run_im2col,
    zero_bytes,
)
from pirkit.lowering.codegen.conv.implicit_im2col import (
    ImplicitIm2colPanel,
    channel_bytes,
    implicit_access,
    run_implicit,
)
from pirkit.lowering.codegen.conv.panel_lines import (
    LineTables,
    PanelLines,
    image_bytes,
    line_ranges,
)
from pirkit.lowering.codegen.conv.panel_prefetch import PrefetchImage, PrefetchResult
from pirkit.lowering.codegen.ir.llvm_text import Builder, Type, Value
from pirkit.lowering.codegen.ir.loop_ir import (
    Buffer,
    Count,
    Invoke,
    Iteration,
    Loop,
    Nest,
    Node,
    Number,
    rounded,
)
from pirkit.lowering.codegen.ir.plain_loops import task_nest
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.matmul.tile_update import Access, TileUpdate
from pirkit.runtime import dtype as dt

_AXES = _GROUP, _TILE, _RANGE, _LINE, _CHANNEL, _COLUMN = range(6)
"""Axes: groups, tiles of filters, ranges of lines, lines; then channels and vectors of a tile."""
_X, _W, _Y = range(3)
"""Images, packed filter and result; then vectors of the epilogue, and scratch memory of a task."""


def task_count(c: ConvProblem, cut: ConvBlocking) -> int:
    """Tasks of the convolution."""
    images, lines = line_ranges(c, cut)
    return c.groups * -(-tiles_of(c, cut) // cut.filter_tiles) * images * -(-lines // cut.lines)


def blocked_nest(c: ConvProblem, cut: ConvBlocking) -> Nest:
    """The loops over tasks, channels, panel columns and tiles; operands are images, packed filter,
    result and the vectors of the epilogue.
    """
    tiles, (images, lines) = tiles_of(c, cut), line_ranges(c, cut)
    buffers = tuple(_buffers(c, cut))
    tables, zeros, _, sums = _scratch(c)
    count = Count("l", lines, cut.lines)
    place = Iteration("n"), Iteration("l"), count
    task: tuple[Node, ...] = (Invoke(LineTables(c, cut), (tables,), place),)
    if not _sums_once(c, cut):
        # Sums are accumulated over the blocks of channels.
        task += (Invoke(ClearSums(c.dtype, cut.lanes, buffers[sums].size), (sums,), ()),)
    if c.terms:
        blocks = tuple(_channels(c, cut, count))
        task += (Loop("d", (_CHANNEL,), 0, c.depth, cut.channel_block, blocks),)
    copy = CopySums(c, cut)
    vectors = range(_Y + 1, tables)
    task += (Invoke(copy, (sums, _Y, tables, *vectors), (Iteration("t"), *place)),)
    tasks = (
        Loop("g", (_GROUP,), 0, c.groups, 1, ()),
        Loop("t", (_TILE,), 0, tiles, cut.filter_tiles, ()),
        Loop("n", (_RANGE,), 0, images, 1, ()),
        Loop("l", (_LINE,), 0, lines, cut.lines, ()),
    )
    clear = Invoke(ClearSums(c.dtype, cut.lanes, zero_bytes(c, cut)), (zeros,), ())
    outer, inner = (c.groups, tiles, images, lines), (c.depth, cut.panel)
    nest = task_nest(outer, inner, buffers, tasks, task)
    return replace(nest, body=(clear, *nest.body))


def _buffers(c: ConvProblem, cut: ConvBlocking) -> Iterator[Buffer]:
    size, (image, result), row = c.dtype.itemsize, image_bytes(c), row_bytes(c, cut)
    plane, room = prod(c.lengths) * size, prod(c.room) * size
    tile = cut.rows * c.depth * c.terms * size
    term = (1 if cut.reads_filter_in_place else cut.rows) * c.terms * size
    strides = {_GROUP: c.depth * plane, _CHANNEL: plane}
    yield Buffer(c.dtype, _by_axis(strides), c.n * image)
    strides = {_GROUP: tiles_of(c, cut) * tile, _TILE: tile, _CHANNEL: term}
    yield Buffer(c.dtype, _by_axis(strides), packed_bytes(c, cut))
    strides = {_GROUP: c.group_filters * room, _TILE: cut.rows * room}
    yield Buffer(c.dtype, _by_axis(strides), c.n * result)
    strides = {_GROUP: c.group_filters * size, _TILE: cut.rows * size}
    for _ in range(c.vectors):
        yield Buffer(c.dtype, _by_axis(strides), c.groups * c.group_filters * size)
    own, column = ("g", "t", "n", "l"), cut.vectors * cut.lanes * size
    tables = 8 * cut.lines * (2 + len(c.positions))
    # The last vector of the last row may reach beyond the panel.
    panel = (channel_bytes(c, cut) if cut.pitch else row * c.terms) * cut.channel_block + 2 * row
    sums = row * cut.filter_tiles * cut.rows
    yield Buffer(dt.int64, _by_axis({}), tables, space="scratch", outside=own)
    yield Buffer(c.dtype, _by_axis({}), zero_bytes(c, cut), space="scratch", outside=own)
    yield Buffer(c.dtype, _by_axis({_COLUMN: column}), panel, space="scratch", outside=own)
    strides = {_TILE: cut.rows * row, _COLUMN: column}
    yield Buffer(c.dtype, _by_axis(strides), sums, space="scratch", outside=own)


def _sums_once(c: ConvProblem, cut: ConvBlocking) -> bool:
    """Whether one tile computes a sum as a whole."""
    return bool(c.terms) and c.depth <= cut.channel_block


def _scratch(c: ConvProblem) -> tuple[int, ...]:
    """The buffers of a task: tables, zeros, panel, sums."""
    first = _Y + 1 + c.vectors
    return tuple(range(first, first + 4))


def _by_axis(strides: dict[int, int]) -> tuple[int, ...]:
    return tuple([strides.get(axis, 0) for axis in _AXES])


def _channels(c: ConvProblem, cut: ConvBlocking, lines: Count) -> Iterator[Node]:
    """Fill the panel with some channels, then run the tiles over it."""
    channels, tiles = (
        Count("d", c.depth, cut.channel_block),
        Count("t", tiles_of(c, cut), cut.filter_tiles),
    )
    place = Iteration("n"), Iteration("l"), lines
    fill, (tables, zeros, panel, sums) = FillPanel(c, cut), _scratch(c)
    yield Invoke(fill, (_X, panel, zeros, tables), (channels, *place))
    # The whole tiles with positions in them; the vectors that no whole tile covers follow.
    whole, left = divmod(cut.panel, cut.vectors)
    # Only a panel of fewer lines has tiles without positions.
    partial = line_ranges(c, cut)[1] % cut.lines > 0
    numbers: tuple[Number, ...] = (channels, *((Iteration("v"), lines) if partial else ()))
    parts = -(-c.depth // cut.channel_block)
    last: Number = Iteration("d", parts) if parts > 1 else 2

    def tile(vectors: int, stacked: int) -> Node:
        return Invoke(ConvTile(c, cut, vectors, stacked, partial), (_W, panel, sums), numbers)

    if whole:
        here = Iteration("i"), Iteration("v")
        ahead: list[Node] = [Invoke(PrefetchImage(c, cut, whole), (_X, tables), (last, *here))]
        if prod(c.result_stride) == 1:
            # The result is only stored after the last block of channels.
            ahead.append(
                Invoke(PrefetchResult(c, cut, whole), (_Y, tables), (last, Iteration("v")))
            )
        down = Loop("i", (_TILE,), 0, tiles, 1, (*ahead, tile(cut.vectors, 1)))
        yield Loop("v", (_COLUMN,), 0, whole, 1, (down,))
    if left:
        stacks = rounded(tiles, cut.stacked)
        rest = [Loop("i", (_TILE,), stacks, tiles, 1, (tile(left, 1),))]
        if cut.stacked == 1:
            rest = []
        stack = Loop("i", (_TILE,), 0, stacks, cut.stacked, (tile(left, cut.stacked),))
        yield Loop("v", (_COLUMN,), whole, whole + 1, 1, (stack, *rest))


class FillPanel(Struct, frozen=True):
    """Fills a panel with what the taps read; buffers are images, panel, zeros and tables.

    Numbers are the channels, then the range of lines, the place in it and the lines.
    """

    c: ConvProblem
    cut: ConvBlocking

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        how = "implicit im2col" if self.cut.pitch else "im2col"
        return f"{buffers[1]} = {how} {buffers[0]} [{numbers[0]} channels, {numbers[3]} lines]"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        (run_implicit if self.cut.pitch else run_im2col)(self.c, self.cut, memory, numbers)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        image, panel, zeros, tables = addresses
        filler = ImplicitIm2colPanel if self.cut.pitch else Im2colPanel
        lines = PanelLines.at(b, self.c, self.cut, tables, numbers[3])
        filler(b, self.c, self.cut, panel, zeros).fill(image, numbers[0], lines)


class ConvTile(Struct, frozen=True):
    """Adds products of ``stacked`` tiles of filters and some vectors of a panel to the sums.

    Numbers are the channels, and if the panel may be ``partial``, the tile's place along the panel
    and the lines: beyond their positions nothing is computed.
    """

    c: ConvProblem
    cut: ConvBlocking
    vectors: int
    stacked: int
    partial: bool

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        (w, panel, sums), rows = buffers, self.stacked * self.cut.rows
        only = f", if {numbers[1]} is on the {numbers[2]} lines" if self.partial else ""
        columns = self.vectors * self.cut.lanes
        terms = f"{numbers[0]} channels of {self.c.terms} taps"
        return f"microkernel {sums}[{rows} x {columns}] += {w} {panel}, {terms}{only}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        channels, *place = numbers
        if not place or place[0] * self._positions < place[1] * self._line + self._more:
            extents = (channels, *self._taps) if self.cut.pitch else (channels * self.c.terms,)
            self._update().run(memory, self.c.dtype, extents)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        channels, *place = numbers
        extents = [b.times(channels, self.c.terms)]
        if self.cut.pitch:
            extents = [channels, *(Value(str(n), channels.type) for n in self._taps)]

        def update() -> Sequence[Value]:
            self._update().call(b, functions, addresses, extents)
            return []

        if not place:
            update()
            return
        used = b.plus(b.times(place[1], self._line), self._more)
        b.branch(b.compare("slt", b.times(place[0], self._positions), used), update)

    @property
    def _taps(self) -> list[int]:
        return [t.count for t in self.c.taps]

    @property
    def _positions(self) -> int:
        """Positions between tiles."""
        return self.cut.vectors * self.cut.lanes

    @property
    def _line(self) -> int:
        return self.cut.pitch or self.cut.width

    @property
    def _more(self) -> int:
        return self.cut.width - self._line

    def _update(self) -> TileUpdate:
        c, cut, size = self.c, self.cut, self.c.dtype.itemsize
        in_place = cut.reads_filter_in_place
        row_stride, term = (c.depth * c.terms, size) if in_place else (1, cut.rows * size)
        tile_bytes = cut.rows * c.depth * c.terms * size
        rows = [
            n * tile_bytes + row * row_stride * size
            for n in range(self.stacked)
            for row in range(cut.rows)
        ]
        vectors = [k * cut.lanes * size for k in range(self.vectors)]
        steps: tuple[int, ...] = (term,)
        if cut.pitch:
            steps = tuple([prod(self._taps[k:]) * term for k in range(len(self._taps) + 1)])
        pitch = row_bytes(c, cut)
        return TileUpdate(
            Type(element(c.dtype), cut.lanes),
            Access(tuple(rows), steps),
            (implicit_access if cut.pitch else access)(c, cut, vectors),
            tuple([row * pitch + at for row in range(len(rows)) for at in vectors]),
            _sums_once(c, cut),
        )
