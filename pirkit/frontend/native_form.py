"""What `compile_whole` makes of a program that no cache has."""

from __future__ import annotations

from typing import Final

from pirkit.analysis.stated_types import misstated
from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import Program
from pirkit.lowering.plan_writer import write_plan
from pirkit.lowering.whole_program.choose import APART, TOGETHER, with_kernels, with_points
from pirkit.runtime.native.program import NativeProgram

GRADIENTS: Final = "taylor,expand-gradients"
"""Passes that a recorded program needs before any other."""


def native_form(program: Program, pipeline: str) -> tuple[NativeProgram | None, tuple[str, ...]]:
    """One native function, or None, and why there is none of each kind that was tried.

    Raises what `run_passes` raises.
    """
    apart = run_passes(program, ",".join(filter(None, (GRADIENTS, pipeline, APART))))
    if misstated(apart.entry(None).block):
        return None, ("a value has not the type that the program states",)
    found = with_points(write_plan(apart.entry(None)))
    if not isinstance(found, str):
        return found, ()
    reason = f"points in lanes: {found}"
    found = with_kernels(write_plan(run_passes(apart, TOGETHER).entry(None)))
    if not isinstance(found, str):
        return found, (reason,)
    return None, (reason, f"kernels in order: {found}")
