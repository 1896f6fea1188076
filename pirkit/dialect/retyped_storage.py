"""Writes that give a value another type, such as ``reshape_`` and ``cast_``.

The written value is one tensor under several names, and its shape and element type are those of the
last write, whereas each name is declared with one type. So the verifier lets a program read the
tensor under the names that are declared with the type that it has, and no other. (In Paddle 3.3 the
old names of what ``reshape_`` writes keep their shape, and those of what ``transpose_`` or
``cast_`` write show memory of another layout or type.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from xdsl.ir import Block, BlockArgument, SSAValue

from pirkit.diag.errors import VerifyError
from pirkit.dialect.declared_types import is_left_empty
from pirkit.dialect.kinds import SINK
from pirkit.dialect.operation import PirOp, ProgramOp, describe, origin_of, span_of
from pirkit.dialect.types import VecType, meta_of
from pirkit.runtime.meta import compatible

Storage: TypeAlias = tuple[SSAValue, int]
"""The first value that names a tensor, or a list and a position in it."""


class RetypedStorage:
    """The tensors that have another type than at first, in a walk over a program in order."""

    def __init__(self) -> None:
        self.types: dict[Storage, tuple[SSAValue, PirOp]] = {}
        """The value with the type that a tensor has now, and the write that made it."""
        self.outputs: list[PirOp] = []

    def visit(self, op: PirOp) -> None:
        """Check the reads and writes of an operation. Raises VerifyError (PK0208)."""
        if self.types:
            self.read(op)
        if SINK in op.definition.traits:
            self.outputs.append(op)
        if not op.definition.writes:
            return
        for index, slot in enumerate(op.definition.results):
            operand = op.definition.inplace.get(slot.name)
            target = None if operand is None else op.operand_named(operand)
            made = None if target is None else op.result_named(slot.name)
            if target is None or made is None or isinstance(target.type, VecType):
                continue
            if made.type is target.type or is_left_empty(op, index):
                continue
            storage = storage_of(target)
            if not have_compatible_types(made, target):
                self.check_place(op, target, storage[0])
                self.types[storage] = made, op
            elif storage in self.types:
                # Types with unknown sizes can be alike both to the type before and to that after.
                self.types[storage] = made, op

    def finish(self) -> None:
        """Check the outputs, which read the storage at the end of the program."""
        for op in self.outputs if self.types else ():
            self.read(op)

    def read(self, op: PirOp) -> None:
        for value in (v for operand in op.operands for v in _tensors(operand)):
            found = self.types.get(storage_of(value))
            if found is not None and not have_compatible_types(found[0], value):
                self.fail(op, value, *found)

    def check_place(self, op: PirOp, target: SSAValue, first: SSAValue) -> None:
        owner = first.owner
        block = owner if isinstance(owner, Block) else owner.parent
        around = None if block is None else block.parent_op()
        is_state = isinstance(first, BlockArgument) and not isinstance(around, ProgramOp)
        if block is op.parent and not is_state:
            return
        raise VerifyError(
            f"`{op.name}` gives {describe(target)} another type inside of a branch or a loop",
            code="PK0208",
            span=span_of(op),
            notes=origin_of(op),
            help=f"after it, the type would depend on the run; use `{op.definition.base.name}`",
        )

    def fail(self, op: PirOp, value: SSAValue, made: SSAValue, write: PirOp) -> NoReturn:
        where = span_of(write)
        raise VerifyError(
            f"`{op.name}` reads {describe(value)} as `{value.type}`, but `{write.name}` has given "
            f"it the type `{made.type}`",
            code="PK0208",
            span=span_of(op),
            notes=(*((f"`{write.name}` is at {where}",) if where else ()), *origin_of(op)),
            help=f"read the result of `{write.name}`, or use `{write.definition.base.name}`",
        )


def have_compatible_types(value: SSAValue, other: SSAValue) -> bool:
    """True if two values have compatible types."""
    return value.type is other.type or compatible(meta_of(other.type), meta_of(value.type))


def storage_of(value: SSAValue) -> Storage:
    """The tensor that a value names."""
    while isinstance(owner := value.owner, PirOp):
        definition, source = owner.definition, None
        if owner.name in ("pir.split", "pir.slice"):
            listed = owner.operands[0]
            index = owner.attribute("index") if owner.name == "pir.slice" else None
            index = _position(owner, value) if index is None else int(index)
            maker = listed.owner
            if not (isinstance(maker, PirOp) and maker.name == "pir.combine"):
                return listed, index
            source = maker.operands[index]
        else:
            for result, operand in (
                *definition.views.items(),
                *(definition.inplace.items() if definition.writes else ()),
            ):
                if owner.result_named(result) is value:
                    source = owner.operand_named(operand)
        if source is None:
            break
        value = source
    return value, 0


def _position(op: PirOp, value: SSAValue) -> int:
    return next(k for k, slot in enumerate(op.result_slots) if slot is value)


def _tensors(value: SSAValue) -> Sequence[SSAValue]:
    """The value, or the elements of a list."""
    owner = value.owner
    if isinstance(owner, PirOp) and owner.name == "pir.combine":
        return tuple(owner.operands)
    return (value,)
