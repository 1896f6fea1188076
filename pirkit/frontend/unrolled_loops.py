"""Whether Python unrolled a loop over the slices of a tensor in a traced program.

This is apart from `reroll.py`, because every first call asks and few programs have such loops.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from pirkit.dialect.operation import PirOp, ProgramOp

LEAST: Final = 8
"""Slices from which on a loop is rerolled: fewer leave the program one loop over points."""


def has_unrolled_loops(program: ProgramOp) -> bool:
    """True if a program takes so many slices ``y[0]``, ``y[1]``... of one tensor."""
    taken = Counter(op.operands[0] for op in program.operations if slice_of(op) is not None)
    return any(count >= LEAST for count in taken.values())


def slice_of(op: PirOp) -> int | None:
    """The k of ``y[k]``."""
    if op.name != "pd_op.slice" or len(op.operands) > 1 or any(op.stop_gradient):
        return None
    begin, end = op.attribute("starts"), op.attribute("ends")
    alone = list(op.attribute("axes")) == [0] == list(op.attribute("decrease_axis"))
    return begin[0] if alone and 0 <= begin[0] == end[0] - 1 else None
