"""The executor: runs plans.

An executable has a pool of sessions, one for each concurrent run; a session is bound to the shapes
of inputs and parameters. Outputs belong to the caller: no later run writes them, and no run writes
its inputs.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from pirkit.diag.errors import ArgumentError, CallError, RuntimeFault
from pirkit.diag.forks import renewed
from pirkit.diag.html import table
from pirkit.runtime.bind_inputs import bound_input
from pirkit.runtime.dtype import DType
from pirkit.runtime.library import Library
from pirkit.runtime.meta import Meta, TensorMeta
from pirkit.runtime.mode import Counters, Mode
from pirkit.runtime.native.cores import at_most
from pirkit.runtime.plan import SEGMENT, Call, Output, Plan, Port
from pirkit.runtime.sessions import Key, SessionPool
from pirkit.runtime.tensor.allocator import no_memory
from pirkit.runtime.trace import Trace

if TYPE_CHECKING:
    from pirkit.runtime.native.program import NativeProgram
    from pirkit.runtime.session import Session

Array = np.ndarray[Any, Any]


class Interface(NamedTuple):
    """An input, parameter or output of an executable; None for what is not known or not one."""

    name: str
    shape: tuple[int, ...] | None
    dtype: DType | None

    @classmethod
    def of(cls, port: Port | Output) -> Interface:
        """The interface of a port of a plan."""
        meta = port.meta
        is_tensor = isinstance(meta, TensorMeta)
        return cls(port.name, *((meta.shape, meta.dtype) if is_tensor else (None, None)))

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype or 'list'}{list(self.shape or ())}"


@dataclass(repr=False)
class Executable:
    """A plan with its kernels: called with inputs by name, returns outputs by name.

    Outputs are numpy arrays. ``params`` are the model's parameters and buffers, on the device of
    the kernels; a run replaces those that the program writes. An executable that is ``in_place``
    holds copies of these, and writes them where the program can do so: a run that fails may leave
    them half written. ``seed`` and the number of the run determine what random ops draw.
    ``reuse=False`` gives every result memory of its own.
    Thread-safe; runs of a program that writes parameters are serialized.

    Raises RuntimeFault for missing, unknown or ill-shaped inputs (PK0902, PK0903) and for a kernel
    that refuses its arguments (PK0901, with the op and its span).
    """

    plan: Plan
    library: Library
    params: dict[str, Array] = field(default_factory=dict[str, Array])
    seed: int = 0
    runs: int = 0
    updates: dict[str, Array] = field(default_factory=dict[str, Array])
    """Values of the written inputs and parameters after the last run."""
    reuse: bool = True
    threads: int | None = None
    """Largest number of threads of a run, including native code and BLAS; None for all."""
    counters: Counters = field(default_factory=Counters)
    reasons: tuple[str, ...] = ()
    """Why the program is not one native call, as far as that was tried."""
    remake: Callable[[], Executable] | None = None
    """Compiles it again: in another process, or for a copy."""
    in_place: bool = False

    def __post_init__(self) -> None:
        self._lock = renewed(threading.Lock())
        self._turns = renewed(threading.Lock())
        written = set(self.plan.written)
        own = [p for p in self.plan.params if self.in_place and p.name in written]
        self.params |= {p.name: self.params[p.name].copy() for p in own if p.name in self.params}
        variables = frozenset([p.slot for p in own])
        self._sessions = SessionPool(self.plan, self.library, self.counters, variables)
        self._mode = Mode(self.reuse, self.threads)
        self._device = self.library.device
        self._writes_params = any(p.name in written for p in self.plan.params)
        self._ports = (*self.plan.inputs, *self.plan.params)
        self._slots = [p.slot for p in self._ports]
        self._written = [p for p in self._ports if p.name in written]
        self._checked: list[tuple[Any, Meta | None]] = [(None, None)] * len(self.plan.params)
        self._names = frozenset(p.name for p in self.plan.inputs)
        self.native = native_program(self.plan)
        """The native call that is all of the program; None where there are others."""

    def __call__(self, *positional: Any, **inputs: Any) -> dict[str, Any]:
        if positional:
            raise CallError(
                f"an executable takes inputs by name, not {len(positional)} by position",
                help=f"its inputs are {', '.join(i.name for i in self.inputs) or 'none'}",
            )
        return self.run(inputs)

    @property
    def inputs(self) -> tuple[Interface, ...]:
        """The inputs: name, shape (-1 for an unknown size) and element type."""
        return tuple([Interface.of(p) for p in self.plan.inputs])

    @property
    def outputs(self) -> tuple[Interface, ...]:
        """The outputs: name, shape (-1 for an unknown size) and element type."""
        return tuple([Interface.of(o) for o in self.plan.outputs])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what it was compiled of, and its parameters; compiled again when it is read.

        Raises UsageError for one that `pirkit.compile` did not make.
        """
        if self.remake is None:
            raise ArgumentError(
                f"the executable of @{self.plan.name} cannot be pickled",
                help="pickle the program, and compile it where it is needed",
            )
        # a copy has parameters of its own; without `in_place` runs replace arrays, and write none
        params = {n: p.copy() if self.in_place else p for n, p in self.params.items()}
        return self.remake, (), {"params": params, "seed": self.seed, "runs": self.runs}

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, each)) for each in (self.inputs, self.outputs))
        how = (
            "one native call" if self.native is not None else f"{len(self.plan.body)} instructions"
        )
        return f"<Executable @{self.plan.name}({takes}) -> ({gives}), {how}>"

    def _repr_html_(self) -> str:
        rows = [("input", *i) for i in self.inputs] + [("output", *o) for o in self.outputs]
        return table(f"Executable @{self.plan.name}", ("", "name", "shape", "dtype"), rows)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run once; for input names that are not Python identifiers."""
        if not isinstance(cast(object, inputs), Mapping):
            raise CallError(
                f"`run` takes a dict of inputs by name, not a {type(inputs).__name__}",
                help=f"inputs are {', '.join(i.name for i in self.inputs) or 'none'}",
            )
        if not self._writes_params:
            return self._run(inputs)
        with self._turns:
            return self._run(inputs)

    def trace(self, inputs: Mapping[str, Any]) -> Trace:
        """Run once, and record each instruction with its shapes and time.

        The run has no side effects: parameters, updates and the number of runs do not change.
        """
        trace = Trace()
        self.watch(inputs, Mode(self.reuse, run=trace.run))
        return trace

    def watch(
        self,
        inputs: Mapping[str, Any],
        mode: Mode,
        begin: Callable[[Plan, Mapping[int, Any]], None] | None = None,
        *,
        copies: bool = True,
    ) -> dict[str, Any]:
        """Run once in a session of its own.

        ``begin`` is called first, with the plan for inputs of these shapes, and the arrays of
        inputs and parameters by slot. Parameters, updates and the number of runs stay as they were.
        Without ``copies`` outputs may be views of inputs, of parameters and of each other.
        """
        values, key = self._feed(inputs)
        session = self._sessions.made(key, mode, Counters(), writes=False)
        session.feed(self._slots, values)
        if begin is not None:
            arrays = dict(zip(self._slots, values, strict=True))
            begin(session.plan, {**arrays, **session.places})
        session.draws.begin(self.seed, self.runs)
        session.run()
        if not copies:
            return {p.name: session.value(p.source) for p in self.plan.outputs}
        return self._outputs(session)

    def _run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        native = self.native
        if native is not None:
            return self._run_native(native, inputs)
        self.refuse_unknown(inputs)
        values, key = self._feed(inputs)
        return self.run_fed(values, key)  # a call with a star takes 0.1 us longer

    def run_fed(self, values: Sequence[Any], key: Key) -> dict[str, Any]:
        """Run once, not as one native call, on values of inputs and parameters in their order.

        Nothing is checked: ``key`` are their metas.
        """
        session = self._sessions.take(key, self._mode)
        session.feed(self._slots, values)
        with self._lock:
            run = self.runs
            self.runs += 1
            self.counters.runs += 1
        session.draws.begin(self.seed, run)
        session.run()
        try:
            outputs = self._outputs(session)
            if self._written:
                self._update(session)
        except MemoryError as error:
            raise no_memory(error) from error
        session.forget()
        self._sessions.give(key, session)
        return outputs

    def _run_native(self, native: NativeProgram, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """One native call, which checks the arrays; those it refuses are bound to a session."""
        self.refuse_unknown(inputs)
        names, results = native.names
        given: Mapping[str, Any] = {**self.params, **inputs} if self.plan.params else inputs
        arrays = tuple(map(given.get, names))
        if self.threads is None:
            found = native.over_cells(arrays, lambda: self._feed(inputs)[0])
        else:
            with at_most(self.threads):
                found = native.over_cells(arrays, lambda: self._feed(inputs)[0])
        with self._lock:
            self.runs += 1
            self.counters.runs += 1
        return dict(zip(results, found, strict=True))

    # --- feeding ---

    def refuse_unknown(self, inputs: Mapping[str, Any]) -> None:
        """Raise RuntimeFault (PK0902) for an unknown input name."""
        if not self._names.issuperset(inputs):
            _refuse_unknown(inputs, self.plan)

    def _feed(self, inputs: Mapping[str, Any]) -> tuple[list[Any], Key]:
        values: list[Any] = []
        metas: list[Meta | None] = []
        device = self._device
        for port in self.plan.inputs:
            value, meta = bound_input(port, inputs.get(port.name), "input", device)
            values.append(value)
            metas.append(meta)
        checked = self._checked
        for index, port in enumerate(self.plan.params):
            held = self.params.get(port.name)
            seen, meta = checked[index]
            if held is None or held is not seen:
                held, meta = bound_input(port, held, "parameter", device)
                self.params[port.name] = held
                checked[index] = (held, meta)
            values.append(held)
            metas.append(meta)
        return values, tuple(metas)

    # --- results ---

    def _outputs(self, session: Session) -> dict[str, Any]:
        owned, to_host = session.owned, self._device.to_host
        return {
            p.name: to_host(session.value(p.source))
            if p.source in owned
            else _each(session.value(p.source), lambda array: to_host(array).copy())
            for p in self.plan.outputs
        }

    def _update(self, session: Session) -> None:
        owned = session.owned | session.in_place
        self.updates = {
            p.name: value if p.slot in owned else _each(value, lambda array: array.copy())
            for p in self._written
            for value in (session.value(p.slot),)
        }
        for port in self.plan.params:
            if port.name in self.updates:
                self.params[port.name] = self.updates[port.name]


def native_program(plan: Plan) -> NativeProgram | None:
    """The native program that is all of a plan; None for a plan of other calls."""
    if len(plan.body) != 1 or not isinstance(call := plan.body[0], Call) or plan.written:
        return None
    ports = tuple([p.slot for p in (*plan.inputs, *plan.params)])
    is_all = call.inputs == ports and call.outputs == tuple([o.source for o in plan.outputs])
    return call.attrs["program"] if is_all and call.kernel == SEGMENT else None


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value with each of its arrays transformed; tokens and stacks are unchanged."""
    if type(value) is list:
        return [change(v) for v in cast("list[Any]", value)]
    return change(value) if hasattr(value, "dtype") else value


def _refuse_unknown(inputs: Mapping[str, Any], plan: Plan) -> None:
    known = [p.name for p in plan.inputs]
    for name in inputs:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise RuntimeFault(
                f"the program has no input {name!r}",
                code="PK0902",
                notes=(f"its inputs are {', '.join(map(repr, known)) or 'none'}",),
                help=f"did you mean {near[0]!r}?" if near else None,
            )
