"""A plan that runs on scopes: its inputs and outputs are slots of a scope."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.diag.forks import renewed
from pirkit.runtime.bind_inputs import bound_input
from pirkit.runtime.device import Device
from pirkit.runtime.library import Library
from pirkit.runtime.meta import Meta, TensorMeta
from pirkit.runtime.mode import Counters, Mode
from pirkit.runtime.plan import Output, Plan, Port
from pirkit.runtime.scope.labels import Labels
from pirkit.runtime.scope.overlap import refuse_overlap
from pirkit.runtime.scope.scope import Scope, Thawed, Value
from pirkit.runtime.session import Session
from pirkit.runtime.sessions import SessionPool
from pirkit.runtime.tensor.dense import DenseTensor

_DEFAULT: Final = Mode()


class Traffic(Counters):
    """Counters of runs, in addition to those of sessions."""

    copies: int = 0
    """Values that were copied into their variable, instead of being computed in its buffer."""


class BoundPlan:
    """A plan with its kernels, bound to slots of scopes.

    ``slots`` are the scope's slots for the plan's inputs and parameters, in order, ``results``
    those for its outputs; names are resolved once, here. ``variables`` are slots whose tensors
    belong to the caller: the plan writes them in place, visible to everyone who shares them. Other
    inputs are never written. Outputs are new tensors that later runs do not change. Thread-safe,
    with one scope per thread.
    """

    def __init__(
        self,
        plan: Plan,
        library: Library,
        slots: Sequence[int],
        results: Sequence[int],
        variables: frozenset[int] = frozenset(),
    ) -> None:
        ports = (*plan.inputs, *plan.params)
        self.plan = plan
        self.library = library
        self.counters = Traffic()
        self._feeds: Final = tuple(
            (port, slot, port.name in plan.written and slot in variables)
            for port, slot in zip(ports, slots, strict=True)
        )
        self._ports = tuple([p.slot for p in ports])
        where = dict(zip(self._ports, slots, strict=True))
        self._results: Final = tuple(
            (output, slot)
            for output, slot in zip(plan.outputs, results, strict=True)
            if where.get(_slot(output)) != slot  # an equal slot is the variable itself
        )
        self.writes = any(is_written for _, _, is_written in self._feeds)
        written = frozenset(p.slot for p, _, is_written in self._feeds if is_written)
        self._sessions = SessionPool(plan, library, self.counters, written)
        self._placeholders = _Placeholders(library.device)
        self._lock = renewed(threading.Lock())

    @classmethod
    def by_name(
        cls, plan: Plan, library: Library, labels: Labels, variables: Iterable[str] = ()
    ) -> BoundPlan:
        """Bind a plan to slots by name. Raises UsageError for a name without a slot."""
        slots = [labels.slot(p.name) for p in (*plan.inputs, *plan.params)]
        results = [labels.slot(o.name) for o in plan.outputs]
        return cls(plan, library, slots, results, frozenset(map(labels.slot, variables)))

    def run(self, scope: Scope, *, seed: int = 0, number: int = 0, mode: Mode = _DEFAULT) -> None:
        """Run once: read the scope's slots, write variables, put outputs into their slots.

        ``seed`` and ``number`` (of the run) determine what random ops draw. Raises RuntimeFault for
        an empty slot (PK0904), a value that the program refuses (PK0903, PK0901), and a written
        variable that shares memory with another value (PK0908).
        """
        arrays: list[Any] = []
        metas: list[Meta | None] = []
        stacks = Thawed()
        for port, slot, _ in self._feeds:
            given = self._given(scope.get(slot), stacks)
            array, meta = bound_input(port, given, "variable", self.library.device)
            arrays.append(array)
            metas.append(meta)
        targets = self._targets(scope, arrays)
        key = tuple(metas)
        session = self._sessions.take(key, mode)
        try:
            session.feed(self._ports, arrays)
            session.draws.begin(seed, number)
            session.run()
            found = [self._output_value(session, output) for output, _ in self._results]
            copies = session.copies + _write_back(session, targets)
        finally:
            session.forget()
        self._sessions.give(key, session)
        for (_, slot), value in zip(self._results, found, strict=True):
            scope.share(slot, value)
        with self._lock:
            self.counters.runs += 1
            self.counters.copies += copies

    def _targets(self, scope: Scope, arrays: list[Any]) -> list[_Target]:
        """The variables that the run writes; ``arrays`` gets the arrays that it writes for them."""
        if not self.writes:
            return []
        held = ((port.name, scope.get(slot), written) for port, slot, written in self._feeds)
        refuse_overlap([each for each in held if isinstance(each[1], DenseTensor)])
        found: list[_Target] = []
        for index, (port, slot, is_written) in enumerate(self._feeds):
            if is_written:
                target = _Target(port, scope.get(slot).mutable(), arrays[index])
                arrays[index] = target.array
                found.append(target)
        return found

    def _given(self, value: Value, stacks: Thawed) -> Any:
        if isinstance(value, DenseTensor):
            return value.array
        return self._placeholders[value] if isinstance(value, TensorMeta) else stacks.of(value)

    def _output_value(self, session: Session, output: Output) -> Value:
        value = session.value(output.source)
        if type(value) is list:
            return [array.copy() for array in cast("list[Any]", value)]
        if not hasattr(value, "dtype"):
            return value
        may_keep = output.source in session.owned and not _is_small_part(value)
        return DenseTensor(value if may_keep else value.copy())


class _Target:
    """A variable that a run writes, and the array that the run writes for it.

    The two are the same, unless kernels cannot write the variable: it is not contiguous, or on
    another device.
    """

    __slots__ = ("array", "port", "variable")

    def __init__(self, port: Port, variable: Any, taken: Any) -> None:
        flags = variable.flags
        is_plain = taken is variable and flags.c_contiguous and getattr(flags, "aligned", True)
        self.port = port
        self.variable = variable
        self.array = variable if is_plain else taken.copy()


def _write_back(session: Session, targets: Sequence[_Target]) -> int:
    """Copy values computed elsewhere into their variables; returns the number of copies."""
    deferred: list[tuple[_Target, Any]] = []
    for target in targets:
        slot = target.port.slot
        value = session.value(slot)
        is_variable = slot in session.in_place or value is target.variable
        if is_variable and target.array is target.variable:
            continue
        # A shared value may lie in a variable that is about to be written.
        deferred.append((target, value if slot in session.owned else value.copy()))
    for target, value in deferred:
        _assign(target, value)
    return len(deferred)


def _assign(target: _Target, value: Any) -> None:
    variable = target.variable
    if value.shape != variable.shape or value.dtype != variable.dtype:
        raise RuntimeFault(
            f"the program makes the variable {target.port.name!r} a {value.dtype}"
            f"{list(value.shape)}, but it is a {variable.dtype}{list(variable.shape)}",
            code="PK0903",
            help="give it a tensor of that shape and dtype",
        )
    variable[...] = value if type(value) is type(variable) else value.get()


class _Placeholders(dict[TensorMeta, Any]):
    """Arrays for values of which only shape and dtype are used: a single NaN (or 0), broadcast."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._device = device

    def __missing__(self, meta: TensorMeta) -> Any:
        xp = self._device.xp
        dtype = meta.dtype.np
        poison = np.zeros((), dtype) if dtype.kind in "biu" else np.full((), np.nan, dtype)
        made = self[meta] = xp.broadcast_to(xp.asarray(poison), meta.shape)
        return made


def _is_small_part(array: Any) -> bool:
    """True for a view whose base is more than twice its own size."""
    return getattr(array.base, "nbytes", 0) > 2 * array.nbytes


def _slot(output: Output) -> int:
    return output.source if isinstance(output.source, int) else -1
