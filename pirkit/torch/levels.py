"""A program with its derivatives of any order, each compiled when it is first asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import numpy as np

from pirkit.dialect.kinds import OUTPUT
from pirkit.dialect.operation import PirOp, declares, host_name
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.passes.base import PassContext
from pirkit.passes.dce import DcePass
from pirkit.passes.differentiate import inputs_of
from pirkit.runtime.executor import Executable
from pirkit.runtime.session import Mode
from pirkit.runtime.steps import SavedValues
from pirkit.runtime.trace import Entry, Trace
from pirkit.split.add_gradients import differentiated
from pirkit.split.partition import forward_backward
from pirkit.split.split_result import SplitParts
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


@dataclass
class Level:
    """A program of tensors, and how gradients go back through it.

    Inputs that want no gradient are marked in the program, and outputs whose gradient stops.
    """

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    settings: Settings
    learns: tuple[bool | None, ...] = ()
    """Of each output whether torch says that it requires a gradient; None if that is unknown."""

    @cached_property
    def inference(self) -> Runner:
        """The program alone."""
        return Runner(self.program, self.inputs, self.outputs, self.settings)

    @cached_property
    def parts(self) -> SplitParts:
        """The program split into forward and backward."""
        settings = self.settings
        return forward_backward(self.program, mode=settings.saved, budget=settings.budget)

    @cached_property
    def forward(self) -> Runner:
        """The forward half: outputs of the program, then what is saved for the backward."""
        names = self.parts.names
        program = Program(self.parts.forward.module, {}, "<torch>")
        outputs = (*self._outputs, *names.fm)
        return Runner(program, self.inputs, outputs, self.settings, len(self.outputs))

    @property
    def _outputs(self) -> list[str]:
        """Names of the outputs in the forward half, in the order of ``outputs``."""
        position = dict(self.parts.returns)
        return [self.parts.names.fo[position[name]] for name in self.outputs]

    @cached_property
    def reads(self) -> BackwardReads:
        """What the backward half takes."""
        names = self.parts.names
        fx = {name: i for i, name in enumerate(self.inputs)}
        kept = [fx[n] for n in names.bx if n is not None]
        position = dict(self.parts.returns)
        at = {position[name]: k for k, name in enumerate(self.outputs)}
        outs = [at[p] for p, n in enumerate(names.bo) if n is not None]
        seeds = {at[p]: n for p, n in enumerate(names.bo_g) if n is not None}
        middles = [i for i, n in enumerate(names.bm) if n is not None]
        grads = {fx[x]: g for x, g in zip(names.fx, names.bx_g, strict=True) if g is not None}
        arguments = (
            *(n for n in names.bx if n is not None),
            *(n for n in names.bo if n is not None),
            *(n for n in names.bm if n is not None),
            *seeds.values(),
        )
        return BackwardReads(
            tuple(kept), tuple(outs), tuple(middles), tuple(seeds), tuple(grads),
            arguments, tuple(grads.values()),
        )  # fmt: skip

    @cached_property
    def fixed(self) -> tuple[int, ...]:
        """The outputs that require no gradient."""
        known = self.learns or (None,) * len(self.outputs)
        seeds = set(self.reads.seeds)
        return tuple([k for k, wants in enumerate(known)
                      if wants is False or (wants is None and k not in seeds)])  # fmt: skip

    @cached_property
    def backward(self) -> Runner:
        """The backward half."""
        reads = self.reads
        results = tuple(dict.fromkeys(reads.results))
        program = Program(self.parts.backward.module, {}, "<torch>")
        return Runner(program, reads.arguments, results, self.settings)

    @cached_property
    def gradient(self) -> tuple[Level, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The level of the gradients: a program of inputs and seeds.

        Also gives the numbers of the inputs that it reads, of the outputs whose seeds it reads, and
        of the inputs whose gradients it returns.
        """
        joint = self.program.copy()
        program = joint.main
        roles, _ = differentiated(program, paddle_residuals=False)
        keep = set(roles.gradients.values())
        for op in list(program.operations):
            if declares(op, OUTPUT) and host_name(op) not in keep:
                op.detach()
                op.erase()
        DcePass().run(PassContext("torch", len(list(program.operations))), joint.module)
        sources = inputs_of(program)
        for name, value in list(sources.items()):
            if not value.uses.get_length() and isinstance(value.owner, PirOp):
                value.owner.detach()
                value.owner.erase()
                del sources[name]
        read = [i for i, n in enumerate(self.inputs) if n in sources]
        seeded = [k for k, n in enumerate(self.outputs) if roles.seeds.get(n) in sources]
        wanted = [i for i, n in enumerate(self.inputs) if n in roles.gradients]
        level = Level(
            joint,
            (*(self.inputs[i] for i in read), *(roles.seeds[self.outputs[k]] for k in seeded)),
            tuple([roles.gradients[self.inputs[i]] for i in wanted]),
            self.settings,
        )
        return level, tuple(read), tuple(seeded), tuple(wanted)


@dataclass(frozen=True)
class BackwardReads:
    """What a backward half takes and gives, by number.

    ``inputs`` and ``outputs`` of the forward, ``middles``, and the outputs whose gradients it takes
    (``seeds``); ``gradients`` are the inputs whose gradients it gives. ``arguments`` and
    ``results`` are the names in that order.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    middles: tuple[int, ...]
    seeds: tuple[int, ...]
    gradients: tuple[int, ...]
    arguments: tuple[str, ...]
    results: tuple[str, ...]
