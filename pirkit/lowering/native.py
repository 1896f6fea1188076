"""Kernels of fused ops in native code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from pirkit.dialect.map_expr.checking import kernel_at
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.specialised import Shape
from pirkit.lowering.codegen.compile import native
from pirkit.lowering.codegen.from_map_expr import Nest, nests_of
from pirkit.lowering.codegen.landing import Landing, laid_out, native_landing
from pirkit.lowering.codegen.loopnest import Kernel
from pirkit.runtime.binding import Binding, PlacedStep, Step
from pirkit.runtime.native.function import NativeFunction, NativeSequence, new_array
from pirkit.runtime.native.launch import Launch
from pirkit.runtime.native.launch_ir import BROKEN, UNFIT
from pirkit.runtime.native.target import l3_bytes

Array = np.ndarray[Any, Any]


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


class _Fused(PlacedStep):
    """The nests of a kernel, one after the other; values between them have memory of their own."""

    def __init__(self, b: Binding, kernel: MapExpr, nests: tuple[Nest, ...]) -> None:
        self.inputs = len(kernel.inputs)
        self.results = kernel.results
        self.nests = nests
        statements = laid_out(kernel).kernel.statements
        self.outputs = {self.inputs + k: place for place, k in enumerate(kernel.outputs)}
        used = {k for nest in nests for k in nest.arrays}
        self.between = {
            k: b.workspace(s.meta.shape, s.meta.dtype)
            for k, s in enumerate(statements, self.inputs)
            if k in used and k not in self.outputs
        }
        self.first = self.inputs + len(statements)
        self.demands = [demand for nest in nests for demand in nest.demands]
        self.flags = np.zeros(len(self.demands), np.uint8)
        self.sequences = [_sequence(nest, self._large(k, nest)) for k, nest in enumerate(nests)]
        """The functions of the nests: all wait now to be compiled together."""

    def _large(self, number: int, nest: Nest) -> tuple[int, ...]:
        """Operands that go past the caches, which they would only empty."""
        read_later = {k for later in self.nests[number + 1 :] for k in later.arrays}
        return large_of(nest, self.outputs.keys() - read_later)

    def _launch(self) -> Launch:
        """One call of all nests.

        Operands are the arrays of the kernel, then a mark for each demand, then what parts of a
        nest hand to each other.
        """
        steps: list[tuple[NativeFunction, tuple[int, ...]]] = []
        own: list[Array] = []
        marks = 0
        for nest, sequence in zip(self.nests, self.sequences, strict=True):
            places = [k if k < self.first else k + marks for k in nest.arrays]
            marks += len(nest.demands)
            start = self.first + len(self.demands) + len(own)
            places += [start + k for k in range(len(sequence.temporaries))]
            own += [np.empty(size, np.uint8) for size in sequence.temporaries]
            steps += [(f, tuple([places[k] for k in used])) for f, used in sequence.steps]
        launch = Launch(steps, self.flags)
        fixed = {**self.between, **dict(enumerate([*self._marks(), *own], self.first))}
        for operand, array in fixed.items():
            launch.fix(operand, array)
        return launch

    def _marks(self) -> list[Array]:
        return [self.flags[k:] for k in range(len(self.demands))]

    def at(
        self, values: list[Any], cells: Sequence[int], moving: AbstractSet[int]
    ) -> Callable[[], object]:
        """The launch over arrays in cells; those that do not lie in rows are copied."""
        found: dict[int, int] = {}
        copies: list[tuple[Array, Array]] = []
        fixed: dict[int, Array] = {}
        for operand, cell in self._operands(cells):
            array = values[cell]
            if cell in moving:
                found[operand] = cell
            elif array is None:
                fixed[operand] = new_array(self.results[self.outputs[operand]])
            elif _in_rows(array):
                fixed[operand] = array
            elif operand in self.outputs:
                return partial(self._anywhere, values, cells)
            else:
                fixed[operand] = np.empty(array.shape, array.dtype)
                copies.append((fixed[operand], array))
        go = self._over(values, found, fixed)
        if not found and not self.demands and not copies:
            return go

        def run() -> None:
            for buffer, array in copies:
                np.copyto(buffer, array)
            state = go()
            if state == UNFIT:
                self._anywhere(values, cells)
            elif state == BROKEN:
                self.check()

        return run

    def _operands(self, cells: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Inputs and results of the launch by number, with their cells."""
        yield from enumerate(cells[: self.inputs])
        for operand, place in self.outputs.items():
            yield operand, cells[self.inputs + place]

    def _over(
        self, values: list[Any], found: Mapping[int, int], fixed: Mapping[int, Array]
    ) -> Callable[[], int]:
        """The launch over arrays that move, in cells, and others."""
        launch = self._launch()
        for operand, array in fixed.items():
            launch.fix(operand, array)
        return launch.over(values, found)

    def _anywhere(self, values: list[Any], cells: Sequence[int]) -> None:
        self(*[values[c] for c in cells])

    @cached_property
    def given(self) -> tuple[list[Any], Callable[[], int]]:
        """Cells of its own, and the launch over them, for calls on arrays from anywhere."""
        count = self.inputs + len(self.results)
        values: list[Any] = [None] * count
        found = dict(self._operands(range(count)))
        return values, self._over(values, found, {})

    def __call__(self, *given: Any) -> None:
        """Run on arrays from anywhere; those that do not lie in rows are copied."""
        targets = given[self.inputs :]
        arrays = [a if _in_rows(a) else np.array(a, order="C") for a in given[: self.inputs]]
        whole = [
            t if t is not None and _in_rows(t) else new_array(m)
            for t, m in zip(targets, self.results, strict=True)
        ]
        values, go = self.given
        values[:] = [*arrays, *whole]
        state = go()
        values[:] = [None] * len(values)
        if state == BROKEN:
            self.check()
        for target, made in zip(targets, whole, strict=True):
            if target is not None and target is not made:
                target[...] = made

    def check(self) -> None:
        """Raise what the interpreter raises for data that do not keep to what is demanded."""
        broken = np.flatnonzero(self.flags)
        self.flags[...] = 0
        raise self.demands[int(broken[0])].error()


def _in_rows(array: Any) -> bool:
    """Whether native code can be given an array as it is."""
    return type(array) is np.ndarray and array.flags.c_contiguous and array.flags.aligned


def large_of(nest: Nest, results: AbstractSet[int]) -> tuple[int, ...]:
    """Operands of a nest that are among some arrays and larger than what the caches hold well."""
    if isinstance(nest.kernel, Landing):
        return ()
    pairs = zip(nest.arrays, nest.kernel.operands, strict=True)
    size = l3_bytes() // 2
    return tuple([k for k, (array, o) in enumerate(pairs) if array in results and o.size > size])


def _sequence(nest: Nest, large: Sequence[int]) -> NativeSequence:
    """What runs a nest, some of whose results go past the caches."""
    if isinstance(nest.kernel, Landing):
        return native_landing(nest.kernel)
    return native(streamed(nest.kernel, large))


def streamed(kernel: Kernel, large: Sequence[int]) -> Kernel:
    """A kernel some of whose results go past the caches."""
    operands = list(kernel.operands)
    for k in large:
        operands[k] = replace(operands[k], stream=True)
    return replace(kernel, operands=tuple(operands)) if large else kernel
