"""Detects variables that share memory with other values of a run that writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numpy.lib.array_utils import byte_bounds

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime.tensor.buffer import is_numpy
from pirkit.runtime.tensor.dense import DenseTensor

Bounds = tuple[int, int]
"""The first address of a memory range, and the first after it."""


def refuse_overlap(values: Sequence[tuple[str, DenseTensor, bool]]) -> None:
    """Raise RuntimeFault (PK0908) if a tensor that is written shares memory with another.

    Takes names, tensors, and whether the run writes them. Compares the bounds of memory, so arrays
    that interleave count as sharing.
    """
    found = overlap(values)
    if found is not None:
        written, other = found
        raise RuntimeFault(
            f"the program writes the variable {written!r}, which shares memory with {other!r}",
            code="PK0908",
            help="pass a copy of one of them",
        )


def overlap(values: Sequence[tuple[str, DenseTensor, bool]]) -> tuple[str, str] | None:
    """The names of a written tensor and of one that shares memory with it; None if none does."""
    if _conflict(values, _buffer) is None:  # tensors remember buffers; exact bounds take time
        return None
    return _conflict(values, _own)


def _conflict(
    values: Sequence[tuple[str, DenseTensor, bool]], bounds: Callable[[DenseTensor], Bounds]
) -> tuple[str, str] | None:
    """The names of a written tensor and of one whose address range overlaps it; None if there are
    none.
    """
    known = sorted((*bounds(held), name, is_written) for name, held, is_written in values)
    any_high = written_high = 0
    any_name = written_name = ""
    for low, high, name, is_written in known:
        if low == high:
            continue
        if low < written_high:
            return written_name, name
        if is_written and low < any_high:
            return name, any_name
        if high > any_high:
            any_high, any_name = high, name
        if is_written:
            written_high, written_name = high, name
    return None


def _buffer(held: DenseTensor) -> Bounds:
    buffer = held.buffer
    return buffer.address, buffer.address + buffer.nbytes


def _own(held: DenseTensor) -> Bounds:
    if not held.size:
        return held.address, held.address
    if is_numpy(held.array):
        return byte_bounds(held.array)
    return held.address, held.address + held.nbytes
