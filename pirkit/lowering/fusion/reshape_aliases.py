"""Chains several reshapes of one value, so that a kernel stores the value only once."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, SSAValue

from pirkit.dialect.operation import PirOp
from pirkit.lowering.fusion.index_equations import Equations, equations


def alias_reshapes(block: Block) -> None:
    """Make reshapes that no kernel reads alias the first reshape of their operand.

    Otherwise a kernel would store the value once for each shape in which matmuls read it.
    """
    reshapes: dict[SSAValue, list[PirOp]] = {}
    for op in _reshapes(block):
        reshapes.setdefault(op.operands[0], []).append(op)
    if all(len(ops) == 1 for ops in reshapes.values()):
        return
    found = equations(block)
    for first, *others in reshapes.values():
        for op in others if any(_outside(first, found)) else ():
            if all(_outside(op, found)):
                op.operands[0] = first.results[0]


def _reshapes(block: Block) -> Iterator[PirOp]:
    """Reshapes whose shape attribute gives every extent without the operand's shape."""
    for op in block.ops:
        if not isinstance(op, PirOp) or op.name != "pd_op.reshape" or not op.results[0].first_use:
            continue
        if "shape" in op.properties and 0 not in op.attribute("shape"):
            yield op


def _outside(op: PirOp, found: Equations) -> Iterator[bool]:
    return (use.operation not in found.units for use in op.results[0].uses)
