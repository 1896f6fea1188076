"""Tensor arrays of programs, and the actions of instructions on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.diag.span import Span
from pirkit.runtime.plan import Stack


class TensorList(list[Any]):
    """Tensors by index; None where nothing was written."""

    def at(self, place: int, span: Span | None) -> Any:
        """The tensor at an index. Raises RuntimeFault (PK0904) if it was not written."""
        found = self[place] if 0 <= place < len(self) else None
        if found is None:
            raise RuntimeFault(
                f"place {place} of an array of length {len(self)} was not written",
                code="PK0904",
                span=span,
            )
        return found


def _write(array: TensorList, stack: Stack, xp: Any, x: Any, i: Any) -> None:
    place = _number(i)
    if place < 0:
        raise RuntimeFault(f"an array has no place {place}", code="PK0904", span=stack.span)
    array += [None] * (place + 1 - len(array))
    array[place] = x.copy()


def _read(array: TensorList, stack: Stack, xp: Any, i: Any) -> Any:
    return (array.at(_number(i), stack.span).copy(),)


def _length(array: TensorList, stack: Stack, xp: Any) -> Any:
    return (xp.array([len(array)], np.int64),)


def _take(array: TensorList, stack: Stack, xp: Any) -> Any:
    (number,) = stack.numbers
    place = number + len(array) if number < 0 else number
    found = array.at(place, stack.span)
    del array[place]
    return (found,)


def _join(array: TensorList, stack: Stack, xp: Any) -> Any:
    axis, stacks = stack.numbers
    items = [array.at(i, stack.span) for i in range(len(array))]
    if not items:
        raise RuntimeFault("an empty array is no tensor", code="PK0904", span=stack.span)
    sizes = [item.shape[axis] if axis < item.ndim else 1 for item in items]
    out = xp.stack(items, axis) if stacks else xp.concatenate(items, axis)
    return out, xp.array(sizes, np.int32)


def _number(i: Any) -> int:
    return int(i.reshape(-1)[0])


ACTIONS: Final[dict[str, Callable[..., Any]]] = {
    "write": _write,
    "read": _read,
    "length": _length,
    "take": _take,
    "join": _join,
}
"""The function of each action of a `Stack` instruction on a tensor array."""
