"""Executables that are called with tensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.runtime.executor import Executable
from pirkit.runtime.mode import Mode
from pirkit.runtime.steps import SavedValues
from pirkit.runtime.trace import Entry, Trace
from pirkit.torch.element_types import TO_TORCH, array_of, tensor_of
from pirkit.torch.libtorch import torch

Array = np.ndarray[Any, Any]

SMALL: Final = 1 << 20
"""Bytes up to which saved values are arrays, which live as long as the graph of autograd; larger
ones are tensors that autograd releases after the backward."""

_PARAMETER: Final[Any] = torch.nn.Parameter


@dataclass(frozen=True)
class Settings:
    """How programs are compiled and split."""

    fast_math: bool = False
    saved: str = "free"
    """Which values the backward finds saved: a mode of `pirkit.split.forward_backward`."""
    budget: int | None = None
    threads: int | None = None
    sizes: int = 8
    """Combinations of sizes that are compiled when they are first met."""


class Runner:
    """An executable, called with tensors in the order of some names.

    The first ``shown`` results are tensors. The others, which only a backward reads, are plain
    arrays where they are small, because those are made faster.
    """

    def __init__(
        self,
        program: Program,
        inputs: Sequence[str],
        outputs: Sequence[str],
        settings: Settings,
        shown: int | None = None,
    ) -> None:
        self.executable: Executable = compile(
            program, fast_math=settings.fast_math, threads=settings.threads
        )
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._run: Callable[[dict[str, Any]], dict[str, Any]] = self.executable.run
        self._held: dict[int, tuple[Any, int, Array]] = {}
        shown = len(self.outputs) if shown is None else shown
        self._native = native = self.executable.native
        if native is None:
            return
        names, results = native.names
        self._order = None if names == self.inputs else [self.inputs.index(n) for n in names]
        self._results = [results.index(n) for n in self.outputs]
        rest = set(self._results[shown:]) - set(self._results[:shown])
        total = sum(native.results[k].numel * native.results[k].dtype.itemsize for k in rest)
        plain = rest if total <= SMALL else set[int]()
        self._makers = [
            (tuple(m.shape), m.dtype.np if k in plain else None, TO_TORCH[m.dtype])
            for k, m in enumerate(native.results)
        ]

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        """The results for tensors, in memory of their own."""
        native = self._native
        if native is not None:
            made: list[Any] = []
            results: list[Array] = []
            for shape, plain, dtype in self._makers:
                if plain is not None:
                    made.append(np.empty(shape, plain))
                    results.append(made[-1])
                    continue
                made.append(torch.empty(shape, dtype=dtype))
                results.append(array_of(made[-1]))
            given = self._ordered(tensors)
            if native.attempt(given, tuple(results)) is None:
                made = [tensor_of(a) for a in native(*given)]
            return [made[i] for i in self._results]
        arrays = dict(zip(self.inputs, map(self._array, tensors), strict=True))
        found = self._run(arrays)
        return [
            value if isinstance(value, SavedValues) else tensor_of(np.asarray(value))
            for value in (found[name] for name in self.outputs)
        ]

    def watched(self) -> list[Entry]:
        """Run by instruction from now on; each call writes CPU seconds of each into the result."""
        entries: list[Entry] = []
        executable, self._native = self.executable, None

        def run(arrays: dict[str, Any]) -> dict[str, Any]:
            executable.watch(arrays, Mode(executable.reuse))  # the first run touches fresh memory
            trace = Trace(clock=time.process_time)
            found = executable.watch(arrays, Mode(executable.reuse, run=trace.run))
            entries[:] = trace.entries
            return found

        self._run = run
        return entries

    def _ordered(self, tensors: Sequence[Any]) -> tuple[Array, ...]:
        """Arrays over tensors in the order of the native call; those of parameters are kept."""
        held = self._held
        arrays: list[Array] = []
        for place, tensor in enumerate(tensors):
            known = held.get(place)
            if known is not None and known[0] is tensor and known[1] == tensor.data_ptr():
                arrays.append(known[2])
                continue
            array = self._array(tensor)
            if type(tensor) is _PARAMETER and tensor.is_contiguous():
                held[place] = (tensor, tensor.data_ptr(), array)
            arrays.append(array)
        order = self._order
        return tuple(arrays if order is None else [arrays[i] for i in order])

    @staticmethod
    def _array(tensor: Any) -> Array:
        """An array in rows, over the memory of a tensor in rows; an array as it is.

        A stack, from which a run pops, is copied: the graph of autograd may be run again.
        """
        if type(tensor) is np.ndarray:
            return tensor
        if isinstance(tensor, SavedValues):
            return cast("Any", tensor.copied())
        return array_of(tensor if tensor.is_contiguous() else tensor.contiguous())
