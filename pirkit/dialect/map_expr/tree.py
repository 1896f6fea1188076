"""What an element of a result is: a tree of scalar ops over elements of operands.

A rule of :data:`pirkit.dialect.opdef.index_maps` gives such a tree for each result of an op, over
the canonical iterators ``i0, i1...`` of the result. Trees of one op have loads of its operands, by
position; those of a kernel have loads of its inputs and of values that it has stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pirkit.index.expr import Expr
from pirkit.index.index_maps import Guard, Index
from pirkit.runtime.dtype import DType


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """The element of tensor ``source`` at ``index``."""

    source: int
    index: Index


@dataclass(frozen=True, slots=True, eq=False)
class Fill:
    """A number."""

    value: Any
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """The value of an index expression, as a number."""

    index: Expr
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Choose:
    """``yes`` where every guard holds, else ``no``; the other one is not looked at."""

    guards: tuple[Guard, ...]
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """An op of the table on scalars, with the attributes of the op; gives ``dtype``."""

    op: str
    args: tuple[Node, ...]
    dtype: DType
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])


Node = Load | Fill | Position | Choose | Apply


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """``op`` over an inner space: ``body`` ranges over ``i0...`` and, ``extents`` wide, ``r0...``.

    ``op`` says how elements are reduced and what the result of none is: it is applied to the
    trailing axes. ``attrs`` are its attributes, axes left out.
    """

    op: str
    body: Node
    extents: tuple[int, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """A result that begins as ``start``, over ``i0...``, into which elements are written where the
    data say: for each point of ``r0...``, ``extents`` wide, ``body`` at ``index``, one after the
    other.

    ``how`` is what `put_along_axis` calls it: assign, add, mul, amin or amax.
    """

    how: str
    start: Node
    body: Node
    index: Index
    extents: tuple[int, ...]

    op: ClassVar[str] = "pd_op.put_along_axis"

    @property
    def attrs(self) -> Mapping[str, Any]:
        return {"reduce": self.how}


Value = Node | Reduction | Scatter


def roots(value: Value) -> tuple[Node, ...]:
    """The trees of a value."""
    match value:
        case Reduction():
            return (value.body,)
        case Scatter():
            return value.start, value.body
        case _:
            return (value,)


@dataclass(frozen=True, slots=True)
class Opaque:
    """An op that index maps do not describe, and why; ``kind`` is that of the refusal."""

    reason: str
    kind: str = "opaque"


def walk(root: Node) -> Iterator[Node]:
    """Every node of a tree once, operands before what is made of them."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            yield node
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(children(node)))


def children(node: Node) -> tuple[Node, ...]:
    """The nodes that a node is made of."""
    if isinstance(node, Apply):
        return node.args
    return (node.yes, node.no) if isinstance(node, Choose) else ()
