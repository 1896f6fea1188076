"""The plan of a program, with the requested part of it in native code."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol

from msgspec import Struct

from pirkit.analysis.declared_types import mismatched_values
from pirkit.diag.gc_pause import imported, uncollected
from pirkit.dialect.program import Program
from pirkit.frontend.compile_cache import Made
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.lowering.whole_program.choose_form import JOINT, SEPARATE, SINGLE, batch_lane_form
from pirkit.lowering.whole_program.segment_call import plan_of
from pirkit.runtime.executor import native_program
from pirkit.runtime.plan import Plan

if TYPE_CHECKING:
    from pirkit.lowering.whole_program.segments import Reason

Form = Literal["kernels", "segments", "whole", "lanes", "fast"]
"""What becomes native code.

``kernels``: only fused operators. ``segments``: all operators that have a native form. ``whole``:
the whole program if that is possible, else segments. ``lanes``: the same, but the batch in lanes is
tried first. ``fast``: as ``lanes``, with ``fast_math``.
"""


class RunPasses(Protocol):
    """`pirkit.run_passes`."""

    def __call__(self, program: Program, pipeline: str, *, verified: bool = False) -> Program: ...


GRADIENTS: Final = "taylor,reassociate,expand-gradients"
"""Passes that a traced program needs before any other."""

_DEFAULT: Final = "@default"
_SIMPLIFY: Final = "@simplify"
_MISMATCHED: Final = "a value does not have the type that the program declares"


@uncollected
def plan_with(
    form: Form,
    program: Program,
    pipeline: str,
    entry: str | None,
    library: KernelLibrary,
    run_passes: RunPasses,
) -> Made:
    """The plan of a program, and the reasons why it is not one native call.

    There are no reasons if it is one, or if ``form`` is ``kernels``. Raises what ``run_passes``
    raises.
    """
    maker = _Maker(entry, library, run_passes)
    if form == "kernels":
        return maker.kernels(run_passes(program, pipeline) if pipeline else program), ()
    if form in ("lanes", "fast"):
        made = maker.decomposed(program, pipeline, fast_math=form == "fast")
        if native_program(made[0]) is not None:
            return made
        first = ",".join(filter(None, (GRADIENTS, pipeline)))
        return maker.segments(run_passes(program, first))[0], made[1]
    made = maker.segments(run_passes(program, pipeline))
    if form == "segments" or native_program(made[0]) is not None:
        return made
    decomposed = maker.decomposed(program, pipeline, fast_math=False)
    return made if native_program(decomposed[0]) is None else decomposed


class _Maker(Struct, frozen=True):
    """The ways from a program to a plan."""

    entry: str | None
    library: KernelLibrary
    run_passes: RunPasses

    def kernels(self, lowered: Program) -> Plan:
        """The plan with one kernel per call."""
        return write_plan(lowered.entry(self.entry), library=self.library)

    def segmented(self, plan: Plan) -> tuple[Plan, tuple[Reason, ...]]:
        """The same plan with native segments."""
        # Imported late: they take a tenth of a first call, and batch in lanes does not need them.
        known_metas = imported("pirkit.lowering.row_grouping").known_metas
        segmented = imported("pirkit.lowering.whole_program.segments").segmented
        declared = {p.slot: p.meta for p in (*plan.inputs, *plan.params)}
        return segmented(plan, partial(known_metas, library=self.library, bound_inputs=declared))

    def segments(self, lowered: Program) -> Made:
        """The plan with native segments; each operator that is in no kernel becomes one first."""
        if mismatched_values(lowered.entry(self.entry).block):
            return self.kernels(lowered), (_MISMATCHED,)
        single = self.kernels(self.run_passes(lowered, SINGLE, verified=True))
        plan, reasons = self.segmented(single)
        plan = self.kernels(lowered) if plan is single else plan
        return plan, tuple(map(str, reasons))

    def decomposed(self, program: Program, pipeline: str, *, fast_math: bool) -> Made:
        """All operators decomposed: batch in lanes, or a kernel sequence."""
        first = _SIMPLIFY if pipeline == _DEFAULT else pipeline
        passes = ",".join(filter(None, (GRADIENTS, first, SEPARATE)))
        lowered = self.run_passes(program, passes)
        plan = self.kernels(lowered)
        if mismatched_values(lowered.entry(self.entry).block):
            return plan, (_MISMATCHED,)
        found = batch_lane_form(plan, fast_math)
        if not isinstance(found, str):
            return plan_of(plan, found), ()
        plan, reasons = self.segmented(self.kernels(self.run_passes(lowered, JOINT, verified=True)))
        return plan, (f"batch in lanes: {found}", *(f"kernel sequence: {r}" for r in reasons))
