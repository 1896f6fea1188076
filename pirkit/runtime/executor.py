"""Runs a plan.

Values are never changed once computed: an instruction that writes in place gives its slot a new
array, which every alias sees because aliases share the slot. So kernels may return views, outputs
of an earlier run stay what they were, and inputs are never written.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import ConstraintError, InternalError, RuntimeFault
from pirkit.diag.limits import current_limits
from pirkit.runtime.meta import Meta, TensorMeta, compatible, of_value
from pirkit.runtime.plan import (
    Call,
    Copy,
    HostArgument,
    If,
    Instruction,
    Kernel,
    Operand,
    Plan,
    Port,
    While,
)
from pirkit.runtime.plan import Stack as StackInstruction

Array = np.ndarray[Any, Any]
Frame = list[Any]
KERNEL_FAULTS: Final = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError)
"""What numpy raises when a kernel's arguments do not fit together."""

_WORD: Final = (1 << 64) - 1


@dataclass
class Executable:
    """A plan with its kernels: call it with inputs by name, get outputs by name.

    ``params`` holds the model's parameters and buffers; a run replaces those that the program
    writes. ``seed`` and the number of the run decide what random ops draw.

    Raises RuntimeFault for missing, unknown or ill-shaped inputs (PK0902, PK0903) and for a kernel
    that refuses its arguments (PK0901, with the op and its span).
    """

    plan: Plan
    kernels: Mapping[str, Kernel]
    params: dict[str, Array] = field(default_factory=dict[str, Array])
    seed: int = 0
    runs: int = 0
    updates: dict[str, Array] = field(default_factory=dict[str, Array])
    """Values of the written inputs and parameters after the last run."""

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        return self.run(inputs)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """As a call; for names that are no Python identifiers."""
        frame: Frame = [None] * len(self.plan.slots)
        _check_names(inputs, self.plan)
        for port in self.plan.inputs:
            frame[port.slot] = _fed(port, inputs, "input")
        for port in self.plan.params:
            frame[port.slot] = _fed(port, self.params, "parameter")
        fed = [frame[p.slot] for p in (*self.plan.inputs, *self.plan.params)]
        with np.errstate(all="ignore"):
            _Run(self.kernels, frame, (self.seed, self.runs)).block(self.plan.body)
        self.runs += 1
        self._take_updates(frame, fed)
        held = [*fed, *self.updates.values()]
        return {p.name: _owned(_read(frame, p.source), held) for p in self.plan.outputs}

    def _take_updates(self, frame: Frame, fed: list[Any]) -> None:
        written = set(self.plan.written)
        self.updates = {
            p.name: _owned(frame[p.slot], fed)
            for p in (*self.plan.inputs, *self.plan.params)
            if p.name in written
        }
        for port in self.plan.params:
            if port.name in written:
                self.params[port.name] = self.updates[port.name]


def _check_names(inputs: Mapping[str, Any], plan: Plan) -> None:
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


def _fed(port: Port, values: Mapping[str, Any], what: str) -> Any:
    value = values.get(port.name)
    if value is None:
        raise RuntimeFault(
            f"{what} {port.name!r} is missing", code="PK0902", notes=(f"it is a {port.meta}",)
        )
    if not isinstance(port.meta, TensorMeta):
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise RuntimeFault(f"{what} {port.name!r} is no array: {error}", code="PK0903") from error
    try:
        meta = of_value(array)
    except KeyError:
        raise RuntimeFault(
            f"{what} {port.name!r} has dtype {array.dtype}, expected {port.meta}", code="PK0903"
        ) from None
    if not compatible(port.meta, meta) and not _is_unset(port.meta, meta):
        raise RuntimeFault(f"{what} {port.name!r} is a {meta}, expected {port.meta}", code="PK0903")
    return array


def _is_unset(declared: TensorMeta, actual: Meta) -> bool:
    """True for a buffer that was never filled: Paddle declares it without dimensions."""
    return not declared.shape and actual == declared.with_shape((0,))


def _owned(value: Any, held: list[Any]) -> Any:
    """A result that shares no memory with what the caller, or a later run, holds."""
    if isinstance(value, list):
        return [_owned(v, held) for v in cast("list[Any]", value)]
    if not isinstance(value, np.ndarray):
        return value
    array = cast(Array, value)
    arrays = [cast(Array, h) for h in held if isinstance(h, np.ndarray)]
    shared = any(np.may_share_memory(array, other) for other in arrays)
    return array.copy() if shared else array


def _read(frame: Frame, operand: Operand) -> Any:
    if isinstance(operand, int):
        return frame[operand]
    return None if operand is None else [frame[i] for i in operand]


