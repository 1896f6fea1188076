"""Shared parts of loop rewrites: finding loops, and replacing them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.loop_ir import (
    NESTED,
    Block,
    Bound,
    Loop,
    LoopKind,
    Nest,
    Node,
    is_multiple,
    most,
    rounded,
)
from pirkit.lowering.codegen.ir.loop_tree import changed, walk
from pirkit.lowering.codegen.ir.loopnest import Load, Statement, Store

Nodes = tuple[Node, ...]


def change_loops(
    nest: Nest, var: str, change: Callable[[Loop], Nodes | None], kind: LoopKind | None = None
) -> Nest:  # fmt: skip
    """The nest with the loops of a variable (of one kind, if given) replaced by other nodes."""

    def one(node: Node) -> Nodes | None:
        is_it = isinstance(node, Loop) and node.var == var and kind in (None, node.kind)
        return change(cast(Loop, node)) if is_it else None

    return replace(nest, body=changed(nest.body, one))


def loops_of_var(nest: Nest, var: str) -> list[Loop]:
    """The loops with a variable: several once `vectorize` or `distribute` has copied it."""
    return [n for n in walk(nest.body) if isinstance(n, Loop) and n.var == var]


def loops_around(nodes: Sequence[Node], var: str, outside: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The variables of the loops around the loop of a variable."""
    for node in nodes:
        if isinstance(node, Loop) and node.var == var:
            return outside
        if isinstance(node, NESTED):
            here = (*outside, node.var) if isinstance(node, Loop) else outside
            if any(isinstance(n, Loop) and n.var == var for n in walk(node.body)):
                return loops_around(node.body, var, here)
    return outside


def with_loop(nest: Nest, var: str, nodes: Nodes) -> Nest:
    """The nest with other nodes for the loop of a variable."""
    found = changed(nest.body, lambda n: nodes if isinstance(n, Loop) and n.var == var else None)
    return replace(nest, body=found)


def is_plain(node: Node, var: str) -> bool:
    """Whether a node is the loop of a variable as `loops_of` wrote it: one iteration at a time."""
    return isinstance(node, Loop) and node.var == var and node.kind == "serial" and node.step == 1


def end_of_whole(loop: Loop, step: int) -> Bound:
    """Where the last whole ``step`` iterations of a loop end. One that begins at 0 may end at a
    bound that only the block knows."""
    if loop.start == 0:
        return rounded(loop.stop, step)
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    return loop.start + (loop.stop - loop.start) // step * step


def is_whole(loop: Loop, step: int) -> bool:
    """Whether a loop consists of whole ``step`` iterations."""
    return (
        is_multiple(loop.stop, step) if loop.start == 0 else end_of_whole(loop, step) == loop.stop
    )


def has_whole(loop: Loop, step: int) -> bool:
    """Whether a loop may have ``step`` iterations."""
    assert isinstance(loop.start, int)
    return most(loop.stop) - loop.start >= step


def is_unrolled(loop: Loop) -> bool:
    """Whether the copies of a body are written out."""
    return loop.kind in ("unroll", "interleave")


def lane_var(var: str) -> str:
    """The variable of the lanes of a vectorized loop."""
    return f"{var}v"


def padded(bound: Bound, lanes: int) -> int:
    """Iterations in whole vectors: one that is partial must not overwrite what lies after it."""
    return -(-most(bound) // lanes) * lanes


def with_buffer_read(old: int, new: int, node: Node) -> Nodes | None:
    """A block with accesses to another buffer."""
    if not isinstance(node, Block):
        return None
    return (Block(tuple([_moved(s, old, new) for s in node.statements])),)


def _moved(s: Statement, old: int, new: int) -> Statement:
    return replace(s, operand=new) if isinstance(s, (Load, Store)) and s.operand == old else s
