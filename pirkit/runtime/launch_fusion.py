"""Steps of native code that stand next to each other become one call.

While the callables of a session are built, native steps are held back until something comes that is
none; then all of them run as one segment, in their order. What stands between them and moves no
elements goes before the segment: new memory for results, and views.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from pirkit.diag.errors import ConstraintError
from pirkit.runtime.binding import KERNEL_FAULTS
from pirkit.runtime.native.segment import LaunchSegment, NativeStep, SegmentMember, is_contiguous
from pirkit.runtime.plan import Call
from pirkit.runtime.run_block import fault
from pirkit.runtime.slots import SlotTable

Array = np.ndarray[Any, Any]
Do = Callable[[], object]
Maker = tuple[int, Callable[[], Any]]
"""A cell, and what makes the array for it in each run."""


@dataclass
class PendingLaunch:
    """Native steps that wait to become one call, and what comes before it."""

    slot_table: SlotTable
    members: list[SegmentMember] = field(default_factory=list[SegmentMember])
    calls: list[Call] = field(default_factory=list[Call])
    before: list[tuple[Do, Call]] = field(default_factory=list[tuple[Do, Call]])
    read_cells: set[int] = field(default_factory=set[int])
    """Cells whose present array is an operand or a result of these steps."""
    written: dict[int, Array | None] = field(default_factory=dict[int, "Array | None"])
    """Moving cells that these steps write: an array that lies as theirs will, None if unknown."""

    def can_allocate_early(self, cells: Collection[int]) -> bool:
        """Whether these cells can get their arrays before all of the steps."""
        return self.read_cells.isdisjoint(cells)

    def can_read(self, step: NativeStep, cells: Sequence[int]) -> bool:
        """Whether a step can be one of these: what it has to copy must be there before them."""
        values = self.slot_table.values
        made = [array for c in cells if (array := self.written.get(c)) is not None]
        if not all(map(is_contiguous, made)):
            return False
        pinned_arrays = [(k, values[c]) for k, c in enumerate(cells) if c >= self.slot_table.slots]
        return not self.members or all(step.accepts(k, array) for k, array in pinned_arrays)

    def add(
        self, call: Call, step: NativeStep, cells: Sequence[int], makers: Sequence[Maker]
    ) -> None:
        """One more step; the cells with makers are such as may be renewed."""
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
        """Let views of arrays that move go before the steps; False where they may be copies.

        ``cells`` are those of the operands and of the results, ``made`` gives the results for the
        first operand. Views of what the steps do not write are right before all of them: while a
        value is read, nothing else is written where it lies.
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
        """The callables of what was held, and the calls that they belong to."""
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
    """What puts new arrays into cells."""
    if len(makers) == 1:
        ((cell, make),) = makers

        def put_one() -> None:
            values[cell] = make()

        return put_one

    def put() -> None:
        for cell, make in makers:
            values[cell] = make()

    return put
