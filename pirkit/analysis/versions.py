"""Versions: which content of its storage a value has, at each point of a program.

A storage is an alias class. Its content has version 0 at first and a new version after each write.
If branches leave different contents, the storage gets a new version after them, and a loop that
writes it gives it a new version at its head and after it. Two reads of equal versions read equal
content, except inside a loop that writes the storage: there the version at the head stands for the
content in every iteration.

Time is linear in the size of the program, times the depth of its regions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, cast

from msgspec import Struct, field
from xdsl.ir import Block, Operation, SSAValue

from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.execution_order import operations
from pirkit.dialect.kinds import LOOP
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, declares

Content: TypeAlias = tuple[int, int]
"""An alias class and a version number."""


class Link(Struct, frozen=True):
    """A value of a chain, with the version of its storage at its definition."""

    value: SSAValue
    version: int


class Versions(Struct, frozen=True):
    """The versions in one program; valid as long as the program is not changed."""

    classes: AliasClasses
    made: dict[SSAValue, tuple[Content, ...]]
    """The version of each value at its definition, one for each element of a list; in order of
    definition."""
    reads: dict[tuple[Operation, int], tuple[Content, ...]]
    """Operation and operand index -> the version that the operand reads."""
    makers: dict[Content, Operation]
    """Version -> the op that creates it: a write, or a branch or loop; version 0 has none."""
    last: dict[int, int]
    """Written class -> its version at the end of the program."""

    def read(self, op: Operation, index: int) -> tuple[Content, ...]:
        """The versions that an operand reads, one for each element of a list."""
        return self.reads[op, index]

    def is_last(self, content: Content) -> bool:
        """True if this is the version of its storage at the end of the program."""
        element, version = content
        return self.last.get(element, 0) == version

    def overwriter(self, content: Content) -> Operation | None:
        """The operation that creates the version of the next number; None if there is none.

        For a version that a branch or loop leaves, that is the branch or loop.
        """
        element, version = content
        return self.makers.get((element, version + 1))


def versions_of(program: ProgramOp) -> Versions:
    """Compute the versions in one traversal."""
    walk = _Walk(alias_classes(program))
    for argument in program.block.args:
        walk.define(argument)
    walk.block(program.block)
    return Versions(walk.classes, walk.made, walk.reads, walk.makers, walk.now)


def chains(versions: Versions) -> dict[int, list[Link]]:
    """The values of each class in order of definition, the source first."""
    found: dict[int, list[Link]] = {}
    for value, contents in versions.made.items():
        for element, version in contents:
            found.setdefault(element, []).append(Link(value, version))
    return found


class _Walk(Struct):
    classes: AliasClasses
    now: dict[int, int] = field(default_factory=dict[int, int])
    newest: dict[int, int] = field(default_factory=dict[int, int])
    made: dict[SSAValue, tuple[Content, ...]] = field(
        default_factory=dict[SSAValue, tuple[Content, ...]]
    )
    reads: dict[tuple[Operation, int], tuple[Content, ...]] = field(
        default_factory=dict[tuple[Operation, int], tuple[Content, ...]]
    )
    makers: dict[Content, Operation] = field(default_factory=dict[Content, Operation])

    def contents(self, value: SSAValue) -> tuple[Content, ...]:
        return tuple([(e, self.now.get(e, 0)) for e in self.classes.of(value)])

    def define(self, value: SSAValue) -> None:
        self.made[value] = self.contents(value)

    def bump(self, element: int, op: Operation) -> None:
        number = self.newest.get(element, 0) + 1
        self.newest[element] = self.now[element] = number
        self.makers[element, number] = op

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(cast(PirOp, op))

    def op(self, op: PirOp) -> None:
        for index, value in enumerate(op.operands):
            self.reads[op, index] = self.contents(value)
        if declares(op, LOOP):
            self.loop(op)
        elif bodies(op):
            self.branches(op)
        elif op.definition.writes:
            for element in sorted(set(written_classes(op, self.classes))):
                self.bump(element, op)
        for result in op.results:
            self.define(result)

    def branches(self, op: PirOp) -> None:
        before, ends = dict(self.now), list[dict[int, int]]()
        for region in bodies(op):
            self.now = dict(before)
            self.block(region.block)
            ends.append(self.now)
        self.now = dict(before)
        for element in sorted({e for end in ends for e in end}):
            numbers = {end.get(element, 0) for end in ends}
            if numbers != {before.get(element, 0)}:
                self.bump(element, op)

    def loop(self, op: PirOp) -> None:
        body = op.regions[0].block
        # The head gets a new version because it is reached from before the loop and from the
        # previous iteration; so does the end, which is reached with or without an iteration.
        inner = (o for o in operations(body) if o.definition.writes)
        changed = sorted({e for o in inner for e in written_classes(o, self.classes)})
        for element in changed:
            self.bump(element, op)
        for argument in body.args:
            self.define(argument)
        self.block(body)
        for element in changed:
            self.bump(element, op)


def written_classes(op: PirOp, classes: AliasClasses) -> Iterator[int]:
    """The alias classes whose storage the op itself writes."""
    if op.definition.writes:
        for name in op.definition.inplace.values():
            target = op.operand_named(name)
            if target is not None:
                yield from classes.of(target)
