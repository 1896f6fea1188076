"""A register tile in memory: loads, stores and epilogues of its vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Final

from msgspec import Struct

from pirkit.lowering.codegen.emit.memory_access import masked_load
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.llvm_text import Builder, Type, Value
from pirkit.lowering.codegen.math.primitives import extremum
from pirkit.runtime.dtype import DType

L1: Final = 3
L2: Final = 2
"""Locality hints of `llvm.prefetch`; CPUs drop prefetches beyond the pending misses of L1."""


class OutputTile(Struct, frozen=True):
    """A register tile in memory: the address of each vector, row by row.

    ``masks`` are the lanes of each vector of a row that exist, None for all of them.
    """

    type: Type
    addresses: Sequence[Value]
    masks: Sequence[Value | None] = (None,)

    def _each(self) -> Iterator[tuple[Value, Value | None]]:
        return zip(self.addresses, cycle(self.masks))

    def load(self, b: Builder) -> list[Value]:
        return [read_vector(b, self.type, *place) for place in self._each()]

    def store(self, b: Builder, values: Sequence[Value]) -> None:
        for value, place in zip(values, self._each(), strict=True):
            write_vector(b, value, *place)

    def added(self, b: Builder, sums: Sequence[Value], when: Value) -> list[Value]:
        """``sums`` plus what is in memory if the condition holds, else ``sums``."""

        def sum_with_memory() -> list[Value]:
            pairs = zip(self._each(), sums, strict=True)
            return [b.add(read_vector(b, self.type, *place), total) for place, total in pairs]

        return b.branch(when, sum_with_memory, sums)

    def update_row_max(
        self, b: Builder, addresses: Sequence[Value], sums: Sequence[Value], dtype: DType
    ) -> None:
        """Update a vector of maxima for each row, at ``addresses``."""
        for r, address in enumerate(addresses):
            largest = read_vector(b, self.type, address)
            for total, mask in zip(sums[r * len(self.masks) :], self.masks, strict=False):
                # Lanes beyond the matrix must not count: they keep the old maximum.
                larger = extremum(b, total, largest, "max", dtype)
                largest = larger if mask is None else b.select(mask, larger, largest)
            write_vector(b, largest, address)


def prefetch_bytes(
    b: Builder, address: Value, nbytes: int, level: int = L1, to_write: bool = False
) -> None:
    """Prefetch ``nbytes``: rows of a block are too short for the hardware prefetcher."""
    for line in range(0, nbytes, LINE):
        b.prefetch(b.at(address, line), level, to_write)


def read_vector(b: Builder, type_: Type, address: Value, mask: Value | None = None) -> Value:
    """Load a vector or a scalar; 0 in lanes that the mask excludes."""
    return masked_load(b, type_, address, type_.bits // 8, mask)


def write_vector(b: Builder, value: Value, address: Value, mask: Value | None = None) -> None:
    """Store the lanes of a vector that the mask includes."""
    size = value.type.bits // 8
    if mask is None:
        b.store(value, address, size)
        return
    b.invoke(f"llvm.masked.store.{value.type.suffix}.p0", value, address, f"i32 {size}", mask)
