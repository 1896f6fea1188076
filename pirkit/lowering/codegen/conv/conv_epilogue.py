"""What a convolution does with its sums before it stores them: a bias, an activation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from pirkit.lowering.codegen.emit.vector_emit import VectorEmitter
from pirkit.lowering.codegen.ir.llvm_text import Builder, Type, Value
from pirkit.lowering.codegen.ir.loopnest import Compute, Constant
from pirkit.lowering.codegen.math.casts import element
from pirkit.runtime.dtype import DType

Array = np.ndarray[Any, Any]


class ConvEpilogue(Struct, frozen=True):
    """Elementwise statements over a sum and one number of its filter for each of ``vectors``.

    The names are those of the sum, of these numbers, and of what is stored.
    """

    sum: str
    vectors: tuple[str, ...]
    statements: tuple[Compute | Constant, ...]
    result: str

    def of_filter(
        self, b: Builder, dtype: DType, lanes: int, addresses: Sequence[Value]
    ) -> Callable[[Value], Value]:
        """Emits the epilogue of vectors of sums of a filter, whose numbers are at addresses."""
        type_, size = Type(element(dtype)), dtype.itemsize
        numbers = [(b.load(type_, at, size), dtype) for at in addresses]

        def apply(value: Value) -> Value:
            known = {self.sum: (value, dtype), **dict(zip(self.vectors, numbers, strict=True))}
            emitter = VectorEmitter(b, (), lanes, _nowhere, _nothing, _nowhere, None, known)
            emitter.run(self.statements)
            return emitter.get(self.result)[0]

        return apply

    def run(self, sums: Array, numbers: Sequence[Array]) -> Array:
        """The same with numpy; the first axis of both are filters."""
        from pirkit.lowering.codegen.interpret import computed  # noqa: PLC0415  imports all of it

        places = [n.reshape(-1, *[1] * (sums.ndim - 1)) for n in numbers]
        known: dict[str, Array] = {self.sum: sums, **dict(zip(self.vectors, places, strict=True))}
        for s in self.statements:
            known[s.name] = (
                np.array(s.value, s.dtype.np)
                if isinstance(s, Constant)
                else computed(s, [known[a] for a in s.args])
            )
        return known[self.result]


def _nowhere(axis: int) -> Any:
    raise AssertionError(f"an epilogue knows no place along {axis}")


def _nothing(name: str) -> Any:
    raise AssertionError(f"{name} is defined nowhere")
