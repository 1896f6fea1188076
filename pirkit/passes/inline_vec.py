"""Forwarding of list elements to where the list is unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.dialect.kinds import LIST
from pirkit.dialect.operation import PirOp, declares
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.replace_ops import replace

COMBINE: Final = "pir.combine"


class InlineVecPass(Pass):
    """Use the elements of a list directly where it is unpacked again.

    An element of a list has the storage of the value from which the list was made, so this is
    correct whatever is written in place.

    ::

        %2 = pir.combine(%0, %1) : (tensor<2xf32>, tensor<3xf32>) -> !pir.vec<...>
        %3 = pir.slice(%2) {index = 1 : i32} : (!pir.vec<...>) -> tensor<3xf32>    // becomes %1
    """

    name = "inline-vec"
    reports_rewrites = True
    stats = Stats(inlined="operations on lists replaced by the elements")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            for op in ctx.each(operations(program.block)):
                elements = _elements(op)
                if elements is not None:
                    ctx.rewrote(op.name, op)
                    ctx.count("inlined")
                    replace(op, elements)


def _elements(op: PirOp) -> Sequence[SSAValue] | None:
    """The values that a `pir.split` or `pir.slice` of a `pir.combine` selects."""
    if not declares(op, LIST) or op.name == COMBINE:
        return None
    combine = op.operands[0].owner
    if not isinstance(combine, PirOp) or combine.name != COMBINE:
        return None
    if op.name == "pir.slice":
        index: int = op.attribute("index")
        return [combine.operands[index]]
    pairs = zip(op.result_slots, combine.operands, strict=False)
    return [part for result, part in pairs if result is not None]
