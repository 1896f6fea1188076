"""Operations without a kernel on a backend are taken apart into ones that have kernels there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pirkit.analysis.order import operations
from pirkit.diag.errors import OpenError, UnsupportedError
from pirkit.dialect.infer import is_open
from pirkit.dialect.opdef import OpDef, decompose
from pirkit.dialect.operation import PirOp, ProgramOp, origin_of, span_of
from pirkit.dialect.types import meta_of
from pirkit.lowering.kernels import KernelLibrary
from pirkit.passes.base import PassContext
from pirkit.passes.decompose import take_apart
from pirkit.passes.functionalize import functionalize
from pirkit.runtime.meta import TensorMeta, VecMeta

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
            _take_apart(op, wanted, library)
    return copy


def _take_apart(op: PirOp, wanted: Wanted, library: KernelLibrary) -> None:
    """Take one operation apart.

    Raises OpenError (PK0406) if it has no kernel, and what it becomes depends on what is open.
    """
    try:
        if take_apart(op, wanted) or library.serves(op.definition) or not _is_open(op):
            return
    except UnsupportedError as error:
        if isinstance(error, OpenError) or not _is_open(op):
            raise
        cause: UnsupportedError | None = error
    else:
        cause = None
    raise OpenError(
        f"`{op.name}` has no kernel, and to take it apart its sizes have to be known",
        span=span_of(op),
        notes=(*((cause.message,) if cause else ()), *origin_of(op)),
        help="bind the sizes of the inputs: `infer-meta{bind=NAME:4x3}`",
    ) from cause


def _is_open(op: PirOp) -> bool:
    """True if sizes of operands, or attributes, are known only when the program runs."""
    metas = [meta_of(v.type) for v in (*op.operands, *op.results)]
    tensors = [t for m in metas for t in (m.items if isinstance(m, VecMeta) else (m,))]
    if any(isinstance(t, TensorMeta) and not t.is_static for t in tensors):
        return True
    slots = zip(op.definition.operands, op.operand_slots, strict=False)
    return any(s.kind is not None and v is not None and is_open(v) for s, v in slots)


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
