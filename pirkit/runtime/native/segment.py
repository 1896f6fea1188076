"""Steps of native code that run as one call: one of them, or several that stand together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np

from pirkit.diag.errors import ConstraintError
from pirkit.runtime.binding import KERNEL_FAULTS, PlacedStep
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import new_array
from pirkit.runtime.native.launch import Launch, LaunchPart
from pirkit.runtime.native.launch_ir import ASSERTION_FAILED, DONE, NOT_CONTIGUOUS

Array = np.ndarray[Any, Any]
Failed = Callable[[int, Exception], NoReturn]
"""Raises for the error of a step, by its number in the segment."""


class NativeStep(PlacedStep):
    """A step that is native functions over its operands.

    ``inputs`` is how many operands it reads; ``outputs`` are the numbers of the operands that it
    writes, with their places among the results, and ``results`` what those are.
    """

    inputs: int
    outputs: Mapping[int, int]
    results: tuple[TensorMeta, ...]
    strided: AbstractSet[int] = frozenset()
    """Operands that it can read where they lie, in rows or not."""

    @abstractmethod
    def launch_part(self, pinned: Mapping[int, Array]) -> LaunchPart:
        """Its part of a launch, with memory of its own that no other part has.

        ``pinned`` are the operands that are in the same array in each run; others lie in rows.
        """

    @abstractmethod
    def error(self, flag: int) -> Exception:
        """What is wrong with the data where a mark of the piece is set."""

    def operands(self, cells: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Inputs and results by number, with their cells."""
        yield from enumerate(cells[: self.inputs])
        for operand, place in self.outputs.items():
            yield operand, cells[self.inputs + place]

    def accepts(self, operand: int, array: Any) -> bool:
        """Whether an operand can be in an array that stays, as it lies."""
        return is_contiguous(array) or (operand in self.strided and has_known_strides(array))

    def writes_contiguous(
        self, values: Sequence[Any], cells: Sequence[int], moving: AbstractSet[int]
    ) -> bool:
        """Whether results that stay lie in rows, so that a launch can be given them as they are."""
        results = [c for k, c in self.operands(cells) if k in self.outputs and c not in moving]
        return all(values[c] is None or is_contiguous(values[c]) for c in results)

    def at(
        self, values: list[Any], cells: Sequence[int], moving: AbstractSet[int]
    ) -> Callable[[], object]:
        """The launch over arrays in cells; those that do not lie in rows are copied."""
        if not self.writes_contiguous(values, cells, moving):
            return partial(self._run_copied, values, cells)
        return LaunchSegment(values, [SegmentMember(self, tuple(cells))], moving).call(
            _unchanged_error
        )

    def _run_copied(self, values: list[Any], cells: Sequence[int]) -> None:
        self(*[values[c] for c in cells])

    @cached_property
    def given(self) -> tuple[list[Any], Callable[[], object]]:
        """Cells of its own, and the launch over them, for calls on arrays from anywhere."""
        cells = range(self.inputs + len(self.results))
        values: list[Any] = [None] * len(cells)
        segment = LaunchSegment(values, [SegmentMember(self, tuple(cells))], frozenset(cells))
        return values, segment.call(_unchanged_error)

    def __call__(self, *given: Any) -> None:
        """Run on arrays from anywhere; those that do not lie in rows are copied."""
        targets = given[self.inputs :]
        arrays = [a if is_contiguous(a) else np.array(a, order="C") for a in given[: self.inputs]]
        whole = [
            t if t is not None and is_contiguous(t) else new_array(m)
            for t, m in zip(targets, self.results, strict=True)
        ]
        values, run = self.given
        values[:] = [*arrays, *whole]
        try:
            run()
        finally:
            values[:] = [None] * len(values)
        for target, made in zip(targets, whole, strict=True):
            if target is not None and target is not made:
                target[...] = made


@dataclass(frozen=True, slots=True)
class SegmentMember:
    """A step and the cells of its operands and results."""

    step: NativeStep
    cells: tuple[int, ...]


