"""Remarks about the source operations from which the operations of a program come."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.execution_order import operations
from pirkit.dialect import kinds
from pirkit.dialect.build import RULE, SOURCE, derivative_order
from pirkit.dialect.operation import PirOp
from pirkit.passes.base import Pass, PassContext, Stats

_RULES: Final = {"decompose": "parts of", "vjp": "derivative of", "jet": "series of"}


class PrintOriginsPass(Pass):
    """Report which operations rules have emitted, and from which source operation.

    There is one remark (``--remarks=analysis``) for each run of operations with one origin. It
    names the operation that they come from, the rule and, for a derivative, its order. Inputs and
    outputs are omitted. The program is not changed.

    ::

        %1 = pd_op.sigmoid(%0) {comp_op_name = "silu", comp_rule = "decompose"} : ...
        %2 = pd_op.multiply(%0, %1) {comp_op_name = "silu", comp_rule = "decompose"} : ...
        %3 = pd_op.exp(%2) : ...
        // parts of silu: sigmoid multiply
        // as written: exp
    """

    name = "print-origins"
    stats = Stats(made="operations that rules have made", written="operations as written")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            shown = [
                op for op in operations(program.block) if _HIDDEN.isdisjoint(op.definition.traits)
            ]
            for origin, stretch in groupby(shown, _origin):
                ops = list(stretch)
                ctx.count("written" if origin == _WRITTEN else "made", len(ops))
                names = " ".join(op.name.partition(".")[2] for op in ops)
                ctx.remark("analysis", f"{origin}: {names}", ops[0])


_HIDDEN: Final = frozenset({kinds.SOURCE, kinds.OUTPUT, kinds.TERMINATOR})
_WRITTEN: Final = "as written"


def _origin(op: PirOp) -> str:
    source, rule = op.attributes.get(SOURCE), op.attributes.get(RULE)
    if not isinstance(source, mlir.StringAttr):
        return _WRITTEN
    name = rule.data if isinstance(rule, mlir.StringAttr) else "made"
    what = _RULES.get(name, f"{name} from")  # a pass of the user is a rule of its own name
    order = derivative_order(op)
    if order is None:
        return f"{what} {source.data}"
    return f"{what} {source.data}, order {order}"
