"""Kernels of fused ops in native code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from pirkit.dialect.map_expr.checking import kernel_at
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.specialised import Shape
from pirkit.lowering.codegen.compile import native
from pirkit.lowering.codegen.from_map_expr import Nest, nests_of
from pirkit.lowering.codegen.loopnest import Kernel
from pirkit.lowering.codegen.scratch import LINE
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.native.target import l3_bytes
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]
Call = Callable[[Sequence[int]], None]

NAME: Final = "native"
FUSED: Final = "pir.map_expr"


@lru_cache(maxsize=1024)
def _nests(text: str, shapes: tuple[Shape, ...]) -> tuple[MapExpr, tuple[Nest, ...] | str]:
    kernel = kernel_at(text, shapes)
    return kernel, nests_of(kernel)


def why_not_native(text: str, shapes: tuple[Shape, ...]) -> str | None:
    """Why native code does not run a kernel for inputs of these shapes; None if it does."""
    nests = _nests(text, shapes)[1]
    return nests if isinstance(nests, str) else None


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
        used = {k for nest in nests for k in nest.arrays} - {k for k, _ in self.outputs}
        self.between: list[Array | None] = [
            b.workspace(s.meta.shape, s.meta.dtype) if k in used else None
            for k, s in enumerate(kernel.statements, self.inputs)
        ]
        self.fixed = [0 if a is None else address_of(a) for a in self.between]
        self.demands = [demand for nest in nests for demand in nest.demands]
        self.flags = np.zeros(len(self.demands), np.uint8)
        first, count = self.inputs + len(kernel.statements), 0
        self.calls: list[tuple[Any, tuple[int, ...]]] = []
        for number, nest in enumerate(nests):
            places = tuple([k if k < first else k + count for k in nest.arrays])
            read_later = {k for later in nests[number + 1 :] for k in later.arrays}
            last = {k for k, _ in self.outputs} - read_later
            self.calls.append((_call(nest, last), places))
            count += len(nest.demands)
        start = address_of(self.flags) if self.demands else 0
        self.fixed += [start + k for k in range(count)]

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
        if self.demands:
            self.check()
        for target, made in zip(targets, whole, strict=True):
            if target is not None and target is not made:
                target[...] = made

    def check(self) -> None:
        """Raise what the interpreter raises for data that do not keep to what is demanded."""
        broken = np.flatnonzero(self.flags)
        if len(broken):
            self.flags[...] = 0
            raise self.demands[int(broken[0])].error()


def _call(nest: Nest, results: Collection[int]) -> Call:
    """A call of a nest; large ``results`` go past the caches, which they would only empty."""
    plain = nest.kernel
    large = [
        k
        for k, (array, o) in enumerate(zip(nest.arrays, plain.operands, strict=True))
        if array in results and o.size > l3_bytes() // 2
    ]
    if not large:
        return native(plain).at_addresses()
    operands = list(plain.operands)
    for k in large:
        operands[k] = replace(operands[k], stream=True)
    return _Streaming(native(replace(plain, operands=tuple(operands))).at_addresses(), plain, large)


class _Streaming:
    """A call whose results begin at cache lines; where they do not, one with ordinary stores."""

    def __init__(self, call: Call, plain: Kernel, large: Sequence[int]) -> None:
        self.call, self.plain, self.large = call, plain, large
        self.other: Call | None = None

    def __call__(self, addresses: Sequence[int]) -> None:
        if not any(addresses[k] % LINE for k in self.large):
            self.call(addresses)
            return
        self.other = self.other or native(self.plain).at_addresses()
        self.other(addresses)
