"""The slot table of a session: the cells that its callables read and write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pirkit.runtime.device import Device
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.nodes import Constant, Detour, InArena, InPlace, NewArray, Target
from pirkit.runtime.plan import Operand

Cells = int | tuple[int, ...]
"""The cell of an operand; for a list, the cells of its elements."""


class SlotTable:
    """A cell for each slot, one for absent operands, and one for each fixed array.

    While the callables are built, the table tracks which slots are *fixed* (the same array in every
    run): these map to the cell of their array. Any other slot is *moving*: each run stores its
    value in the slot's own cell.
    """

    def __init__(self, slots: int, nbytes: int, device: Device) -> None:
        self.values: list[Any] = [None] * (slots + 1)
        self.slots = slots
        self._device = device
        self._carve = device.block(nbytes)
        self._cells: dict[int, int] = {}

    def cell(self, slot: int) -> int:
        """The cell of a slot's value."""
        return self._cells.get(slot, slot)

    def cells(self, operand: Operand) -> Cells:
        """The cells of an operand; an absent one has a cell that is always None."""
        if operand is None:
            return self.slots
        if isinstance(operand, int):
            return self.cell(operand)
        return tuple([self.cell(i) for i in operand])

    def current(self, cells: Cells) -> Any:
        """The current content of cells."""
        values = self.values
        return [values[c] for c in cells] if isinstance(cells, tuple) else values[cells]

    def value(self, operand: Operand) -> Any:
        """The current value of an operand: an array, a list of arrays, or None."""
        return self.current(self.cells(operand))

    def is_fixed(self, cells: Iterable[Cells]) -> bool:
        """True if these cells hold the same arrays in every run."""
        flat = (c for cell in cells for c in (cell if isinstance(cell, tuple) else (cell,)))
        return all(c >= self.slots for c in flat)

    def moving_cells(self, cells: Iterable[int]) -> set[int]:
        """The cells that get another array in each run."""
        return {c for c in cells if c < self.slots}

    def is_moving(self, slot: int) -> bool:
        """True if each run stores the slot's value in the slot's own cell."""
        return slot not in self._cells

    def fix(self, slot: int, array: Any) -> None:
        """Fix the slot to this array from now on."""
        self._cells[slot] = len(self.values)
        self.values.append(array)

    def set_moving(self, slot: int) -> None:
        """Let each run store the slot's value in the slot's own cell from now on."""
        self._cells.pop(slot, None)

    def result_cell(self, slot: int, target: Target, fresh: list[tuple[int, TensorMeta]]) -> int:
        """The cell that holds the array of a result when its step runs.

        Slots that need a new array in each run are appended to ``fresh``.
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
