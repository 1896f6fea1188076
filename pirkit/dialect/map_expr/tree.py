"""Expression trees: an element of a result as scalar ops on elements of operands.

A rule of :data:`pirkit.dialect.opdef.index_maps` returns such a tree for each result of an op, over
the canonical iterators ``i0, i1...`` of the result. In the tree of an op, loads refer to its
operands by position; in a kernel, to the kernel's inputs and materialized values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.index.expr import Expr
from pirkit.index.index_maps import Guard, Index
from pirkit.runtime.dtype import DType


class Load(Struct, frozen=True, eq=False):
    """The element of tensor ``source`` at ``index``."""

    source: int
    index: Index


class Fill(Struct, frozen=True, eq=False):
    """A number."""

    value: Any
    dtype: DType


class Position(Struct, frozen=True, eq=False):
    """The value of an index expression, as an element of type ``dtype`` (as in `arange`)."""

    index: Expr
    dtype: DType


class Choose(Struct, frozen=True, eq=False):
    """``yes`` where every guard holds, else ``no``; the other side is not evaluated."""

    guards: tuple[Guard, ...]
    yes: Node
    no: Node
    location: Any = None
    """Where the op was written that it comes from; opaque here, and no part of the meaning."""


class Apply(Struct, frozen=True, eq=False):
    """A scalar op of the op table with its attributes; the result type is ``dtype``."""

    op: str
    args: tuple[Node, ...]
    dtype: DType
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    location: Any = None
    """As that of `Choose`."""


Node = Load | Fill | Position | Choose | Apply


def element_type(node: Node, source: Callable[[int], DType | None]) -> DType | None:
    """The element type of a tree's result; ``source`` returns that of a tensor by its number."""
    while isinstance(node, Choose):
        node = node.yes
    return source(node.source) if isinstance(node, Load) else node.dtype


class Reduction(Struct, frozen=True, eq=False):
    """A reduction by ``op`` over ``r0...`` (of these ``extents``); ``body`` uses ``i0...`` too.

    ``op`` defines the combiner and its neutral element: it is applied to the trailing axes.
    ``attrs`` are its attributes, without axes.
    """

    op: str
    body: Node
    extents: tuple[int, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Scatter(Struct, frozen=True, eq=False):
    """A scatter into ``start`` (over ``i0...``): for each point of ``r0...``, in order, ``body`` is
    combined into the element at the data-dependent ``index``.

    ``how`` is the combiner, as in `put_along_axis`: assign, add, mul, amin or amax.
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
    """The expression trees of a value."""
    match value:
        case Reduction():
            return (value.body,)
        case Scatter():
            return value.start, value.body
        case _:
            return (value,)


class Opaque(Struct, frozen=True):
    """The reason why an op has no index maps; ``kind`` is the kind of the refusal."""

    reason: str
    kind: str = "opaque"


def walk(root: Node) -> Iterator[Node]:
    """Every node of a tree once, in post-order."""
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


def rebuilt(root: Node, change: Callable[[Node], Node]) -> Node:
    """A tree whose nodes are changed one by one, each after its operands."""
    made: dict[int, Node] = {}
    for node in walk(root):
        done = node
        if isinstance(node, Choose):
            done = replace(node, yes=made[id(node.yes)], no=made[id(node.no)])
        elif isinstance(node, Apply):
            done = replace(node, args=tuple([made[id(a)] for a in node.args]))
        made[id(node)] = change(done)
    return made[id(root)]


def children(node: Node) -> tuple[Node, ...]:
    """The operands of a node."""
    if isinstance(node, Apply):
        return node.args
    return (node.yes, node.no) if isinstance(node, Choose) else ()
