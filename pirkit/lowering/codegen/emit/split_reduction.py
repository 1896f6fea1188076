"""Splits long reductions into parts, so that several threads share one.

A reduction with few outer iterations is split along its longest axis; an accumulation across outer
iterations is split into blocks of them. A second kernel combines the partial results. The number of
parts follows from the kernel alone, never from the number of threads, and they are combined in a
fixed order: the bits of the result do not depend on who computed them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.ir.canonicalize import canonical, without_unused_operands
from pirkit.lowering.codegen.ir.element_types import compute_type, types_of
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Statement,
    Store,
    accumulated_axes,
)
from pirkit.lowering.codegen.ir.plain_loops import row_major
from pirkit.runtime.dtype import DType

_ENOUGH_BLOCKS: Final = 16
"""Blocks from which a kernel has enough parallelism without a split."""
_WANTED_BLOCKS: Final = 32
"""Blocks that a split aims at."""
_MIN_ITERATIONS: Final = 1 << 14
"""Iterations of a part at least, so that they outweigh the second kernel."""
_MIN_ACCUMULATED_BLOCK: Final = 16
"""Outer iterations of a part at least: each part writes and reads an accumulator once more."""


class KernelStep(Struct, frozen=True):
    """A kernel and the buffer of each operand: the operands of the whole, then temporaries."""

    kernel: Kernel
    buffers: tuple[int, ...]


class SplitKernel(Struct, frozen=True):
    """Kernels that, one after the other, compute what one would; ``temporaries`` in bytes."""

    steps: tuple[KernelStep, ...]
    temporaries: tuple[int, ...] = ()


def can_split(kernel: Kernel) -> bool:
    """Whether a kernel may be split for some number of blocks."""
    return bool(kernel.accumulations()) or (
        len(kernel.loop_phases) == 1
        and any(kernel.inner)
        and kernel.iterations >= 2 * _MIN_ITERATIONS
    )


def split_reductions(kernel: Kernel, blocks: int) -> SplitKernel:
    """Split a kernel that has ``blocks`` blocks, if that pays.

    Kernels with several phases, with stores in the body, or that read the index of the split axis
    are returned as they are.
    """
    if kernel.accumulations():
        return _split_accumulation(kernel)
    whole = SplitKernel((KernelStep(kernel, tuple(range(len(kernel.operands)))),))
    is_long = any(kernel.inner) and kernel.iterations >= 2 * _MIN_ITERATIONS
    if blocks >= _ENOUGH_BLOCKS or len(kernel.loop_phases) != 1 or not is_long:
        return whole
    body = kernel.loop_phases[0].body
    if not any(isinstance(s, Reduce) for s in body) or any(isinstance(s, Store) for s in body):
        return whole
    kernel = canonical(kernel)
    reductions = [s for s in kernel.loop_phases[0].body if isinstance(s, Reduce)]
    # Enough parts for all threads, but none so short that combining them dominates.
    part_count = min(-(-_WANTED_BLOCKS // max(blocks, 1)), kernel.iterations // _MIN_ITERATIONS)
    # A part of the axis with the largest stride keeps long contiguous runs.
    far = [k for k, extent in enumerate(kernel.inner) if extent >= part_count]
    axis = far[0] if far else max(range(len(kernel.inner)), key=lambda k: kernel.inner[k])
    length = -(-kernel.inner[axis] // part_count)
    count, rest = divmod(kernel.inner[axis], length)
    # An index along the split axis would restart at 0 in each part.
    reads_axis = any(
        isinstance(s, Index) and s.axis == len(kernel.outer) + axis
        for s in kernel.loop_phases[0].body
    )
    if count < 2 or reads_axis:
        return whole
    return _split(kernel, reductions, axis, length, count, rest)


def _split(
    kernel: Kernel, reductions: Sequence[Reduce], axis: int, length: int, count: int, rest: int
) -> SplitKernel:
    """Reduce ``count`` parts of ``length`` iterations and one of ``rest``, then combine them."""
    types = types_of(kernel)
    part_total = count + bool(rest)
    iterations = math.prod(kernel.outer)
    sizes = [types[reduction.name].itemsize * iterations * part_total for reduction in reductions]
    first = len(kernel.operands)
    places = range(first, first + len(reductions))
    steps = [_partial_reductions(kernel, reductions, types, axis, (0, length, count), sizes)]
    # The last, shorter part is a kernel of its own that writes after the others.
    if rest:
        steps.append(
            _partial_reductions(kernel, reductions, types, axis, (count * length, rest, 1), sizes)
        )
        skipped_bytes = [
            count * iterations * types[reduction.name].itemsize for reduction in reductions
        ]
        steps[1] = _with_offsets(steps[1], places, skipped_bytes)
    combine = _combine_partials(kernel, reductions, types, part_total, sizes)
    buffers = (*range(first), *places)
    return SplitKernel(tuple(KernelStep(k, buffers) for k in (*steps, combine)), tuple(sizes))


def _partial_reductions(
    kernel: Kernel,
    reductions: Sequence[Reduce],
    types: dict[str, DType],
    axis: int,
    cut: tuple[int, int, int],
    sizes: Sequence[int],
) -> Kernel:
    """Reduce ``count`` parts of the axis from ``start`` on into temporaries.

    ``cut`` is (start, length, count) in iterations; the parts become a new first outer axis.
    """
    start, length, count = cut
    inner = tuple(length if k == axis else extent for k, extent in enumerate(kernel.inner))
    operands = [
        replace(
            # The new outer axis steps over whole parts of the split axis.
            o,
            outer=(o.inner[axis] * length, *o.outer),
            offset=o.offset + start * o.inner[axis],
        )
        for o in kernel.operands
    ]
    outer = (count, *kernel.outer)
    for reduction, size in zip(reductions, sizes, strict=True):
        dtype = types[reduction.name]
        operands.append(
            Operand(dtype, tuple(row_major(outer, dtype.itemsize)), (0,) * len(inner), size)
        )
    body = tuple(_renumbered(s) for s in kernel.loop_phases[0].body)
    after = tuple(
        Store(len(kernel.operands) + k, reduction.name) for k, reduction in enumerate(reductions)
    )
    return Kernel(outer, inner, tuple(operands), (LoopPhase(body, after),))


def _with_offsets(kernel: Kernel, places: Sequence[int], skipped_bytes: Sequence[int]) -> Kernel:
    """The kernel with byte offsets for some of its operands."""
    operands = list(kernel.operands)
    for place, distance in zip(places, skipped_bytes, strict=True):
        operands[place] = replace(operands[place], offset=distance)
    return replace(kernel, operands=tuple(operands))


def _combine_partials(
    kernel: Kernel, reductions: Sequence[Reduce], types: dict[str, DType], part_total: int,
    sizes: Sequence[int],
) -> Kernel:  # fmt: skip
    """Reduce the partial results in order, then run what follows the reduction."""
    operands = [replace(o, inner=(0,)) for o in kernel.operands]
    body: list[Statement] = []
    iterations = math.prod(kernel.outer)
    for k, (reduction, size) in enumerate(zip(reductions, sizes, strict=True)):
        dtype = types[reduction.name]
        strides = tuple(row_major(kernel.outer, dtype.itemsize))
        operands.append(Operand(dtype, strides, (iterations * dtype.itemsize,), size))
        part = f"{reduction.name} in parts"
        body += [Load(part, len(kernel.operands) + k), Reduce(reduction.name, reduction.kind, part)]
    phase = LoopPhase(tuple(body), kernel.loop_phases[0].after)
    return Kernel(kernel.outer, (part_total,), tuple(operands), (phase,))


def _split_accumulation(kernel: Kernel) -> SplitKernel:
    """Accumulate blocks of outer iterations into temporaries, then combine these in order."""
    shared = accumulated_axes(kernel)
    others = [k for k in range(len(kernel.outer)) if k not in shared]
    count = math.prod([kernel.outer[k] for k in shared])
    part_count = -(-_WANTED_BLOCKS // max(1, math.prod([kernel.outer[k] for k in others])))
    block_size = max(_MIN_ACCUMULATED_BLOCK, -(-count // part_count))
    part_total = -(-count // block_size)
    results = [kernel.operands[g.operand].dtype for g in kernel.accumulations()]
    # fp16 and bf16 accumulate in float32 temporaries and are rounded once, by the second kernel.
    exact = all(d is compute_type(d) for d in results)
    if part_total < 2 and exact:
        return SplitKernel((KernelStep(kernel, tuple(range(len(kernel.operands)))),))
    types = types_of(kernel)
    rank, first = len(kernel.outer), len(kernel.operands)
    operands = list(kernel.operands)
    partials: dict[Statement, Accumulate] = {}
    ends: dict[tuple[int, ...], list[Accumulate]] = {}
    for accumulation in kernel.accumulations():
        o, dtype = kernel.operands[accumulation.operand], types[accumulation.value]
        # The accumulator of a part is dense over the axes along which the operand has a stride.
        combined = tuple([*others, *(rank + k for k, stride in enumerate(o.inner) if stride)])
        extents = [(*kernel.outer, *kernel.inner)[k] for k in combined]
        place = dict(zip(combined, row_major(extents, dtype.itemsize), strict=True))
        strides = [place.get(k, 0) for k in range(rank + len(kernel.inner))]
        block_stride = dtype.itemsize * math.prod(extents)
        partials[accumulation] = replace(
            accumulation, operand=len(operands), block_size=block_size, block_stride=block_stride
        )
        ends.setdefault(combined, []).append(accumulation)
        operands.append(
            Operand(dtype, tuple(strides[:rank]), tuple(strides[rank:]), block_stride * part_total)
        )
    loop_phases = tuple(
        [
            LoopPhase(
                tuple([partials.get(s, s) for s in x.body]),
                tuple([partials.get(s, s) for s in x.after]),
            )
            for x in kernel.loop_phases
        ]
    )
    sizes = [o.size for o in operands[first:]]
    parts = replace(kernel, operands=tuple(operands), loop_phases=loop_phases)
    steps = [KernelStep(*without_unused_operands(parts))]
    steps += [
        _combine_accumulated(kernel, combined, accumulated, operands, partials, part_total)
        for combined, accumulated in ends.items()
    ]
    return SplitKernel(tuple(steps), tuple(sizes))


def _combine_accumulated(
    kernel: Kernel, combined: tuple[int, ...], accumulations: Sequence[Accumulate],
    operands: Sequence[Operand], partials: Mapping[Statement, Accumulate], part_total: int,
) -> KernelStep:  # fmt: skip
    """Reduce the accumulators of all parts, part by part."""
    body: list[Statement] = []
    after: list[Statement] = []
    used: list[Operand] = []
    buffers: list[int] = []
    for k, accumulation in enumerate(accumulations):
        part = partials[accumulation]
        for number, block_stride in ((part.operand, part.block_stride), (accumulation.operand, 0)):
            o = operands[number]
            outer = tuple([(*o.outer, *o.inner)[axis] for axis in combined])
            used.append(replace(o, outer=outer, inner=(block_stride,)))
            buffers.append(number)
        body += [Load(f"part {k}", 2 * k), Reduce(f"all {k}", accumulation.kind, f"part {k}")]
        after.append(Store(2 * k + 1, f"all {k}"))
    extents = tuple([(*kernel.outer, *kernel.inner)[axis] for axis in combined])
    nest = Kernel(extents, (part_total,), tuple(used), (LoopPhase(tuple(body), tuple(after)),))
    return KernelStep(nest, tuple(buffers))


def _renumbered(statement: Statement) -> Statement:
    """The statement with axes moved up by one, for a new first outer axis."""
    if not isinstance(statement, Index):
        return statement
    return replace(statement, axis=statement.axis + 1)
