"""Transposes VxV tiles by shuffles, and packs strided columns into rows of a tile in memory."""

from __future__ import annotations

from collections.abc import Sequence

from pirkit.lowering.codegen.emit.memory_access import masked_load
from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import stored
from pirkit.runtime.dtype import DType


def transposed(b: Builder, rows: Sequence[Value]) -> list[Value]:
    """The transpose of V vectors of V lanes, in log2(V) rounds of shuffles.

    Each round exchanges blocks of V/2, V/4... lanes between pairs of rows.
    """
    result = list(rows)
    lanes = len(result)
    distance = lanes // 2
    while distance:
        low = [k if not k & distance else lanes + k - distance for k in range(lanes)]
        high = [k + distance if not k & distance else lanes + k for k in range(lanes)]
        for k in range(lanes):
            if not k & distance:
                # Row k and its partner exchange one block of lanes: two shuffles.
                x, y = result[k], result[k | distance]
                result[k] = b.shuffle(x, y, low)
                result[k | distance] = b.shuffle(x, y, high)
        distance //= 2
    return result


def pack(
    b: Builder,
    dtype: DType,
    lanes: int,
    source: tuple[Value, int, Value],
    dest: tuple[Value, int],
    length: Value,
    ragged: bool,
    prefetch_distance: int = 0,
) -> None:
    """Copy ``count`` columns of ``length`` elements into rows of a tile, transposing VxV tiles.

    ``source`` is the address, the distance of columns in bytes, and ``count``; ``dest`` the tile
    and the length of its rows in elements. With ``ragged`` the length need not be a multiple of the
    lanes. With ``prefetch_distance`` the elements so far ahead are prefetched.
    """
    address, distance, count = source
    tile, width = dest
    size = dtype.itemsize
    type_ = Type(stored(dtype), lanes)
    last = b.emit(I64, f"sub {count}, 1")
    is_whole = count.text.isdigit() and int(count.text) % lanes == 0

    def start(column: Value, k: int) -> Value:
        if is_whole:
            return b.at(b.at(address, b.times(column, distance)), k * distance)
        # Columns beyond the last one load the last one again; nobody reads their results.
        return b.at(address, b.times(b.binary("smin", b.plus(column, k), last), distance))

    def columns(column: Value, _: list[Value]) -> Sequence[Value]:
        starts = [start(column, k) for k in range(lanes)]

        def along(row: Value, _: list[Value]) -> Sequence[Value]:
            mask = None
            if ragged:
                left = b.emit(I64, f"sub {length}, {row.text}")
                mask = tail_mask(b, lanes, left)
            offset = b.times(row, size)
            for s in starts if prefetch_distance else ():
                b.prefetch(b.at(b.at(s, offset), prefetch_distance * size))
            transposed_rows = transposed(
                b, [masked_load(b, type_, b.at(s, offset), size, mask) for s in starts]
            )
            first = b.at(tile, b.times(b.plus(b.times(row, width), column), size))
            for k, value in enumerate(transposed_rows):
                b.store(value, b.at(first, k * width * size), size)
            return []

        b.loop(0, length, lanes, [], along)
        return []

    b.loop(0, count, lanes, [], columns)
