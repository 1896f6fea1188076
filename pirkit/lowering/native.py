"""Kernels of fused ops in native code."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np

from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.specialised import Shape, kernel_at
from pirkit.lowering.codegen.compile import native
from pirkit.lowering.codegen.from_map_expr import Nest, nests_of
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]

NAME: Final = "native"
FUSED: Final = "pir.map_expr"


@lru_cache(maxsize=1024)
def _nests(text: str, shapes: tuple[Shape, ...]) -> tuple[MapExpr, tuple[Nest, ...] | str]:
    kernel = kernel_at(text, shapes)
    return kernel, nests_of(kernel)


def bind_native(b: Binding) -> Step | None:
    """What runs a kernel of fused ops; None for one that loop nests do not hold."""
    shapes = tuple([b.input(k).shape for k in range(len(b.inputs))])
    kernel, nests = _nests(b.attrs["kernel"], shapes)
    return None if isinstance(nests, str) else _Fused(b, kernel, nests)


class _Fused:
    """The nests of a kernel, one after the other; values between them have memory of their own."""

    def __init__(self, b: Binding, kernel: MapExpr, nests: tuple[Nest, ...]) -> None:
        self.inputs = len(kernel.inputs)
        self.results = kernel.results
        self.outputs = [(self.inputs + k, position) for position, k in enumerate(kernel.outputs)]
        self.calls = [(native(nest.kernel).at_addresses(), nest.arrays) for nest in nests]
        used = {k for nest in nests for k in nest.arrays} - {k for k, _ in self.outputs}
        self.between: list[Array | None] = [
            b.workspace(s.meta.shape, s.meta.dtype) if k in used else None
            for k, s in enumerate(kernel.statements, self.inputs)
        ]
        self.fixed = [0 if a is None else address_of(a) for a in self.between]

    def __call__(self, *given: Any) -> None:
        arrays = [np.ascontiguousarray(a) for a in given[: self.inputs]]
        targets = given[self.inputs :]
        whole = [
            t if t is not None and t.flags.c_contiguous else np.empty(m.shape, m.dtype.np)
            for t, m in zip(targets, self.results, strict=True)
        ]
        addresses = [*map(address_of, arrays), *self.fixed]
        for k, position in self.outputs:
            addresses[k] = address_of(whole[position])
        for call, used in self.calls:
            call([addresses[k] for k in used])
        for target, made in zip(targets, whole, strict=True):
            if target is not None and target is not made:
                target[...] = made
