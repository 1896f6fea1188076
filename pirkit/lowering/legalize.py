"""Operations without a kernel on a backend are taken apart into ones that have kernels there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pirkit.analysis.order import operations
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.opdef import OpDef, decompose
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.lowering.kernels import KernelLibrary
from pirkit.passes.base import PassContext
from pirkit.passes.decompose import take_apart
from pirkit.passes.functionalize import functionalize

Wanted = Callable[[PirOp], bool]

NAME: Final = "legalize"


def legalized(program: ProgramOp, library: KernelLibrary) -> ProgramOp:
    """The program itself if the library runs all of it as it stands, else a copy that it runs.

    In the order of selection this comes behind the kernels of the backend and in front of a
    fallback to the CPU: an operation is taken apart if no kernel of the backend serves it, unless
    its parts have none either. On the CPU a reference rule counts as a kernel. An operation that
    writes in place is made pure first.

    Raises UnsupportedError for an operation of which the rule does not know a part.
    """
    parted: dict[str, bool] = {}

    def wanted(op: PirOp) -> bool:
        definition = op.definition
        if library.is_native(definition) or decompose.get(definition) is None:
            return False
        if not library.serves(definition):
            return True
        if op.name not in parted:
            parted[op.name] = _has_served_parts(op, library, wanted)
        return parted[op.name]

    lacking = [op for op in operations(program.block) if wanted(op)]
    if not lacking:
        return program
    copy = program.clone()
    if any(op.definition.writes for op in lacking):
        functionalize(copy, PassContext(NAME, len(list(operations(copy.block)))))
    for op in list(operations(copy.block)):
        if op.parent is not None and wanted(op):
            take_apart(op, wanted)
    return copy


def _has_served_parts(op: PirOp, library: KernelLibrary, wanted: Wanted) -> bool:
    """True if every part of an operation has a kernel of the backend, seen on a copy of it."""
    if op.definition.writes:
        return False
    trial = ProgramOp.build("trial", [v.type for v in op.operands])
    alone = op.clone()
    trial.block.add_op(alone)
    alone.operands = trial.block.args
    try:
        count = take_apart(alone, wanted)
    except UnsupportedError:
        return False  # the whole operation may still run on the CPU
    return count > 0 and all(
        _is_served(part.definition, library) for part in operations(trial.block)
    )


def _is_served(definition: OpDef, library: KernelLibrary) -> bool:
    return not definition.name.startswith("pd_op.") or library.is_native(definition)
