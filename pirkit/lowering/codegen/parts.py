"""Sums in parts: so that several threads share one.

Long folds of few outer points are taken apart, and what is gathered over outer points is gathered
over some of them at a time.

How many parts there are follows from the kernel alone, never from the number of threads, and the
parts are folded in a fixed order: results do not depend on who computed them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pirkit.lowering.codegen.loopnest import (
    Demand,
    Fold,
    Gather,
    Index,
    Kernel,
    Load,
    Operand,
    Stage,
    Statement,
    Store,
    gathered_axes,
)
from pirkit.lowering.codegen.points import computed, types_of
from pirkit.runtime.dtype import DType

_ENOUGH_BLOCKS: Final = 16
_WANTED_BLOCKS: Final = 32
_LEAST_POINTS: Final = 1 << 14
_LEAST_GATHERED: Final = 16
"""Points that one part gathers at least: what it gathers into is read and written once more."""


@dataclass(frozen=True, slots=True)
class Step:
    """A kernel and which buffers its operands are: those of the whole, then temporaries."""

    kernel: Kernel
    buffers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """Kernels that, one after the other, do what one would; ``temporaries`` in bytes."""

    steps: tuple[Step, ...]
    temporaries: tuple[int, ...] = ()


def in_parts(kernel: Kernel, blocks: int) -> Parts:
    """A kernel that has that many blocks, taken apart if that is worth it."""
    if kernel.gathers():
        return _gathered(kernel)
    whole = Parts((Step(kernel, tuple(range(len(kernel.operands)))),))
    if blocks >= _ENOUGH_BLOCKS or len(kernel.stages) != 1 or not kernel.inner:
        return whole
    if kernel.points < 2 * _LEAST_POINTS:
        return whole
    stage = kernel.stages[0]
    axis = max(range(len(kernel.inner)), key=lambda k: kernel.inner[k])
    asked = any(
        isinstance(s, Index) and s.axis == len(kernel.outer) + axis for s in stage.body
    )  # fmt: skip
    if asked or any(isinstance(s, Store) for s in stage.body):
        return whole
    folds = [s for s in stage.body if isinstance(s, Fold)]
    wanted = min(-(-_WANTED_BLOCKS // max(blocks, 1)), kernel.points // _LEAST_POINTS)
    length = -(-kernel.inner[axis] // max(wanted, 1))
    count, rest = divmod(kernel.inner[axis], length)
    if not folds or count < 2:
        return whole
    return _apart(kernel, folds, axis, length, count, rest)


def _apart(
    kernel: Kernel, folds: Sequence[Fold], axis: int, length: int, count: int, rest: int
) -> Parts:
    types = types_of(kernel)
    pieces = count + bool(rest)
    points = math.prod(kernel.outer)
    sizes = [types[fold.name].itemsize * points * pieces for fold in folds]
    first = len(kernel.operands)
    places = range(first, first + len(folds))
    steps = [_piece(kernel, folds, types, axis, (0, length, count), sizes)]
    if rest:
        steps.append(_piece(kernel, folds, types, axis, (count * length, rest, 1), sizes))
        skipped = [count * points * types[fold.name].itemsize for fold in folds]
        steps[1] = _moved(steps[1], places, skipped)
    together = _together(kernel, folds, types, pieces, sizes)
    buffers = (*range(first), *places)
    return Parts(tuple(Step(k, buffers) for k in (*steps, together)), tuple(sizes))


def _piece(
    kernel: Kernel,
    folds: Sequence[Fold],
    types: dict[str, DType],
    axis: int,
    cut: tuple[int, int, int],
    sizes: Sequence[int],
) -> Kernel:
    """The folds of ``count`` pieces of the axis, from ``start`` on, into temporaries."""
    start, length, count = cut
    inner = tuple(length if k == axis else extent for k, extent in enumerate(kernel.inner))
    operands = [
        replace(
            o, outer=(o.inner[axis] * length, *o.outer), offset=o.offset + start * o.inner[axis]
        )
        for o in kernel.operands
    ]
    outer = (count, *kernel.outer)
    for fold, size in zip(folds, sizes, strict=True):
        dtype = types[fold.name]
        operands.append(Operand(dtype, _dense(outer, dtype), (0,) * len(inner), size))
    body = tuple(_renumbered(s) for s in kernel.stages[0].body)
    after = tuple(Store(len(kernel.operands) + k, fold.name) for k, fold in enumerate(folds))
    return Kernel(outer, inner, tuple(operands), (Stage(body, after),), kernel.fast)


def _moved(kernel: Kernel, places: Sequence[int], skipped: Sequence[int]) -> Kernel:
    """The kernel with some of its operands further on in their buffers."""
    operands = list(kernel.operands)
    for place, distance in zip(places, skipped, strict=True):
        operands[place] = replace(operands[place], offset=distance)
    return replace(kernel, operands=tuple(operands))


def _together(
    kernel: Kernel, folds: Sequence[Fold], types: dict[str, DType], pieces: int,
    sizes: Sequence[int],
) -> Kernel:  # fmt: skip
    """The pieces folded, and what follows the fold."""
    operands = [replace(o, inner=(0,)) for o in kernel.operands]
    body: list[Statement] = []
    points = math.prod(kernel.outer)
    for k, (fold, size) in enumerate(zip(folds, sizes, strict=True)):
        dtype = types[fold.name]
        strides = _dense(kernel.outer, dtype)
        operands.append(Operand(dtype, strides, (points * dtype.itemsize,), size))
        part = f"{fold.name} in parts"
        body += [Load(part, len(kernel.operands) + k), Fold(fold.name, fold.kind, part)]
    stage = Stage(tuple(body), kernel.stages[0].after)
    return Kernel(kernel.outer, (pieces,), tuple(operands), (stage,), kernel.fast)


def _gathered(kernel: Kernel) -> Parts:
    """Elements that some points share: of each part of the points for itself, then put together."""
    shared = gathered_axes(kernel)
    others = [k for k in range(len(kernel.outer)) if k not in shared]
    count = math.prod([kernel.outer[k] for k in shared])
    wanted = -(-_WANTED_BLOCKS // max(1, math.prod([kernel.outer[k] for k in others])))
    every = max(_LEAST_GATHERED, -(-count // wanted))
    pieces = -(-count // every)
    results = [kernel.operands[g.operand].dtype for g in kernel.gathers()]
    exact = all(d is computed(d) for d in results)
    if pieces < 2 and exact:
        return Parts((Step(kernel, tuple(range(len(kernel.operands)))),))
    types = types_of(kernel)
    rank, first = len(kernel.outer), len(kernel.operands)
    operands = list(kernel.operands)
    moved: dict[Statement, Gather] = {}
    ends: dict[tuple[int, ...], list[Gather]] = {}
    for gather in kernel.gathers():
        o, dtype = kernel.operands[gather.operand], types[gather.value]
        along = tuple([*others, *(rank + k for k, stride in enumerate(o.inner) if stride)])
        extents = [(*kernel.outer, *kernel.inner)[k] for k in along]
        place = dict(zip(along, _dense(extents, dtype), strict=True))
        strides = [place.get(k, 0) for k in range(rank + len(kernel.inner))]
        apart = dtype.itemsize * math.prod(extents)
        moved[gather] = replace(gather, operand=len(operands), every=every, apart=apart)
        ends.setdefault(along, []).append(gather)
        operands.append(
            Operand(dtype, tuple(strides[:rank]), tuple(strides[rank:]), apart * pieces)
        )
    stages = tuple(
        [
            Stage(
                tuple([moved.get(s, s) for s in x.body]), tuple([moved.get(s, s) for s in x.after])
            )
            for x in kernel.stages
        ]
    )
    sizes = [o.size for o in operands[first:]]
    steps = [_only_used(replace(kernel, operands=tuple(operands), stages=stages))]
    steps += [_ends(kernel, along, some, operands, moved, pieces) for along, some in ends.items()]
    return Parts(tuple(steps), tuple(sizes))


def _ends(
    kernel: Kernel, along: tuple[int, ...], gathers: Sequence[Gather],
    operands: Sequence[Operand], moved: Mapping[Statement, Gather], pieces: int,
) -> Step:  # fmt: skip
    """What the parts gathered, folded part by part."""
    body: list[Statement] = []
    after: list[Statement] = []
    used: list[Operand] = []
    buffers: list[int] = []
    for k, gather in enumerate(gathers):
        part = moved[gather]
        for number, apart in ((part.operand, part.apart), (gather.operand, 0)):
            o = operands[number]
            outer = tuple([(*o.outer, *o.inner)[axis] for axis in along])
            used.append(replace(o, outer=outer, inner=(apart,)))
            buffers.append(number)
        body += [Load(f"part {k}", 2 * k), Fold(f"all {k}", gather.kind, f"part {k}")]
        after.append(Store(2 * k + 1, f"all {k}"))
    extents = tuple([(*kernel.outer, *kernel.inner)[axis] for axis in along])
    nest = Kernel(extents, (pieces,), tuple(used), (Stage(tuple(body), tuple(after)),), kernel.fast)
    return Step(nest, tuple(buffers))


def _only_used(kernel: Kernel) -> Step:
    """The kernel without the operands that it does not need."""
    numbers = sorted({
        s.operand for s in kernel.statements() if isinstance(s, (Load, Store, Gather, Demand))
    })  # fmt: skip
    place = {number: k for k, number in enumerate(numbers)}

    def renumbered(statement: Statement) -> Statement:
        if isinstance(statement, (Load, Store, Gather, Demand)):
            return replace(statement, operand=place[statement.operand])
        return statement

    stages = tuple(
        [
            Stage(tuple(map(renumbered, x.body)), tuple(map(renumbered, x.after)))
            for x in kernel.stages
        ]
    )
    operands = tuple([kernel.operands[k] for k in numbers])
    return Step(replace(kernel, operands=operands, stages=stages), tuple(numbers))


def _renumbered(statement: Statement) -> Statement:
    """A new outer axis comes first."""
    if not isinstance(statement, Index):
        return statement
    return replace(statement, axis=statement.axis + 1)


def _dense(extents: Sequence[int], dtype: DType) -> tuple[int, ...]:
    return tuple(dtype.itemsize * math.prod(extents[k + 1 :]) for k in range(len(extents)))
