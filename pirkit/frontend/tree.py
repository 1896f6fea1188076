"""Nested lists, tuples and dicts of tensors, flattened and unflattened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

Shape = Any
"""The structure of a tree without its leaves: hashable, and sufficient to rebuild the tree."""

LEAF = "*"


def flatten(tree: Any) -> tuple[list[Any], Shape]:
    """The leaves in order (those of a dict by sorted key), and the shape of the tree."""
    leaves: list[Any] = []
    return leaves, _shape(tree, leaves)


def _shape(tree: Any, leaves: list[Any]) -> Shape:
    if isinstance(tree, dict):
        items = cast("dict[Any, Any]", tree)
        return ("dict", tuple([(k, _shape(items[k], leaves)) for k in sorted(items)]))
    if isinstance(tree, list | tuple):
        kind = "list" if isinstance(tree, list) else "tuple"
        return (kind, tuple([_shape(v, leaves) for v in cast("list[Any]", tree)]))
    if tree is None:
        return None
    leaves.append(tree)
    return LEAF


def unflatten(shape: Shape, leaves: Iterator[Any]) -> Any:
    """The tree of that shape with these leaves."""
    if shape is None:
        return None
    if shape == LEAF:
        return next(leaves)
    kind, parts = shape
    if kind == "dict":
        return {k: unflatten(s, leaves) for k, s in parts}
    found = [unflatten(s, leaves) for s in parts]
    return found if kind == "list" else tuple(found)


def mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with every leaf changed."""
    leaves, shape = flatten(tree)
    return unflatten(shape, iter([change(leaf) for leaf in leaves]))
