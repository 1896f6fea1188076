"""Emits the reduction of split-K partial sums of a weight gradient, in the order of the parts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pirkit.lowering.codegen.conv.conv_weight_grad import WeightGrad, WeightGradBlocking
from pirkit.lowering.codegen.emit.memory_access import Memory, store
from pirkit.lowering.codegen.emit.vector_emit import argument, split_index, tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import element


def emit_split_k_reduce(b: Builder, c: WeightGrad, cut: WeightGradBlocking) -> None:
    """Operands are the partial sums of all tasks, and the result.

    A block of the function is one image for the filters of a task. Filters are lanes in the partial
    sums and an outer axis of the result, so stores are strided.
    """
    size = c.dtype.itemsize
    vector = Type(element(c.dtype), cut.lanes)
    sums, result = argument(b, 0), argument(b, 1)
    region, positions = cut.sums(c) * size, prod(c.positions)
    line = cut.task_vectors * cut.lanes * size
    per_image = cut.slices * cut.tile_positions * line

    def image(number: Value, _: list[Value]) -> Sequence[Value]:
        group, filter_task, which = split_index(
            b, number, [c.groups, cut.filter_tasks(c), c.images]
        )
        image_task = b.emit(I64, f"udiv {which}, {cut.task_images}")
        within = b.emit(I64, f"urem {which}, {cut.task_images}")
        task = b.plus(
            b.times(b.plus(b.times(group, cut.image_tasks(c)), image_task), cut.filter_tasks(c)),
            filter_task,
        )
        base = b.at(b.at(sums, b.times(task, region)), b.times(within, per_image))
        first = b.times(filter_task, cut.task_vectors * cut.lanes)
        dest = b.plus(
            b.times(which, c.groups * c.group_filters),
            b.plus(b.times(group, c.group_filters), first),
        )
        results = b.at(result, b.times(dest, positions * size))

        def vectors(v: Value, _: list[Value]) -> Sequence[Value]:
            lane = b.times(v, cut.lanes)
            # Lanes beyond the last filter of the group are padding.
            left = b.emit(I64, f"sub i64 {c.group_filters}, {b.plus(first, lane).text}")
            mask = tail_mask(b, cut.lanes, b.binary("smax", left, Value("0", I64)))
            filter_dest = b.at(results, b.times(lane, positions * size))

            def outer(o: Value, _: list[Value]) -> Sequence[Value]:
                def position(t: Value, _: list[Value]) -> Sequence[Value]:
                    source = b.plus(b.times(o, cut.task_images * per_image), b.times(t, line))
                    here = b.at(base, b.plus(source, b.times(lane, size)))
                    total = b.emit(vector, f"load {vector}, {here}, align {size}")

                    def add(part: Value, carried: list[Value]) -> Sequence[Value]:
                        # Partial sums of consecutive parts are `segments` tasks apart.
                        address = b.at(here, b.times(part, cut.segments(c) * region))
                        other = b.emit(vector, f"load {vector}, {address}, align {size}")
                        return [b.add(carried[0], other)]

                    [total] = b.loop(1, cut.parts, 1, [total], add)
                    at = b.plus(b.times(o, c.positions[-1]), t)
                    memory = Memory(b.at(filter_dest, b.times(at, size)), positions * size)
                    store(b, total, c.dtype, memory, mask)
                    return []

                b.loop(0, c.positions[-1], 1, [], position)
                return []

            b.loop(0, c.outer, 1, [], outer)
            return []

        b.loop(0, cut.task_vectors, 1, [], vectors)
        return []

    b.block_loop(image)
