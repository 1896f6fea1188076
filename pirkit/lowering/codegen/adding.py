"""Writes the second function of a correlation (see `correlating.py`): sums of parts are added."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pirkit.lowering.codegen.correlating import Correlation, Cut
from pirkit.lowering.codegen.ir import I64, Builder, Type, Value
from pirkit.lowering.codegen.points import Memory, argument, split_index, store, tail_mask
from pirkit.lowering.codegen.primitives import element


def emit_adding(b: Builder, c: Correlation, cut: Cut) -> None:
    """Operands are the sums of all tasks, and the result. A block is an image for some filters."""
    size = c.dtype.itemsize
    vector = Type(element(c.dtype), cut.lanes)
    sums, result = argument(b, 0), argument(b, 1)
    region, places = cut.sums(c) * size, prod(c.positions)
    line = cut.broad * cut.lanes * size
    per_image = cut.slices * cut.slice * line

    def image(number: Value, _: list[Value]) -> Sequence[Value]:
        group, broad, which = split_index(b, number, [c.groups, cut.broads(c), c.images])
        tall = b.emit(I64, f"udiv {which}, {cut.tall}")
        within = b.emit(I64, f"urem {which}, {cut.tall}")
        task = b.plus(b.times(b.plus(b.times(group, cut.talls(c)), tall), cut.broads(c)), broad)
        base = b.at(b.at(sums, b.times(task, region)), b.times(within, per_image))
        first = b.times(broad, cut.broad * cut.lanes)
        goal = b.plus(b.times(which, c.groups * c.each), b.plus(b.times(group, c.each), first))
        goals = b.at(result, b.times(goal, places * size))

        def vectors(v: Value, _: list[Value]) -> Sequence[Value]:
            lane = b.times(v, cut.lanes)
            left = b.emit(I64, f"sub i64 {c.each}, {b.plus(first, lane).text}")
            mask = tail_mask(b, cut.lanes, b.binary("smax", left, Value("0", I64)))
            into = b.at(goals, b.times(lane, places * size))

            def outer(o: Value, _: list[Value]) -> Sequence[Value]:
                def position(t: Value, _: list[Value]) -> Sequence[Value]:
                    source = b.plus(b.times(o, cut.tall * per_image), b.times(t, line))
                    here = b.at(base, b.plus(source, b.times(lane, size)))
                    total = b.emit(vector, f"load {vector}, {here}, align {size}")

                    def add(part: Value, carried: list[Value]) -> Sequence[Value]:
                        where = b.at(here, b.times(part, cut.pieces(c) * region))
                        other = b.emit(vector, f"load {vector}, {where}, align {size}")
                        return [b.add(carried[0], other)]

                    [total] = b.loop(1, cut.parts, 1, [total], add)
                    at = b.plus(b.times(o, c.positions[-1]), t)
                    memory = Memory(b.at(into, b.times(at, size)), places * size)
                    store(b, total, c.dtype, memory, mask)
                    return []

                b.loop(0, c.positions[-1], 1, [], position)
                return []

            b.loop(0, c.outer, 1, [], outer)
            return []

        b.loop(0, cut.broad, 1, [], vectors)
        return []

    b.over_blocks(image)
