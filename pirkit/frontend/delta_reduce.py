"""Makes a program smaller while it stays interesting: delta debugging on operations.

First, a part of the program is cut out: around operations that are likely to be wrong, then halves.
Then steps remove whole programs, outputs, or operations, until none of them makes it smaller. The
results of a removed operation become inputs of the program, so that everything that only it needed
can be removed as well. It is a form of ddmin (Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input", 2002).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.diag.limits import current_limits, use_limits
from pirkit.dialect.kinds import SINK, TERMINATOR
from pirkit.dialect.op_form import ARG_ATTRS, KEYWORD
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, create, declares, with_nested

Candidates = Callable[[ModuleOp], list[Operation]]
"""The operations of a module that a step tries to remove."""
Removal = Callable[[Operation], None]
"""Removes one of them, or leaves it if that is impossible."""
Oracle = Callable[[ModuleOp], bool]
"""True if a module is still interesting; it may change the module, and must not raise."""
_LOOP_STEPS: Final = 2_000
"""Iterations of a loop in a trial: if operands of its condition were removed, it never ends."""


_NEIGHBOURS: Final = 4
"""How often the neighbours of likely operations are added, before halves are tried."""


@dataclass
class Reduction:
    """The smallest interesting module so far, and how many candidates were tried."""

    module: ModuleOp
    tried: int = 0


def reduce(
    module: ModuleOp, oracle: Oracle, seconds: float = 60.0, likely: Collection[int] = ()
) -> Reduction:
    """Find a smaller module that the oracle finds interesting; the given one is not changed.

    ``likely`` are numbers of operations (in `outer_operations`) that may suffice. Stops when
    nothing more can be removed, or after about ``seconds`` of CPU time, children included, so that
    a busy machine does not end it early; and in any case after ten times as much wall time, for
    oracles that wait.
    """
    reducer = _Reducer(Reduction(module.clone()), oracle, seconds)
    reducer.cut_out_around(set(likely))
    return reducer.run()


@dataclass
class _Reducer:
    found: Reduction
    oracle: Oracle
    seconds: float
    cpu: float = field(default_factory=lambda: sum(os.times()[:4]))
    wall: float = field(default_factory=lambda: time.monotonic())

    def run(self) -> Reduction:
        before = _weight(self.found.module) + 1
        while _weight(self.found.module) < before and not self.is_over_time():
            before = _weight(self.found.module)
            self.halve()
            for candidates, remove in _STEPS:
                self.shrink(candidates, remove)
        return self.found

    def cut_out_around(self, likely: set[int]) -> None:
        """Keep the ``likely`` operations alone, or else also their neighbours, and theirs..."""
        ops = outer_operations(self.found.module)
        numbers = {op: n for n, op in enumerate(ops)}
        for _ in range(_NEIGHBOURS if likely else 0):
            if self.is_over_time() or self.accepts(_part(self.found.module, likely)):
                return
            near: list[Operation | Block] = []
            for op in [ops[n] for n in likely]:
                near += [value.owner for value in op.operands]
                near += [use.operation for r in op.results for use in r.uses]
            likely |= {numbers[op] for op in near if isinstance(op, PirOp) and op in numbers}

    def halve(self) -> None:
        """Keep the middle, the first or the last half, as long as one of them is interesting."""
        while (
            half := len(outer_operations(self.found.module)) // 2
        ) > 1 and not self.is_over_time():
            ranges = [range(start, start + half) for start in ((half + 1) // 2, 0, half)]
            if not any(self.accepts(_part(self.found.module, kept)) for kept in ranges):
                return

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
        for op in candidates(trial)[which]:  # an earlier removal may have taken it along
            if op.parent is not None and all(a.parent is not None for a in _around(op)):
                remove(op)
        cleaned = trial.clone()
        _drop_unused(cleaned)
        return self.accepts(cleaned) or (size(trial) > size(cleaned) and self.accepts(trial))

    def accepts(self, trial: ModuleOp) -> bool:
        """Take a module as the result so far if it is smaller and interesting."""
        if _weight(trial) >= _weight(self.found.module):
            return False
        self.found.tried += 1
        limits = current_limits()
        with use_limits(replace(limits, loop_steps=min(_LOOP_STEPS, limits.loop_steps))):
            if not self.oracle(trial.clone()):
                return False
        self.found.module = trial
        return True

    def is_over_time(self) -> bool:
        wall = time.monotonic() - self.wall
        # The CPU time of many threads is longer than what the user waits.
        spent = min(sum(os.times()[:4]) - self.cpu, wall)
        return spent > self.seconds or wall > 10 * self.seconds


def size(module: ModuleOp) -> int:
    """The number of operations of a module; a fused kernel is one."""
    return sum(1 for _ in with_nested(module))


def _weight(module: ModuleOp) -> int:
    """The size by which modules are compared; an output weighs half as much as an operation.

    `_end_before` replaces an operation and its output by outputs for its operands, up to two of
    which then still make the module smaller.
    """
    return sum(1 if declares(op, SINK) else 2 for op in with_nested(module))


def outer_operations(module: ModuleOp) -> list[PirOp]:
    """The operations of all programs, without those in regions, in order."""
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    return [op for p in programs for op in p.block.ops if isinstance(op, PirOp)]


def _part(module: ModuleOp, kept: Collection[int]) -> ModuleOp:
    """A module of the operations with these numbers, and of what they cannot do without.

    Their results become outputs where nothing reads them, or something that is left out. Operations
    without operands stay, as a constant that became an input would be no constant any more; so do
    those whose results are no tensors and are used.
    """
    part = module.clone()
    ops = outer_operations(part)
    inside: set[Operation] = {ops[n] for n in kept}
    for op in ops:
        for result in op.results if op in inside and op.operands else ():
            users = [use.operation for use in result.uses]
            is_read = any(inside.isdisjoint((user, *_around(user))) for user in users)
            sinks = [user for user in users if declares(user, SINK)]
            inside.update(sinks)
            if not sinks and (is_read or not users):
                _new_output(result)
    for op in reversed(ops):
        used = [r.type for r in op.results if r.uses]
        is_input = op.operands and all(isinstance(t, mlir.TensorType) for t in used)
        if op not in inside and (is_input or not used) and not declares(op, TERMINATOR):
            _cut(op)
    _drop_unused(part)
    return part


def _programs(module: ModuleOp) -> list[Operation]:
    return list(module.ops)


def _outputs(module: ModuleOp) -> list[Operation]:
    return [op for op in _inside(module) if declares(op, SINK)]


def _computations(module: ModuleOp) -> list[Operation]:
    """Operations that can be removed, the last one first: then their operands become unused."""
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


def _end_before(op: Operation) -> None:
    """Erase an operation of a program; operands that only it reads become outputs."""
    if not isinstance(op.parent_op(), ProgramOp):
        return
    for result in op.results:
        for user in [use.operation for use in result.uses if declares(use.operation, SINK)]:
            user.detach()
            user.erase()
    operands = [v for v in op.operands if isinstance(v, OpResult) and v.owner.operands]
    _cut(op)
    for value in operands:
        if not value.uses:
            _new_output(value)


def _new_output(value: OpResult) -> None:
    """Make a result an output of its program, unless it is no tensor."""
    program = value.owner.parent_op()
    if isinstance(program, ProgramOp) and isinstance(value.type, mlir.TensorType):
        sinks = [op for op in program.block.ops if declares(op, SINK)]
        taken = {op.properties.get("output_name") for op in sinks}
        names = (mlir.StringAttr(f"kept{i}") for i in range(len(taken) + 1))
        name = next(n for n in names if n not in taken)
        program.block.add_op(create("pir.shadow_output", [value], [], {"output_name": name}))


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
    (_computations, _end_before),
)
