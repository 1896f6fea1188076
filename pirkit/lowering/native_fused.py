"""Binds fused kernels (MapExpr) to native code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec.structs import replace

from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.specialize import Shape
from pirkit.dialect.map_expr.verify_kernel import kernel_at
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.interpret import interpret
from pirkit.lowering.codegen.ir.loopnest import Kernel, Scatter
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import ArrayNest, nests_of
from pirkit.lowering.codegen.lower.split_scatter import without_scatters
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.native.function import NativeSequence, new_array
from pirkit.runtime.native.launch import LaunchFunction, LaunchPart
from pirkit.runtime.native.segment import NativeStep
from pirkit.runtime.native.target import l3_bytes

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=1024)
def nests_at(text: str, shapes: tuple[Shape, ...]) -> tuple[MapExpr, tuple[ArrayNest, ...] | str]:
    """The kernel of a text for inputs of these shapes, and its nests or why there are none."""
    kernel = kernel_at(text, shapes)
    return kernel, nests_of(kernel)


def why_not_native(text: str, shapes: tuple[Shape, ...]) -> str | None:
    """Why a kernel has no native code for inputs of these shapes; None if it has."""
    nests = nests_at(text, shapes)[1]
    return nests if isinstance(nests, str) else None


def bind_native(b: Binding) -> Step | None:
    """Bind a fused kernel; None if it cannot be expressed as loop nests."""
    shapes = tuple([b.input(k).shape for k in range(len(b.inputs))])
    kernel, nests = nests_at(b.attrs["kernel"], shapes)
    return None if isinstance(nests, str) else FusedKernel(kernel, nests)


def bind_interpreted(b: Binding) -> Step | None:
    """Bind a fused kernel to the interpreter of its loop nests; None without nests."""
    shapes = tuple([b.input(k).shape for k in range(len(b.inputs))])
    kernel, nests = nests_at(b.attrs["kernel"], shapes)
    return (
        None if isinstance(nests, str) else lambda *arrays: tuple(interpret(kernel, nests, arrays))
    )


class FusedKernel(NativeStep):
    """The nests of a kernel in order; values between them have temporaries of their own."""

    def __init__(self, kernel: MapExpr, nests: tuple[ArrayNest, ...]) -> None:
        self.inputs = len(kernel.inputs)
        self.results = kernel.results
        self.kernel = kernel
        self.nests = nests
        statements = without_scatters(kernel).kernel.statements
        self.outputs = {self.inputs + k: place for place, k in enumerate(kernel.outputs)}
        used = {k for nest in nests for k in nest.arrays}
        self.between = {
            k: s.meta
            for k, s in enumerate(statements, self.inputs)
            if k in used and k not in self.outputs
        }
        self.first_temporary = self.inputs + len(statements)
        self.assertions = [assertion for nest in nests for assertion in nest.assertions]
        self.sequences = [
            _nest_sequence(nest, self._large(k, nest)) for k, nest in enumerate(nests)
        ]
        """The functions of the nests; they are queued, to be compiled in one batch."""

    def _large(self, number: int, nest: ArrayNest) -> tuple[int, ...]:
        """Results to write with non-temporal stores: large, and not read by a later nest."""
        read_later = {k for later in self.nests[number + 1 :] for k in later.arrays}
        return large_results(nest, self.outputs.keys() - read_later)

    def launch_part(self, pinned: Mapping[int, Array]) -> LaunchPart:
        """The launch of all nests.

        Its operands are the arrays of the kernel, then one flag byte for each runtime assertion,
        then the temporaries between the functions of one nest.
        """
        works: list[LaunchFunction] = []
        own = {k: new_array(meta) for k, meta in self.between.items()}
        flags = 0
        start = self.first_temporary + len(self.assertions)
        for nest, sequence in zip(self.nests, self.sequences, strict=True):
            places = [k if k < self.first_temporary else k + flags for k in nest.arrays]
            places += [start + k for k in range(len(sequence.temporaries))]
            own |= {start + k: np.empty(n, np.uint8) for k, n in enumerate(sequence.temporaries)}
            start += len(sequence.temporaries)
            watched_flags = range(flags, flags + len(nest.assertions))
            flags = watched_flags.stop
            parts = [
                LaunchFunction(f, tuple([places[k] for k in used])) for f, used in sequence.steps
            ]
            works += [*parts[:-1], replace(parts[-1], flags=watched_flags)]
        return LaunchPart(
            tuple(works), own, tuple(range(self.first_temporary, self.first_temporary + flags))
        )

    def error(self, flag: int) -> Exception:
        """The error that the interpreter raises for the same violation."""
        return self.assertions[flag].error()


def large_results(nest: ArrayNest, results: AbstractSet[int]) -> tuple[int, ...]:
    """The operands of a nest that are among ``results`` and larger than half of L3."""
    if isinstance(nest.kernel, TiledNest):
        return ()
    if any(isinstance(s, Scatter) for s in nest.kernel.statements()):
        return ()
    pairs = zip(nest.arrays, nest.kernel.operands, strict=True)
    size = l3_bytes() // 2
    return tuple([k for k, (array, o) in enumerate(pairs) if array in results and o.size > size])


def _nest_sequence(nest: ArrayNest, large: Sequence[int]) -> NativeSequence:
    """The functions of a nest; operands in ``large`` use non-temporal stores."""
    return native_sequence(with_streaming_stores(nest.kernel, large))


def with_streaming_stores(kernel: Kernel | TiledNest, large: Sequence[int]) -> Kernel | TiledNest:
    """The kernel with non-temporal stores to the operands in ``large``."""
    operands = list(kernel.operands)
    for k in large:
        operands[k] = replace(operands[k], stream=True)
    return replace(kernel, operands=tuple(operands)) if large else kernel
