"""Recognizes what the regions of reductions, scatters and sorts compute, by their form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pirkit.stablehlo.nodes import Block, Node
from pirkit.stablehlo.ops.elementwise import BINARY

_ORDERED: Final = ("stablehlo.subtract", "stablehlo.atan2")
"""Binary operations whose operands cannot be exchanged."""


def combiner_of(block: Block) -> str | None:
    """The binary operation of a region of two arguments, without its dialect.

    ``second`` is a region that returns its second argument; None is any other region.
    """
    *nodes, last = block.nodes
    if len(block.names) != 2 or len(last.operands) != 1:
        return None
    if not nodes:
        return "second" if last.operands[0] == block.names[1] else None
    name = nodes[0].name
    is_symmetric = name in BINARY and name not in _ORDERED
    if len(nodes) == 1 and nodes[0].results == last.operands and is_symmetric:
        both = sorted(nodes[0].operands) == sorted(block.names)
        return name.removeprefix("stablehlo.") if both else None
    return None


def form_of(block: Block) -> str:
    """A region as text that does not depend on names: arguments a0..., results v0..."""
    numbers = {name: f"a{i}" for i, name in enumerate(block.names)}
    lines: list[str] = []
    for node in block.nodes:
        for i, name in enumerate(node.results):
            numbers[name] = f"v{len(lines)}" + ("" if len(node.results) == 1 else f"#{i}")
        lines.append(_line(node, [numbers.get(o, "?") for o in node.operands]))
    return "; ".join(lines)


def _line(node: Node, operands: Sequence[str]) -> str:
    name = node.name.rpartition(".")[2]
    name = str(node.attributes.get("comparison_direction", name))
    return f"{name} {' '.join(operands)}".strip()
