"""Runs a native program step by step, with the time of each: for profiles."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pirkit.runtime.native.function import Branch
from pirkit.runtime.native.records_ir import RECORD, RUN_HEADER

if TYPE_CHECKING:
    from pirkit.runtime.native.program_session import Session

Array = np.ndarray[Any, Any]

_ARGUMENTS: Final = RECORD.index("arguments")
_IDLE_RUNS: Final = 20


def step_times(
    session: Session, arrays: Sequence[Array], clock: Callable[[], float]
) -> list[tuple[float, int]]:
    """The seconds of all runs of each step of one call, and how often it ran, for profiles.

    The session is one that nothing else uses.

    Between two steps, which are the machine code of a plain call, Python looks at the clock; it
    also takes the branches. What a call of no step takes is subtracted. Raises the error of an
    assertion that the data violate.
    """
    program = session.program
    results = [make() for make in program.makers]
    session.place([*(np.require(a, requirements=["C", "A"]) for a in arrays), *results])
    if session.uses_pool:
        session.attach_pool()

    def seconds(first: int, last: int) -> float:
        session.header[RUN_HEADER["resume"]] = first
        session.header[RUN_HEADER["count"]] = last
        begin = clock()
        session.run_all()
        return clock() - begin

    idle = min(seconds(0, 0) for _ in range(_IDLE_RUNS))
    found = [(0.0, 0)] * len(program.steps)
    number = 0
    while number < len(program.steps):
        function = program.steps[number].function
        if isinstance(function, Branch):
            taken = bool(_condition(session, number)) is function.when
            number = function.target if taken else number + 1
            continue
        before, times = found[number]
        found[number] = before + max(seconds(number, number + 1) - idle, 0.0), times + 1
        session.refuse()
        number += 1
    return found


def _condition(session: Session, number: int) -> int:
    """The byte that a branch looks at."""
    block = session.records[number * len(RECORD) + _ARGUMENTS]
    return ctypes.c_uint8.from_address(ctypes.c_size_t.from_address(block).value).value
