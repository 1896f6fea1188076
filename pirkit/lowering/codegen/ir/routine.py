"""Routines that loops call on memory: microkernels, copies of panels.

A routine is a leaf of the loop IR: it prints itself, runs on numpy arrays, and emits a call of a
function of the module. Its registers and its unrolling are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.ir.llvm_text import Builder, Value
from pirkit.runtime.dtype import DType

Array = np.ndarray[Any, Any]


class Reach:
    """Stands for the memory of a buffer and notes what a routine uses of it (`proof_bounds.py`)."""

    def __init__(self) -> None:
        self.matrices: list[tuple[int, int, tuple[int, ...], tuple[int, ...], bool]] = []

    def spans(self, scratch: bool) -> Iterator[tuple[int, int]]:
        """The first byte of each matrix and the one after it; in scratch memory whole panels."""
        for offset, size, shape, strides, panel in self.matrices:
            reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
            low, high = (sum(r for r in reach if r * sign > 0) for sign in (-1, 1))
            high += size
            if scratch and panel and strides[0] > shape[1] * strides[1] > 0:
                high += strides[0] - shape[1] * strides[1]
            yield offset + low, offset + high


Location = tuple[Array | Reach, int]
"""The bytes of a buffer, and an offset."""


Values = Sequence[Value]
"""Addresses, or numbers, in generated code."""


class Functions(Protocol):
    """The functions of a module, each emitted once (`emit/routines.py`)."""

    def add(self, key: Hashable, parameters: str, write: Callable[[Builder], None]) -> str: ...


class Routine(Protocol):
    """A routine that `Invoke` calls, with addresses of buffers, then numbers."""

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        """One line for people."""
        ...

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        """The same with numpy. Raises TypeError or ValueError for what leaves a buffer."""
        ...

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        """Emit the call."""
        ...


class PrefetchRoutine(Struct, frozen=True):
    """A routine that only prefetches: it changes no memory, and any address is valid."""

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        """Nothing."""


def matrix(
    location: Location, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], *,
    panel: bool = False,
) -> Array:  # fmt: skip
    """A matrix, or an array of another rank, in memory.

    The rows of a ``panel`` are read and written in whole vectors. Raises TypeError or ValueError if
    it does not lie inside of a buffer.
    """
    memory, offset = location
    # The interpreter relies on numpy to refuse what leaves the buffer, but an empty matrix reads
    # nothing and may begin after the end.
    if 0 in shape:
        return np.empty(shape, dtype.np)
    if isinstance(memory, Reach):
        memory.matrices.append((offset, dtype.itemsize, shape, strides, panel))
        return np.zeros(shape, dtype.np)
    return np.ndarray(shape, dtype.np, memory.data, offset, strides)
