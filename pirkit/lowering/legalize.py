"""Decomposes operations without a kernel on a backend into operations that have one."""

from __future__ import annotations

from typing import Final, cast

from xdsl.ir import OpResult, SSAValue

from pirkit.analysis.dynamic_shapes import is_dynamic_call
from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder
from pirkit.dialect.kinds import SOURCE
from pirkit.dialect.opdef import decompose
from pirkit.dialect.operation import PirOp, ProgramOp, declares
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.passes.base import PassContext
from pirkit.passes.decompose import decompose_op
from pirkit.passes.functionalize import functionalize
from pirkit.runtime.registry import CPU

NAME: Final = "legalize"


def legalized(program: ProgramOp, library: KernelLibrary) -> ProgramOp:
    """The program itself if the library has a kernel for every operation, else a legalized copy.

    Decomposition is preferred to a fallback to the CPU: an operation without a kernel on the
    backend is decomposed, unless its parts have none either. On the CPU a reference rule counts as
    a kernel. In-place operations are made pure first. An operation whose decomposition depends on
    dynamic shapes or attributes is left as it is; it is decomposed at run time (see `composite`).

    Raises UnsupportedError for an operation that its rule cannot decompose.
    """
    wanted = _NeedsDecomposition(library)
    lacking = [op for op in operations(program.block) if wanted(op)]
    if not lacking:
        return program
    copy = program.clone()
    if any(op.definition.writes for op in lacking):
        functionalize(copy, PassContext(NAME, len(list(operations(copy.block)))))
    for op in list(operations(copy.block)):
        if op.parent is not None and wanted(op):
            decompose_op(op, wanted)
    return copy


class _NeedsDecomposition:
    """A predicate: which operations must be decomposed for a library."""

    def __init__(self, library: KernelLibrary) -> None:
        self.library = library
        self.everywhere = library.device.name == CPU
        self.parted: dict[tuple[object, ...], bool] = {}

    def __call__(self, op: PirOp) -> bool:
        definition, library = op.definition, self.library
        # `is_native` imports the kernels of the backend, so the cheap test comes first
        if decompose.get(definition) is None or library.is_native(definition):
            return False
        if op.definition.writes:
            return True
        if is_dynamic_call(op):
            return self.parts(op) is not None
        if self.everywhere or not library.serves(definition):
            return True
        key = _call_of(op)
        if key not in self.parted:
            parts = self.parts(op)
            served = (library.is_native(p.definition) or _is_structural(p) for p in parts or ())
            self.parted[key] = parts is not None and all(served)
        return self.parted[key]

    def parts(self, op: PirOp) -> list[PirOp] | None:
        """The decomposition of an operation, tried on a copy; None if it cannot be decomposed.

        Empty if all of its results are operands.
        """
        trial = ProgramOp.build("trial")
        b = Builder(trial.block)
        alone = op.clone({v: _copied(v, b) for v in op.operands})
        trial.block.add_op(alone)
        try:
            count = decompose_op(alone, self)
        except UnsupportedError:
            return None  # it may run whole
        return list(operations(trial.block)) if count else None


def _call_of(op: PirOp) -> tuple[object, ...]:
    """What the decomposition of an operation depends on: attributes, types and constants."""
    owners = [v.owner for v in op.operands]
    constants = [o for o in owners if isinstance(o, PirOp) and not o.operands]
    attributes = [sorted((k, str(v)) for k, v in o.properties.items()) for o in (op, *constants)]
    return op.name, repr(attributes), *[v.type for v in op.operands]


def _copied(value: SSAValue, b: Builder) -> SSAValue:
    """A copy of a constant or list; else a block argument of the same type."""
    owner = value.owner
    if isinstance(owner, PirOp) and owner.name == "pir.combine":
        return b.combine([b.wrap(_copied(v, b)) for v in owner.operands]).ssa
    if isinstance(owner, PirOp) and not owner.operands and not declares(owner, SOURCE):
        return b.insert(owner.clone()).results[cast(OpResult, value).index]
    return b.block.insert_arg(value.type, len(b.block.args))


def _is_structural(op: PirOp) -> bool:
    """Whether an operation runs on every device: control flow has regions, not a kernel."""
    return not op.name.startswith("pd_op.") or bool(op.regions)
