"""The steps in which native code takes the arguments of a call apart (`runtime.native.tree_call`)."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any, Final

import numpy as np

from pirkit.frontend.marshalling import Ways, reader
from pirkit.frontend.tree import LEAF, Shape
from pirkit.runtime.native.tree_call import Arguments
from pirkit.runtime.native.tree_call_ir import Found, Step, Use

_NUMBERS: Final = {float: Use.FLOAT, int: Use.INT, bool: Use.BOOL}


def arguments_of(ways: Ways, names: Sequence[str]) -> Arguments | None:
    """How the inputs of a program are found in a call that gives these arguments by name, in order.

    None where that takes Python: for classes of containers that users register, scalars of numpy,
    and arguments that the program does not read.
    """
    positions, keywords, leaves, static, order, roots, captured, guards = ways
    steps: list[Step] = []
    total = len(positions) + sum(isinstance(s, int) for s in static)
    shapes, kinds = iter(positions), iter(leaves)
    labels = (*range(total), *sorted(keywords), *[s for s in static if isinstance(s, str)])
    for label in labels:
        at = label if isinstance(label, int) else total + names.index(label)
        if label in static:
            steps.append(Step(Found.ARGUMENT, at, use=Use.SAME, target=static[label]))
            continue
        shape = next(shapes) if isinstance(label, int) else keywords[label]
        if not _take(steps, shape, Step(Found.ARGUMENT, at), kinds, order):
            return None
    read = [captured[n] for n in order if n in captured]
    if read or guards:
        parent = len(steps)
        steps.append(Step(Found.CALLED, reader(roots, read, guards), type=tuple))
        inputs = [k for k, n in enumerate(order) if n in captured]
        steps += [
            Step(Found.IN_TUPLE, i, parent, use=Use.OPERAND, target=k) for i, k in enumerate(inputs)
        ]
    return Arguments(total, tuple(names), steps)


def _take(
    steps: list[Step], shape: Shape, found: Step, leaves: Any, order: Sequence[str]
) -> bool:
    """Add steps for a tree, whose root is ``found``; False where that takes Python."""
    if shape is None:
        steps.append(found._replace(type=NoneType))
        return True
    if shape == LEAF:
        name, kind, _ = next(leaves)
        use = _NUMBERS.get(kind, Use.OPERAND)
        if issubclass(kind, complex | np.generic) or name not in order:
            return False
        known = kind if kind in _NUMBERS else None
        steps.append(found._replace(type=known, use=use, target=order.index(name)))
        return True
    kind, keys, parts = shape
    where = {dict: Found.IN_DICT, list: Found.IN_LIST}.get(kind, Found.IN_TUPLE)
    if where is Found.IN_TUPLE and not issubclass(kind, tuple):
        return False
    parent = len(steps)
    steps.append(found._replace(type=kind, size=len(parts)))
    places = keys if kind is dict else range(len(parts))
    return all(
        _take(steps, part, Step(where, key, parent), leaves, order)
        for key, part in zip(places, parts, strict=True)
    )
