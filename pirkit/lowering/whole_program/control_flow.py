"""Branches and loops of a plan as steps of a native program.

A loop is its body between two branches; variables have buffers of their own, into which the values
that a turn yields are copied at its end::

    copy   initial values -> variables
    branch to the end, unless the condition holds
    ...    body                                       <-+
    copy   yielded values -> variables                  |
    branch back, if the condition holds               --+
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pirkit.lowering.codegen.emit.stack_access import STACK_BYTES, stack_access
from pirkit.lowering.codegen.ir.loopnest import Kernel, Load, LoopPhase, Operand, Store
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import REAL_OF
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import Branch, Control, NativeFunction, Reserve
from pirkit.runtime.plan import Call, Copy, If, Instruction, Stack, While


class Steps(Protocol):
    """What is needed of the builder of a program."""

    def buffer(self, slot: int) -> int: ...
    def meta(self, slot: int) -> TensorMeta: ...
    def copy(self, source: int, meta: TensorMeta) -> int: ...
    def call(self, call: Call) -> None: ...
    def alias(self, call: Call) -> None: ...
    def kernel(self, kernel: Kernel, buffers: Sequence[int]) -> None: ...
    def land(self, branch: int, target: int | None = None) -> None: ...
    def control(self, function: NativeFunction | Control, buffers: tuple[int, ...]) -> int: ...
    def stack(self, slot: int) -> int: ...


@dataclass(slots=True)
class ControlFlow:
    """Adds instructions with blocks to a program. ``loops`` are the steps of each loop."""

    made: Steps
    loops: list[range] = field(default_factory=list[range])

    def add(self, instruction: Instruction) -> None:
        """Add an instruction. Raises NotNativeError for one without a native form."""
        match instruction:
            case Call():
                self.made.alias(instruction)
                self.made.call(instruction)
            case Copy():
                self._assign(instruction)
            case If():
                self._if(instruction)
            case While():
                self._while(instruction)
            case Stack():
                self._stack(instruction)

    def _if(self, instruction: If) -> None:
        made, condition = self.made, self._condition(instruction.condition)
        to_else = made.control(Branch(1, 0, False), (condition,))
        for inner in instruction.then:
            self.add(inner)
        if not instruction.orelse:
            made.land(to_else)
            return
        to_end = made.control(
            Branch(1, 0, True), (condition,)
        )  # which holds wherever `then` has run
        made.land(to_else)
        for inner in instruction.orelse:
            self.add(inner)
        made.land(to_end)

    def _while(self, instruction: While) -> None:
        made, condition = self.made, self._condition(instruction.condition)
        leave = made.control(Branch(1, 0, False), (condition,))
        for inner in instruction.body:
            self.add(inner)
        back = made.control(Branch(1, 0, True), (condition,))
        made.land(back, leave + 1)
        made.land(leave)
        self.loops.append(range(leave, back + 1))

    def _stack(self, instruction: Stack) -> None:
        made, action = self.made, instruction.action
        if action not in ("create", "push", "pop", "test"):
            raise NotNativeError("the program has an array of tensors")
        operands = (*instruction.inputs, *instruction.outputs)
        slots = [slot for slot in operands if isinstance(slot, int)]
        if len(slots) < len(operands):
            raise NotNativeError("a stack has lists, or values that nobody reads")
        metas = [made.meta(slot) for slot in slots]
        sizes = [meta.numel * meta.dtype.itemsize for meta in metas]
        stack, buffers = made.stack(instruction.slot), [made.buffer(slot) for slot in slots]
        if action == "push":
            made.control(Reserve(STACK_BYTES, sum(sizes)), (stack,))
        made.control(stack_access(action, sizes), (stack, *buffers))

    def _condition(self, slot: int) -> int:
        meta = self.made.meta(slot)
        if meta.numel != 1 or meta.dtype is not dt.bool_:
            raise NotNativeError(f"a condition is {meta}, not one boolean")
        return self.made.buffer(slot)

    def _assign(self, instruction: Copy) -> None:
        """Copy values into variables. All sources are read before a target is written."""
        made, pairs = self.made, list[tuple[int, int, TensorMeta]]()
        for source, target in zip(instruction.sources, instruction.targets, strict=True):
            if not isinstance(source, int) or not isinstance(target, int):
                raise NotNativeError("a variable is a list")
            meta = made.meta(target)
            if made.meta(source) != meta:
                raise NotNativeError("a variable changes its shape or element type")
            if (read := made.buffer(source)) != made.buffer(target):
                pairs.append((read, made.buffer(target), meta))
        written = {target for _, target, _ in pairs}
        held = [
            (made.copy(source, meta) if source in written else source, target, meta)
            for source, target, meta in pairs
        ]
        copy_all(made, held)


def copy_all(made: Steps, pairs: Sequence[tuple[int, int, TensorMeta]]) -> None:
    """Copy buffers into others of the same type: those of as many elements in one loop."""
    for count in dict.fromkeys(_elements(meta)[0] for *_, meta in pairs if meta.numel):
        alike = [pair for pair in pairs if _elements(pair[2])[0] == count]
        operands = tuple([_elements(meta)[1] for *_, meta in alike for _ in range(2)])
        loads = [Load(f"x{k}", 2 * k) for k in range(len(alike))]
        stores = [Store(2 * k + 1, f"x{k}") for k in range(len(alike))]
        body = LoopPhase((*loads, *stores))
        buffers = [b for source, target, _ in alike for b in (source, target)]
        made.kernel(Kernel((count,), (), operands, (body,)), buffers)


def _elements(meta: TensorMeta) -> tuple[int, Operand]:
    """The number of elements of a tensor in memory; a complex number is copied as its parts."""
    dtype = REAL_OF.get(meta.dtype, meta.dtype)
    size, nbytes = dtype.itemsize, meta.numel * meta.dtype.itemsize
    return nbytes // size, Operand(dtype, (size,), (), nbytes)
