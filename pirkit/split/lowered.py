"""The halves of a split, lowered to plans that run in scopes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from weakref import WeakValueDictionary

from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.text import print_mlir
from pirkit.lowering.kernels import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.runtime.device import Device
from pirkit.runtime.scope.bound import BoundPlan
from pirkit.split.parts import SplitParts
from pirkit.split.wiring import Wiring


@dataclass(eq=False)
class Halves:
    """Both halves on one backend. ``inference`` is the forward without what only a backward needs.

    Raises what lowering raises: UnsupportedError for an op without a kernel, UsageError for an
    unknown backend or pass.
    """

    forward: BoundPlan
    inference: BoundPlan
    backward: BoundPlan
    reads_written: bool
    """True if the backward reads variables that runs of the forward write."""

    @property
    def device(self) -> Device:
        return self.forward.library.device

    @classmethod
    def of(cls, parts: SplitParts, wiring: Wiring, backend: str, pipeline: str) -> Halves:
        """The halves of a split; for equal programs and names, the same ones."""
        texts = [print_mlir(m, locations=True) for m in (parts.forward, parts.backward)]
        texts.append(repr(parts.names))
        digest = sha256("\0".join(texts).encode()).digest()
        key = (digest, backend, pipeline)
        with _LOCK:
            halves = _KNOWN.get(key)
            if halves is None:
                halves = _KNOWN[key] = cls._made(parts, wiring, backend, pipeline)
        return halves

    @classmethod
    def _made(cls, parts: SplitParts, wiring: Wiring, backend: str, pipeline: str) -> Halves:
        library = KernelLibrary(backend)
        own = wiring.variables
        visible = {*parts.names.fx, *parts.names.fp, *parts.names.fo}
        middles = [name for name in parts.names.fm if name not in visible]
        bare = without_outputs(parts.forward, middles)
        forward = lowered(parts.forward, wiring.forward, own, library, pipeline)
        written = {wiring.forward[name] for name in forward.plan.written}
        return cls(
            forward,
            lowered(bare, wiring.forward, own, library, pipeline),
            lowered(parts.backward, wiring.backward, own, library, pipeline),
            not written.isdisjoint(wiring.kept),
        )


_LOCK: Final = threading.Lock()
_KNOWN: Final[WeakValueDictionary[tuple[bytes, str, str], Halves]] = WeakValueDictionary()


def lowered(
    module: ModuleOp,
    slots: Mapping[str, int],
    variables: frozenset[int],
    library: KernelLibrary,
    pipeline: str,
) -> BoundPlan:
    """The program of a module, which stays as it is, bound to the slots of its names.

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
    """A copy of a module whose program does not give back these outputs."""
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
