"""Check that a program consists of primitives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import PassError
from pirkit.dialect.operation import PirOp, origin_of, span_of
from pirkit.dialect.primitives import is_primitive
from pirkit.passes.base import Pass, PassContext, Stats, option


@dataclass(frozen=True)
class VerifyPrimitivePass(Pass):
    """Check that every operation is a primitive.

    The set is listed in docs/primitives.md. ``allow`` names further ops that may occur, without
    their dialect. The error names the first operation that is not a primitive, and counts the rest.

    ::

        decompose,verify-primitive{allow=grid_sample}
    """

    name = "verify-primitive"
    stats = Stats(primitives="operations checked")

    allow: tuple[str, ...] = option((), "other ops that may occur")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        allowed = {f"pd_op.{name}" for name in self.allow}
        for program in ctx.programs(module):
            others = [
                op
                for op in operations(program.block)
                if op.name not in allowed and not is_primitive(op)
            ]
            if others:
                raise _not_primitive(others)
            ctx.count("primitives", sum(1 for _ in operations(program.block)))


def _not_primitive(others: list[PirOp]) -> PassError:
    counts = Counter(op.name for op in others)
    first = others[0]
    listed = ", ".join(f"{count} x `{name}`" for name, count in counts.most_common(8))
    return PassError(
        f"`{first.name}` is no primitive",
        code="PK0805",
        span=span_of(first),
        notes=(f"operations that are none: {listed}", *origin_of(first)),
        help="run `decompose` first; an op that it does not decompose has no rule, or is opaque",
    )
