"""Executables that are called with tensors of torch, whose addresses native code gets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import starmap
from operator import itemgetter
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.runtime import dtype as dt
from pirkit.runtime.arrays import SavedValues
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.mode import Mode
from pirkit.runtime.native.cores import at_most
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.trace import Entry, Trace
from pirkit.torch.addressed_run import AddressedRun
from pirkit.torch.element_types import TO_TORCH, array_of, tensor_of
from pirkit.torch.libtorch import torch

Array = np.ndarray[Any, Any]

LINE: Final = 64
"""Bytes to which offsets in saved memory are rounded up."""
CHECKS: Final = 8
"""How often a runner has torch make a check (`_GUARDS`) for its arguments, when they are unlike
those before. After that, Python checks each call."""

_TENSOR: Final[Any] = torch.Tensor
_PLAIN: Final = frozenset({_TENSOR, torch.nn.Parameter})
"""Types whose memory is where they say; a subclass may hold something else."""


def _empty(shape: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
    return torch.empty_strided(shape, strides, dtype=dtype)


_EMPTY: Final[Callable[..., Any]] = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", _empty)
"""New memory of a shape, strides and a dtype: what the code of Inductor calls, since
`torch.empty` takes ten times as long to read its arguments."""

_ADDRESS: Final[Callable[[Any], int]] = _TENSOR.data_ptr
"""The address of a tensor, as a function that `map` calls without a frame of Python."""

_GUARDS: Final[Any] = getattr(torch._C._dynamo.guards, "TensorGuards", None)
"""Torch's check that tensors have the types, layouts and dispatch keys of earlier ones; None in
versions without it."""


@dataclass(frozen=True)
class Settings:
    """How programs are compiled and split: see `backend.Options`."""

    fast_math: bool = False
    saved: str = "free"
    """Which values the backward finds saved: a mode of `pirkit.split.forward_backward`."""
    budget: int | None = None
    threads: int | None = None
    sizes: int = 8
    """Combinations of sizes that are compiled when they are first met."""
    freeze: bool = False
    """Whether parameters and buffers are constants of inference."""


@dataclass(frozen=True)
class Packed:
    """The layout of values saved for a backward, in one tensor of bytes: the offset of each."""

    places: dict[str, tuple[int, TensorMeta]]
    nbytes: int

    @classmethod
    def of(cls, metas: dict[str, TensorMeta]) -> Packed:
        """Values of these shapes one after the other, each at a multiple of `LINE` bytes."""
        places: dict[str, tuple[int, TensorMeta]] = {}
        end = 0
        for name, meta in metas.items():
            places[name] = end, meta
            end += -(-meta.numel * meta.dtype.itemsize // LINE) * LINE
        return cls(places, end)

    def arrays(self, memory: Any) -> dict[str, Array]:
        """The values, as arrays in the memory of the tensor."""
        held = array_of(memory)
        return {name: np.ndarray(meta.shape, meta.dtype.np, held, place)
                for name, (place, meta) in self.places.items()}  # fmt: skip


class Runner:
    """An executable, called with tensors in the order of ``inputs``.

    The first ``shown`` results are those of the user. Native code writes the others, which only a
    backward reads, into one tensor, which is the last result: ``packed`` says where each of them
    is. A runner that is given such a layout (``saved``) takes that tensor instead of the values,
    where the first of them would be. With ``lanes`` the batch may lie in lanes of vectors.
    ``updates`` are pairs of indices, of a result and of the argument whose new content it is: where
    native code can, it writes into the argument, which is then the result.
    """

    def __init__(
        self,
        program: Program,
        inputs: Sequence[str],
        outputs: Sequence[str],
        settings: Settings,
        shown: int | None = None,
        saved: Packed | None = None,
        *,
        lanes: bool = False,
        updates: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.executable: Executable = compile(
            program, fast_math=settings.fast_math, threads=settings.threads, batch_lanes=lanes
        )
        self.outputs = tuple(outputs[:shown])
        self._run: Callable[[dict[str, Any]], dict[str, Any]] = self.executable.run
        self._saved = Packed({}, 0) if saved is None else saved
        inside = self._saved.places
        self._memory = next((k for k, n in enumerate(inputs) if n in inside), None)
        self.inputs = tuple(
            [n for k, n in enumerate(inputs) if n not in inside or k == self._memory]
        )
        """Names of the arguments; that of the first saved value stands for all of them."""
        self.packed: Packed | None = None
        self._rest = tuple(outputs[len(self.outputs) :])
        self._limit = self.executable.threads
        self._native = native = self.executable.native or AddressedRun.of(self.executable)
        if native is None:  # it takes or gives stacks on which loops save values
            return
        if isinstance(native, NativeProgram) and not native.uses_limit:
            self._limit = None
        names, results = native.names
        metas = dict(zip(results, native.results, strict=True))
        takes = dict(zip(names, native.inputs, strict=True))
        if self._rest:
            self.packed = Packed.of({n: metas[n] for n in self._rest})
        shared = _shared(native, [(outputs[k], i, self.inputs[i]) for k, i in updates])
        own = [n for n in results if n not in self._rest and n not in shared]
        self._makers = [
            (metas[n].shape, _in_rows(metas[n].shape), TO_TORCH[metas[n].dtype]) for n in own
        ]
        places = [len(own) + shared[n] if n in shared else own.index(n) for n in self.outputs]
        self._show = picker(places, len(own))  # of what a call makes, and its arguments after that
        self._updates = bool(shared)
        memory = TensorMeta((self._saved.nbytes,), dt.uint8)
        self._wanted = [
            memory if k == self._memory else takes.get(n) for k, n in enumerate(self.inputs)
        ]
        self._alignment = max([m.dtype.itemsize for m in native.inputs], default=1) - 1
        self._check: Callable[..., bool] | None = None
        self._checks = 0
        # A call knows these addresses: of arguments, of results, and of the tensor that packs saved
        # values. For each operand of the native code, `_which` says which of them it needs, and
        # `_places` at which offset. An argument and a result may have the same name.
        count, memory_at = len(self.inputs), self._memory or 0
        taken = {n: (k, 0) for k, n in enumerate(self.inputs)}
        taken.update({n: (memory_at, place) for n, (place, _) in inside.items()})
        given = {n: (count + k, 0) for k, n in enumerate(own)}
        given.update({n: (k, 0) for n, k in shared.items()})
        if self.packed:
            end = count + len(own)
            given.update({n: (end, place) for n, (place, _) in self.packed.places.items()})
        order = [*[taken[n] for n in names], *[given[n] for n in results]]
        self._which = np.array([k for k, _ in order], np.intp)
        self._places = np.array([place for _, place in order], np.uintp)
        self._is_plain = not self._places.any()
        """Whether each address is one that a call knows, as it is."""
        self._order = picker([k for k, _ in order], count + len(own) + bool(self.packed))

    def __call__(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """The results for tensors, in new memory, or in the arguments that are updated.

        Raises RuntimeFault (PK0903) for a tensor of another shape or element type.
        """
        native = self._native
        if native is None:
            return self._by_instruction(tensors)
        made = [*starmap(_EMPTY, self._makers)]
        known = self._addresses(tensors)
        if known is None:
            tensors = self._copies(tensors)
            known = [*map(_ADDRESS, tensors)]
        found = self._show([*made, *tensors] if self._updates else made)
        if self.packed is not None:
            memory = _EMPTY((self.packed.nbytes,), (1,), torch.uint8)
            found, made = [*found, memory], [*made, memory]
        known.extend(map(_ADDRESS, made))
        addresses: Any = (
            self._order(known)
            if self._is_plain
            else np.array(known, np.uintp)[self._which] + self._places
        )
        if self._limit is None:
            native.run_at(addresses)
        else:
            with at_most(self._limit):
                native.run_at(addresses)
        return found

    def _by_instruction(self, tensors: Sequence[Any]) -> list[Any]:
        """The results by the executor: with stacks of loops, and while `explain` watches."""
        arrays: dict[str, Any] = {}
        copies: dict[int, Any] = {}
        for k, (name, tensor) in enumerate(zip(self.inputs, tensors, strict=True)):
            if k == self._memory:
                arrays.update(self._saved.arrays(tensor))
            elif isinstance(tensor, SavedValues):
                # A run pops from it, and the graph of autograd may be run again. A loop asks it
                # by one argument whether it has elements, and takes them by another one.
                if id(tensor) not in copies:
                    copies[id(tensor)] = tensor.copied()
                arrays[name] = copies[id(tensor)]
            else:
                arrays[name] = self._array(tensor)
        found = self._run(arrays)
        if self.packed is None:
            return [
                value if isinstance(value, SavedValues) else tensor_of(np.asarray(value))
                for value in (found[name] for name in (*self.outputs, *self._rest))
            ]
        memory = _EMPTY((self.packed.nbytes,), (1,), torch.uint8)
        for name, array in self.packed.arrays(memory).items():
            array[...] = found[name]
        return [*(tensor_of(np.asarray(found[name])) for name in self.outputs), memory]

    def _addresses(self, tensors: Sequence[Any]) -> list[int] | None:
        """The addresses of the tensors, if native code can read all of them where they are.

        None if one is not: `_fits` and alignment decide. When tensors have passed, torch's check
        compares later ones with them, which takes less time.
        """
        check = self._check
        if check is None or not check(*tensors):
            if not all(map(_fits, tensors, self._wanted)):
                return None
            self._check = self._guard(tensors)
        found = [*map(_ADDRESS, tensors)]
        # One test covers all addresses; only if it fails, each is tested by its own element size.
        if (
            found
            and reduce(int.__or__, found) & self._alignment
            and any(
                address % (1 if meta is None else meta.dtype.itemsize)
                for address, meta in zip(found, self._wanted, strict=True)
            )
        ):
            return None
        return found

    def _guard(self, tensors: Sequence[Any]) -> Callable[..., bool] | None:
        """Torch's check for tensors like these; None after `CHECKS` of them.

        The stride of a dimension of one element may be any number.
        """
        self._checks += 1
        if _GUARDS is None or self._checks > CHECKS or not tensors:
            return None
        return _GUARDS(
            *tensors,
            dynamic_dims_sizes=[list(t.shape) for t in tensors],
            dynamic_dims_strides=[
                [None if n == 1 else step for n, step in zip(t.shape, t.stride(), strict=True)]
                for t in tensors
            ],
        ).check

    def _copies(self, tensors: Sequence[Any]) -> list[Any]:
        """The tensors as native code wants them, copied where that is needed.

        Raises RuntimeFault (PK0903) for another shape or element type.
        """
        found: list[Any] = []
        for name, tensor, meta in zip(self.inputs, tensors, self._wanted, strict=True):
            array = self._array(tensor)
            if meta is not None and (array.shape != meta.shape or array.dtype != meta.dtype.np):
                raise RuntimeFault(
                    f"input {name!r} is not {meta}", code="PK0903",
                    help="a native program is made for inputs of these shapes and element types",
                )  # fmt: skip
            found.append(tensor_of(np.require(array, requirements=["C", "A"])))
        return found

    def watched(self) -> list[Entry]:
        """Run by instruction from now on; gives the list into which each call writes its trace.

        Entries have the CPU seconds of an instruction.
        """
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
        """A contiguous array, over the memory of the tensor if that is contiguous."""
        return array_of(tensor if tensor.is_contiguous() else tensor.contiguous())


def picker(numbers: Sequence[int], count: int) -> Callable[[Any], Any]:
    """A function from a list of ``count`` items to those at some indices.

    It returns the list itself if these are all of it, in order.
    """
    if list(numbers) == list(range(count)):
        return lambda items: items
    if len(numbers) == 1:
        return lambda items: (items[numbers[0]],)
    return itemgetter(*numbers) if numbers else lambda items: ()


def _shared(native: Any, updates: Sequence[tuple[str, int, str]]) -> dict[str, int]:
    """For results that native code can write into their arguments: the index of the argument."""
    if not isinstance(native, NativeProgram):
        return {}
    names, results = native.names
    pairs = {(results[k], names[i]) for k, i in native.in_place}
    return {result: i for result, i, name in updates if (result, name) in pairs}


def _fits(tensor: Any, meta: TensorMeta | None) -> bool:
    """Whether native code can read a tensor where it is; any tensor that it does not read is fit.

    It has to be contiguous on the CPU, of this shape and type, without a lazy conjugation or sign.
    """
    return meta is None or (
        type(tensor) in _PLAIN
        and tensor.dtype is TO_TORCH[meta.dtype]
        and tensor.shape == meta.shape
        and tensor.is_contiguous()
        and tensor.is_cpu
        and not tensor.is_neg()
        and not tensor.is_conj()
    )


def _in_rows(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor, in elements, as torch counts them."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * max(extent, 1))
    return tuple(reversed(strides)) if shape else ()