class LaunchSegment:
    """Steps in order, over arrays in the cells of a list.

    Cells that are not among the ``moving`` ones hold now what they hold in each run. Operands that
    stay and do not lie in rows are copied before all steps.
    """

    def __init__(
        self, values: list[Any], members: Sequence[SegmentMember], moving: AbstractSet[int]
    ) -> None:
        self.values, self.members = values, members
        self.copies: list[tuple[Array, Array]] = []
        self.found: dict[tuple[int, int], int] = {}
        fixed: list[dict[int, Array]] = []
        for number, (step, cells) in enumerate((m.step, m.cells) for m in members):
            operands = dict(step.operands(cells))
            self.found |= {(number, k): c for k, c in operands.items() if c in moving}
            pinned = {k: c for k, c in operands.items() if c not in moving}
            fixed.append({k: self._array(step, k, cell) for k, cell in pinned.items()})
        parts = [m.step.launch_part(pinned) for m, pinned in zip(members, fixed, strict=True)]
        self.ends = np.cumsum([len(part.flags) for part in parts])
        self.launch = Launch(parts)
        for number, pinned in enumerate(fixed):
            for operand, array in pinned.items():
                self.launch.fix_operand((number, operand), array)

    def _array(self, step: NativeStep, operand: int, cell: int) -> Array:
        array = self.values[cell]
        if array is None:
            return new_array(step.results[step.outputs[operand]])
        if step.accepts(operand, array):
            return array
        dense = np.empty(array.shape, array.dtype)
        self.copies.append((dense, array))
        return dense

    def call(self, failed: Failed) -> Callable[[], object]:
        """What runs all steps. ``failed`` is told of the error of a step, and raises."""
        go, copies = self.launch.over_cells(self.values, self.found), self.copies
        if not self.found and not self.launch.flags.size and not copies:
            return go

        def run() -> None:
            for dense, array in copies:
                np.copyto(dense, array)
            state = go()
            if state == NOT_CONTIGUOUS:
                state = self._run_on_copies(go, failed)
            if state == ASSERTION_FAILED:
                self._raise(failed)

        return run

    def _run_on_copies(self, go: Callable[[], int], failed: Failed) -> int:
        """Run with operands that do not lie in rows in copies that do, for this call alone."""
        values, written = self.values, self._written()
        wrong = [c for c in dict.fromkeys(self.found.values()) if not is_contiguous(values[c])]
        if not written.isdisjoint(wrong):
            self._run_copied(failed)
            return DONE
        held = [(c, values[c]) for c in wrong]
        try:
            for c, array in held:
                values[c] = np.array(array, order="C")
            return go()
        finally:
            for c, array in held:
                values[c] = array

    def _written(self) -> set[int]:
        """Cells that the steps write."""
        operands = [(m.step, *pair) for m in self.members for pair in m.step.operands(m.cells)]
        return {cell for step, operand, cell in operands if operand in step.outputs}

    def _run_copied(self, failed: Failed) -> None:
        """One step after the other, on arrays that do not lie in rows."""
        values = self.values
        for number, member in enumerate(self.members):
            try:
                member.step(*[values[c] for c in member.cells])
            except (ConstraintError, *KERNEL_FAULTS) as error:
                failed(number, error)

    def _raise(self, failed: Failed) -> None:
        flag = self.launch.first_failed()
        number = int(np.searchsorted(self.ends, flag, side="right"))
        first = int(self.ends[number - 1]) if number else 0
        failed(number, self.members[number].step.error(flag - first))


def _unchanged_error(number: int, error: Exception) -> NoReturn:
    raise error


def is_contiguous(array: Any) -> bool:
    """Whether native code can be given an array as it is."""
    return has_known_strides(array) and array.flags.c_contiguous


def has_known_strides(array: Any) -> bool:
    """Whether native code can be given an array whose strides it knows."""
    return type(array) is np.ndarray and array.flags.aligned