def _write(frame: Frame, target: Operand, value: Any) -> None:
    if isinstance(target, int):
        frame[target] = value
    elif target is not None:
        for slot, item in zip(target, value, strict=True):
            frame[slot] = item


class _Run:
    """One execution over one frame of slots."""

    def __init__(self, kernels: Mapping[str, Kernel], frame: Frame, key: tuple[int, int]) -> None:
        self.kernels = kernels
        self.frame = frame
        self.key = key
        self.draws = 0
        self.steps = current_limits().loop_steps
        self.handlers: Final[dict[type, Callable[[Any], None]]] = {
            Call: self._call,
            Copy: self._copy,
            If: self._if,
            While: self._while,
            StackInstruction: self._stack,
        }

    def block(self, body: tuple[Instruction, ...]) -> None:
        frame, handlers = self.frame, self.handlers
        for instruction in body:
            handlers[type(instruction)](instruction)
            for slot in instruction.frees:
                frame[slot] = None

    def _call(self, call: Call) -> None:
        frame = self.frame
        args = [_read(frame, i) for i in call.inputs]
        attrs: Mapping[str, Any] = call.attrs
        if call.host or call.random is not None:
            attrs = {**attrs, **{h.name: _host_value(frame, h, call) for h in call.host}}
            if call.random is not None:
                attrs["rng"] = self._generator(attrs)
        try:
            found = self.kernels[call.kernel](*args, **attrs)
        except ConstraintError as error:
            raise _fault(
                call, error.message, f"constraint {error.constraint}", error.help
            ) from error
        except KERNEL_FAULTS as error:
            shapes = ", ".join(_describe(a) for a in args)
            raise _fault(call, f"{error}", f"called with {shapes}", None) from error
        outputs = call.outputs
        if len(outputs) == 1 and not isinstance(found, tuple):
            _write(frame, outputs[0], found)
            return
        for target, value in zip(outputs, cast("tuple[Any, ...]", found), strict=True):
            _write(frame, target, value)

    def _generator(self, attrs: Mapping[str, Any]) -> np.random.Generator:
        """Draws that depend on seed, run and order of calls, or on the op's own seed."""
        seed = attrs.get("seed") or 0
        self.draws += 1
        stream = (self.key[1] << 32) + self.draws
        words = (seed or self.key[0], 0 if seed else stream)
        key = np.array([word & _WORD for word in words], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key))

    def _copy(self, copy: Copy) -> None:
        values = [_read(self.frame, s) for s in copy.sources]
        for target, value in zip(copy.targets, values, strict=True):
            _write(self.frame, target, value)

    def _if(self, branch: If) -> None:
        taken = bool(np.asarray(self.frame[branch.condition]).reshape(()))
        self.block(branch.then if taken else branch.orelse)

    def _while(self, loop: While) -> None:
        while bool(np.asarray(self.frame[loop.condition]).reshape(())):
            self.steps -= 1
            if self.steps < 0:
                raise RuntimeFault(
                    "a loop ran longer than the limit of loop steps",
                    code="PK0905",
                    span=loop.span,
                    help="raise the limit `loop_steps`, or look for a condition that never fails",
                )
            self.block(loop.body)

    def _stack(self, stack: StackInstruction) -> None:
        frame = self.frame
        match stack.action:
            case "create":
                frame[stack.slot] = []
            case "push":
                frame[stack.slot].append([_read(frame, i) for i in stack.inputs])
            case "pop":
                if not frame[stack.slot]:
                    raise RuntimeFault("pop from an empty stack", code="PK0904", span=stack.span)
                for target, value in zip(stack.outputs, frame[stack.slot].pop(), strict=True):
                    _write(frame, target, value)
            case "test":
                _write(frame, stack.outputs[0], np.array([bool(frame[stack.slot])]))
            case _:
                raise InternalError(f"plan with unknown stack action {stack.action!r}")


def _host_value(frame: Frame, host: HostArgument, call: Call) -> Any:
    value = _read(frame, host.source)
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    numbers = [x for item in items for x in np.asarray(item).reshape(-1).tolist()]
    if host.kind == "array":
        return tuple(int(x) for x in numbers)
    if len(numbers) != 1:
        raise _fault(call, f"`{host.name}` needs one number, got {len(numbers)}", None, None)
    return int(numbers[0]) if host.kind == "int" else numbers[0]


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(of_value(cast(Array, value)))
    return "none" if value is None else f"{len(value)} tensors"


def _fault(call: Call, message: str, note: str | None, help: str | None) -> RuntimeFault:
    return RuntimeFault(
        f"`{call.kernel}`: {message}",
        code="PK0901",
        span=call.span,
        notes=(*((note,) if note else ()), *call.origin),
        help=help,
    )
