"""Under which conditions the nodes of a tree are evaluated: a choice evaluates one side only.

Assertions on data (indices in bounds, integer divisors not 0) must hold exactly where the node is
evaluated.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

from pirkit.dialect.map_expr.tree import Apply, Choose, Load, Node, Position, children, walk

DIVIDES: Final = frozenset({"pd_op.floor_divide", "pd_op.remainder"})
"""Ops whose second operand, if it is an integer, must not be 0."""

C = TypeVar("C")


class Conditions(Protocol[C]):
    """An algebra of conditions: arrays in the interpreter, predicates in generated code."""

    def holds(self, choice: Choose, needed: C | None) -> C:
        """The condition that all guards of a choice hold, which is evaluated where ``needed``."""
        ...

    def both(self, first: C | None, second: C) -> C: ...
    def either(self, first: C, second: C) -> C: ...
    def negated(self, condition: C) -> C: ...


def divides(node: Node) -> bool:
    """Whether a node is an integer division."""
    return isinstance(node, Apply) and node.op in DIVIDES and not node.dtype.is_float


def needs(root: Node, conditions: Conditions[C]) -> dict[int, C | None]:
    """The condition under which each node is evaluated; None means always.

    Only nodes that have an assertion, or contain a node that has one, are included.
    """
    order = list(walk(root))
    conditional = set[int]()
    for node in order:
        if _is_conditional(node) or any(id(child) in conditional for child in children(node)):
            conditional.add(id(node))
    found: dict[int, C | None] = {id(root): None}

    def enter(node: Node, needed: C | None) -> None:
        if id(node) not in conditional:
            return
        if id(node) not in found:
            found[id(node)] = needed
            return
        before = found[id(node)]
        if before is not None:
            found[id(node)] = None if needed is None else conditions.either(before, needed)

    for node in reversed(order):
        if id(node) not in conditional:
            continue
        needed = found[id(node)]
        if not isinstance(node, Choose):
            for child in children(node):
                enter(child, needed)
            continue
        if conditional.isdisjoint((id(node.yes), id(node.no))):
            continue
        holds = conditions.holds(node, needed)
        enter(node.yes, conditions.both(needed, holds))
        enter(node.no, conditions.both(needed, conditions.negated(holds)))
    return found


def _is_conditional(node: Node) -> bool:
    match node:
        case Load():
            return any(e.has_reads for e in node.index)
        case Position():
            return node.index.has_reads
        case Choose():
            return any(g.value.has_reads for g in node.guards)
        case _:
            return divides(node)
