"""The axis of the lanes where elementary functions follow a reduction."""

from __future__ import annotations

from pirkit.lowering.codegen.emit.lane_axis import lane_axis_of
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Store,
)
from pirkit.runtime import dtype as dt

F32 = dt.float32


def test_functions_of_sums_do_not_move_the_lanes_away_from_contiguous_rows() -> None:
    """Windows of 3 elements in 33 rows of 23: the 21 sums of a row are contiguous."""
    image = Operand(F32, (92, 4), (4,), 33 * 92)
    result = Operand(F32, (84, 4), (0,), 33 * 84)
    sums = (Load("x", 0), Reduce("sum", "sum", "x"))
    for after in ((), (Compute("y", "sigmoid", ("sum",), F32),)):
        stored = Store(1, "y" if after else "sum")
        kernel = Kernel((33, 21), (3,), (image, result), (LoopPhase(sums, (*after, stored)),))
        assert lane_axis_of(kernel) == 1


def test_functions_of_short_rows_sums_lie_in_lanes() -> None:
    """Along rows of 16 elements a function of their sum would be computed for one at a time."""
    rows = Operand(F32, (64,), (4,), 40 * 64)
    result = Operand(F32, (4,), (0,), 40 * 4)
    sums = (Load("x", 0), Reduce("sum", "sum", "x"))
    after = (Compute("y", "sigmoid", ("sum",), F32), Store(1, "y"))
    kernel = Kernel((40,), (16,), (rows, result), (LoopPhase(sums, after),))
    assert lane_axis_of(kernel) == 0
