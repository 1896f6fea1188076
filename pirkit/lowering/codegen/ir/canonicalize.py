"""Brings a loop nest into a plain form, so that few forms reach the code generator.

Axes of one element vanish, outer and inner axes are ordered from the farthest memory to the
nearest, and neighbours that walk memory as one axis become one. An elementwise kernel becomes one
stage. None of this changes what is computed but the order in which folds add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Constant,
    Index,
    Kernel,
    LoopPhase,
    Operand,
    Reduce,
    Statement,
    Store,
)


@dataclass(frozen=True, slots=True)
class _Axis:
    extent: int
    strides: tuple[int, ...]
    number: int | None
    """Its number in the kernel, if a statement asks for the position along it."""


def canonical(kernel: Kernel) -> Kernel:
    """An equal kernel in the plain form."""
    indexed_axes = {s.axis for s in kernel.statements() if isinstance(s, Index)}
    written = {s.operand for s in kernel.statements() if isinstance(s, Store)}
    rank = len(kernel.outer)
    outer = _axes(kernel.outer, [o.outer for o in kernel.operands], indexed_axes, 0)
    inner = _axes(kernel.inner, [o.inner for o in kernel.operands], indexed_axes, rank)
    return _rebuilt(kernel, _merged(_sorted(outer, written)), _merged(_sorted(inner, written)))


def with_axes(kernel: Kernel, outer: Sequence[int], inner: Sequence[int]) -> Kernel:
    """The kernel with its axes in another order; numbers count outer axes first.

    Axes may move between outer and inner only if the kernel is a single stage without folds.
    """
    extents = (*kernel.outer, *kernel.inner)
    strides = [(*o.outer, *o.inner) for o in kernel.operands]
    pick = {
        axis: _Axis(extents[axis], tuple(s[axis] for s in strides), axis)
        for axis in range(len(extents))
    }
    return _rebuilt(kernel, [pick[a] for a in outer], [pick[a] for a in inner])


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
    def farness(axis: _Axis) -> tuple[int, int]:
        stores = sum(abs(axis.strides[k]) for k in written)
        return stores, sum(map(abs, axis.strides))

    return sorted(axes, key=farness, reverse=True)


def _merged(axes: list[_Axis]) -> list[_Axis]:
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
    places = {
        axis.number: place
        for place, axis in enumerate((*outer, *inner))
        if axis.number is not None
    }  # fmt: skip

    def renumber(statement: Statement) -> Statement:
        if not isinstance(statement, Index):
            return statement
        if statement.axis not in places:
            return Constant(statement.name, statement.dtype, 0)
        return replace(statement, axis=places[statement.axis])

    loop_phases = tuple(
        LoopPhase(tuple(map(renumber, s.body)), tuple(map(renumber, s.after)))
        for s in kernel.loop_phases
    )
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
        tuple(a.extent for a in outer),
        tuple(a.extent for a in inner),
        operands,
        loop_phases,
        kernel.fast,
    )
