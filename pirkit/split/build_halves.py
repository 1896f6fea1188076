"""Builds the forward and the backward program from a joint program and the choice of saved values.

The backward program is a copy of the backward operations, in which each read of a forward value
becomes an argument, or a repeated forward operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct, field
from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue

from pirkit.diag.once import cached_property
from pirkit.dialect.build import Builder
from pirkit.dialect.op_form import KEYWORD
from pirkit.dialect.operation import PirOp, ProgramOp, create
from pirkit.dialect.types import VecType
from pirkit.split.backward_reads import Demand, Place, captured, read_by
from pirkit.split.costs import LIST
from pirkit.split.joint import Joint
from pirkit.split.labels import Labels
from pirkit.split.recompute import gives, placeholders, reads
from pirkit.split.save_or_recompute import Choice
from pirkit.split.split_result import BACKWARD, FORWARD
from pirkit.split.storage_versions import Contents, Need, with_inner


def saved_values(joint: Joint, contents: Contents, demand: Demand, choice: Choice) -> list[Need]:
    """The versions that the backward program takes as arguments, for their data or their shape.

    Reads are followed through repeated operations, in the order in which they occur.
    """
    steps = Steps(contents, choice)
    taken: dict[Need, None] = {}
    seen: set[Need] = set()
    pending = [*demand.uses.values(), *demand.given.values()]
    pending.reverse()
    while pending:
        need = pending.pop()
        if need in seen:
            continue
        seen.add(need)
        op = steps.producer(need)
        if op is None:
            taken[need] = None
        else:
            pending += reversed(steps.reads(op))
    return list(taken)


class Steps(Struct, frozen=True, dict=True):
    """The forward operations that the backward repeats, and what they read."""

    contents: Contents
    choice: Choice

    @cached_property
    def again(self) -> frozenset[PirOp]:
        """The operations that the backward repeats."""
        return frozenset(self.choice.again)

    def producer(self, need: Need) -> PirOp | None:
        """The operation to repeat for a version; None if the version is an argument."""
        op = need.value.owner
        if not isinstance(op, PirOp) or (op.name != LIST and need in self.choice.saved):
            return None
        return op if op in self.again or op.name == LIST else None

    def reads(self, op: PirOp) -> list[Need]:
        """The versions that a repeated operation reads, as data or shape."""
        found = (read_by(self.contents, user, index) for user, index in reads(op))
        return list(dict.fromkeys(found))


def wanted_early(joint: Joint, choice: Choice, labels: Labels) -> frozenset[PirOp]:
    """The operations of the forward program.

    Floating ones (`Joint.floating`) are among them only if their results are saved.
    """
    pending = [need.value.owner for need in (*choice.saved, *labels.middles)]
    found: set[PirOp] = {op for op in joint.forward if op not in joint.floating}
    while pending:
        op = pending.pop()
        if isinstance(op, PirOp) and op not in found:
            found.add(op)
            pending += [inner.operands[index].owner for inner, index in captured(op)]
    return frozenset(found)


def forward_half(
    joint: Joint, contents: Contents, labels: Labels, wanted: frozenset[PirOp]
) -> ProgramOp:
    """Build the forward program: its operations, copies of overwritten versions, its outputs."""
    source = joint.program
    seeds = set(joint.seeds.values())
    remaining = [i for i, a in enumerate(source.block.args) if a not in seeds]
    program = ProgramOp.build(
        FORWARD,
        [source.block.args[i].type for i in remaining],
        [source.arg_attrs[i].data for i in remaining],
    )
    block = program.block
    values: dict[SSAValue, SSAValue] = {}
    for i, argument in zip(remaining, block.args, strict=True):
        values[source.block.args[i]] = argument
        argument.name_hint = source.block.args[i].name_hint
    copies: dict[PirOp, list[Need]] = {}
    for need in labels.middles:
        if need.stale:
            copies.setdefault(cast(PirOp, contents.overwriter(need)), []).append(need)
    copied: dict[Need, SSAValue] = {}
    for op in joint.forward:
        for need in copies.get(op, ()):
            value = values[need.value]
            copy = create("pd_op.assign", [value], [value.type], location=op.location)
            block.add_op(copy)
            copied[need] = copy.results[0]
        if op in wanted:
            block.add_op(op.clone(values))
    for need, names in labels.middles.items():
        held = copied[need] if need.stale else values[need.value]
        for name, value in zip(names, _elements(block, held), strict=True):
            if name not in labels.sources:
                _name(block, value, name)
    for name, value in labels.outputs.items():
        _name(block, values[value], name)
    return program


def backward_half(
    joint: Joint, contents: Contents, demand: Demand, choice: Choice, labels: Labels
) -> ProgramOp:
    """Build the backward program: its arguments, the operations, each repeated forward operation
    before its first use, and the gradients."""
    arguments = labels.arguments()
    program = ProgramOp.build(
        BACKWARD, list(arguments.values()), [{KEYWORD: mlir.StringAttr(n)} for n in arguments]
    )
    for name, argument in zip(arguments, program.block.args, strict=True):
        argument.name_hint = _hint(name)
    given = dict(zip(arguments, program.block.args, strict=True))
    half = _Backward(program.block, Steps(contents, choice), demand, {**labels.taken}, given)
    half.values.update({value: given[name] for name, value in labels.seeds.items()})
    for op in joint.backward:
        half.add(op)
    for name, value in labels.gradients.items():
        _name(program.block, half.gradient(value), name)
    return program


class _Backward(Struct):
    """The backward program under construction."""

    block: Block
    steps: Steps
    demand: Demand
    taken: Mapping[Need, tuple[str, ...]]
    given: Mapping[str, BlockArgument]
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Backward value of the joint program -> its value in the new program."""
    held: dict[Need, SSAValue] = field(default_factory=dict[Need, SSAValue])
    """Version of a forward value -> its value in the new program."""

    def add(self, op: PirOp) -> None:
        """Append a backward operation, after the values that it reads are available."""
        wanted = {
            (inner, index): self.demand.uses[inner, index]
            for inner in with_inner(op)
            for index in range(len(inner.operands))
            if (inner, index) in self.demand.uses
        }
        for need in wanted.values():
            self.bring(need)
        self.insert(op, wanted, self.values)

    def gradient(self, value: SSAValue | Need) -> SSAValue:
        """The value of a gradient, which may be a forward value."""
        if isinstance(value, Need):
            self.bring(value)
            return self.held[value]
        return self.values[value]

    def bring(self, need: Need) -> None:
        """Make a version available: as an argument, or by repeating its operation."""
        pending = [need]
        while pending:
            need = pending[-1]
            op = self.steps.producer(need)
            if need in self.held:
                pending.pop()
            elif op is None:
                self.held[need] = self.argument(need)
                pending.pop()
            elif missing := [n for n in self.steps.reads(op) if n not in self.held]:
                pending += missing
            else:
                wanted = {
                    (user, index): read_by(self.steps.contents, user, index)
                    for user, index in reads(op)
                }
                idle = list(placeholders(op, Builder(self.block, location=op.location)))
                made = self.insert(op, wanted, {})
                for index, value in idle:
                    made.operands[index] = value
                for result, fresh in zip(op.results, made.results, strict=True):
                    if gives(op, result):
                        self.held.setdefault(self.steps.contents.made(result), fresh)
                    if result is need.value:  # if the versions differ, only the shape is read
                        self.held.setdefault(need, fresh)
                pending.pop()

    def argument(self, need: Need) -> SSAValue:
        """The argument that holds a version; the elements of a list are combined."""
        parts = [self.given[name] for name in self.taken[need]]
        if not isinstance(need.value.type, VecType):
            return parts[0]
        combine = create(LIST, parts, [need.value.type])
        self.block.add_op(combine)
        return combine.results[0]

    def insert(
        self, op: PirOp, reads: Mapping[Place, Need], values: dict[SSAValue, SSAValue]
    ) -> PirOp:
        """Append a copy of an operation whose operands are mapped to the new program."""
        copy = op.clone(values)
        pairs = zip(with_inner(op), with_inner(copy), strict=True)
        for old, new in pairs:
            for index in range(len(old.operands)):
                need = reads.get((old, index))
                if need is not None:
                    new.operands[index] = self.held[need]
        self.block.add_op(copy)
        return copy


def _elements(block: Block, value: SSAValue) -> Sequence[SSAValue]:
    """A tensor as a sequence of one, or the elements of a list."""
    if not isinstance(value.type, VecType):
        return [value]
    split = create("pir.split", [value], list(value.type.items))
    block.add_op(split)
    return split.results


def _name(block: Block, value: SSAValue, name: str) -> None:
    properties: dict[str, Attribute] = {"output_name": mlir.StringAttr(name)}
    owner = value.owner
    location = owner.location if isinstance(owner, PirOp) else None
    block.add_op(create("pir.shadow_output", [value], [], properties, location=location))


def _hint(name: str) -> str | None:
    """A name hint for an argument, if the name is legal in the text form."""
    return name if SSAValue.is_valid_name(name) else None
