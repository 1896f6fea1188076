"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation

from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.effects import is_named, is_pure, is_stand_in
from pirkit.analysis.execution_order import Order, order_of
from pirkit.dialect.attrs import ComplexAttr
from pirkit.dialect.operation import PirOp, ProgramOp, bodies
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.merge_renamings import are_apart
from pirkit.passes.replace_ops import replace

PROVENANCE = frozenset(
    {
        "struct_name", "comp_op_name", "op_namescope", "op_callstack", "op_role", "op_name",
        "sym_shape_str", "origin_id", "op_id", "comp_rule", "comp_order",
    }
)  # fmt: skip
"""Attributes that record where an operation comes from; equal operations may differ in them."""


class CsePass(Pass):
    """Merge operations that compute the same value.

    Two pure operations are merged if they have the same operands, attributes and types, and the
    first is in the same block or an enclosing one. They are not merged if storage of an operand may
    be written between them, if storage of a result is written at all (each needs its own), if
    both results have external names, if they stand for cotangents in a rule of the user, or if a
    derivative is recorded by one of them of what depends on the other.

    ::

        %1 = pd_op.exp(%0) : (tensor<2xf32>) -> tensor<2xf32>
        %2 = pd_op.exp(%0) : (tensor<2xf32>) -> tensor<2xf32>         // merged into %1
        %3 = pd_op.add(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    """

    name = "cse"
    reports_rewrites = True
    stats = Stats(merged="operations merged into an equal one")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            _Merge(ctx, program).run()


class _Merge:
    """One traversal of a program with the operations that are available at each point."""

    def __init__(self, ctx: PassContext, program: ProgramOp) -> None:
        self.ctx = ctx
        self.program = program
        self.order: Order = order_of(program)
        self.classes: AliasClasses = ctx.analysis(alias_classes, program)
        self.known: dict[Hashable, PirOp] = {}
        self.numbers: dict[Hashable, int] = {}
        """Equal attributes have one number."""
        self.number_of: dict[int, tuple[Attribute, int]] = {}
        """By id, which costs less than the hash of an attribute; an attribute lives while its id is
        a key."""
        self.writes: dict[int, list[int]] = {
            element: [self.order.positions[op] for op in ops]
            for element, ops in self.classes.writers.items()
        }

    def run(self) -> None:
        stack: list[tuple[Operation | None, dict[Hashable, PirOp | None]]] = []
        self.enter(stack, self.program.block)
        while stack:
            op, hidden = stack.pop()
            if op is None:
                self.leave(hidden)
                continue
            stack.append((op.next_op, hidden))
            for region in reversed(bodies(op)):
                self.enter(stack, region.block)
            if isinstance(op, PirOp) and is_pure(op):
                self.ctx.current = op
                self.visit(op, hidden)

    def enter(
        self, stack: list[tuple[Operation | None, dict[Hashable, PirOp | None]]], block: Block
    ) -> None:
        stack.append((block.first_op, {}))

    def leave(self, hidden: dict[Hashable, PirOp | None]) -> None:
        """Remove the operations that a block has made available: later ones may not use them."""
        for key, previous in hidden.items():
            if previous is None:
                del self.known[key]
            else:
                self.known[key] = previous

    def visit(self, op: PirOp, hidden: dict[Hashable, PirOp | None]) -> None:
        if any(self.classes.is_written(r) or is_stand_in(r) for r in op.results):
            return
        key = self.key(op)
        first = self.known.get(key)
        if first is not None and self.is_equal_later(first, op) and _may_be_one(first, op):
            self.ctx.rewrote("merge", op)
            self.ctx.count("merged")
            replace(op, first.results)
            return
        hidden.setdefault(key, first)
        self.known[key] = op

    def key(self, op: PirOp) -> Hashable:
        """The key of an operation; equal operations have equal keys."""
        number = self.number
        return (
            op.name,
            tuple(op.operands),
            frozenset([(k, number(v)) for k, v in op.call_properties.items()]),
            frozenset([(k, number(v)) for k, v in op.attributes.items() if k not in PROVENANCE]),
            tuple([number(r.type) for r in op.results]),
        )

    def number(self, attribute: Attribute) -> int:
        held = self.number_of.get(id(attribute))
        if held is None:
            number = self.numbers.setdefault(_exact(attribute), len(self.numbers))
            held = self.number_of[id(attribute)] = attribute, number
        return held[1]

    def is_equal_later(self, first: PirOp, op: PirOp) -> bool:
        """True if no operand can have changed since the first operation ran."""
        return not any(
            self.order.may_come_between(first, self.writes[element], op)
            for operand in op.operands
            for element in self.classes.of(operand)
            if element in self.writes
        )


def _exact(attribute: Attribute) -> Hashable:
    """A key by bits: complex attributes that differ in the sign of a zero compare equal."""
    return str(attribute) if isinstance(attribute, ComplexAttr) else attribute


def _may_be_one(first: PirOp, second: PirOp) -> bool:
    return all(
        not (is_named(a) and is_named(b)) and are_apart(a, b)
        for a, b in zip(first.results, second.results, strict=True)
    )
