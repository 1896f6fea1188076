"""Names of values as the printer shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from xdsl.ir import SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.dialect.operation import PirOp, ProgramOp, bodies


def names_of(program: ProgramOp) -> dict[SSAValue, str]:
    """The name of each value, without ``%``: its hint, made unique by a suffix, or a number."""
    found: dict[SSAValue, str] = {}
    used: Counter[str] = Counter()
    unnamed = 0
    for value in _values(program):
        hint = value.name_hint
        if hint is None:
            found[value] = str(unnamed)
            unnamed += 1
        else:
            found[value] = f"{hint}_{used[hint]}" if used[hint] else hint
            used[hint] += 1
    return found


def named_ops(program: ProgramOp) -> dict[str, PirOp]:
    """The op that defines the value of each name."""
    return {
        name: value.owner
        for value, name in names_of(program).items()
        if isinstance(value.owner, PirOp)
    }


def _values(program: ProgramOp) -> Iterator[SSAValue]:
    """All values in the order of the text."""
    yield from program.block.args
    for op in operations(program.block):
        yield from op.results
        for region in bodies(op):
            for block in region.blocks:
                yield from block.args
