"""Chooses the axis along which the lanes lie, and which operands are transposed for it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pirkit.lowering.codegen.emit.memory_access import is_near
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Index,
    Kernel,
    Load,
    Scatter,
    Statement,
    Store,
    saved_values,
    varying,
)
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.math.primitives import is_costly
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

_MIN_TRANSPOSED_EXTENT = 16
"""Extent of both axes from which operands are transposed to vectorize an outer axis."""
_WIDE, _WIDE_OF_FUNCTIONS = 8, 24
"""Extents from which lanes lie along an axis. With elementary functions, idle lanes and a scalar
function of each row's result cost more than transposing the operands of shorter rows."""
_SCATTER_ROW = 8
"""Elements of a row from which a scatter writes it in vectors."""


def lane_count(kernel: Kernel, axis: int, target: Target) -> int:
    """The vector length: the widest element type that varies along the lanes fills a register."""
    names = varying(kernel, axis)
    # Everything that varies along the lanes shares one vector length: the widest type counts.
    dtypes: list[DType] = []
    for statement in kernel.statements():
        match statement:
            case Load(name, operand) if name in names:
                dtypes.append(kernel.operands[operand].dtype)
            case Store(operand) | Accumulate(operand) | Scatter(operand):
                dtypes.append(kernel.operands[operand].dtype)
            case Compute(name, _, _, dtype) | Index(name, _, dtype) if name in names:
                dtypes.append(dtype)
            case _:
                continue
    widest = max((4 if element(d) == "float" else d.itemsize for d in dtypes), default=4)
    return max(2, target.vector_bits // (8 * widest))


def lanes_for(extent: int) -> int:
    """The fewest lanes that hold ``extent`` elements.

    Wider vectors would be stored under a mask, and CPUs forward no masked store to later loads.
    """
    return max(2, 1 << (extent - 1).bit_length())


def lane_axis_of(kernel: Kernel) -> int | None:
    """The axis along which most bytes are contiguous; of equal ones the last outer axis."""
    extents, has_accumulations = (*kernel.outer, *kernel.inner), bool(kernel.accumulations())
    # Iterations of a scatter stay in order: its lanes lie along a row, if rows are long enough.
    indices = {s.at for s in kernel.statements() if isinstance(s, Scatter)}
    if indices:
        along = [k for k, n in enumerate(extents) if n >= _SCATTER_ROW]
        return next((k for k in along if not indices & varying(kernel, k)), None)
    if not extents:
        return None

    # What follows reductions runs once for all their terms: in lanes, or alone if these lie along a
    # row.
    bodies = [s for p in kernel.loop_phases for s in p.body]
    outside = _least_extent(bodies if kernel.inner else kernel.statements())
    inside = _least_extent(kernel.statements())

    def worth(axis: int) -> tuple[float, int, bool, int]:
        """Bytes per iteration that are contiguous along an axis, then ties."""
        total = 0.0
        for operand in kernel.operands:
            strides = (*operand.outer, *operand.inner)
            if strides[axis] == operand.dtype.itemsize:
                iterations = [e for e, s in zip(extents, strides, strict=True) if s]
                total += operand.dtype.itemsize * math.prod(iterations) / kernel.iterations
        stores = sum(
            (*kernel.operands[s.operand].outer, *kernel.operands[s.operand].inner)[axis]
            == kernel.operands[s.operand].dtype.itemsize
            for s in kernel.statements()
            if isinstance(s, Store)
        )
        # An outer axis may be one that accumulates; its iterations must stay in order.
        if has_accumulations and axis < len(kernel.outer):
            return -1.0, 0, False, 0
        # Along a short axis most lanes of a vector would be masked off.
        is_wide = extents[axis] >= (outside if axis < len(kernel.outer) else inside)
        return (total if is_wide else 0.0, stores, axis < len(kernel.outer), axis)

    if kernel.iterations == 0:
        return len(kernel.outer) if has_accumulations else 0
    best = max(range(len(extents)), key=worth)
    return best if best < len(kernel.outer) else _outer_lane_axis(kernel, best)


def _least_extent(statements: Iterable[Statement]) -> int:
    computes = any(isinstance(s, Compute) and is_costly(s.primitive) for s in statements)
    return _WIDE_OF_FUNCTIONS if computes else _WIDE


def _outer_lane_axis(kernel: Kernel, inner: int) -> int:
    """The vectorized axis if an inner one is best: an outer axis, if that avoids gathers.

    Operands that are strided along the inner axis but contiguous along the outer one are then
    loaded as vectors, and all others are transposed.
    """
    bodies = [s for phase in kernel.loop_phases for s in phase.body]
    if kernel.accumulations() or saved_values(kernel) or any(isinstance(s, Store) for s in bodies):
        return inner
    extents = (*kernel.outer, *kernel.inner)
    operands = [kernel.operands[k] for k in sorted(loaded_operands(kernel))]
    strides = {o: (*o.outer, *o.inner) for o in operands}
    accumulated = [o for o in operands if strides[o][inner] not in (0, o.dtype.itemsize)]
    for axis in reversed(range(len(kernel.outer))):
        is_wide = min(extents[axis], extents[inner]) >= _MIN_TRANSPOSED_EXTENT
        if (
            accumulated
            and is_wide
            and all(strides[o][axis] == o.dtype.itemsize for o in accumulated)
        ):
            return axis
    return inner


def transposed_axis_of(kernel: Kernel, lane_axis: int, candidates: list[int]) -> int | None:
    """The axis along which most operands are contiguous that are strided along the lanes."""
    counts = dict.fromkeys(candidates, 0)
    for number in loaded_operands(kernel):
        operand = kernel.operands[number]
        strides = (*operand.outer, *operand.inner)
        size = operand.dtype.itemsize
        # Broadcast and contiguous operands need no transpose; a small stride is loaded by shuffles.
        if strides[lane_axis] in (0, size) or is_near(strides[lane_axis], size):
            continue
        # A copy in a tile would not see what the kernel stores.
        if number in stored_operands(kernel):
            continue
        for axis in candidates:
            counts[axis] += strides[axis] == operand.dtype.itemsize
    best = max(counts, key=lambda axis: counts[axis], default=None)
    return best if best is not None and counts[best] else None


def packed_operands(kernel: Kernel) -> tuple[int, ...]:
    """Operands that are contiguous along the last inner axis and strided along the lanes."""
    stored = stored_operands(kernel)
    return tuple(
        number
        for number in sorted(loaded_operands(kernel))
        if number not in stored
        and kernel.operands[number].inner[-1] == kernel.operands[number].dtype.itemsize
        and kernel.operands[number].outer[-1] not in (0, kernel.operands[number].dtype.itemsize)
    )


def loaded_operands(kernel: Kernel) -> set[int]:
    """Operands that are read unconditionally at their own strides: no gathers, no predicates."""
    loads = [s for s in kernel.statements() if isinstance(s, Load)]
    indirect = {s.operand for s in loads if s.at is not None or s.predicate is not None}
    return {s.operand for s in loads} - indirect


def stored_operands(kernel: Kernel) -> set[int]:
    """Operands that are stored to."""
    return {s.operand for s in kernel.statements() if isinstance(s, Store)}
