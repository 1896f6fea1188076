"""Runs a plan on a backend and compares each instruction with the reference rules.

Every kernel is wrapped where the plan is bound, so that the memory plan, constants, calls of
dynamic shape and bodies of loops are those of a normal run; only native steps are not joined into
one launch. A kernel gets operands that are right up to here, and results full of NaN. Afterwards
its results are compared and replaced by the right ones, and nothing else that is read later may
have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.diag.errors import InternalError, PirkitError, RuntimeFault
from pirkit.diag.span import Span
from pirkit.lowering.codegen.about import About, named_file
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction, requested
from pirkit.lowering.codegen.interpret import poison
from pirkit.lowering.kernel_facts import Blamed, blamed
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.kernel_watch import EndedError, Watch
from pirkit.lowering.native_ops import FUSED
from pirkit.lowering.reference_step import Replayed, reference_results
from pirkit.runtime.binding import KERNEL_FAULTS, Binding, PlacedStep, Step
from pirkit.runtime.device import Device
from pirkit.runtime.dtype import DType
from pirkit.runtime.plan import (
    Call,
    Instruction,
    Operand,
    Plan,
    blocks,
    show_operand,
    slots_of,
    writes,
)
from pirkit.runtime.registry import Choice
from pirkit.runtime.run_block import BlockSteps, execute
from pirkit.runtime.slots import SlotTable
from pirkit.runtime.tolerance import wrong_element

Array = np.ndarray[Any, Any]


class KernelFault(Struct, frozen=True):
    """An instruction that is wrong on a backend: what is wrong, and who computes it."""

    instruction: str
    what: str
    kernel: str
    file: str
    """The file that binds the kernel."""
    functions: tuple[About, ...] = ()
    files: Mapping[str, int] = field(default_factory=dict[str, int])
    """The files that emit its native functions, and how many instructions each emits."""
    stage: str = ""
    """Which stage of the lowering is wrong, where that is known."""
    span: Span | None = None
    origin: tuple[str, ...] = ()
    map_expr: str = ""

    @property
    def emitters(self) -> tuple[str, ...]:
        """The files that emit the native functions; of a library kernel the file that binds it."""
        return tuple(dict.fromkeys(f.emitter for f in self.functions)) or (self.file,)

    def lines(self, verbose: bool = False) -> Iterator[str]:
        """The report. ``verbose`` adds all emitting files, and the MapExpr of a fused kernel."""
        yield self.instruction
        yield f"  {self.what}"
        yield f"  kernel: {self.kernel}, bound by {self.file}"
        for function in dict.fromkeys(map(str, self.functions)):
            yield f"  native function: {function}"
        if self.files and verbose:
            counts = [f"{name} ({n:,})" for name, n in self.files.items()]
            yield f"  files that emit its instructions: {', '.join(counts)}"
        if self.stage:
            yield f"  wrong stage: {self.stage}"
        if self.span is not None:
            yield f"  at {self.span}"
        yield from (f"  {note}" for note in self.origin)
        if verbose and self.map_expr:
            yield from (f"  | {line}" for line in self.map_expr.strip().splitlines())


MEMORY_PLAN: Final = (
    "memory plan (pirkit/runtime/planning.py, storage_tracking.py and arena.py, or "
    "pirkit/lowering/liveness.py)"
)
_IN_PLACE: Final = (
    f"{MEMORY_PLAN}, or a kernel that may not run in place: a result lies in an operand"
)


class _Live(Struct):
    """A value that is read later: its array, and the bytes that must stay in it."""

    array: Array
    content: Array


class InstructionCheck(Struct):
    """Collects the faults of one run, whose steps are `Checked`; ``run`` is its runner."""

    device: Device
    faults: list[KernelFault] = field(default_factory=list[KernelFault])
    checked: int = 0
    watch: Watch = field(default_factory=Watch)
    explains: bool = True
    """Whether the run goes on after a fault, and experiments find its reason."""
    culprit: Checked | None = None
    """The first step that is wrong."""
    ran: dict[Checked, bool] = field(default_factory=dict["Checked", bool])
    """The steps that ran, and whether each was right."""
    _live: dict[int, _Live] = field(default_factory=dict[int, _Live])
    _positions: dict[int, tuple[tuple[Instruction, ...], int]] = field(
        default_factory=dict[int, "tuple[tuple[Instruction, ...], int]"]
    )
    """The block of each instruction of the plan, and its place there."""
    _current: Call | None = None
    _stored: set[int] = field(default_factory=set[int])
    _number: int = 0

    def begin(self, plan: Plan, arrays: Mapping[int, Any]) -> None:
        """A run of a plan begins, with inputs and parameters in these arrays, by slot."""
        self._positions = {
            id(i): (body, k) for body in _bodies(plan.body) for k, i in enumerate(body)
        }
        for slot, array in arrays.items():
            self._track(slot, array)

    def run(self, frame: SlotTable, steps: BlockSteps) -> None:
        """Run a block, one instruction at a time."""
        done = 0
        for call, instruction in zip(steps.calls, steps.instructions, strict=True):
            body, position = self._positions.get(id(instruction), ((), 0))
            for passed in body[done:position]:  # views of what stays run nowhere
                for slot in passed.frees:
                    self._live.pop(slot, None)
            done = max(done, position)
            before = self._current, self._stored
            self._current = instruction if isinstance(instruction, Call) else None
            self._stored = set()
            self._number += 1
            try:
                execute(frame, BlockSteps((call,), (instruction,)))
            finally:
                self._forget(instruction, self._stored)
                self._current, self._stored = before

    def around(
        self, step: Checked, operands: Sequence[Any], outs: Sequence[Any], go: Callable[[], Any]
    ) -> Any:
        """Run a step by ``go`` and compare: its results are in ``outs``, or returned."""
        call, read, written = self._current, list(_arrays(operands)), list(_arrays(outs))
        given = [_each(x, self._copy) for x in operands]
        shares = self.device.xp.may_share_memory
        for array in written:
            if not any(shares(array, x) for x in read):
                array[...] = poison(array.dtype)
        in_place = any(shares(a, x) for a in written for x in read)
        fault = _Reporting(self, step, call, given, _IN_PLACE * in_place)
        self._current = None  # a kernel may run a plan of its own
        try:
            with self.watch.running():
                found = go()
        except EndedError as ended:
            self.checked += 1
            fault(str(ended), returns=False)
            raise
        except RuntimeFault as error:  # what the kernel asserts of its operands may be wrong
            try:
                step.reference([_each(x, np.copy) for x in given])
            except (PirkitError, *KERNEL_FAULTS):
                raise error from None
            self.checked += 1
            fault(f"it refuses what the reference computes: {error.message}")
            raise EndedError(error.message) from error
        finally:
            self._current = call
        for k, (x, before) in enumerate(zip(read, _arrays(given), strict=True)):
            if not any(shares(x, a) for a in written) and _bytes(self._copy(x), before):
                fault(f"it changed its operand {k}, which it must not write")
        is_returned = step.choice.kernel.form != "out"
        results = _results(found) if is_returned else outs
        self._compare(step, fault, results, () if is_returned else written)
        if call is not None:
            self._untouched(call, fault)
            for slot, array in _stored(call.outputs, results):
                self._track(slot, array)
        self.checked += 1
        self.ran.setdefault(step, True)
        return found

    def _compare(
        self, step: Checked, fault: _Reporting, results: Sequence[Any], written: Sequence[Any]
    ) -> None:
        """Compare results, and put the right numbers into those that were ``written``."""
        given = [_each(x, np.copy) for x in fault.given]
        try:
            expected = step.reference(given)
        except (PirkitError, *KERNEL_FAULTS) as error:
            fault(f"the reference refuses what it computes: {error}")
            return
        inputs = list(_arrays(fault.given))
        for k, (result, right) in enumerate(zip(results, expected, strict=False)):
            for have, want in zip(_items(result), _items(right), strict=False):
                if not _is_array(have) or not isinstance(want, np.ndarray):
                    continue
                right_one = cast(Array, want)
                wrong = wrong_element(self.device.to_host(have), right_one, inputs)
                if wrong is not None:
                    fault(f"result {k}: {wrong}")
                if any(have is array for array in written) and have.shape == right_one.shape:
                    have[...] = self.device.take(right_one)

    def _untouched(self, call: Call, fault: _Reporting) -> None:
        """Check that values read later are unchanged, unless this call writes or frees them."""
        mine = {*slots_of(call.outputs), *call.frees}
        for slot, live in self._live.items():
            if slot not in mine and _bytes(self._copy(live.array), live.content):
                replace(fault, planned=MEMORY_PLAN)(
                    f"it overwrites {show_operand(slot)}, which has to stay as it is"
                )
                live.content = self._copy(live.array)

    def note(
        self, step: Checked, call: Call | None, what: str, found: Blamed, planned: str = ""
    ) -> None:
        """Note what is wrong with a step; ``planned`` is to blame if no stage of its lowering."""
        b, kernel = step.binding, step.choice.kernel
        self.culprit = self.culprit or step
        self.ran[step] = False
        self.faults.append(
            KernelFault(
                self.place_of(b, call),
                what,
                f"{kernel.key} of {kernel.source}",
                named_file(kernel.source),
                found.abouts,
                found.files,
                found.stage or planned,
                call.span if call else None,
                call.origin if call else (),
                b.attrs["kernel"] if b.op == FUSED else "",
            )
        )

    def _track(self, slot: int, value: Any) -> None:
        if _is_array(value):
            self._live[slot] = _Live(value, self._copy(value))
            self._stored.add(slot)

    def _forget(self, instruction: Instruction, stored: AbstractSet[int]) -> None:
        """Slots that end here, or that hold another value which no kernel computed."""
        for slot in {*instruction.frees, *(set(writes(instruction)) - stored)}:
            self._live.pop(slot, None)

    def _copy(self, array: Any) -> Array:
        return np.array(self.device.to_host(array), order="C")

    def place_of(self, b: Binding, call: Call | None) -> str:
        """An instruction in words: its number in the run, its slots, its shapes."""
        shapes = f"({', '.join(map(str, b.inputs))}) -> {', '.join(map(str, b.outputs))}"
        if call is None:
            inside = f"inside instruction {self._number}" if self._number else "before all runs"
            return f"{inside}: {b.op} : {shapes}"
        outs, ins = (", ".join(map(show_operand, x)) for x in (call.outputs, call.inputs))
        return f"instruction {self._number}: {outs} = {b.op}({ins}) : {shapes}"


class _Reporting(Struct, frozen=True):
    """Notes what is wrong with a step that ran on copies of what was ``given``."""

    check: InstructionCheck
    step: Checked
    call: Call | None
    given: Sequence[Any]
    planned: str
    """The part of the memory plan that may be wrong."""

    def __call__(self, what: str, *, returns: bool = True) -> None:
        step = self.step

        def reference() -> Sequence[Array]:
            return step.reference([_each(x, np.copy) for x in self.given])

        def bound_again() -> object:
            return step.choice.kernel.bind(step.binding)

        explains = self.check.explains
        found = Blamed(step.functions) if not (explains or self.planned) else blamed(
            step.inner, step.functions, self.given, reference, bound_again,
            planned=self.planned, returns=returns,
        )  # fmt: skip
        found = found if explains else Blamed(step.functions, found.stage)
        self.check.note(step, self.call, what, found, self.planned)
        if not explains:
            raise EndedError(what)


class Checked:
    """A step that is compared with the reference rules whenever it runs."""

    inner: Step

    def __init__(self, check: InstructionCheck, choice: Choice, b: Binding) -> None:
        self.check, self.choice, self.binding = check, choice, b
        self.replayed = Replayed(b.generator) if b.generator else None
        self.functions: list[LazyFunction] = []

    def bound(self) -> Checked | None:
        """This with the kernel's own step in it; None if the kernel does not serve the call."""
        b = self.binding
        given = replace(b, generator=self.replayed.first) if self.replayed else b
        try:
            with requested() as self.functions, self.check.watch.running():
                step = self.choice.kernel.bind(given)
        except EndedError as ended:
            self.check.note(self, None, f"to compile it: {ended}", Blamed(()))
            raise
        except InternalError as error:
            kernel = self.choice.kernel
            place = f"{self.check.place_of(b, None)}, kernel {kernel.key} of {kernel.source}"
            text: str = b.attrs["kernel"] if b.op == FUSED else ""
            error.notes = (*error.notes, place, *text.splitlines()[:1])
            raise
        if step is None:
            return None
        made = self if not isinstance(step, PlacedStep) else _Placed(self.check, self.choice, b)
        made.inner, made.functions, made.replayed = step, self.functions, self.replayed
        return made

    def lowered_again(self) -> None:
        """Choose and write the native code of the kernel again."""
        self.choice.kernel.bind(self.binding)
        for function in self.functions:
            function.write()

    def reference(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """The right results."""
        again = self.replayed.again if self.replayed else None
        return reference_results(replace(self.binding, generator=again), operands)

    def __call__(self, *given: Any) -> Any:
        count = len(self.binding.inputs)
        return self.check.around(self, given[:count], given[count:], lambda: self.inner(*given))


class _Placed(Checked, PlacedStep):
    """One that knows where its arrays are; it reads operands there as they lie."""

    def at(
        self, values: list[Any], cells: Sequence[int], moving: AbstractSet[int]
    ) -> Callable[[], object]:
        with requested() as more:
            go = cast(PlacedStep, self.inner).at(values, cells, moving)
        self.functions += [f for f in more if f not in self.functions]
        count = len(self.binding.inputs)
        ins, outs = cells[:count], cells[count:]
        return lambda: self.check.around(
            self, [values[c] for c in ins], [values[c] for c in outs], go
        )


class CheckedLibrary(KernelLibrary, frozen=True):
    """The kernels of a library, each of which is compared with the reference rules."""

    check: InstructionCheck | None = None

    def choices(self, op: str, dtype: DType, attrs: Mapping[str, Any]) -> Sequence[Choice]:
        return [self._checked(c) for c in super().choices(op, dtype, attrs)]

    def _checked(self, choice: Choice) -> Choice:
        check = self.check
        if check is None:
            return choice

        def bind(b: Binding) -> Step | None:
            return Checked(check, choice, b).bound()

        return replace(choice, kernel=replace(choice.kernel, bind=bind))


# --- values ---------------------------------------------------------------------------------------


def _bodies(body: tuple[Instruction, ...]) -> Iterator[tuple[Instruction, ...]]:
    """A block and all blocks inside of it."""
    yield body
    for instruction in body:
        for inner in blocks(instruction):
            yield from _bodies(inner)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _results(found: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,)


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _arrays(values: Sequence[Any]) -> Iterator[Any]:
    return (x for value in values for x in _items(value) if _is_array(x))


def _each(value: Any, change: Callable[[Any], Array]) -> Any:
    if isinstance(value, list):
        return [_each(v, change) for v in cast("list[Any]", value)]
    return change(value) if _is_array(value) else value


def _stored(outputs: Sequence[Operand], results: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    for output, result in zip(outputs, results, strict=False):
        yield from zip(slots_of((output,)), _items(result), strict=False)


def _bytes(a: Array, b: Array) -> bool:
    """Whether two dense arrays differ in a bit."""
    return a.tobytes() != b.tobytes()
