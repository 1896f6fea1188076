"""Runs the callables of a block, and attributes an error to its instruction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import starmap
from operator import call as apply
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import ConstraintError, RuntimeFault
from pirkit.diag.once import cached_property
from pirkit.runtime.binding import KERNEL_FAULTS
from pirkit.runtime.library import call_fault
from pirkit.runtime.meta import of_value
from pirkit.runtime.plan import Call, Instruction

if TYPE_CHECKING:
    from pirkit.runtime.nodes import Access
    from pirkit.runtime.slots import SlotTable

Array = np.ndarray[Any, Any]


class BlockSteps(Struct, frozen=True, dict=True):
    """The callables of a block, each with the instruction that it belongs to.

    A call is a tuple of a function and its arguments rather than a `partial`: a tuple occupies one
    or two cache lines, a `partial` five.
    """

    calls: tuple[tuple[Any, ...], ...]
    instructions: tuple[Instruction, ...]
    accesses: tuple[Access | None, ...] = ()
    """The slots that each call reads and writes, if the run is parallel."""
    is_native: bool = False
    """Whether all calls are native, so that numpy's warnings need not be disabled."""

    @cached_property
    def ended(self) -> tuple[tuple[Any, ...], ...]:
        """The calls and a no-op sentinel: if it was consumed, no call ended the loop early."""
        return (*self.calls, (tuple,))


Runner = Callable[["SlotTable", BlockSteps], None]


_consume: Final = deque[object](maxlen=0).extend


def execute(slot_table: SlotTable, steps: BlockSteps) -> None:
    """Run a block. Raises RuntimeFault for a kernel that refuses its arguments.

    The loop over calls runs in C (`starmap`), which is cheaper than one in Python.
    """
    left = iter(steps.ended)
    try:
        _consume(starmap(apply, left))
        if length_hint(left):
            raise LookupError("a kernel raised StopIteration")  # it ends a loop in C silently
    except (ConstraintError, RuntimeFault, *KERNEL_FAULTS) as error:
        if not is_of_kernel(error):
            raise
        index = len(steps.ended) - length_hint(left) - 1
        raise fault(slot_table, steps.instructions[index], error) from error


def is_of_kernel(error: BaseException) -> bool:
    """Whether a kernel raised an error: that tells neither the op nor its place."""
    if isinstance(error, RuntimeFault):
        return error.code == RuntimeFault.default_code
    return isinstance(error, (ConstraintError, *KERNEL_FAULTS))


def fault(slot_table: SlotTable, failed: Instruction, error: Exception) -> RuntimeFault:
    """The error of an instruction, with its op and operands."""
    if isinstance(error, ConstraintError) and isinstance(failed, Call):
        note = f"constraint {error.constraint}"
        return call_fault(failed, error.message, note, error.help)
    told = error if isinstance(error, RuntimeFault) else None
    message, help = (f"{error}", None) if told is None else (told.message, told.help)
    if not isinstance(failed, Call):
        return RuntimeFault(message, code="PK0901", span=failed.span, help=help)
    shown = ", ".join(_describe(slot_table.value(o)) for o in failed.inputs)
    return call_fault(failed, message, f"called with {shown}", help)


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(of_value(cast(Array, value)))
    return "none" if value is None else f"{len(value)} tensors"
