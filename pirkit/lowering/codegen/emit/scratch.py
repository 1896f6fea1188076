"""Scratch memory of a kernel: one region per thread, with arrays at fixed offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pirkit.lowering.codegen.emit.vector_emit import Memory
from pirkit.lowering.codegen.ir.llvm_text import PTR, Builder, Value
from pirkit.runtime.dtype import DType

LINE: Final = 64
"""Bytes of a cache line."""


@dataclass(slots=True)
class Scratch:
    """Allocates arrays of values; each begins at a cache line. ``size`` is in bytes."""

    size: int = 0
    arrays: dict[str, tuple[int, DType]] = field(default_factory=dict[str, tuple[int, DType]])

    def reserve(self, name: str, dtype: DType, count: int, lanes: int) -> None:
        """An array of ``count`` values, with room for a vector that begins at the last one."""
        self.arrays[name] = self.size, dtype
        self.size += -(-(count + lanes) * dtype.itemsize // LINE) * LINE

    def memory(self, b: Builder, name: str, index: Value) -> Memory:
        """The memory of a vector of values from ``index`` on."""
        offset, dtype = self.arrays[name]
        base = b.at(Value("%scratch", PTR), offset)
        return Memory(b.at(base, b.times(index, dtype.itemsize)), dtype.itemsize)
