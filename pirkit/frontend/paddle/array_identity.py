"""Tensor arrays that loops and branches hand on: they are the arrays that were handed in.

Paddle's programs change arrays in place, and yet carry them through the loops and branches that do.
After the reader an array has one name.
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
    """Replace what loops and branches make of arrays by the arrays, in place."""
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
        elif yielded[0][1 + index] is (argument := op.regions[0].block.args[index]):
            start = op.operands[1 + index]
            yield result, start
            yield argument, start
