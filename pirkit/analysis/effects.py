"""What an operation does besides computing its results."""

from __future__ import annotations

from typing import Final

from xdsl.ir import Operation, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.dialect.kinds import SINK, SOURCE, TERMINATOR
from pirkit.dialect.opdef import PURE, WRITE
from pirkit.dialect.operation import REGIONS, PirOp, declares

WRITE_BACK: Final = "pd_op.assign_out_"
"""The op that lets the host see the last content of an input or parameter."""

_INTERFACE: Final = frozenset({SOURCE, SINK, TERMINATOR})


def is_pure(op: Operation) -> bool:
    """True if running the op changes nothing and reads nothing but its operands.

    Such an op may be dropped, repeated, and merged with an equal one. Ops with regions, and those
    that connect a program or a block with what is around it, are not pure.
    """
    if not isinstance(op, PirOp) or not _INTERFACE.isdisjoint(op.definition.traits) or op.regions:
        return False
    return op.definition.effects == PURE and not op.definition.writes


def is_quiet(op: PirOp) -> bool:
    """True if only the results of the op tell that it ran.

    A region op is quiet if everything inside is. A loop that never ends is not taken as a result.
    """
    if op.name not in REGIONS:
        return is_pure(op)
    return all(
        declares(inner, TERMINATOR) or inner.name in REGIONS or is_pure(inner)
        for region in op.regions
        for inner in operations(region.block)
    )


def only_writes(op: PirOp) -> bool:
    """True if all that the op does besides its results is to write the operands it declares."""
    return op.definition.writes and op.definition.base.effects in (PURE, WRITE)


def assigns_itself(op: PirOp) -> bool:
    """True if the op gives storage the content that it has: batch norm in inference leaves such."""
    return op.name == WRITE_BACK and op.operands[0] is op.operands[1]


def is_named(value: SSAValue) -> bool:
    """True if the host gets the value by a name."""
    return any(declares(use.operation, SINK) for use in value.uses)
