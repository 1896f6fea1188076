"""Fuses consecutive native steps of a session into one launch.

While the callables of a session are built, native steps are collected until another kind of step
follows; then they become one segment, which runs them in order. Allocations of results and views,
which move no elements, do not end a segment: they are hoisted before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from msgspec import Struct, field

from pirkit.diag.errors import ConstraintError
from pirkit.runtime.binding import KERNEL_FAULTS
from pirkit.runtime.native.segment import LaunchSegment, NativeStep, SegmentMember, is_contiguous
from pirkit.runtime.plan import Call
from pirkit.runtime.run_block import fault
from pirkit.runtime.slots import SlotTable

Array = np.ndarray[Any, Any]
Do = Callable[[], object]
Maker = tuple[int, Callable[[], Any]]
"""A cell, and the function that allocates its array in each run."""


class PendingLaunch(Struct):
    """Native steps that will be one launch, and the calls hoisted before it."""

    slot_table: SlotTable
    members: list[SegmentMember] = field(default_factory=list[SegmentMember])
    calls: list[Call] = field(default_factory=list[Call])
    before: list[tuple[Do, Call]] = field(default_factory=list[tuple[Do, Call]])
    read_cells: set[int] = field(default_factory=set[int])
    """Cells whose current array is an operand or a result of these steps."""
    written: dict[int, Array | None] = field(default_factory=dict[int, "Array | None"])
    """Moving cells that these steps write, each with an array of the same layout, if known."""

    def can_allocate_early(self, cells: Collection[int]) -> bool:
        """Whether the allocation of these cells can be hoisted before all steps."""
        return self.read_cells.isdisjoint(cells)

    def can_read(self, step: NativeStep, cells: Sequence[int]) -> bool:
        """Whether a step can join: operands that it must copy have to exist before the segment."""
        values = self.slot_table.values
        made = [array for c in cells if (array := self.written.get(c)) is not None]
        if not all(map(is_contiguous, made)):
            return False
        pinned_arrays = [(k, values[c]) for k, c in enumerate(cells) if c >= self.slot_table.slots]
        return not self.members or all(step.accepts(k, array) for k, array in pinned_arrays)

    def add(
        self, call: Call, step: NativeStep, cells: Sequence[int], makers: Sequence[Maker]
    ) -> None:
        """Add a step; the cells with makers get new arrays in each run."""
        self.members.append(SegmentMember(step, tuple(cells)))
        self.calls.append(call)
        self.read_cells.update(cells)
        results = self.slot_table.moving_cells(cells[step.inputs :])
        self.written |= dict.fromkeys(results - self.written.keys())
        self.written |= {cell: make() for cell, make in makers}
        if makers:
            self.before.append((array_maker(self.slot_table.values, makers), call))

    def views(
        self, call: Call, do: Do, cells: Sequence[int], made: Callable[[Array], Sequence[Array]]
    ) -> bool:
        """Hoist views of moving arrays before the steps; False if they may be copies.

        ``cells`` are those of the operand and of the results; ``made`` computes the results from
        the operand. Hoisting a view of an array that the steps do not write is always valid, as
        memory is not reused while a value in it is live.
        """
        source, *results = cells
        if not self.can_allocate_early(results):
            return False
        if source in self.written:
            array = self.written[source]
            views = () if array is None else made(array)
            if not views or not all(v.size and np.may_share_memory(v, array) for v in views):
                return False
            self.written |= dict(zip(results, views, strict=True))
        self.before.append((do, call))
        return True

    def calls_with_instructions(self) -> Iterator[tuple[Do, Call]]:
        """The hoisted callables and the launch, each with the call that it belongs to."""
        yield from self.before
        if self.members:
            moving = self.slot_table.moving_cells({c for m in self.members for c in m.cells})
            run = LaunchSegment(self.slot_table.values, self.members, moving).call(self._failed)
            yield run, self.calls[0]

    def _failed(self, number: int, error: Exception) -> NoReturn:
        if not isinstance(error, (ConstraintError, *KERNEL_FAULTS)):
            raise error
        raise fault(self.slot_table, self.calls[number], error) from error


def array_maker(values: list[Any], makers: Sequence[Maker]) -> Do:
    """A function that allocates new arrays into cells."""
    if len(makers) == 1:
        ((cell, make),) = makers

        def put_one() -> None:
            values[cell] = make()

        return put_one

    def put() -> None:
        for cell, make in makers:
            values[cell] = make()

    return put
