"""Branches and loops of a plan as steps of a native program.

A loop is its body between two branches; variables have buffers of their own, into which the values
that an iteration yields are copied at its end::

    copy   initial values -> variables
    branch to the end, unless the condition holds
    ...    body                                       <-+
    copy   yielded values -> variables                  |
    branch back, if the condition holds               --+
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.stack_access import entry_bytes, stack_access
from pirkit.lowering.codegen.ir.loopnest import Kernel, Load, LoopPhase, Operand, Store
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import REAL_OF
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import Branch, Control, NativeFunction, Reserve
from pirkit.runtime.plan import (
    Call,
    Copy,
    If,
    Instruction,
    Stack,
    While,
    instructions,
    reads,
    writes,
)

TOKEN: Final = TensorMeta((), dt.int64)
"""What a stack is where it is pushed on another one."""

_Move = tuple[int, int, TensorMeta]
"""A buffer, another one that it is copied into, and the type of both."""


class Steps(Protocol):
    """The interface of a program's builder that this file needs."""

    steps: list[tuple[NativeFunction | Control, tuple[int, ...]]]
    nests: list[Kernel | None]
    sources: list[tuple[Call, ...]]
    current: tuple[Call, ...]

    def buffer(self, slot: int) -> int: ...
    def meta(self, slot: int) -> TensorMeta: ...
    def copy(self, source: int, meta: TensorMeta) -> int: ...
    def call(self, call: Call) -> None: ...
    def alias(self, call: Call) -> None: ...
    def kernel(self, kernel: Kernel, buffers: Sequence[int]) -> None: ...
    def backpatch(self, branch: int, target: int | None = None) -> None: ...
    def add_step(self, function: NativeFunction | Control, buffers: tuple[int, ...]) -> int: ...
    def stack(self) -> int: ...
    def token(self, slot: int) -> int: ...
    def is_made_here(self, buffer: int) -> bool: ...
    def is_in_place(self, step: int, result: int, source: int) -> bool: ...


class ControlFlow(Struct):
    """Adds instructions with blocks to a program. ``loops`` are the steps of each loop."""

    made: Steps
    loops: list[range] = field(default_factory=list[range])
    memory: dict[int, int] = field(default_factory=dict[int, int])
    """The memory of each slot that is a stack."""
    held: dict[int, list[int | None]] = field(default_factory=dict[int, "list[int | None]"])
    """For each memory, which memories the stacks have that are pushed on it."""

    def add(self, instruction: Instruction) -> None:
        """Add an instruction. Raises NotNativeError for one without a native form."""
        self.made.current = ()
        match instruction:
            case Call():
                self.made.alias(instruction)
                self.made.call(instruction)
            case Copy():
                copy_all(self.made, self._moved(instruction))
            case If():
                self._if(instruction)
            case While():
                self._while(instruction)
            case Stack():
                self._stack(instruction)

    def _if(self, instruction: If) -> None:
        made, condition = self.made, self._condition(instruction.condition)
        to_else = made.add_step(Branch(0, when=False), (condition,))
        for inner in instruction.then:
            self.add(inner)
        if not instruction.orelse:
            made.backpatch(to_else)
            return
        # the condition holds wherever `then` has run, so this branch is always taken
        to_end = made.add_step(Branch(0, when=True), (condition,))
        made.backpatch(to_else)
        for inner in instruction.orelse:
            self.add(inner)
        made.backpatch(to_end)

    def _while(self, instruction: While) -> None:
        made, condition = self.made, self._condition(instruction.condition)
        leave = made.add_step(Branch(0, when=False), (condition,))
        *body, step = instruction.body
        for inner in _late(body):
            self.add(inner)
        if isinstance(step, Copy):
            pairs = self._moved(step)
            copy_all(made, self._not_in_place(pairs, range(leave + 1, len(made.steps))))
        else:
            self.add(step)
        # a loop tests at its end too, so that an iteration takes one branch
        back = made.add_step(Branch(0, when=True), (condition,))
        made.backpatch(back, leave + 1)
        made.backpatch(leave)
        self.loops.append(range(leave, back + 1))

    def _stack(self, instruction: Stack) -> None:
        """An action on a stack: on its memory (`Stacks`), from the bottom that its token names.

        A loop in another one makes a stack in each iteration. All share one memory, as later
        ones are emptied first; the token is how much of it was used when the stack was made.
        """
        made, action = self.made, instruction.action
        if action not in ("create", "push", "pop", "test"):
            raise NotNativeError("the program has an array of tensors")
        operands = (*instruction.inputs, *instruction.outputs)
        slots = [slot for slot in operands if isinstance(slot, int)]
        if len(slots) < len(operands):
            raise NotNativeError("a stack has lists, or values that nobody reads")
        if action == "create":
            self.memory[instruction.slot] = made.stack()
        memory = self.memory.get(instruction.slot)
        if memory is None:
            raise NotNativeError("a stack comes from another program")
        if action == "push":
            held = [self.memory.get(slot) for slot in slots]
            # which memory a token names has to be known when it is popped
            if self.held.setdefault(memory, held) != held:
                raise NotNativeError("a stack holds values of different kinds")
        elif action == "pop":
            held = self.held.get(memory, [None] * len(slots))
            pairs = zip(slots, held, strict=True)
            self.memory |= {slot: inner for slot, inner in pairs if inner is not None}
        buffers, sizes = list[int](), list[int]()
        for slot in slots if action in ("push", "pop") else [instruction.slot, *slots]:
            is_token = slot in self.memory
            meta = TOKEN if is_token else made.meta(slot)
            buffers.append(made.token(slot) if is_token else made.buffer(slot))
            sizes.append(meta.numel * meta.dtype.itemsize)
        if action == "push":
            made.add_step(Reserve(entry_bytes(sizes)), (memory,))
        made.add_step(stack_access(action, sizes), (memory, *buffers))

    def _condition(self, slot: int) -> int:
        meta = self.made.meta(slot)
        if meta.numel != 1 or meta.dtype is not dt.bool_:
            raise NotNativeError(f"a condition is {meta}, not one boolean")
        return self.made.buffer(slot)

    def _moved(self, instruction: Copy) -> list[_Move]:
        """The buffers that are copied into those of variables."""
        made, pairs = self.made, list[_Move]()
        for source, target in zip(instruction.sources, instruction.targets, strict=True):
            if not isinstance(source, int) or not isinstance(target, int):
                raise NotNativeError("a variable is a list")
            meta = made.meta(target)
            if made.meta(source) != meta:
                raise NotNativeError("a variable changes its shape or element type")
            if (read := made.buffer(source)) != made.buffer(target):
                pairs.append((read, made.buffer(target), meta))
        return pairs

    def _not_in_place(self, pairs: Sequence[_Move], body: range) -> list[_Move]:
        """Let iterations compute new values where the old ones are; the copies still needed.

        The step that computes a value can do so if no later one reads the variable, and if itself
        reads each element of it only in the iteration that writes the same one.
        """
        made, left = self.made, list[_Move]()
        sources = [source for source, *_ in pairs]
        inner = {k for loop in self.loops for k in loop if loop.start in body}
        for source, target, meta in pairs:
            uses = [k for k, (_, buffers) in enumerate(made.steps) if source in buffers]
            reads = [k for k in body if target in made.steps[k][1]]
            first = uses[0] if uses else -1
            if (
                made.is_made_here(source)
                and first in body
                and first not in inner
                and sources.count(source) == 1
                and target not in sources
                and all(k <= first for k in reads)
                and (first not in reads or made.is_in_place(first, source, target))
            ):
                for k in uses:
                    function, buffers = made.steps[k]
                    renamed = tuple([target if b == source else b for b in buffers])
                    made.steps[k] = (function, renamed)
            else:
                left.append((source, target, meta))
        return left


