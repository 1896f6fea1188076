"""Lowers the programs of a split to plans that run in scopes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final
from weakref import WeakValueDictionary

from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.forks import renewed
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.text import print_mlir
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.runtime.scope.bound_plan import BoundPlan
from pirkit.split.slot_assignment import Wiring
from pirkit.split.split_result import SplitParts


class Halves:
    """Both programs on one backend; each is lowered at its first use.

    Raises the errors of lowering: UnsupportedError for an op without a kernel, UsageError for an
    unknown backend or pass.
    """

    def __init__(self, parts: SplitParts, wiring: Wiring, backend: str, pipeline: str) -> None:
        self.library = KernelLibrary(backend)
        self._parts = parts
        self._wiring = wiring
        self._pipeline = pipeline
        self._lock = renewed(threading.Lock())
        self._training: Training | None = None
        self._inference: BoundPlan | None = None

    @classmethod
    def of(cls, parts: SplitParts, wiring: Wiring, backend: str, pipeline: str) -> Halves:
        """The lowered programs of a split; splits with equal programs and names share them."""
        modules = [half.module for half in (parts.forward, parts.backward)]
        texts = [print_mlir(module, locations=True) for module in modules]
        texts.append(repr(parts.names))
        key = (sha256("\0".join(texts).encode()).digest(), backend, pipeline)
        with _LOCK:
            halves = _KNOWN.get(key)
            if halves is None:
                halves = _KNOWN[key] = cls(parts, wiring, backend, pipeline)
        return halves

    @property
    def training(self) -> Training:
        """Both plans, for a forward run that is followed by its backward."""
        with self._lock:
            if self._training is None:
                forward = self._lowered(self._parts.forward.module, self._wiring.forward)
                backward = self._lowered(self._parts.backward.module, self._wiring.backward)
                written = {self._wiring.forward[name] for name in forward.plan.written}
                reads_written = not written.isdisjoint(self._wiring.saved)
                self._training = Training(forward, backward, reads_written or backward.writes)
            return self._training

    @property
    def inference(self) -> BoundPlan:
        """The plan of the forward program without the outputs that only a backward reads."""
        with self._lock:
            if self._inference is None:
                names = self._parts.names
                visible = {*names.fx, *names.fp, *names.fo}
                middles = [name for name in names.fm if name not in visible]
                module = without_outputs(self._parts.forward.module, middles)
                self._inference = self._lowered(module, self._wiring.forward)
            return self._inference

    def _lowered(self, module: ModuleOp, slots: Mapping[str, int]) -> BoundPlan:
        return lowered(module, slots, self._wiring.variables, self.library, self._pipeline)


class Training(Struct, frozen=True):
    """The two plans of a training step."""

    forward: BoundPlan
    backward: BoundPlan
    runs_exclusively: bool
    """True if the backward accesses variables that a run writes, so that runs must not overlap."""


_LOCK: Final = renewed(threading.Lock())
_KNOWN: Final[WeakValueDictionary[tuple[bytes, str, str], Halves]] = WeakValueDictionary()


def lowered(
    module: ModuleOp,
    slots: Mapping[str, int],
    variables: frozenset[int],
    library: KernelLibrary,
    pipeline: str,
) -> BoundPlan:
    """Lower the program of a module, which is not changed, and bind it to the slots of its names.

    Raises UnsupportedError for an op without a kernel, UsageError for an unknown pass.
    """
    copy = module.clone()
    if pipeline:
        run_pipeline(copy, pipeline)
    plan = write_plan(_program(copy), library=library)
    feeds = [slots[p.name] for p in (*plan.inputs, *plan.params)]
    results = [slots[o.name] for o in plan.outputs]
    return BoundPlan(plan, library, feeds, results, variables)


def without_outputs(module: ModuleOp, names: Iterable[str]) -> ModuleOp:
    """A copy of a module whose program does not return these outputs."""
    copy = module.clone()
    unwanted = frozenset(names)
    for op in list(_program(copy).operations):
        if op.name == "pir.shadow_output" and _label(op) in unwanted:
            op.detach()
            op.erase()
    return copy


def _label(op: PirOp) -> str:
    return op.attribute("output_name")


def _program(module: ModuleOp) -> ProgramOp:
    return next(op for op in module.ops if isinstance(op, ProgramOp))
