"""Packs filters as the tiles of a convolution read them: `[groups, tiles, terms, rows]`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pirkit.lowering.codegen.conv.conv_blocking import ConvBlocking, ConvProblem
from pirkit.lowering.codegen.emit.vector_emit import argument, split_index
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
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


def emit_packing(b: Builder, c: ConvProblem, cut: ConvBlocking) -> None:
    """Operands are the filter and its packed copy; a block of the function is a tile of filters."""
    size, scalar = c.dtype.itemsize, Type(element(c.dtype))
    many = prod(c.sizes)
    strides = [prod(c.sizes[k + 1 :]) * size for k in range(len(c.sizes))]
    filters, channels = (
        (many, c.group_filters * many) if c.is_transposed else (c.depth * many, many)
    )
    source, dest = argument(b, 0), argument(b, 1)
    tiles = tiles_of(c, cut)
    all_taps = [t.count == k for t, k in zip(c.taps, c.sizes, strict=True)]
    # From such an axis on the taps are contiguous in the filter: one loop copies them.
    all_taps_inside = [all(all_taps[axis:]) for axis in range(len(all_taps))]
    group_bytes = c.group_filters * c.depth * many * size

    def tile(number: Value, _: list[Value]) -> Sequence[Value]:
        group, which = split_index(b, number, [c.groups, tiles])
        first = b.times(which, cut.rows)
        base = b.at(source, b.times(group, group_bytes))
        goal_base = b.at(dest, b.times(number, cut.rows * c.depth * c.terms * size))
        starts: list[Value] = []
        for row in range(cut.rows):
            # Rows beyond the last filter repeat it; their sums are not stored.
            at = b.binary("smin", b.plus(first, row), Value(str(c.group_filters - 1), I64))
            starts.append(b.at(base, b.times(at, filters * size)))

        def copy(offset: Value, term: Value) -> None:
            for row, start in enumerate(starts):
                one = b.emit(scalar, f"load {scalar}, {b.at(start, offset)}, align {size}")
                address = b.at(goal_base, b.plus(b.times(term, cut.rows * size), row * size))
                b.emit_void(f"store {one}, {address}, align {size}")

        def channel(d: Value, _: list[Value]) -> Sequence[Value]:
            taps(b.times(d, channels * size), b.times(d, c.terms), 0)
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

        if all_taps_inside[0] and channels == many:
            copy_contiguous(Value("0", I64), Value("0", I64), c.depth * c.terms)
            return []
        b.loop(0, c.depth, 1, [], channel)
        return []

    b.block_loop(tile)
