"""Splits the loop along a row where guards change, so that each piece has plain loads.

A `concat` along the last axis selects between its operands at each element. In pieces it copies
them one after the other, row by row: the result is written once, in order, while a nest for each
operand (`index_set_splitting.py`) would pass over all lines of the result again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.canonicalize import without_dead_values
from pirkit.lowering.codegen.ir.guards import guard_changes, loops_over, plain_loads, without_guards
from pirkit.lowering.codegen.ir.loop_edits import Nodes, change_loops
from pirkit.lowering.codegen.ir.loop_ir import Block, Loop, Nest, require
from pirkit.lowering.codegen.ir.loopnest import (
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Statement,
    Store,
)

_SHORT: Final = 128
"""Bytes of a row that vectors across rows (`emit/short_rows.py`) may take."""
_LONGEST: Final = 8192
"""Elements of a row; pieces of longer rows are nests of their own, whose blocks threads share."""
_MOST_PIECES: Final = 8


def row_ends(kernel: Kernel) -> tuple[int, ...]:
    """Where the pieces of rows end, if each of them has plain loads, else nothing.

    Rows lie along the last outer axis of an elementwise kernel.
    """
    axis, stored = len(kernel.outer) - 1, [s for s in kernel.statements() if isinstance(s, Store)]
    if kernel.inner or axis < 0 or len(kernel.loop_phases) != 1 or not stored:
        return ()
    if plain_loads(kernel.statements()):
        return ()
    extent, out = kernel.outer[axis], kernel.operands[stored[0].operand]
    if out.outer[axis] != out.dtype.itemsize or extent * out.dtype.itemsize <= _SHORT:
        return ()
    changes = {at for of, at in guard_changes(kernel) if of == axis}
    places = sorted({0, extent, *(at for at in changes if 0 < at < extent)})
    if not 2 < len(places) <= _MOST_PIECES or extent > _LONGEST:
        return ()
    ends, low = list[int](), 0
    while low < extent:
        # A guard whose load is not selected may change within a piece.
        later = [high for high in reversed(places) if high > low]
        high = next((at for at in later if _is_copied(kernel, axis, low, at)), None)
        if high is None:
            return ()
        ends.append(high)
        low = high
    return tuple(ends)


def split_rows(nest: Nest, var: str, ends: tuple[int, ...]) -> Nest:
    """A loop for each piece of a row, with the loads of that piece."""

    def change(node: Loop) -> Nodes | None:
        (axis,) = node.axes
        require(node.start == 0 and node.stop == ends[-1], "split_rows", f"{var} is no whole row")
        return tuple([
            replace(node, start=low, stop=high, body=(Block(_body(nest.kernel, axis, low, high)),))
            for low, high in pairwise((0, *ends))
        ])  # fmt: skip

    return change_loops(nest, var, change)


def _body(kernel: Kernel, axis: int, low: int, high: int) -> tuple[Statement, ...]:
    """The statements at indices ``low`` to ``high`` of an axis, without guards that hold there."""
    body = tuple(without_guards(kernel, loops_over(kernel, axis, low, high)))
    (phase,) = without_dead_values([LoopPhase(body)])
    return phase.body


def _is_copied(kernel: Kernel, axis: int, low: int, high: int) -> bool:
    """Whether the loads between two indices are plain, and near along the axis."""
    loads = [s for s in _body(kernel, axis, low, high) if isinstance(s, Load)]
    operands = [kernel.operands[s.operand] for s in loads]
    return plain_loads(loads) and all(_is_near(o, axis) for o in operands)


def _is_near(operand: Operand, axis: int) -> bool:
    """Whether an operand is contiguous along an axis, in either direction, or the same."""
    return abs(operand.outer[axis]) in (0, operand.dtype.itemsize)
