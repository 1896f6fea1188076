"""The object that a dynamic-to-static converter embeds: it runs both programs of a split."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import ArgumentError, RuntimeFault
from pirkit.diag.forks import renewed
from pirkit.lowering.prim import default_pipeline, with_prim
from pirkit.runtime.device import Device
from pirkit.runtime.mode import Mode
from pirkit.runtime.native.cores import check_threads
from pirkit.runtime.scope.bound_plan import BoundPlan
from pirkit.runtime.scope.scope import Scope
from pirkit.runtime.scope.scope_pool import PoolCount, ScopePool
from pirkit.runtime.tensor.conversion import from_dlpack, from_numpy, tensor
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.split.lowered_split import Halves
from pirkit.split.saved_graph import Graph, Outputs, attach_graph
from pirkit.split.slot_assignment import Slots, slot_wiring
from pirkit.split.split_files import load_parts, save_parts
from pirkit.split.split_result import SplitParts

Array = np.ndarray[Any, Any]
Gradients = tuple[DenseTensor | None, ...]

_CPU: Final = "cpu"
_GPU: Final = "gpu"


class RunnableProgram:
    """A split program as one object: ``forward`` returns outputs, ``backward`` gradients.

    Inputs and parameters are sequences in the order of ``names.fx`` and ``names.fp``. They are
    shared, never copied; the program updates those that it writes in place. Outputs are those of
    the program before the split: an output that is an input or a parameter is that very tensor.

    Only the values that the backward reads are saved, as long as the tuple that ``forward``
    returned, or an output in it, is alive. Several runs may wait for their backward, in any order.

    Each program is lowered by ``pipeline``, once for each kind of device. The default is `@storage`
    where fused operators have native code, else `@simplify`. The program fixes dtypes and ranks;
    new values of dynamic sizes need a new session, not a new plan. ``seed`` is that of random ops.
    The object may be used from many threads; runs that write parameters are serialized. One run may
    use ``threads`` threads.
    """

    def __init__(
        self,
        parts: SplitParts,
        *,
        backend: str | None = None,
        pipeline: str | None = None,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        check_threads(threads)
        self.parts = parts
        self.names = parts.names
        self.seed = seed
        self._backend = backend
        self._pipeline, self._first = pipeline, with_prim("", None, None)
        self._mode = Mode(limit=threads)
        self._wiring = slot_wiring(parts.names)
        self._pool = ScopePool(self._wiring.labels)
        self._returned = [p for _, p in parts.returns] or list(range(len(parts.names.fo)))
        wiring = self._wiring
        self._input_slots = (*wiring.inputs, *wiring.params)
        self._made = frozenset(wiring.outputs) - wiring.variables
        self._gradients = {s for s in (*wiring.input_grads, *wiring.param_grads) if s is not None}
        self._halves: dict[str, Halves] = {}
        self._run_lock = renewed(threading.Lock())
        self._numbers = itertools.count()
        self._latest = threading.local()

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Any) -> RunnableProgram:
        """Load the program that ``save`` wrote, in this process or another.

        ``options`` are those of the class. Raises InputError for a file that is missing, damaged,
        or holds other programs (see `load_parts`).
        """
        return cls(load_parts(path), **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write both programs and their names to one file, atomically; weights are not written."""
        save_parts(self.parts, path)

    # --- running ---

    def forward(
        self, x: Sequence[Any] = (), params: Sequence[Any] = (), *, training: bool = True
    ) -> Outputs:
        """Run the forward program. Without ``training``, nothing is saved for a backward.

        Raises ArgumentError (PK0701) for a wrong number of tensors; RuntimeFault for a tensor of a
        wrong shape or dtype (PK0903), for a written tensor that shares memory with another (PK0908)
        or is read-only, and for a kernel that refuses its arguments (PK0901).
        """
        wiring = self._wiring
        tensors = [
            *_tensors(x, self.names.fx, "inputs"),
            *_tensors(params, self.names.fp, "parameters"),
        ]
        backend = self._backend or _backend_of(tensors)
        halves = self._lowered(backend)
        half = halves.training.forward if training else halves.inference
        with ExitStack() as undo:
            scope = self._pool.take()
            undo.callback(self._pool.give, scope)
            for slot, each in zip(self._input_slots, tensors, strict=True):
                scope.share(slot, each)
            number = next(self._numbers)
            with self._exclusive(half.writes):
                half.run(scope, seed=self.seed, number=number, mode=self._mode)
                found: list[DenseTensor] = [scope.get(slot) for slot in wiring.outputs]
                outputs = Outputs([found[position] for position in self._returned])
                if not training:
                    return outputs
                for slot in self._made:
                    scope.share(slot, _twin(scope.get(slot)))
                scope.keep(wiring.saved, wiring.shapes, wiring.watched)
            metas = tuple([each.meta for each in found])
            graph = outputs.graph = Graph(self._pool, scope, backend, number, metas)
            undo.pop_all()
        attach_graph(
            (t for s, t in zip(wiring.outputs, found, strict=True) if s in self._made), graph
        )
        self._latest.graph = weakref.ref(graph)
        return outputs

    def backward(
        self,
        out_grads: Sequence[Any],
        outputs: Outputs | Graph | None = None,
        *,
        retain_graph: bool = False,
    ) -> tuple[Gradients, Gradients]:
        """Compute the gradients of the inputs and of the parameters; None where there is none.

        ``out_grads`` are the gradients of the outputs, in the order of ``forward``; None stands for
        zeros. Gradients of outputs that are one tensor are added. ``outputs`` is what ``forward``
        returned, by default its latest result in this thread. The saved values are released, unless
        ``retain_graph`` is set.

        Raises ArgumentError (PK0701) for a wrong number of gradients and for outputs of another
        object; RuntimeFault if nothing was saved or it was released (PK0906), if an input,
        parameter or output that the backward reads was written since (PK0907), or for a gradient of
        a wrong shape or dtype (PK0903).
        """
        graph = self._graph(outputs)
        wiring, halves = self._wiring, self._lowered(graph.backend)
        training, mode = halves.training, self._mode
        with graph.lock:
            scope = graph.scope
            seeds = self._seeds(out_grads, graph, halves.library.device)
            taken = {*wiring.saved, *wiring.shapes, *(slot for slot, _ in seeds)}
            with ExitStack() as undo:
                undo.callback(scope.drop, [s for s in self._gradients if s not in taken])
                undo.callback(scope.drop, [slot for slot, _ in seeds])
                with self._exclusive(training.runs_exclusively):
                    scope.verify()
                    for slot, gradient in seeds:
                        scope.share(slot, gradient)
                    training.backward.run(scope, seed=self.seed, number=graph.number, mode=mode)
                    shared = set(taken)
                    of_inputs = _read(scope, wiring.input_grads, shared)
                    of_params = _read(scope, wiring.param_grads, shared)
            if not retain_graph:
                graph.release("was used up by its backward")
        return of_inputs, of_params

    def count(self) -> PoolCount:
        """The numbers of scopes in use and idle, and the bytes that those in use keep alive."""
        return self._pool.count()

    def plans(self, backend: str = _CPU) -> tuple[BoundPlan, BoundPlan]:
        """The forward and the backward plan on a backend, with counters of their runs."""
        training = self._lowered(backend).training
        return training.forward, training.backward

    # --- parts ---

    def _lowered(self, backend: str) -> Halves:
        halves = self._halves.get(backend)
        if halves is None:
            wanted = (
                default_pipeline(backend, watched=True)
                if self._pipeline is None
                else self._pipeline
            )
            pipeline = ",".join(filter(None, (self._first, wanted)))
            halves = Halves.of(self.parts, self._wiring, backend, pipeline)
            halves = self._halves.setdefault(backend, halves)
        return halves

    def _graph(self, outputs: Outputs | Graph | None) -> Graph:
        graph = outputs.graph if isinstance(outputs, Outputs) else outputs
        if outputs is None:
            latest: Callable[[], Graph | None] = getattr(self._latest, "graph", _no_graph)
            graph = latest()
        if graph is None:
            raise RuntimeFault(
                "there is no forward run to go back from",
                code="PK0906",
                help="run `forward` with `training`, and hold what it returns until the backward",
            )
        if graph.pool is not self._pool:
            raise ArgumentError(
                "the outputs are those of another program",
                help="call `backward` of the object whose `forward` gave them",
            )
        return graph

    def _seeds(
        self, gradients: Sequence[Any], graph: Graph, device: Device
    ) -> list[tuple[int, DenseTensor]]:
        """The gradients that the backward takes, by slot; those of one tensor are added."""
        if len(gradients) != len(self._returned):
            raise ArgumentError(
                f"{len(gradients)} gradients for {len(self._returned)} outputs",
                help="pass None for an output without one",
            )
        given: dict[int, DenseTensor] = {}
        for index, (position, value) in enumerate(zip(self._returned, gradients, strict=True)):
            slot = self._wiring.seeds[position]
            if slot is None or value is None:
                continue
            gradient = _tensor(value)
            if gradient.meta != graph.metas[position]:
                raise RuntimeFault(
                    f"the gradient of output {index} is a {gradient.meta}, "
                    f"but the output is a {graph.metas[position]}",
                    code="PK0903",
                )
            before = given.get(slot)
            given[slot] = gradient if before is None else before + gradient
        for slot, meta in zip(self._wiring.seeds, graph.metas, strict=True):
            if slot is not None and slot not in given:
                given[slot] = DenseTensor(device.xp.zeros(meta.shape, meta.dtype.np))
        return list(given.items())

    def _exclusive(self, is_needed: bool) -> AbstractContextManager[Any]:
        """The lock that serializes runs that write parameters, if it is needed."""
        return self._run_lock if is_needed else nullcontext()


