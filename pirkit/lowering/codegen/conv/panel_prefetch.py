"""Prefetches of the tiles of a blocked convolution: images of the next panel, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from pirkit.lowering.codegen.conv.conv_blocking import ConvBlocking, ConvProblem
from pirkit.lowering.codegen.conv.panel_lines import PanelLines
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Value
from pirkit.lowering.codegen.ir.routine import Functions, PrefetchRoutine, Values

_MAX_PANELS: Final = 8
"""Addresses from which a tile prefetches at most."""
_FIRST: Final = Value("0", I64)


class PanelPrefetch(PrefetchRoutine, frozen=True):
    """The common part of both prefetches: each of the ``columns`` tiles along a panel prefetches
    its share.

    Buffers are the array and the tables of the panel's lines. The first number is 2 in the last
    block of channels.
    """

    c: ConvProblem
    cut: ConvBlocking
    columns: int

    def line_bytes(self, extents: tuple[int, ...], steps: tuple[int, ...]) -> int:
        """Bytes from the first line of a panel to the first one of the next panel."""
        rows = self.cut.lines * steps[-2] * extents[-1] // self.cut.line_parts
        return min(rows, prod(extents)) * self.c.dtype.itemsize

    def share(self, extents: tuple[int, ...], steps: tuple[int, ...]) -> int:
        """Bytes per tile, in whole cache lines."""
        return -(-self.line_bytes(extents, steps) // (self.columns * LINE)) * LINE

    def lines(self, b: Builder, tables: Value) -> PanelLines:
        return PanelLines.at(b, self.c, self.cut, tables, _FIRST)


class PrefetchImage(PanelPrefetch, frozen=True):
    """Prefetches what the panel is filled with next: further channels, or the lines after it.

    Numbers are the block of channels, the tile of filters and that of positions.
    """

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"prefetch part {numbers[1]}, {numbers[2]} of the next panel of {buffers[0]}"

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        c, cut, (block, tile, column) = self.c, self.cut, numbers
        channel = prod(c.lengths) * c.dtype.itemsize
        lines = self.lines(b, addresses[1])
        first = b.at(addresses[0], lines.entry(b, lines.image, _FIRST))
        # After the last channels are the next lines of the first channel.
        before = (c.depth - 1) // cut.channel_block * cut.channel_block * channel
        behind = self.line_bytes(c.lengths, c.image_stride) - before
        distances = [Value(str(n), I64) for n in (behind, cut.channel_block * channel)]
        first = b.at(first, b.select(b.compare("eq", block, 2), *distances))
        share = self.share(c.lengths, c.image_stride)
        first = b.at(b.at(first, b.times(column, share)), b.times(tile, channel))
        each = min(-(-cut.channel_block // cut.filter_tiles), _MAX_PANELS)
        end = Value(str(share), I64)
        if cut.filter_tiles > cut.channel_block:
            end = b.select(b.compare("slt", tile, cut.channel_block), end, _FIRST)
        _prefetch_lines(b, [b.at(first, k * cut.filter_tiles * channel) for k in range(each)], end)


class PrefetchResult(PanelPrefetch, frozen=True):
    """Prefetches a tile's share of the result for writing, in the last block of channels.

    Numbers are the block of channels and the tile of positions.
    """

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"prefetch part {numbers[1]} of {buffers[0]} if {numbers[0]} is the last"

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        c, (block, column) = self.c, numbers
        room = prod(c.room) * c.dtype.itemsize
        share = self.share(c.room, c.result_stride)

        def prefetch() -> Sequence[Value]:
            lines = self.lines(b, addresses[1])
            first = b.at(addresses[0], lines.entry(b, lines.result, _FIRST))
            first = b.at(first, b.times(column, share))
            starts = [b.at(first, k * room) for k in range(min(self.cut.rows, _MAX_PANELS))]
            _prefetch_lines(b, starts, Value(str(share), I64))
            return []

        b.branch(b.compare("eq", block, 2), prefetch)


def _prefetch_lines(b: Builder, starts: Sequence[Value], end: Value) -> None:
    """Prefetch the lines from some addresses on; they may be invalid."""

    def line(offset: Value, _: list[Value]) -> Sequence[Value]:
        for start in starts:
            b.prefetch(b.at(start, offset))
        return []

    b.loop(0, end, LINE, [], line)
