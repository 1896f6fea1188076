"""Derivatives of second and higher order, computed as Taylor series.

The number of ops of ``u_xxxx`` by four nested reverse sweeps grows exponentially with the order;
that of the coefficients of ``u(x + t)`` grows quadratically. The pass finds all derivatives of a
program that are sums of mixed derivatives of some values (`analysis/linear_forms.py`), and
computes them from one series through the ops between, with as few rows as give all these sums
(`dialect/series_algebra.py`): a Laplacian in n dimensions is one row beside the n slopes.

A gradient of a sum is a derivative of each row if each row of the value depends only on the same
row of the variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.effects import is_pure
from pirkit.analysis.linear_forms import GRADIENT, JET, Forms
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.cse import CsePass
from pirkit.passes.derivative_groups import Group, groups_of, wanted_values
from pirkit.passes.derivative_series import emit_series
from pirkit.passes.merge_renamings import merge_renamings
from pirkit.passes.replace_ops import erase

_ROUNDS: Final = 8
"""Derivatives of what is no sum of derivatives, such as ``grad(u * grad(u))``, come later."""


@dataclass(frozen=True)
class TaylorPass(Pass):
    """Replace derivatives of second and higher order by Taylor series, where that is cheaper.

    It finds the `pir.gradient` and `pir.jet` operations whose results are sums of mixed derivatives
    of the same values, and propagates one series for all of them. `expand-gradients` expands the
    others. ``--remarks=:taylor`` reports what was replaced, and why a derivative was not.

    ::

        %g = pir.gradient(%y, %ones, %x)         // y'(x), where %y = sin(%x)
        %h = pir.gradient(%g, %ones, %x)         // y''(x)
        // becomes the coefficients of sin(%x + t)
        %g = pd_op.cos(%x)
        %h = pd_op.multiply(%minus_one, %y)
    """

    name = "taylor"
    stats = Stats(series="series propagated", gradients="derivatives taken from a series")

    least: int = option(2, "smallest order for which a series is used")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        programs = [p for p in ctx.programs(module) if _are_nested(p)]
        for program in programs:
            merge_renamings(program)
        if programs:
            CsePass().run(PassContext("cse", ctx.ops), module)
        for program in programs:
            refused: dict[SSAValue, None] = {}
            for _ in range(_ROUNDS):
                if not self._round(ctx, program, refused) or not _are_nested(program):
                    break
            _erase_unused(program)

    def _round(self, ctx: PassContext, program: ProgramOp, refused: dict[SSAValue, None]) -> bool:
        """Replace what can be replaced now; what depends on it comes in the next round."""
        forms = Forms(program.block).find()
        wanted = wanted_values(program.block, forms)
        groups = groups_of(program.block, wanted, refused, self.least)
        return any([self._replace(ctx, program, group, refused) for group in groups])

    def _replace(
        self, ctx: PassContext, program: ProgramOp, group: Group, refused: dict[SSAValue, None]
    ) -> bool:
        first = group.ops[0] if group.ops else None
        order = group.order
        try:
            rows, size = emit_series(program, group)
        except UnsupportedError as error:
            refused |= group.roots
            ctx.remark("missed", f"no series of order {order}: {error.message}", first)
            return False
        ctx.count("gradients", len(group.wanted))
        ctx.count("series")
        message = f"derivatives up to order {order} from a series of {rows} rows, {size} ops"
        ctx.remark("passed", message, first)
        return True


def _are_nested(program: ProgramOp) -> bool:
    """Whether there is more than one derivative that is read."""
    found = (op for op in program.block.ops if op.name in (GRADIENT, JET))
    read = [op for op in found if any(r.first_use is not None for r in op.results)]
    return len(read) > 1


def _erase_unused(program: ProgramOp) -> None:
    """Erase derivatives that nothing reads any more, before they are expanded."""
    for op in reversed([cast(PirOp, op) for op in program.block.ops]):
        if op.results and not any(r.uses for r in op.results) and is_pure(op):
            erase(op)
