"""Iteration spaces of ops that a library runs; they are not fused, but their equations are known.

Refusals print them.
"""

from __future__ import annotations

from typing import Final

from pirkit.dialect.map_expr.call import MapCall, Metas, call_of
from pirkit.dialect.map_expr.tree import (
    Apply,
    Choose,
    Fill,
    Load,
    Node,
    Opaque,
    Position,
    Reduction,
)
from pirkit.dialect.opdef import RuleTable
from pirkit.dialect.operation import PirOp
from pirkit.index.extent import Undecided

library_spaces: Final = RuleTable("library_spaces", "pirkit.dialect.rules.index_maps")
"""``rule(call) -> Reduction``: the iteration space of an op that a library runs, and the elements
that it reads at each iteration. Takes a :class:`pirkit.dialect.map_expr.call.MapCall`; may raise
Undecided.
"""


def library_space_text(op: PirOp, metas: Metas) -> str:
    """The iteration space of an op that a library runs, as text; empty for other ops."""
    rule = library_spaces.get(op.definition)
    call = None if rule is None else call_of(op, metas, metas)
    if rule is None or call is None or isinstance(call, Opaque) or not call.is_known:
        return ""
    try:
        return _shown(call, rule(call))
    except Undecided:
        return ""


def _shown(call: MapCall, value: Reduction) -> str:
    inner = ", ".join(f"r{k} < {n!r}" for k, n in enumerate(value.extents))
    names = [n for n in call.names for _ in range(call.count(n))]
    return f"{list(call.here())} is the sum of {_node(value.body, names)} over {inner}"


def _node(node: Node, names: list[str]) -> str:
    match node:
        case Load():
            return f"{names[node.source]}{list(node.index)}"
        case Apply():
            return " * ".join(_node(a, names) for a in node.args)
        case Choose():
            guards = " and ".join(map(repr, node.guards))
            return f"({_node(node.yes, names)} where {guards})"
        case Fill():
            return repr(node.value)
        case Position():
            return repr(node.index)
