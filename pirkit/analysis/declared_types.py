"""Which values may have a type that differs from the declared one.

Paddle declares wrong types for some calls, and derives the types of their users from these.
"""

from __future__ import annotations

from collections.abc import Set

from xdsl.ir import Block, SSAValue

from pirkit.analysis.differentiation import stack_of
from pirkit.analysis.execution_order import operations
from pirkit.dialect.declared_types import POP, is_true
from pirkit.dialect.opdef import paddle_meta
from pirkit.dialect.operation import bodies


def mismatched_values(block: Block) -> Set[SSAValue]:
    """The results in a block with a wrong declared type, and all values that depend on them.

    Regions are included.

    Time is linear in the size of the block.
    """
    stack: list[SSAValue] = []
    for op in operations(block):
        if paddle_meta.get(op.definition) is not None or op.name == POP:
            stack += [r for r in op.results if r.first_use is not None and not is_true(r)]
    found = set(stack)
    while stack:
        for use in stack.pop().uses:
            reader = use.operation
            around = reader.parent_op() if reader.name == "pir.yield" else None
            made: list[SSAValue] = []
            for op in (reader, around) if around is not None else (reader,):
                made += op.results
                if op.name == "pir.tuple_push" and (holder := stack_of(op.operands[0])) is not None:
                    made.append(holder.results[2])  # a popped value depends on the push
                made += [a for region in bodies(op) for b in region.blocks for a in b.args]
            stack += [value for value in made if value not in found]
            found.update(made)
    return found
