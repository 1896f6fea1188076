"""Chooses how a program becomes one piece of native code, or tells why it does not."""

from __future__ import annotations

from typing import Final

from pirkit.lowering.whole_program.graph import Refused, graph_of
from pirkit.lowering.whole_program.points import described, points_program
from pirkit.lowering.whole_program.sequence import sequence_program
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.plan import Plan

APART: Final = "functionalize,decompose,constant-fold,absorb-attributes,canonicalize,cse,dce"
"""Passes before `points_program`: ops are taken apart, and pure."""
TOGETHER: Final = "fuse{single=true}"
"""Passes after them, before `sequence_program`."""


def with_points(plan: Plan) -> NativeProgram | str:
    """A program with points in lanes, or why there is none."""
    try:
        return points_program(graph_of(plan))
    except Refused as reason:
        return str(reason)


def with_kernels(plan: Plan) -> NativeProgram | str:
    """A program of fused kernels, or why there is none."""
    try:
        return sequence_program(plan)
    except Refused as reason:
        return str(reason)


def explained(plan: Plan) -> str:
    """What a plan would be as one native call as it stands, or why it is none.

    `compile_whole` first takes the operations of a program apart, so it may have one where this
    plan has none. Nothing is compiled but nests.
    """
    try:
        return f"one native call, {described(graph_of(plan))}"
    except Refused as reason:
        points = f"points in lanes: {reason}"
    try:
        return f"one native call, {sequence_program(plan).summary}"
    except Refused as reason:
        kernels = f"kernels in order: {reason}"
        return f"this plan as it stands has no single native call ({points}; {kernels})"
