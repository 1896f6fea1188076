"""The effects of an operation besides computing its results."""

from __future__ import annotations

from typing import Final, cast

from xdsl.ir import Operation, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.dialect.kinds import SINK, SOURCE, TERMINATOR
from pirkit.dialect.op_form import REGIONS
from pirkit.dialect.opdef import PURE, WRITE
from pirkit.dialect.operation import PirOp, bodies, declares
from pirkit.dialect.ops.control.derivatives import CUSTOM, GRADIENT, JET

WRITE_BACK: Final = "pd_op.assign_out_"
"""The op that writes the last content of an input or parameter back to the host's storage."""

_INTERFACE: Final = frozenset({SOURCE, SINK, TERMINATOR})


def is_pure(op: Operation) -> bool:
    """True if the op has no effect and reads nothing but its operands.

    Such an op may be erased, repeated, and merged with an equal one. Ops with regions are not pure,
    nor are those that connect a program or a block with what surrounds it.
    """
    if not isinstance(op, PirOp) or not _INTERFACE.isdisjoint(op.definition.traits) or bodies(op):
        return False
    return op.definition.effects == PURE and not op.definition.writes


def is_quiet(op: PirOp) -> bool:
    """True if nothing but the results of the op shows that it ran.

    An op with regions is quiet if everything inside is. Nontermination does not count as an effect.
    """
    if op.name not in REGIONS:
        return is_pure(op)
    return all(
        declares(inner, TERMINATOR) or inner.name in REGIONS or is_pure(inner)
        for region in bodies(op)
        for inner in operations(region.block)
    )


def only_writes(op: PirOp) -> bool:
    """True if the only effect of the op is to write the operands that it declares."""
    return op.definition.writes and op.definition.base.effects in (PURE, WRITE)


def assigns_itself(op: PirOp) -> bool:
    """True if the op writes a storage's own content to it, as batch norm in inference does."""
    return op.name == WRITE_BACK and op.operands[0] is op.operands[1]


def keeps_statistics(op: PirOp) -> bool:
    """True for a batch norm that normalises by its running statistics, and keeps them."""
    is_test = op.attribute("is_test") and not op.attribute("trainable_statistics")
    return bool(op.attribute("use_global_stats") or is_test)


def is_named(value: SSAValue) -> bool:
    """True if the host receives the value under a name."""
    return any(declares(use.operation, SINK) for use in value.uses)


def is_stand_in(value: SSAValue) -> bool:
    """True for what a rule of the user was recorded for, in place of a cotangent or a tangent."""
    return any(
        use.operation.name == CUSTOM and use.index in stand_ins(cast(PirOp, use.operation))
        for use in value.uses
    )


def is_variable(value: SSAValue) -> bool:
    """True if a recorded derivative is taken by the value: its content does not stand for it.

    Neither a constant nor another value of the same content may replace it, or be replaced by it.
    """
    return any(
        use.operation.name in (GRADIENT, JET) and use.index in variables(cast(PirOp, use.operation))
        for use in value.uses
    )


def variables(op: PirOp) -> range:
    """The operands of a derivative with respect to which it is taken."""
    count: int = op.attribute("targets")
    if op.name == GRADIENT:
        return range(2 * count, len(op.operands))
    return range(count, count + len(op.attribute("given")))


def stand_ins(op: PirOp) -> range:
    """The operands of a `pir.custom_derivative` that are stand-ins."""
    outputs, inputs = int(op.attribute("outputs")), int(op.attribute("inputs"))
    start = outputs + inputs
    return range(start, start + (inputs if op.attribute("forward") else outputs))
