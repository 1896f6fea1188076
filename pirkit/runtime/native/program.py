"""Native programs: one call from Python runs all functions of a program.

Temporaries have fixed offsets in an arena, planned when the program is compiled; each concurrent
call has an arena of its own. Inputs and results are numpy arrays; if they have the expected type
and layout, native code reads their addresses from the array objects itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pirkit.diag.errors import InternalError, RuntimeFault
from pirkit.runtime.native.program_data import ProgramData, is_in_rows
from pirkit.runtime.native.program_session import BorrowingSession, Session
from pirkit.runtime.native.workspace import SHARED_BYTES
from pirkit.runtime.tensor.allocator import no_memory

Array = np.ndarray[Any, Any]


@dataclass(eq=False, repr=False)
class NativeProgram(ProgramData):
    """A compiled program: functions in order, over inputs, results and temporaries.

    ``temporaries`` are byte offsets in an arena of ``memory`` bytes; ``names`` are the names of
    inputs and results; ``summary`` is one line of text. A call returns new arrays, and may run in
    several threads at once.

    A call raises RuntimeFault (PK0902, PK0903) if the number, shape or element type of the operands
    is wrong, and the error of a `DataAssertion` that data violate.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.free: list[Session] = []
        """Sessions that no call uses."""

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """The results of a call on arrays, in order."""
        return self.over_cells(arrays, lambda: arrays)

    def over_cells(
        self, arrays: tuple[Any, ...], others: Callable[[], Sequence[Any]]
    ) -> tuple[Array, ...]:
        """The same; where an array is not as it should be, those of ``others`` are taken."""
        try:
            results = tuple([make() for make in self.makers])
            session = self.session()
        except MemoryError as error:
            raise no_memory(error) from error
        try:
            session.call(arrays, results, others)
        finally:
            self.free.append(session)
        return results

    def attempt(
        self, arrays: tuple[Array, ...], results: tuple[Array, ...] | None = None
    ) -> tuple[Array, ...] | None:
        """As a call, into ``results`` if they are given; None, and nothing has run, for arrays that
        are not as the program wants them, in rows. Where `array_slot` is known, tensors will do.
        A result must not lie in the memory of an input, unless it is one and `in_place` names the
        two.
        """
        try:
            if results is None:
                results = tuple([make() for make in self.makers])
            session = self.session()
        except MemoryError as error:
            raise no_memory(error) from error
        try:
            has_run = session.attempt(arrays, results)
        finally:
            self.free.append(session)
        return results if has_run else None

    def run_at(self, addresses: Sequence[int] | Array) -> None:
        """A call on memory at these addresses (an array is of `numpy.uintp`): of inputs, then of
        results.

        Nothing is checked: what lies there has the shapes and element types of the program, in
        rows and aligned, and a result does not lie in the memory of an input.
        """
        session = self.session()
        try:
            session.run_at(addresses)
        finally:
            self.free.append(session)

    def session(self) -> Session:
        """The session of one call; it goes back to `free` when the call has returned."""
        try:
            return self.free.pop()
        except IndexError:
            return BorrowingSession(self) if self.needs >= SHARED_BYTES else Session(self)

    def own_session(self) -> Session:
        """A session that no other call gets."""
        return Session(self)

    def bind(self, arrays: Sequence[Array], results: Sequence[Array]) -> Callable[[], None]:
        """A call on fixed arrays, which reads their content at each run.

        A result may be the same array as an input (an update in place): it is then written after
        the last read of the input. The call is not re-entrant. Raises RuntimeFault (PK0903) for
        arrays of another type or layout, read-only results, and results that overlap.
        """
        for given, metas in ((arrays, self.inputs), (results, self.results)):
            if len(given) != len(metas):
                raise InternalError(f"{len(given)} arrays for {len(metas)}")
            for array, meta in zip(given, metas, strict=True):
                if not is_in_rows(array, meta):
                    raise RuntimeFault(f"an array is not {meta}, in rows", code="PK0903")
        if not all(r.flags.writeable for r in results):
            raise RuntimeFault("a result cannot be written", code="PK0903")
        if any(np.may_share_memory(a, b) for a, b in combinations(results, 2)):
            raise RuntimeFault("two results lie in the same memory", code="PK0903")
        return Session(self).bound(arrays, results)
