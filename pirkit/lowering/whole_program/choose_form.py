"""Chooses the form of a native program (batch lanes or kernels), or reports why none fits."""

from __future__ import annotations

from typing import Final

from pirkit.lowering.whole_program.batch_lanes import batch_lane_program, describe
from pirkit.lowering.whole_program.kernel_sequence import sequence_program
from pirkit.lowering.whole_program.op_graph import NotNativeError, graph_of
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.plan import Plan

SEPARATE: Final = "functionalize,decompose,constant-fold,absorb-attributes,canonicalize,cse,dce"
"""Passes before `batch_lane_program`, which needs pure primitive ops."""
JOINT: Final = "fuse{single=true}"
"""Passes after them, before `sequence_program`."""
SINGLE: Final = "fuse{single=true,native=true},inplace{updates-only=true}"
"""What comes after `@default`, before segments: operations that are in no kernel get one. What is
left and writes a parameter back, as `scatter` to a cache, does so in place."""


def batch_lane_form(plan: Plan, fast_math: bool) -> NativeProgram | str:
    """A program with one batch row in each lane, or why there is none."""
    try:
        return batch_lane_program(graph_of(plan), fast_math=fast_math)
    except NotNativeError as reason:
        return str(reason)


def explain(plan: Plan) -> str:
    """A summary of the plan as one native call, or why it has none.

    `compile` first gives a kernel to each operation that is in none, so it may have one where this
    plan has none. Nothing is compiled but nests.
    """
    try:
        return f"one native call, {describe(graph_of(plan))}"
    except NotNativeError as reason:
        batch_lanes = f"batch in lanes: {reason}"
    try:
        return f"one native call, {sequence_program(plan).summary}"
    except NotNativeError as reason:
        kernels = f"kernel sequence: {reason}"
        return f"this plan as it stands has no single native call ({batch_lanes}; {kernels})"
