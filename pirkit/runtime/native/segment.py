"""Native steps, and segments of consecutive native steps that run as one launch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, NoReturn

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import ConstraintError
from pirkit.diag.once import cached_property
from pirkit.runtime.binding import KERNEL_FAULTS, PlacedStep
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import new_array
from pirkit.runtime.native.launch import Launch, LaunchPart
from pirkit.runtime.native.launch_ir import ASSERTION_FAILED, DONE, NOT_CONTIGUOUS

Array = np.ndarray[Any, Any]
Failed = Callable[[int, Exception], NoReturn]
"""Raises the error of a step, given its number in the segment."""


class NativeStep(PlacedStep):
    """A step that runs native functions over its operands.

    ``inputs`` is the number of operands that it reads; ``outputs`` maps the operands that it writes
    to their positions among the results, whose metas are ``results``.
    """

    inputs: int
    outputs: Mapping[int, int]
    results: tuple[TensorMeta, ...]
    strided: AbstractSet[int] = frozenset()
    """Operands that it can read with any strides, without a copy."""

    @abstractmethod
    def launch_part(self, pinned: Mapping[int, Array]) -> LaunchPart:
        """The contribution to a launch, with temporaries of its own.

        ``pinned`` are the operands that have the same array in each run, which the functions may
        be specialized for; all others are C-contiguous.
        """

    @abstractmethod
    def error(self, flag: int) -> Exception:
        """The error of an assertion, by the number of its flag in the part."""

    def operands(self, cells: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The numbers of inputs and results, each with its cell."""
        yield from enumerate(cells[: self.inputs])
        for operand, place in self.outputs.items():
            yield operand, cells[self.inputs + place]

    def accepts(self, operand: int, array: Any) -> bool:
        """Whether a pinned operand can be used without a copy."""
        return is_contiguous(array) or (operand in self.strided and has_known_strides(array))

    def writes_contiguous(
        self, values: Sequence[Any], cells: Sequence[int], moving: AbstractSet[int]
    ) -> bool:
        """Whether pinned results are C-contiguous, so that a launch can write them directly."""
        results = [c for k, c in self.operands(cells) if k in self.outputs and c not in moving]
        return all(values[c] is None or is_contiguous(values[c]) for c in results)

    def at(
        self, values: list[Any], cells: Sequence[int], moving: AbstractSet[int]
    ) -> Callable[[], object]:
        """The launch over arrays in cells; arrays that are not contiguous are copied."""
        if not self.writes_contiguous(values, cells, moving):
            return partial(self._run_copied, values, cells)
        return LaunchSegment(values, [SegmentMember(self, tuple(cells))], moving).call(
            _unchanged_error
        )

    def _run_copied(self, values: list[Any], cells: Sequence[int]) -> None:
        self(*[values[c] for c in cells])

    @cached_property
    def given(self) -> tuple[list[Any], Callable[[], object]]:
        """A private list of cells and the launch over it, for calls on arbitrary arrays."""
        cells = range(self.inputs + len(self.results))
        values: list[Any] = [None] * len(cells)
        segment = LaunchSegment(values, [SegmentMember(self, tuple(cells))], frozenset(cells))
        return values, segment.call(_unchanged_error)

    def __call__(self, *given: Any) -> None:
        """Run on arbitrary arrays; those that are not contiguous are copied."""
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


class SegmentMember(Struct, frozen=True):
    """A step and the cells of its operands and results."""

    step: NativeStep
    cells: tuple[int, ...]


class LaunchSegment:
    """Steps in order, over arrays in the cells of a list.

    Cells outside ``moving`` are pinned: they already hold the array of every run. Pinned operands
    that a step does not accept are copied into contiguous buffers before the first step.
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
        """The call that runs all steps; ``failed`` gets the error of a step, and raises it."""
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
        """Run with contiguous copies of the operands that need them, for this call only."""
        values, written = self.values, self._written()
        wrong = [c for c in dict.fromkeys(self.found.values()) if not is_contiguous(values[c])]
        # results that are not contiguous need a copy back, which only the step by step path does
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
        """Run the steps one by one, on arrays that are not contiguous."""
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
    """Whether an array is an aligned, C-contiguous numpy array."""
    return has_known_strides(array) and array.flags.c_contiguous


def has_known_strides(array: Any) -> bool:
    """Whether an array is an aligned numpy array, of any strides."""
    return type(array) is np.ndarray and array.flags.aligned
