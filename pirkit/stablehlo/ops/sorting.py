"""Sorts, whose region compares two elements, and the largest elements (`top_k`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from numpy.lib.array_utils import normalize_axis_index

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.nodes import Block, Node, Tensor
from pirkit.stablehlo.ops.regions import form_of
from pirkit.stablehlo.rules import rule

_ORDERS: Final = {"LT": False, "GT": True}


class Key(NamedTuple):
    """A sort key: a part of the region that computes it from an element of one operand."""

    operand: int
    nodes: Block
    """The nodes that compute the key of an element."""
    type: Tensor
    descending: bool


def keys_of(block: Block) -> list[Key] | None:
    """The keys of a comparison, the most significant first; None for another form.

    A comparison is `k(x) < k(y)`, or that or `k(x) == k(y)` and a comparison by further keys.
    """
    made = {name: node for node in block.nodes for name in node.results}
    found: list[Key] = []
    name = block.nodes[-1].operands[0]
    while (node := made.get(name)) is not None:
        if node.name == "stablehlo.or":
            first, rest = (made.get(o) for o in node.operands)
            if first is None or rest is None or rest.name != "stablehlo.and":
                return None
            same, name = made.get(rest.operands[0]), rest.operands[1]
            tied = same is not None and same.attributes.get("comparison_direction") == "EQ"
            if same is None or not tied or same.operands != first.operands:
                return None
            node, is_last = first, False
        else:
            is_last = True
        key = _key(block, made, node)
        if key is None:
            return None
        found.append(key)
        if is_last:
            return found
    return None


def _key(block: Block, made: Mapping[str, Node], node: Node) -> Key | None:
    order = _ORDERS.get(node.attributes.get("comparison_direction", ""))
    if order is None:
        return None
    (left, one), (right, other) = (_part(block, made, name) for name in node.operands)
    if len(one) != 1 or len(other) != 1 or one[0] % 2 or other[0] != one[0] + 1:
        return None
    if form_of(left) != form_of(right):
        return None
    (last,) = left.nodes[-1].operands
    type_ = made[last].types[0] if last in made else block.types[one[0]]
    return Key(one[0] // 2, left, type_, order)


def _part(block: Block, made: Mapping[str, Node], name: str) -> tuple[Block, list[int]]:
    """The nodes on which a value depends, as a block; positions of the arguments that it reads."""
    needed: set[str] = set()
    stack = [name]
    while stack:
        at = stack.pop()
        if at not in needed:
            needed.add(at)
            stack += made[at].operands if at in made else []
    used = [i for i, argument in enumerate(block.names) if argument in needed]
    nodes = [n for n in block.nodes if needed.intersection(n.results)]
    end = Node("stablehlo.return", block.nodes[-1].line, operands=[name])
    return Block(
        [block.names[i] for i in used], [block.types[i] for i in used], [], [*nodes, end]
    ), used


@rule("sort")
def _(
    b: HloBuilder, *values: Value, dimension: int = -1, is_stable: bool = False
) -> tuple[Value, ...]:
    """Stable sorts, by the least significant key first.

    NaN comes after the numbers, and before them in descending order; both zeros are equal.
    """
    axis = normalize_axis_index(dimension, values[0].rank)
    keys = keys_of(b.node.regions[0])
    if keys is None:
        raise b.unsupported("compares elements by a function without a form that is known")
    if not values[0].meta.numel:
        return values
    order: Value | None = None
    for key in reversed(keys):
        (found,) = b.elementwise(key.nodes, [values[key.operand]])
        held = b.ordered(found, key.type)
        if held.dtype not in (*dt.FLOATS, *dt.INTS):
            held = b.cast(held, dt.int32)
        if order is not None:
            held = b.take_along_axis(held, order, axis=axis)
        at = b("pd_op.argsort", held, axis=axis, descending=key.descending, stable=True)[1]
        order = at if order is None else b.take_along_axis(order, at, axis=axis)
    assert order is not None  # there is a key
    return tuple([b.cast(order, v.dtype) if b.is_iota(v, axis) and v.dtype.is_integer
                  else b.take_along_axis(v, order, axis=axis) for v in values])  # fmt: skip


@rule("chlo.top_k", "custom_call:mhlo.topk")
def _(
    b: HloBuilder, x: Value, k: int = 0, largest: bool = True, **_: object
) -> tuple[Value, Value]:
    """The ``k`` largest or least elements of each row, and their indices; of equal ones the first.

    ``k`` is the size of the result.
    """
    count = b.outs[0].sizes[-1]
    held = x if x.dtype in (*dt.FLOATS, *dt.INTS) else b.cast(x, dt.int32)
    keys = b.ordered(held, b.ins[0])
    at = b("pd_op.argsort", keys, axis=-1, descending=largest, stable=True)[1]
    first = b.cut(at, x.rank - 1, 0, count)
    return b.take_along_axis(x, first, axis=-1), b.cast(first, b.outs[1].dtype)
