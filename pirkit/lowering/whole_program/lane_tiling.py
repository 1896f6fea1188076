"""Tail masks and even tilings of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value


def lane_mask(b: Builder, lanes: int, left: Value | None) -> Value:
    """A mask of the first ``left`` lanes; all lanes if it is None."""
    if left is None or left.text.isdigit():
        return tail_mask(b, lanes, lanes if left is None else int(left.text))
    count = b.cast("trunc", b.binary("umin", left, Value(str(lanes), I64)), "i32")
    bits = b.op("xor", b.op("shl", b.like(count, -1), count), -1)
    type_ = Type("i1", lanes)
    return b.emit(type_, f"bitcast {b.cast('trunc', bits, f'i{lanes}')} to {type_}")


def even_width(count: int, max_width: int) -> int:
    """The width of the fewest tiles of at most ``max_width`` that are as equal as possible."""
    return -(-count // -(-count // max_width))


def tile_width(count: int, usual: int, widths: range) -> int:
    """The even width of at most ``usual``; if its tiles leave a remainder and one of ``widths``
    leaves none, the largest such one up to ``usual``, else the least: a remainder is code of its
    own, which takes its time to compile and uses fewer registers.
    """
    even = even_width(count, usual)
    whole = [n for n in widths if count % n == 0] if count % even else []
    return max([n for n in whole if n <= usual], default=min(whole, default=even))


def for_tiles(b: Builder, count: int, width: int, tile: Callable[[Value, int], None]) -> None:
    """Emit a loop of tiles over ``count``, and the narrower remainder, each by ``tile``."""
    whole, rest = divmod(count, width)
    if whole == 1:
        tile(Value("0", I64), width)
    else:

        def one(index: Value, _: Sequence[Value]) -> Sequence[Value]:
            tile(index, width)
            return []

        b.loop(0, whole * width, width, [], one)
    if rest:
        tile(Value(str(whole * width), I64), rest)
