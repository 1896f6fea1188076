"""Expansion of requested derivatives into the ops that compute them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.analysis.linear_forms import GRADIENT, JET
from pirkit.dialect.build import Builder
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.ops.control.derivatives import CHECKPOINT, CUSTOM
from pirkit.passes.autodiff import append_backward
from pirkit.passes.autodiff_custom import is_used, remove_marked
from pirkit.passes.autodiff_taylor import SeriesStep
from pirkit.passes.base import Pass, PassContext, RemarkKind, Stats, option
from pirkit.passes.derivative_series import STEPS
from pirkit.passes.expand_jet import expand_jet
from pirkit.passes.replace_ops import replace


@dataclass(frozen=True)
class ExpandGradientsPass(Pass):
    """Replace `pir.gradient` ops by the reverse sweep that computes them, inner ones first.

    A `pir.jet`, which requests derivatives along a curve, is replaced by a Taylor series through
    the ops between. ``--remarks`` reports where an op has no series, so that reverse mode runs
    twice.

    ::

        %y = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
        %g = pir.gradient(%y, %c, %x) {targets = 1 : i32, wrt = 1 : i32} : ...
        // becomes
        %g = pd_op.multiply(%c, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    """

    name = "expand-gradients"
    stats = Stats(expanded="derivatives expanded", series_steps="derivatives along curves expanded")

    last: bool = option(True, "remove what only further derivatives need: `pir.custom_derivative`")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            series_steps = list(STEPS.pop(program, ()))
            for op in ctx.each(list(program.operations)):
                if op.name == GRADIENT:
                    expand(program, op, series_steps)
                    ctx.count("expanded")
                elif op.name == JET:
                    series_steps += expand_jet(program, op, partial(_report, ctx, op))
                    ctx.count("series_steps")
            for op in list(operations(program.block)):
                if op.name in (CUSTOM, CHECKPOINT) and (self.last or is_used(op)):
                    remove_marked(op)


def _report(ctx: PassContext, op: PirOp, kind: RemarkKind, message: str) -> None:
    ctx.remark(kind, message, op)


def expand(
    program: ProgramOp, op: PirOp, series_steps: Sequence[SeriesStep] = ()
) -> dict[SSAValue, SSAValue]:
    """Replace one `pir.gradient`; the ones that it depends on have been replaced before.

    Returns the value that replaces each of its results. ``series_steps`` are the series of Taylor
    mode that precede it in the program.
    """
    count: int = op.attribute("targets")
    values = list(op.operands)
    targets, cotangents, wrt = values[:count], values[count : 2 * count], values[2 * count :]
    found = append_backward(program, targets, wrt, cotangents, before=op, series_steps=series_steps)
    b = Builder(program.block, op, location=op.location)
    dense = [
        b.zeros_like(b.wrap(w)).ssa if g is None else g for g, w in zip(found, wrt, strict=True)
    ]
    moved: dict[SSAValue, SSAValue] = dict(zip(op.results, dense, strict=True))
    replace(op, dense)
    return moved