def _no_graph() -> None:
    return None


def _tensors(values: Sequence[Any], names: Sequence[str], what: str) -> Iterator[DenseTensor]:
    if len(values) != len(names):
        raise ArgumentError(
            f"{len(values)} {what} for a program that takes {len(names)}",
            help=f"it takes {', '.join(names) or 'none'}",
        )
    return map(_tensor, values)


def _tensor(value: Any) -> DenseTensor:
    """The value as a tensor that shares its memory; a number or list becomes a new tensor."""
    if isinstance(value, DenseTensor):
        return value
    if isinstance(value, np.ndarray):
        return from_numpy(cast(Array, value))
    return from_dlpack(value) if hasattr(value, "__dlpack__") else tensor(value)


def _read(scope: Scope, slots: Slots, shared: set[int]) -> Gradients:
    """The gradients in ``slots``, each in memory of its own: the caller may add to it in place.

    A gradient in a ``shared`` slot is copied, because others hold it too; slots that are read here
    are added to ``shared``.
    """
    found: list[DenseTensor | None] = []
    for slot in slots:
        held: DenseTensor | None = None
        if slot is not None:
            held = scope.get(slot).copy() if slot in shared else scope.get(slot)
            shared.add(slot)
        found.append(held)
    return tuple(found)


def _twin(held: DenseTensor) -> DenseTensor:
    """A tensor with the same array and version, which does not keep the original alive."""
    return DenseTensor(held.array, held.buffer)


def _backend_of(tensors: Iterable[DenseTensor]) -> str:
    return _CPU if all(t.place.on_host for t in tensors) else _GPU
