"""The cells that the callables of one session read and write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pirkit.runtime.device import Device
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.nodes import Constant, Detour, InArena, InPlace, NewArray, Target
from pirkit.runtime.plan import Operand

Cells = int | tuple[int, ...]
"""Where in the frame an operand is; the cells of a list."""


class SlotTable:
    """A cell for each slot, one for what is absent, and one for each array that never moves.

    While the callables are built, the frame knows which slots stay at a place: ``cells`` maps them
    to the cell of their array. The value of any other slot is put into its own cell by each run.
    """

    def __init__(self, slots: int, nbytes: int, device: Device) -> None:
        self.values: list[Any] = [None] * (slots + 1)
        self.slots = slots
        self._device = device
        self._carve = device.block(nbytes)
        self._cells: dict[int, int] = {}

    def cell(self, slot: int) -> int:
        """The cell in which a slot's value is."""
        return self._cells.get(slot, slot)

    def cells(self, operand: Operand) -> Cells:
        """The cells of an operand; an absent one has a cell that is always None."""
        if operand is None:
            return self.slots
        if isinstance(operand, int):
            return self.cell(operand)
        return tuple([self.cell(i) for i in operand])

    def current(self, cells: Cells) -> Any:
        """What is in the cells now."""
        values = self.values
        return [values[c] for c in cells] if isinstance(cells, tuple) else values[cells]

    def value(self, operand: Operand) -> Any:
        """The value of an operand now: an array, a list of them, or None."""
        return self.current(self.cells(operand))

    def is_fixed(self, cells: Iterable[Cells]) -> bool:
        """True if what is in these cells is the same in every run."""
        flat = (c for cell in cells for c in (cell if isinstance(cell, tuple) else (cell,)))
        return all(c >= self.slots for c in flat)

    def moving_cells(self, cells: Iterable[int]) -> set[int]:
        """Those of these cells in which each run puts another array."""
        return {c for c in cells if c < self.slots}

    def is_moving(self, slot: int) -> bool:
        """True if each run puts the slot's value into the slot's own cell."""
        return slot not in self._cells

    def fix(self, slot: int, array: Any) -> None:
        """The slot's value is at this place from here on."""
        self._cells[slot] = len(self.values)
        self.values.append(array)

    def set_moving(self, slot: int) -> None:
        """The slot's value is put into its cell by each run from here on."""
        self._cells.pop(slot, None)

    def result_cell(self, slot: int, target: Target, fresh: list[tuple[int, TensorMeta]]) -> int:
        """The cell in which the array for a result is, when its step runs.

        Notes in ``fresh`` the slots that need a new array in each run.
        """
        match target:
            case InArena(meta, offset):
                self.fix(slot, self._carve(meta.shape, meta.dtype.np, offset))
            case Constant(meta):
                self.fix(slot, self._device.empty(meta.shape, meta.dtype.np))
            case NewArray(meta):
                self.set_moving(slot)
                fresh.append((slot, meta))
            case Detour(other, place):
                return self.result_cell(other, place, fresh)
            case InPlace(source):
                if source != slot:
                    self._cells[slot] = self.cell(source)
            case None:
                return self.slots
        return self.cell(slot)
