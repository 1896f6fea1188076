"""Operations without a kernel on a backend are decomposed into ones that have kernels there."""

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
    """The program itself if the library runs all of it as it stands, else a copy that it runs.

    In the order of selection this comes behind the kernels of the backend and in front of a
    fallback to the CPU: an operation is decomposed if no kernel of the backend serves it, unless
    its parts have none either. On the CPU a reference rule counts as a kernel. An operation that
    writes in place is made pure first. One whose parts depend on sizes or attributes that the
    program leaves open is not decomposed; its kernel is made when they are known (see `composite`).

    Raises UnsupportedError for an operation of which the rule does not know a part.
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
    """Tells which operations are to be decomposed for a library."""

    def __init__(self, library: KernelLibrary) -> None:
        self.library = library
        self.everywhere = library.device.name == CPU
        self.parted: dict[str, bool] = {}

    def __call__(self, op: PirOp) -> bool:
        definition, library = op.definition, self.library
        # the kernels of a backend are imported where one is asked for
        if decompose.get(definition) is None or library.is_native(definition):
            return False
        if op.definition.writes:
            return True
        if is_dynamic_call(op):
            return self.parts(op) is not None
        if self.everywhere or not library.serves(definition):
            return True
        if op.name not in self.parted:
            parts = self.parts(op)
            served = (library.is_native(p.definition) or _is_structural(p) for p in parts or ())
            self.parted[op.name] = parts is not None and all(served)
        return self.parted[op.name]

    def parts(self, op: PirOp) -> list[PirOp] | None:
        """What an operation becomes, seen on a copy; None if it cannot be decomposed.

        Nothing, if all it gives are its operands.
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


def _copied(value: SSAValue, b: Builder) -> SSAValue:
    """A constant, or a list, made again; else an argument."""
    owner = value.owner
    if isinstance(owner, PirOp) and owner.name == "pir.combine":
        return b.combine([b.wrap(_copied(v, b)) for v in owner.operands]).ssa
    if isinstance(owner, PirOp) and not owner.operands and not declares(owner, SOURCE):
        return b.insert(owner.clone()).results[cast(OpResult, value).index]
    return b.block.insert_arg(value.type, len(b.block.args))


def _is_structural(op: PirOp) -> bool:
    return not op.name.startswith("pd_op.")
