"""Canonicalizes loop nests, so that the emitters see few forms.

Axes of extent 1 are dropped, outer and inner axes are sorted from the largest stride to the
smallest, and axes that are contiguous to each other are merged. An elementwise kernel gets a single
phase. Only the order of terms in reductions changes. Dead code elimination is here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    RuntimeAssert,
    Statement,
    Store,
    reads,
)


class _Axis(Struct, frozen=True):
    extent: int
    strides: tuple[int, ...]
    number: int | None
    """Its number in the kernel, if a statement reads the index along it."""


def canonical(kernel: Kernel) -> Kernel:
    """An equivalent kernel in canonical form."""
    indexed_axes = {s.axis for s in kernel.statements() if isinstance(s, Index)}
    written = {s.operand for s in kernel.statements() if isinstance(s, Store)}
    rank = len(kernel.outer)
    outer = _axes(kernel.outer, [o.outer for o in kernel.operands], indexed_axes, 0)
    inner = _axes(kernel.inner, [o.inner for o in kernel.operands], indexed_axes, rank)
    return _rebuilt(kernel, _merged(_sorted(outer, written)), _merged(_sorted(inner, written)))


def with_axes(kernel: Kernel, outer: Sequence[int], inner: Sequence[int]) -> Kernel:
    """The kernel with its axes permuted; numbers count outer axes first.

    Axes may move between outer and inner only in a single-phase kernel without reductions.
    """
    extents = (*kernel.outer, *kernel.inner)
    strides = [(*o.outer, *o.inner) for o in kernel.operands]
    pick = {
        axis: _Axis(extents[axis], tuple(s[axis] for s in strides), axis)
        for axis in range(len(extents))
    }
    return _rebuilt(kernel, [pick[a] for a in outer], [pick[a] for a in inner])


def without_unused_operands(kernel: Kernel) -> tuple[Kernel, tuple[int, ...]]:
    """The kernel without operands that no statement uses, and the numbers of the others."""
    numbers = sorted(
        {
            s.operand
            for s in kernel.statements()
            if isinstance(s, (Load, Store, Accumulate, RuntimeAssert))
        }
    )
    place = {number: k for k, number in enumerate(numbers)}

    def renumbered(statement: Statement) -> Statement:
        if isinstance(statement, (Load, Store, Accumulate, RuntimeAssert)):
            return replace(statement, operand=place[statement.operand])
        return statement

    loop_phases = tuple(
        [
            LoopPhase(tuple(map(renumbered, x.body)), tuple(map(renumbered, x.after)))
            for x in kernel.loop_phases
        ]
    )
    operands = tuple([kernel.operands[k] for k in numbers])
    return replace(kernel, operands=operands, loop_phases=loop_phases), tuple(numbers)


def _axes(
    extents: tuple[int, ...], strides: list[tuple[int, ...]], indexed_axes: set[int], first: int
) -> list[_Axis]:
    return [
        _Axis(
            extent, tuple(s[k] for s in strides), first + k if first + k in indexed_axes else None
        )
        for k, extent in enumerate(extents)
        if extent != 1
    ]


def _sorted(axes: list[_Axis], written: set[int]) -> list[_Axis]:
    """Axes by decreasing strides; those of stored operands count first."""

    def farness(axis: _Axis) -> tuple[int, int]:
        stores = sum(abs(axis.strides[k]) for k in written)
        return stores, sum(map(abs, axis.strides))

    return sorted(axes, key=farness, reverse=True)


def _merged(axes: list[_Axis]) -> list[_Axis]:
    """Merge an axis into the one before if every operand is contiguous across them.

    An axis whose index is read stays as it is.
    """
    # Fewer and longer loops: the rest of a loop that is no multiple of the lanes occurs once.
    result: list[_Axis] = []
    for axis in axes:
        before = result[-1] if result else None
        if (
            before is not None
            and before.number is None
            and axis.number is None
            and before.strides == tuple(s * axis.extent for s in axis.strides)
        ):
            result[-1] = replace(axis, extent=axis.extent * before.extent)
        else:
            result.append(axis)
    return result


def _rebuilt(kernel: Kernel, outer: list[_Axis], inner: list[_Axis]) -> Kernel:
    """The kernel with these axes; indices of dropped axes become the constant 0."""
    places = {
        axis.number: place
        for place, axis in enumerate((*outer, *inner))
        if axis.number is not None
    }  # fmt: skip

    def renumber(statement: Statement) -> Statement:
        if not isinstance(statement, Index):
            return statement
        # The axis had extent 1: its index is 0.
        if statement.axis not in places:
            return Constant(statement.name, statement.dtype, 0)
        return replace(statement, axis=places[statement.axis])

    loop_phases = tuple(
        LoopPhase(tuple(map(renumber, s.body)), tuple(map(renumber, s.after)))
        for s in kernel.loop_phases
    )
    # A reduction needs a loop to end: give it one of one iteration.
    if not inner and any(isinstance(s, (Reduce, Accumulate)) for s in kernel.statements()):
        inner = [_Axis(1, (0,) * len(kernel.operands), None)]
    if not inner:
        body = tuple(s for phase in loop_phases for s in (*phase.body, *phase.after))
        loop_phases = (LoopPhase(body),)
    operands = tuple(
        Operand(
            operand.dtype,
            tuple(axis.strides[k] for axis in outer),
            tuple(axis.strides[k] for axis in inner),
            operand.size,
            operand.offset,
            operand.stream,
        )
        for k, operand in enumerate(kernel.operands)
    )
    return Kernel(
        tuple(a.extent for a in outer), tuple(a.extent for a in inner), operands, loop_phases
    )


def without_dead_values(loop_phases: Sequence[LoopPhase]) -> tuple[LoopPhase, ...]:
    """Dead code elimination: the phases without what no store and no reduction depends on."""
    used = _used(s for phase in loop_phases for s in (*phase.body, *phase.after))
    return tuple(
        LoopPhase(*(tuple([s for s in part if _is_live(s, used)]) for part in (s.body, s.after)))
        for s in loop_phases
    )


def _used(statements: Iterator[Statement]) -> set[str]:
    """Names on which stores and reductions depend."""
    found: set[str] = set()
    for s in reversed(list(statements)):
        if _is_live(s, found):
            found |= set(reads(s))
    return found


def _is_live(s: Statement, used: set[str]) -> bool:
    return not isinstance(s, (Constant, Index, Compute, Load)) or s.name in used
