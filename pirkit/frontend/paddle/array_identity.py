"""Gives each tensor array one name, also in and after the loops and branches that change it.

Paddle's programs change arrays in place, and still pass them through the loops and branches that do
so, as arguments and results. The reader replaces these by the array itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Operation, SSAValue

from pirkit.dialect.kinds import LOOP
from pirkit.dialect.operation import bodies, declares, with_nested
from pirkit.dialect.types import TensorArrayType


def name_arrays_once(module: mlir.ModuleOp) -> None:
    """Replace arguments and results of loops and branches that are arrays by these arrays."""
    holders = [
        op
        for op in with_nested(module)
        if bodies(op) and any(isinstance(r.type, TensorArrayType) for r in op.results)
    ]
    for op in reversed(holders):  # inner ones first
        for value, array in _aliases(op):
            value.replace_all_uses_with(array)


def _aliases(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The arguments and results of an op that are an array from outside of it, and that array."""
    yielded = [cast(Operation, region.block.last_op).operands for region in bodies(op)]
    for index, result in enumerate(op.results):
        if not isinstance(result.type, TensorArrayType):
            continue
        if not declares(op, LOOP):
            array, *others = (values[index] for values in yielded)
            if all(other is array for other in others):
                yield result, array
        # Operand 0 of a loop, and what its body yields first, are the condition.
        elif yielded[0][1 + index] is (argument := op.regions[0].block.args[index]):
            start = op.operands[1 + index]
            yield result, start
            yield argument, start