def _late(body: Sequence[Instruction]) -> list[Instruction]:
    """Move calls whose results only the next iteration reads to the end of one.

    Then whatever reads an old value has run, and the new one can be computed in place.
    """
    read = {slot for i in instructions(tuple(body)) for slot in reads(i)}
    is_late = [isinstance(i, Call) and i.outputs != () and read.isdisjoint(writes(i)) for i in body]
    now = [i for i, late in zip(body, is_late, strict=True) if not late]
    return now + [i for i, late in zip(body, is_late, strict=True) if late]


def copy_all(made: Steps, pairs: Sequence[_Move]) -> None:
    """Copy buffers into others: those of as many elements in one loop.

    All sources are read before a target is written.
    """
    made.current = ()
    written = {target for _, target, _ in pairs}
    pairs = [
        (made.copy(source, meta) if source in written else source, target, meta)
        for source, target, meta in pairs
    ]
    for count in dict.fromkeys(_elements(meta)[0] for *_, meta in pairs):
        alike = [pair for pair in pairs if _elements(pair[2])[0] == count]
        operands = tuple([_elements(meta)[1] for *_, meta in alike for _ in range(2)])
        loads = [Load(f"x{k}", 2 * k) for k in range(len(alike))]
        stores = [Store(2 * k + 1, f"x{k}") for k in range(len(alike))]
        body = LoopPhase((*loads, *stores))
        buffers = [b for source, target, _ in alike for b in (source, target)]
        made.kernel(Kernel((count,), (), operands, (body,)), buffers)


def without_idle_copies(made: Steps, flow: ControlFlow) -> None:
    """Remove steps that copy a buffer to itself, as updates in place leave them."""
    kept = [k for k in range(len(made.steps)) if not _is_idle(made, k)]
    if len(kept) == len(made.steps):
        return
    place = {k: n for n, k in enumerate(kept)}
    for k in reversed(range(len(made.steps) + 1)):  # a removed step is replaced by the next one
        place.setdefault(k, place.get(k + 1, len(kept)))
    steps: list[tuple[NativeFunction | Control, tuple[int, ...]]] = []
    for k in kept:
        function, buffers = made.steps[k]
        if isinstance(function, Branch):
            function = replace(function, target=place[function.target])
        steps.append((function, buffers))
    made.steps[:], made.nests[:] = steps, [made.nests[k] for k in kept]
    made.sources[:] = [made.sources[k] for k in kept]
    flow.loops[:] = [range(place[loop.start], place[loop.stop]) for loop in flow.loops]


def _is_idle(made: Steps, step: int) -> bool:
    nest, (_, buffers) = made.nests[step], made.steps[step]
    if nest is None or len(set(buffers)) != 1 or len(nest.loop_phases) != 1:
        return False
    match list(nest.statements()):
        case [Load(at=None, predicate=None) as load, Store() as store]:
            x, y = nest.operands[load.operand], nest.operands[store.operand]
            same = (x.outer, x.inner, x.offset) == (y.outer, y.inner, y.offset)
            return same and load.name == store.value
        case _:
            return False


def _elements(meta: TensorMeta) -> tuple[int, Operand]:
    """The number of elements of a tensor in memory; a complex number is copied as its parts."""
    dtype = REAL_OF.get(meta.dtype, meta.dtype)
    size, nbytes = dtype.itemsize, meta.numel * meta.dtype.itemsize
    return nbytes // size, Operand(dtype, (size,), (), nbytes)
