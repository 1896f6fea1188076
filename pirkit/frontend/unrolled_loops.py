"""Whether Python unrolled a loop over the slices of a tensor in a traced program.

This is not in `reroll.py`, because every first call asks and few programs have such loops.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct

from pirkit.dialect.operation import PirOp, ProgramOp

LEAST: Final = 8
"""Fewest slices of a loop that is rerolled. With fewer, the program stays one loop over points."""


class Slice(Struct, frozen=True):
    """``y[k]``, ``y[k, 0]`` or ``y[k:k+1]``: the k, and what is cut from the row."""

    row: int
    drops: bool
    """Whether axis 0 is dropped, as in ``y[k]``."""
    cuts: tuple[tuple[int, int, int, bool], ...] = ()
    """Of other axes: the axis, the first place, the end, whether the axis is dropped."""


def has_unrolled_loops(program: ProgramOp) -> bool:
    """True if a program takes at least `LEAST` slices ``y[0]``, ``y[1]``... of one tensor."""
    taken = Counter(
        (op.operands[0], cut.drops, cut.cuts)
        for op in program.operations
        if (cut := slice_of(op)) is not None
    )
    return any(count >= LEAST for count in taken.values())


def slice_of(op: PirOp) -> Slice | None:
    """The slice that an operation takes from one row of its operand; None for other operations."""
    if op.name != "pd_op.slice" or len(op.operands) > 1 or any(op.stop_gradient):
        return None
    axes, dropped = op.attribute("axes"), op.attribute("decrease_axis") or ()
    cuts = {
        axis: (first, end, axis in dropped)
        for axis, first, end in zip(axes, op.attribute("starts"), op.attribute("ends"), strict=True)
    }
    first, end, drops = cuts.pop(0, (-1, 0, False))
    if not 0 <= first == end - 1:
        return None
    return Slice(first, drops, tuple([(axis, *cut) for axis, cut in cuts.items()]))
