"""Constant operands become attributes."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.constants import UNKNOWN_VALUE, attribute_of
from pirkit.analysis.execution_order import operations
from pirkit.dialect.attrs import encode
from pirkit.dialect.operation import PirOp
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.replace_ops import replace, semantic_properties, successor


class AbsorbAttributesPass(Pass):
    """Turn constant operands that stand for an attribute into that attribute.

    Paddle passes `axis`, `shape`, `scale` and the like as operands, while every rule of pirkit
    reads an attribute. A program that is written for Paddle gets the operands back.

    ::

        %1 = pd_op.full_int_array() {value = array<i64: 0>, ...} : () -> tensor<1xi64>
        %2 = pd_op.sum(%0, %1) : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<3xf32>
        // becomes
        %2 = pd_op.sum(%0) {axis = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<3xf32>
    """

    name = "absorb-attributes"
    reports_rewrites = True
    stats = Stats(absorbed="operands turned into attributes")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            classes = ctx.analysis(alias_classes, program)
            for op in ctx.each(operations(program.block)):
                if op.definition.signature.has_absent_operands:
                    _absorb(ctx, op, classes)


def _absorb(ctx: PassContext, op: PirOp, classes: AliasClasses) -> None:
    operands = list(op.operand_slots)
    properties = semantic_properties(op)
    absorbed = 0
    for slot in op.definition.operands:
        if slot.kind is None or operands[slot.index] is None:
            continue
        value = attribute_of(op, slot.name, classes)
        if value is not UNKNOWN_VALUE:
            properties[slot.name] = encode(slot.kind, value)
            operands[slot.index] = None
            absorbed += 1
    if absorbed:
        ctx.rewrote("absorb", op)
        ctx.count("absorbed", absorbed)
        new = successor(op, operands, properties=properties)
        replace(op, new.results, [new])
