"""Memory that a kernel needs while it runs: one piece for each thread, in fixed places."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pirkit.lowering.codegen.emit.vector_emit import Memory, load, store
from pirkit.lowering.codegen.ir.llvm_text import PTR, Builder, Value
from pirkit.lowering.codegen.math.primitives import Typed, narrow
from pirkit.runtime.dtype import DType

LINE: Final = 64


@dataclass(slots=True)
class Scratch:
    """Gives out arrays of values, each starting at a cache line."""

    size: int = 0
    arrays: dict[str, tuple[int, DType]] = field(default_factory=dict[str, tuple[int, DType]])

    def reserve(self, name: str, dtype: DType, count: int, lanes: int) -> None:
        """An array of ``count`` values and whatever a vector may reach beyond."""
        self.arrays[name] = self.size, dtype
        self.size += -(-(count + lanes) * dtype.itemsize // LINE) * LINE

    def memory(self, b: Builder, name: str, index: Value) -> Memory:
        """Where a vector of values begins."""
        offset, dtype = self.arrays[name]
        base = b.at(Value("%scratch", PTR), offset)
        return Memory(b.at(base, b.times(index, dtype.itemsize)), dtype.itemsize)

    def load(self, b: Builder, name: str, index: Value, lanes: int) -> Typed:
        dtype = self.arrays[name][1]
        return load(b, dtype, self.memory(b, name, index), lanes, None), dtype

    def store(self, b: Builder, name: str, index: Value, value: Value) -> None:
        dtype = self.arrays[name][1]
        store(b, narrow(b, value, dtype), dtype, self.memory(b, name, index), None)
