"""Kernels of fused ops in native code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import numpy as np

from pirkit.dialect.map_expr.checking import kernel_at
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.specialised import Shape
from pirkit.lowering.codegen.compile import native
from pirkit.lowering.codegen.from_map_expr import Nest, nests_of
from pirkit.lowering.codegen.loopnest import Kernel
from pirkit.lowering.codegen.scratch import LINE
from pirkit.runtime.binding import Binding, PlacedStep, Step
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import NativeFunction, NativeSequence
from pirkit.runtime.native.launch import Launch
from pirkit.runtime.native.launch_ir import BROKEN, UNFIT
from pirkit.runtime.native.target import l3_bytes
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]

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


class _Fused(PlacedStep):
    """The nests of a kernel, one after the other; values between them have memory of their own."""

    def __init__(self, b: Binding, kernel: MapExpr, nests: tuple[Nest, ...]) -> None:
        self.inputs = len(kernel.inputs)
        self.results = kernel.results
        self.nests = nests
        self.outputs = {self.inputs + k: place for place, k in enumerate(kernel.outputs)}
        used = {k for nest in nests for k in nest.arrays}
        self.between = {
            k: b.workspace(s.meta.shape, s.meta.dtype)
            for k, s in enumerate(kernel.statements, self.inputs)
            if k in used and k not in self.outputs
        }
        self.first = self.inputs + len(kernel.statements)
        self.demands = [demand for nest in nests for demand in nest.demands]
        self.flags = np.zeros(len(self.demands), np.uint8)
        self.large = {k: large for k, nest in enumerate(nests) if (large := self._large(k, nest))}
        """Operands of nests that go past the caches, which they would only empty."""
        self.sequences = [self._sequences(each) for each in self._ways()]
        """The functions of the nests in each way: all wait now to be compiled together."""

    def _large(self, number: int, nest: Nest) -> tuple[int, ...]:
        read_later = {k for later in self.nests[number + 1 :] for k in later.arrays}
        return tuple(
            [
                k
                for k, (array, o) in enumerate(zip(nest.arrays, nest.kernel.operands, strict=True))
                if array in self.outputs and array not in read_later and o.size > l3_bytes() // 2
            ]
        )

    def _ways(self) -> tuple[Mapping[int, Sequence[int]], ...]:
        """With large results past the caches where there are such, and with ordinary stores."""
        return (self.large, {}) if self.large else ({},)

    def _sequences(self, large: Mapping[int, Sequence[int]]) -> list[NativeSequence]:
        nests = enumerate(self.nests)
        return [native(_streamed(nest.kernel, large.get(k, ()))) for k, nest in nests]

    def _launch(self, sequences: Sequence[NativeSequence]) -> Launch:
        """One call of all nests.

        Operands are the arrays of the kernel, then a mark for each demand, then what parts of a
        nest hand to each other.
        """
        steps: list[tuple[NativeFunction, tuple[int, ...]]] = []
        own: list[Array] = []
        marks = 0
        for nest, sequence in zip(self.nests, sequences, strict=True):
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
                fixed[operand] = _new(self.results[self.outputs[operand]])
            elif _in_rows(array):
                fixed[operand] = array
            elif operand in self.outputs:
                return partial(self._anywhere, values, cells)
            else:
                fixed[operand] = np.empty(array.shape, array.dtype)
                copies.append((fixed[operand], array))
        go = self._over(values, cells, found, fixed)
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
        self,
        values: list[Any],
        cells: Sequence[int],
        found: Mapping[int, int],
        fixed: Mapping[int, Array],
    ) -> Callable[[], int]:
        """The launch; one with large results is chosen by where they begin."""
        gos: list[Callable[[], int]] = []
        for sequences in self.sequences:
            launch = self._launch(sequences)
            for operand, array in fixed.items():
                launch.fix(operand, array)
            gos.append(launch.over(values, found))
        if len(gos) == 1:
            return gos[0]
        streams = [self.nests[n].arrays[k] for n, large in self.large.items() for k in large]
        begins = [fixed.get(operand) for operand in streams]
        moves = [cells[self.inputs + self.outputs[k]] for k in streams if k in found]
        streaming, plain = gos
        if any(a is not None and address_of(a) % LINE for a in begins):
            return plain

        def choose() -> int:
            at_lines = not any(address_of(values[c]) % LINE for c in moves)
            return streaming() if at_lines else plain()

        return choose

    def _anywhere(self, values: list[Any], cells: Sequence[int]) -> None:
        self(*[values[c] for c in cells])

    @cached_property
    def given(self) -> tuple[list[Any], Callable[[], int]]:
        """Cells of its own, and the launch over them, for calls on arrays from anywhere."""
        count = self.inputs + len(self.results)
        values: list[Any] = [None] * count
        found = dict(self._operands(range(count)))
        return values, self._over(values, range(count), found, {})

    def __call__(self, *given: Any) -> None:
        """Run on arrays from anywhere; those that do not lie in rows are copied."""
        targets = given[self.inputs :]
        arrays = [a if _in_rows(a) else np.array(a, order="C") for a in given[: self.inputs]]
        whole = [
            t if t is not None and _in_rows(t) else _new(m)
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


def _new(meta: TensorMeta) -> Array:
    return np.empty(meta.shape, meta.dtype.np)


def _streamed(kernel: Kernel, large: Sequence[int]) -> Kernel:
    """A kernel some of whose results go past the caches."""
    operands = list(kernel.operands)
    for k in large:
        operands[k] = replace(operands[k], stream=True)
    return replace(kernel, operands=tuple(operands)) if large else kernel
