"""Replacement of pure operations by in-place ones where nothing can observe it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from pirkit.analysis.alias import alias_classes
from pirkit.analysis.effects import is_named
from pirkit.analysis.execution_order import operations
from pirkit.dialect.kinds import SINK, SOURCE
from pirkit.dialect.op_form import REGIONS
from pirkit.dialect.opdef import OpDef, find
from pirkit.dialect.operation import PirOp, ProgramOp, declares
from pirkit.dialect.types import meta_of, sizes_of
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.replace_ops import replace, semantic_properties, successor
from pirkit.runtime.meta import TensorMeta

WRITE_BACK: Final = "pd_op.assign_out_"


@dataclass(frozen=True)
class InplacePass(Pass):
    """Replace operations by their in-place twins where the operand is not needed any more.

    The result reuses the storage of the operand if the two agree in dtype and provably in shape,
    the operand occurs once in the operation and was computed in the same block, and neither it nor
    an alias of it is read later, belongs to the host or crosses the border of a region. Inputs,
    parameters and outputs are not overwritten, with one exception: if a program computes a new
    value of a parameter and writes it back, and does not read the old content in between, the new
    value is computed in the storage of the parameter.

    ::

        %1 = pd_op.exp(%0) : (tensor<2xf32>) -> tensor<2xf32>
        %2 = pd_op.relu(%1) : (tensor<2xf32>) -> tensor<2xf32>         // last use of %1
        // becomes
        %1 = pd_op.exp(%0) : (tensor<2xf32>) -> tensor<2xf32>
        %2 = pd_op.relu_(%1) : (tensor<2xf32>) -> tensor<2xf32>
    """

    name = "inplace"
    stats = Stats(in_place="operations that write in place", updates="write-backs left out")

    updates_only: bool = option(False, "only what is written back to a parameter")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            update_in_place(program, ctx)
            if not self.updates_only:
                _reuse(program, ctx)


def update_in_place(program: ProgramOp, ctx: PassContext) -> None:
    """Compute a new value of a parameter in its storage, and drop the write-back."""
    backs = [op for op in program.operations if op.name == WRITE_BACK]
    if not backs:
        return
    facts = _Facts(program)
    for op in backs:
        if op.parent is None or is_named(op.operands[0]):
            continue
        # An op with several in-place results must write them all in place; only an op with one
        # may be the end of a longer chain.
        same_target = facts.write_backs_to_target(op)
        chain = facts.update(op) if len(same_target) == 1 else [cast(PirOp, op.operands[0].owner)]
        if not chain or not same_target:
            continue
        ctx.rewrote("update", op)
        for link in chain:
            pairs = pairs_of(link)
            facts.join(link, _write_in_place(link, ctx), pairs)
        for back in same_target:
            ctx.count("updates")
            facts.forget(back)
            replace(back, [back.operands[0] if back.results[0].uses else None])


def _reuse(program: ProgramOp, ctx: PassContext) -> None:
    """One traversal: a result takes the storage of an operand that nothing reads later."""
    facts = _Facts(program)
    for op in ctx.each(list(operations(program.block))):
        pairs = pairs_of(op)
        if pairs and all(facts.dies(op, operand) for operand in pairs.values()):
            facts.join(op, _write_in_place(op, ctx), pairs)


def pairs_of(op: PirOp) -> Mapping[SSAValue, SSAValue]:
    """Result -> operand whose storage the in-place twin reuses; empty if reuse is not possible.

    Each operand must be present, agree with the result in dtype and shape, and occur only once.
    """
    definition = op.definition
    if definition.writes or not definition.inplace or find(op.name + "_") is None:
        return {}
    found: dict[SSAValue, SSAValue] = {}
    for result_name, operand_name in definition.inplace.items():
        result, operand = op.result_named(result_name), op.operand_named(operand_name)
        if result is None or operand is None or not _fits(operand, result):
            return {}
        if sum(1 for v in op.operands if v is operand) != 1:
            return {}
        found[result] = operand
    return found


def _fits(operand: SSAValue, result: SSAValue) -> bool:
    """True if both have the same dtype and provably the same shape."""
    a, b = meta_of(operand.type), meta_of(result.type)
    if not isinstance(a, TensorMeta) or not isinstance(b, TensorMeta) or a.dtype is not b.dtype:
        return False
    if all(d >= 0 for d in (*a.shape, *b.shape)):
        return a.shape == b.shape
    (left,), (right,) = sizes_of(operand.type), sizes_of(result.type)
    return left == right and None not in left


def _write_in_place(op: PirOp, ctx: PassContext) -> PirOp:
    ctx.rewrote("inplace", op)
    ctx.count("in_place")
    twin = cast(OpDef, find(op.name + "_"))
    slots = [op.operand_named(o.name) for o in twin.operands]
    types = [None if (r := op.result_named(s.name)) is None else r.type for s in twin.results]
    kinds = twin.attr_kinds
    properties = {k: v for k, v in semantic_properties(op).items() if k in kinds}
    new = successor(op, slots, definition=twin, result_types=types, properties=properties)
    replace(op, new.results, [new])
    return new


class _Facts:
    """Alias classes, positions and reads of one program; kept up to date while it changes."""

    def __init__(self, program: ProgramOp) -> None:
        found = alias_classes(program)
        self.classes = dict(found.elements)
        self.host = set(found.host)
        self.writers = {element: list(ops) for element, ops in found.writers.items()}
        self.members: dict[int, list[SSAValue]] = {}
        for value, elements in self.classes.items():
            for element in elements:
                self.members.setdefault(element, []).append(value)
        self.positions: dict[Operation, int] = {
            op: i for i, op in enumerate(operations(program.block))
        }
        self.reaches: dict[int, tuple[int, Block | None]] = {}
        """The results of `reach` by class: without them a long chain is searched for each link."""

    def join(self, old: PirOp, new: PirOp, pairs: Mapping[SSAValue, SSAValue]) -> None:
        """Record that the results of an operation now have the storage of operands."""
        self.positions[new] = self.positions[old]
        for before, after in zip(old.results, new.results, strict=True):
            self.classes[after] = self.classes.pop(before)
            for element in self.classes[after]:
                self.members[element].remove(before)
                self.members[element].append(after)
            operand = pairs.get(before)
            if operand is None:
                continue
            (element,) = self.classes[after]
            (into,) = self.classes[operand]
            self.writers.setdefault(into, []).append(new)
            if element == into:
                continue
            reaches = self.reach(element), self.reach(into)
            home = reaches[0][1] if reaches[0][1] is reaches[1][1] else None
            self.reaches[into] = max(reaches[0][0], reaches[1][0]), home
            for value in self.members.pop(element):
                elements = self.classes[value]
                self.classes[value] = tuple([into if e == element else e for e in elements])
                self.members[into].append(value)
            if element in self.host:
                self.host.add(into)

    def forget(self, op: PirOp) -> None:
        """Record that an operation is about to be erased."""
        for result in op.results:
            for element in self.classes.pop(result):
                self.members[element].remove(result)
                self.reaches.pop(element, None)
                self.writers[element] = [w for w in self.writers.get(element, ()) if w is not op]

    def aliases(self, value: SSAValue) -> Iterator[SSAValue]:
        for element in self.classes[value]:
            yield from self.members[element]

    def dies(self, op: PirOp, operand: SSAValue) -> bool:
        """True if nothing can read the storage of an operand after the op."""
        if any(element in self.host for element in self.classes[operand]):
            return False
        last = max(self.reach(element)[0] for element in self.classes[operand])
        return self.is_local(operand, op) and last <= self.positions[op]

    def is_local(self, value: SSAValue, op: PirOp) -> bool:
        """True if all aliases of a value are defined and read in the op's own block."""
        return all(self.reach(element)[1] is op.parent for element in self.classes[value])

    def reach(self, element: int) -> tuple[int, Block | None]:
        """The position of a class's last read, and the block with its definitions and reads."""
        found = self.reaches.get(element)
        if found is None:
            members = self.members[element]
            readers = [use.operation for value in members for use in value.uses]
            owners = [*(value.owner for value in members), *readers]
            blocks = {
                o.parent if isinstance(o, Operation) and o.name not in REGIONS else None
                for o in owners
            }
            last = max((self.positions[reader] for reader in readers), default=-1)
            found = self.reaches[element] = last, blocks.pop() if len(blocks) == 1 else None
        return found

    def readers(self, value: SSAValue) -> Iterator[Operation]:
        for alias in self.aliases(value):
            for use in alias.uses:
                yield use.operation

    def update(self, back: PirOp) -> list[PirOp]:
        """The chain of operations that can run in the storage that a write-back writes, in order.

        The chain leads from the old content of an input or parameter to the new one; each operation
        reads the result of the previous one for the last time. Empty if there is no such chain.
        """
        value, target = back.operands
        if not declares(target.owner, SOURCE):
            return []
        chain: list[PirOp] = []
        following = back
        while value is not target:
            op = value.owner
            if not isinstance(op, PirOp) or not self.ends(value, following, back):
                return []
            pairs = pairs_of(op)
            if len(pairs) != 1 or value not in pairs:
                return []
            chain.append(op)
            value, following = pairs[value], op
        if not chain or self.is_touched_between(target, following, back):
            return []
        chain.reverse()
        return chain

    def write_backs_to_target(self, back: PirOp) -> list[PirOp]:
        """A write-back, and those of the other results if its operation updates several targets.

        Empty if the operation cannot write all of them in place.
        """
        op = back.operands[0].owner
        if not isinstance(op, PirOp):
            return [back]
        pairs = pairs_of(op)
        if len(pairs) < 2:
            return [back]
        found: list[PirOp] = []
        for result, target in pairs.items():
            users = [cast(PirOp, use.operation) for use in result.uses]
            backs = [u for u in users if u.name == WRITE_BACK and u.operands[1] is target]
            if len(backs) != 1 or is_named(result) or not self.ends(result, backs[0], backs[0]):
                return []
            if self.is_touched_between(target, op, backs[0]):
                return []
            found += backs
        return found

    def is_touched_between(self, target: SSAValue, first: PirOp, back: PirOp) -> bool:
        """True if the target is read between two operations, or written after the first one."""
        start, end = self.positions[first], self.positions[back]
        readers = (op for op in self.readers(target) if op is not back and not declares(op, SINK))
        writers = (op for (e,) in [self.classes[target]] for op in self.writers.get(e, ()))
        return any(start < self.positions[op] < end for op in readers) or any(
            self.positions[op] > start for op in writers if op is not back
        )

    def ends(self, value: SSAValue, following: PirOp, back: PirOp) -> bool:
        """True if ``following`` reads a link last; the final link may have later readers."""
        if not self.is_local(value, back):
            return False
        if any(element in self.host for element in self.classes[value]):
            return False
        if following is back:
            return True
        return not any(
            self.positions[reader] > self.positions[following] for reader in self.readers(value)
        )
