"""The passes before each form of a native program, and the form with the batch in lanes."""

from __future__ import annotations

from typing import Final

from pirkit.diag.gc_pause import imported
from pirkit.lowering.whole_program.op_graph import NotNativeError, graph_of
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.plan import Plan

SEPARATE: Final = (
    "functionalize,decompose,split-complex,constant-fold,absorb-attributes,canonicalize,cse,dce"
)
"""Passes before `batch_lane_program`, which needs pure primitive ops."""
JOINT: Final = "fuse{single=true}"
"""Passes after them, before `sequence_program`."""
SINGLE: Final = "fuse{single=true,native=true},inplace{updates-only=true}"
"""What comes after `@default`, before segments: operations that are in no kernel get one. What is
left and writes a parameter back, as `scatter` to a cache, does so in place."""


def batch_lane_form(plan: Plan, fast_math: bool) -> NativeProgram | str:
    """A program with one batch row in each lane, or why there is none."""
    try:
        batch_lanes = imported("pirkit.lowering.whole_program.batch_lanes")  # few ask for it
        return batch_lanes.batch_lane_program(graph_of(plan), fast_math=fast_math)
    except NotNativeError as reason:
        return str(reason)
