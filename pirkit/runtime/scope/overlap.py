"""Whether values share memory that a run is about to write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.lib.array_utils import byte_bounds

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime.tensor.buffer import address_of, is_numpy


def refuse_overlap(values: Iterable[tuple[str, Any, bool]]) -> None:
    """Raise RuntimeFault (PK0908) if an array that is written shares memory with another.

    Takes names, arrays, and whether the run writes them. Compares the bounds of memory, so arrays
    that interleave count as sharing.
    """
    bounds = sorted(
        (*_bounds(array), name, is_written)
        for name, array, is_written in values
        if getattr(array, "size", 0)
    )
    any_high = written_high = 0
    any_name = written_name = ""
    for low, high, name, is_written in bounds:
        if low < written_high:
            raise _fault(written_name, name)
        if is_written and low < any_high:
            raise _fault(name, any_name)
        if high > any_high:
            any_high, any_name = high, name
        if is_written:
            written_high, written_name = high, name


def _bounds(array: Any) -> tuple[int, int]:
    if is_numpy(array) and not array.flags.c_contiguous:
        return byte_bounds(array)
    start = address_of(array)
    return start, start + int(array.nbytes)


def _fault(written: str, other: str) -> RuntimeFault:
    return RuntimeFault(
        f"the program writes the variable {written!r}, which shares memory with {other!r}",
        code="PK0908",
        help="pass a copy of one of them",
    )
