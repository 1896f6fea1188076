"""Compilation of a program for `compile_whole`, after a cache miss."""

from __future__ import annotations

from typing import Final

from pirkit.analysis.declared_types import mismatched_values
from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import Program
from pirkit.lowering.plan_writer import write_plan
from pirkit.lowering.whole_program.choose_form import JOINT, SEPARATE, batch_lane_form, kernel_form
from pirkit.runtime.native.program import NativeProgram

GRADIENTS: Final = "taylor,expand-gradients"
"""Passes that a traced program needs before any other."""


def compile_native(program: Program, pipeline: str) -> tuple[NativeProgram | None, tuple[str, ...]]:
    """Compile to one native function; returns it, or None and the reason for each attempted form.

    Raises the errors of `run_passes`.
    """
    decomposed = run_passes(program, ",".join(filter(None, (GRADIENTS, pipeline, SEPARATE))))
    if mismatched_values(decomposed.entry(None).block):
        return None, ("a value does not have the type that the program declares",)
    found = batch_lane_form(write_plan(decomposed.entry(None)))
    if not isinstance(found, str):
        return found, ()
    reason = f"points in lanes: {found}"
    found = kernel_form(write_plan(run_passes(decomposed, JOINT).entry(None)))
    if not isinstance(found, str):
        return found, (reason,)
    return None, (reason, f"kernels in order: {found}")
