"""Native programs with calls of libraries in them, as steps of a plan: loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, cast

import numpy as np

from pirkit.diag.errors import ConstraintError, InternalError
from pirkit.diag.once import cached_property
from pirkit.runtime.binding import KERNEL_FAULTS, Bind, Binding, Step
from pirkit.runtime.library import Library, bind_call, call_fault
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from pirkit.runtime.native.function import LibraryCall, new_array
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.program_session import Session
from pirkit.runtime.native.segment import is_contiguous
from pirkit.runtime.plan import Call, Operand, slots_of
from pirkit.runtime.registry import Choice
from pirkit.runtime.slots import Cells
from pirkit.runtime.steps import flat_results, picker

Array = np.ndarray[Any, Any]
Do = Callable[[], None]


def region_binder(library: Library) -> Bind:
    """The function that binds regions, whose calls run the kernels of ``library``."""

    def bind_region(b: Binding) -> RegionStep:
        return RegionStep(b.attrs["program"], library)

    return bind_region


class RegionStep:
    """Runs a native program that returns to Python for calls of libraries.

    These read and write the memory of the program and the arrays of the run. Not re-entrant.
    """

    def __init__(self, program: NativeProgram, library: Library) -> None:
        self.program = program
        self.ports = len(program.inputs) + len(program.results)
        self.cells: list[Any] = [None] * (self.ports + 1)
        """The arrays of the run, None, and what else calls see: views of arrays and of memory."""
        self.views: dict[tuple[int, TensorMeta], int] = {}
        """The cell of each operand of a call, by its number in the program and its meta."""
        self.bound = {
            k: self._bind(step.function, step.operands, library)
            for k, step in enumerate(program.steps)
            if isinstance(step.function, LibraryCall)
        }

    def _bind(
        self, function: LibraryCall, operands: Sequence[int], library: Library
    ) -> tuple[Call, Choice, Step, Sequence[Cells]]:
        """The kernel of a call, and the cells of its operands and results."""
        call, count = function.call, len(function.call.inputs)
        found = iter(list(zip(operands, function.metas, strict=True)))
        first = self.ports + 1

        def placed(slot: Operand) -> tuple[Meta | None, Cells]:
            """The meta of an operand or a result, and its cell, or those of a list."""
            if slot is None:
                return None, self.ports
            if isinstance(slot, tuple):
                metas, cells = zip(*[placed(one) for one in slot], strict=True)
                return VecMeta(cast("tuple[TensorMeta, ...]", metas)), cast("Cells", cells)
            pair = next(found)
            return pair[1], self.views.setdefault(pair, first + len(self.views))

        metas, cells = zip(*map(placed, (*call.inputs, *call.outputs)), strict=True)
        device = library.device
        bound = bind_call(
            library, call, metas[:count], metas[count:], device, _nothing_random, call.attrs
        )
        if bound is None:
            raise InternalError(f"`{call.kernel}` has no kernel for known sizes", span=call.span)
        return call, *bound, cells

    @cached_property
    def session(self) -> Session:
        """Made in a run, as the limit of threads of the run holds for it."""
        session = self.program.own_session()
        self.cells += [
            None if number < self.ports else session.array(number, meta)
            for number, meta in self.views
        ]
        session.calls = {k: self._do(*bound) for k, bound in self.bound.items()}
        return session

    def _do(self, call: Call, choice: Choice, run: Step, cells: Sequence[Cells]) -> Do:
        """A function that makes a call over the cells of its operands."""
        held, count = self.cells, len(call.inputs)

        def write() -> None:
            try:
                run(*pick())
            except _FAULTS as error:
                _raise(call, error)

        def copy() -> None:
            try:
                found = run(*given())
            except _FAULTS as error:
                _raise(call, error)
            for cell, result in zip(targets, flat_results(found, call.outputs), strict=True):
                held[cell][...] = result

        pick, given = picker(held, cells), picker(held, cells[:count])
        made = zip(call.outputs, cells[count:], strict=True)
        targets = [*slots_of([cell for output, cell in made if output is not None])]
        return write if choice.kernel.form == "out" else copy

    def __call__(self, *given: Any) -> None:
        """Run on arrays: of the inputs, then of the results."""
        session, count = self.session, len(self.program.inputs)
        targets = given[count:]
        arrays = [a if is_contiguous(a) else np.array(a, order="C") for a in given[:count]]
        made = [
            t if t is not None and is_contiguous(t) else new_array(m)
            for t, m in zip(targets, self.program.results, strict=True)
        ]
        arrays += made
        for (number, meta), cell in self.views.items():
            if number < self.ports:
                self.cells[cell] = arrays[number].reshape(meta.shape)
        if session.uses_pool:
            session.attach_pool()
        session.place(arrays)
        session.run_all()
        session.refuse()
        for target, array in zip(targets, made, strict=True):
            if target is not None and target is not array:
                target[...] = array


_FAULTS: Final = (ConstraintError, *KERNEL_FAULTS)


def _raise(call: Call, error: Exception) -> NoReturn:
    if isinstance(error, ConstraintError):
        note = f"constraint {error.constraint}"
        raise call_fault(call, error.message, note, error.help) from error
    raise call_fault(call, f"{error}", None, None) from error


def _nothing_random() -> np.random.Generator:
    raise InternalError("a call in native code draws random numbers")
