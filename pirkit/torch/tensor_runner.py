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
"""Bytes up to which saved values live as long as the graph of autograd, which does not know them;
larger ones it releases after the backward."""

_TENSOR: Final[Any] = torch.Tensor
_PLAIN: Final = frozenset({_TENSOR, torch.nn.Parameter})
"""Types whose memory is where they say; a subclass may hold something else."""


def _empty(shape: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
    return torch.empty_strided(shape, strides, dtype=dtype)


_EMPTY: Final[Callable[..., Any]] = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", _empty)
"""New memory of a shape, strides and a dtype: what the code of Inductor calls, since
`torch.empty` takes ten times as long to read its arguments."""


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

    The first ``shown`` results are those of the user. The others are only read by a backward;
    ``is_small`` says that they take so little memory that it need not be released early. Inputs
    whose numbers are ``known`` are results of another runner, which no hook of torch has seen.
    """

    def __init__(
        self,
        program: Program,
        inputs: Sequence[str],
        outputs: Sequence[str],
        settings: Settings,
        shown: int | None = None,
        known: range = range(0),
    ) -> None:
        self.executable: Executable = compile(
            program, fast_math=settings.fast_math, threads=settings.threads
        )
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._run: Callable[[dict[str, Any]], dict[str, Any]] = self.executable.run
        self.is_small = False
        self._native = native = self.executable.native
        if native is None:
            return
        names, results = native.names
        self._order = None if names == self.inputs else [self.inputs.index(n) for n in names]
        self._results = [results.index(n) for n in self.outputs]
        rest = self._results[len(self.outputs) if shown is None else shown :]
        total = sum(native.results[k].numel * native.results[k].dtype.itemsize for k in set(rest))
        self.is_small = total <= SMALL
        self._makers = [(m.shape, _in_rows(m.shape), TO_TORCH[m.dtype]) for m in native.results]
        made = [k in known for k in (self._order or range(len(inputs)))]
        self._wanted = [
            None if is_made else (m.shape, TO_TORCH[m.dtype], m.dtype.itemsize)
            for m, is_made in zip(native.inputs, made, strict=True)
        ]

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        """The results for tensors, in memory of their own."""
        native = self._native
        if native is not None:
            order = self._order
            given = tensors if order is None else [tensors[i] for i in order]
            made = [_EMPTY(*maker) for maker in self._makers]
            addresses = self._addresses(given)
            if addresses is None:
                made = [tensor_of(a) for a in native(*map(self._array, given))]
            else:
                native.run_at([*addresses, *[m.data_ptr() for m in made]])
            return [made[i] for i in self._results]
        arrays = dict(zip(self.inputs, map(self._array, tensors), strict=True))
        found = self._run(arrays)
        return [
            value if isinstance(value, SavedValues) else tensor_of(np.asarray(value))
            for value in (found[name] for name in self.outputs)
        ]

    def _addresses(self, given: Sequence[Any]) -> list[int] | None:
        """Where the tensors lie, if each is as native code wants it: in rows, without a lazy sign.

        The types are those of the program unless somebody replaced the data of a tensor.
        """
        found: list[int] = []
        for tensor, wanted in zip(given, self._wanted, strict=True):
            if wanted is None and type(tensor) is _TENSOR:
                found.append(tensor.data_ptr())
                continue
            if wanted is None:
                return None
            shape, dtype, itemsize = wanted
            if (type(tensor) not in _PLAIN or tensor.dtype is not dtype or tensor.shape != shape
                    or not tensor.is_contiguous() or not tensor.is_cpu or tensor.is_neg()
                    or tensor.is_conj()):  # fmt: skip
                return None
            address = tensor.data_ptr()
            if address % itemsize:
                return None
            found.append(address)
        return found

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


def _in_rows(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor in rows, in elements, as torch counts them."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * max(extent, 1))
    return tuple(reversed(strides)) if shape else ()
