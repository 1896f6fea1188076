"""Walks over the trees of the loop IR: what they have, and trees with other nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.loop_ir import (
    NESTED,
    Block,
    Bound,
    CallRows,
    Invoke,
    Loop,
    Nest,
    Node,
    NonTemporal,
    Pack,
    Path,
    Prefetch,
    PrefetchTile,
    Reducing,
    most,
    require,
)
from pirkit.lowering.codegen.ir.loopnest import Effect, Load, Statement

_ACCESSES: Final = (Load, *Effect)


def walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """All nodes of a tree in pre-order."""
    # An explicit stack: compilation spends its time in such loops.
    left = list(reversed(nodes))
    while left:
        node = left.pop()
        yield node
        if isinstance(node, NESTED):
            left.extend(reversed(node.body))


def statements(nodes: Sequence[Node]) -> Iterator[Statement]:
    """All statements of a tree in order."""
    for node in walk(nodes):
        if isinstance(node, Block):
            yield from node.statements


def buffers_of(nodes: Sequence[Node]) -> set[int]:
    """The buffers that a tree uses."""
    found = set[int]()
    for node in walk(nodes):
        if isinstance(node, Block):
            found.update([s.operand for s in node.statements if isinstance(s, _ACCESSES)])
        elif isinstance(node, (Prefetch, PrefetchTile)):
            found.add(node.buffer)
        elif isinstance(node, (Invoke, CallRows)):
            found.update(node.buffers)
        elif isinstance(node, Pack):
            found |= {node.source, node.dest}
    return found


def changed(
    nodes: tuple[Node, ...], change: Callable[[Node], Sequence[Node] | None]
) -> tuple[Node, ...]:  # fmt: skip
    """The tree with nodes replaced where ``change`` gives others; inner nodes are changed first.

    What does not change is shared with the tree before.
    """
    found: list[Node] = []
    for node in nodes:
        after = node
        if isinstance(node, NESTED):
            body = changed(node.body, change)
            after = node if body is node.body else replace(node, body=body)
        new = change(after)
        found += [after] if new is None else new
    is_same = len(found) == len(nodes) and all(map(operator.is_, found, nodes))
    return nodes if is_same else tuple(found)


def copies_of(nodes: Sequence[Node], path: Path = ()) -> list[Path]:
    """The copies that have accumulators of their own; none if there is only one."""
    found: dict[Path, None] = {}
    for node in nodes:
        if isinstance(node, Loop) and node.copies == "own":
            for place in range(most(node.start), most(node.stop), node.step):
                here = (*path, (node.axes[0], place))
                found |= dict.fromkeys(copies_of(node.body, here) or [here])
        elif isinstance(node, (Loop, NonTemporal, Reducing)):
            found |= dict.fromkeys(copies_of(node.body, path))
    return list(found)


def rows_of(nest: Nest, first: Bound, end: Bound) -> Nest:
    """Some iterations of the parallel loops of a nest, which are all outer axes, in one loop."""
    body = nest.body
    for axis in range(nest.rank):
        (loop,) = body
        require(
            isinstance(loop, Loop) and (loop.kind, loop.axes) == ("parallel", (axis,)),
            "rows of a nest", "each of its outer axes has to be a parallel loop",
        )  # fmt: skip
        assert isinstance(loop, Loop)
        body = loop.body
    axes = tuple(range(nest.rank))
    return replace(nest, body=(Loop("row", axes, first, end, 1, body),))
