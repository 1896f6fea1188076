"""Reduces split-K partial sums of a weight gradient, in the order of the parts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.conv.conv_weight_grad import GradTask
from pirkit.lowering.codegen.emit.memory_access import Memory, store
from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.ir.loop_ir import Buffer, Invoke, Iteration, Loop, Nest
from pirkit.lowering.codegen.ir.plain_loops import task_nest
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values, matrix
from pirkit.lowering.codegen.math.casts import element


def split_k_nest(t: GradTask) -> Nest:
    """The loops over groups, tasks of filters and images; operands are partial sums and result.

    Filters are lanes in the partial sums and an outer axis of the result, so stores are strided.
    """
    c, cut = t.c, t.cut
    region, tasks, filters = cut.sums(c) * t.size, cut.filter_tasks(c), cut.task_vectors * cut.lanes
    plane = prod(c.positions) * t.size
    image = c.groups * c.group_filters * plane
    buffers = (
        Buffer(c.dtype, (cut.image_tasks(c) * tasks * region, region, 0),
               cut.parts * cut.segments(c) * region),
        Buffer(c.dtype, (c.group_filters * plane, filters * plane, image), c.images * image),
    )  # fmt: skip
    numbers = Iteration("f"), Iteration("i")
    body = (Invoke(ReduceParts(t), (0, 1), numbers),)
    extents = c.groups, tasks, c.images
    loops = [Loop(var, (k,), 0, extents[k], 1, ()) for k, var in enumerate("gfi")]
    return task_nest(extents, (), buffers, loops, body)


class ReduceParts(Struct, frozen=True):
    """Adds the parts of an image for the filters of a task, whose numbers it gets."""

    t: GradTask

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return f"{buffers[1]} = sum of {self.t.cut.parts} parts of {buffers[0]}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        t, c, cut, (task, which) = self.t, self.t.c, self.t.cut, numbers
        filters = cut.task_vectors * cut.lanes
        count = min(filters, c.group_filters - task * filters)
        image_task, within = divmod(which, cut.task_images)
        region = cut.sums(c) * t.size
        at = image_task * cut.filter_tasks(c) * region + within * t.image_sums
        sums = matrix(
            (memory[0][0], memory[0][1] + at), c.dtype,
            (cut.parts, c.outer, c.positions[-1], count),
            (cut.segments(c) * region, cut.task_images * t.image_sums, t.filters_bytes, t.size),
        )  # fmt: skip
        shape, plane = (count, c.outer, c.positions[-1]), prod(c.positions) * t.size
        steps = plane, c.positions[-1] * t.size, t.size
        matrix(memory[1], c.dtype, shape, steps)[...] = np.moveaxis(sums.sum(0), 2, 0)

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        t, c, cut, (task, which) = self.t, self.t.c, self.t.cut, numbers
        size, vector = t.size, Type(element(c.dtype), cut.lanes)
        region, positions = cut.sums(c) * size, prod(c.positions)
        image_task = b.emit(I64, f"udiv {which}, {cut.task_images}")
        within = b.emit(I64, f"urem {which}, {cut.task_images}")
        base = b.at(addresses[0], b.times(image_task, cut.filter_tasks(c) * region))
        base = b.at(base, b.times(within, t.image_sums))
        first = b.times(task, cut.task_vectors * cut.lanes)

        def vectors(v: Value, _: list[Value]) -> Sequence[Value]:
            lane = b.times(v, cut.lanes)
            # Lanes beyond the last filter of the group are padding.
            left = b.emit(I64, f"sub i64 {c.group_filters}, {b.plus(first, lane).text}")
            mask = tail_mask(b, cut.lanes, b.binary("smax", left, Value("0", I64)))
            filter_dest = b.at(addresses[1], b.times(lane, positions * size))

            def outer(o: Value, _: list[Value]) -> Sequence[Value]:
                def position(x: Value, _: list[Value]) -> Sequence[Value]:
                    source = b.plus(
                        b.times(o, cut.task_images * t.image_sums), b.times(x, t.filters_bytes)
                    )
                    here = b.at(base, b.plus(source, b.times(lane, size)))
                    total = b.load(vector, here, size)

                    def add(part: Value, carried: list[Value]) -> Sequence[Value]:
                        # Partial sums of consecutive parts are `segments` tasks apart.
                        address = b.at(here, b.times(part, cut.segments(c) * region))
                        other = b.load(vector, address, size)
                        return [b.add(carried[0], other)]

                    [total] = b.loop(1, cut.parts, 1, [total], add)
                    at = b.plus(b.times(o, c.positions[-1]), x)
                    memory = Memory(b.at(filter_dest, b.times(at, size)), positions * size)
                    store(b, total, c.dtype, memory, mask)
                    return []

                b.loop(0, c.positions[-1], 1, [], position)
                return []

            b.loop(0, c.outer, 1, [], outer)
            return []

        b.loop(0, cut.task_vectors, 1, [], vectors)
