"""Makes a program smaller while it stays interesting: delta debugging on operations.

A step removes outputs, whole programs, or operations. The results of a removed operation become
inputs of the program, so that everything that only it needed can be removed as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.diag.limits import current_limits, use_limits
from pirkit.dialect.kinds import SINK, TERMINATOR
from pirkit.dialect.op_form import ARG_ATTRS, KEYWORD
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, declares, with_nested

Candidates = Callable[[ModuleOp], list[Operation]]
Removal = Callable[[Operation], None]
Oracle = Callable[[ModuleOp], bool]
"""True if a module is still interesting; it may change the module, and must not raise."""
_LOOP_STEPS: Final = 2_000
"""Iterations of a loop in a trial: if operands of its condition were removed, it never ends."""


@dataclass
class Reduction:
    """The smallest interesting module so far, and how many candidates were tried."""

    module: ModuleOp
    tried: int = 0


def reduce(module: ModuleOp, oracle: Oracle, seconds: float = 60.0) -> Reduction:
    """Find a smaller module that the oracle finds interesting; the given one is not changed.

    Stops when nothing more can be removed, or after about ``seconds`` seconds.
    """
    return _Reducer(Reduction(module.clone()), oracle, time.monotonic() + seconds).run()


@dataclass
class _Reducer:
    found: Reduction
    oracle: Oracle
    deadline: float

    def run(self) -> Reduction:
        before = size(self.found.module) + 1
        while size(self.found.module) < before and not self.is_over_time():
            before = size(self.found.module)
            for candidates, remove in _STEPS:
                self.shrink(candidates, remove)
        return self.found

    def shrink(self, candidates: Candidates, remove: Removal) -> None:
        """Remove runs of candidates, halving the length of the runs down to one."""
        length = len(candidates(self.found.module))
        while length and not self.is_over_time():
            start = 0
            while start < len(candidates(self.found.module)) and not self.is_over_time():
                if not self.without(candidates, remove, slice(start, start + length)):
                    start += length
            length //= 2

    def without(self, candidates: Candidates, remove: Removal, which: slice) -> bool:
        """Try to remove a run of candidates; True if the module became smaller."""
        trial = self.found.module.clone()
        for op in candidates(trial)[which]:
            if op.parent is not None and all(a.parent is not None for a in _around(op)):
                remove(op)
        cleaned = trial.clone()
        _drop_unused(cleaned)
        return self.accepts(cleaned) or (size(trial) > size(cleaned) and self.accepts(trial))

    def accepts(self, trial: ModuleOp) -> bool:
        if size(trial) >= size(self.found.module):
            return False
        self.found.tried += 1
        limits = current_limits()
        with use_limits(replace(limits, loop_steps=min(_LOOP_STEPS, limits.loop_steps))):
            if not self.oracle(trial.clone()):
                return False
        self.found.module = trial
        return True

    def is_over_time(self) -> bool:
        return time.monotonic() > self.deadline


def size(module: ModuleOp) -> int:
    """The number of operations of a module; a fused kernel is one."""
    return sum(1 for _ in with_nested(module))


def _programs(module: ModuleOp) -> list[Operation]:
    return list(module.ops)


def _outputs(module: ModuleOp) -> list[Operation]:
    return [op for op in _inside(module) if declares(op, SINK)]


def _computations(module: ModuleOp) -> list[Operation]:
    """Operations that can be removed, the last first, so that their operands become dead."""
    return [
        op
        for op in reversed(list(_inside(module)))
        if not declares(op, SINK) and not declares(op, TERMINATOR)
    ]


def _inside(module: ModuleOp) -> Iterator[PirOp]:
    for program in module.ops:
        if isinstance(program, ProgramOp):
            yield from operations(program.block)


def _cut(op: Operation) -> None:
    """Erase an operation; its used results become inputs of the enclosing program."""
    program = next((a for a in _around(op) if isinstance(a, ProgramOp)), None)
    for result in op.results:
        if result.uses and program is not None:
            result.replace_all_uses_with(_new_input(program, result.type))
    op.detach()
    op.erase()


def _pass_by(op: Operation) -> None:
    """Erase an operation whose only result can be replaced by an operand of its type."""
    same = [v for v in op.operands if [v.type] == [r.type for r in op.results]]
    if same:
        op.results[0].replace_all_uses_with(same[-1])
        op.detach()
        op.erase()


def _around(op: Operation) -> Iterator[Operation]:
    """The operations that enclose an operation, without the module."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ModuleOp):
        yield parent
        parent = parent.parent_op()


def _new_input(program: ProgramOp, type_: Attribute) -> SSAValue:
    taken = set(program.keywords)
    name = next(n for n in (f"cut{i}" for i in range(len(taken) + 1)) if n not in taken)
    entry = mlir.DictionaryAttr({KEYWORD: mlir.StringAttr(name)})
    program.properties[ARG_ATTRS] = mlir.ArrayAttr([*program.arg_attrs, entry])
    return program.block.insert_arg(type_, len(program.block.args))


def _drop_unused(module: ModuleOp) -> None:
    """Erase unused operations without effect, and unused inputs."""
    for program in module.ops:
        if not isinstance(program, ProgramOp):
            continue
        for op in reversed(list(operations(program.block))):
            is_pure = not bodies(op) and op.definition.effects == "pure"
            if is_pure and op.results and not any(r.uses for r in op.results):
                op.detach()
                op.erase()
        entries = list(program.arg_attrs)
        for argument in reversed(program.block.args):
            if not argument.uses:
                del entries[argument.index]
                program.block.erase_arg(argument)
        if entries:
            program.properties[ARG_ATTRS] = mlir.ArrayAttr(cast("list[Attribute]", entries))
        else:
            program.properties.pop(ARG_ATTRS, None)


_STEPS: Final[tuple[tuple[Candidates, Removal], ...]] = (
    (_programs, _cut),
    (_outputs, _cut),
    (_computations, _cut),
    (_computations, _pass_by),
)
