"""Two kinds of lists at run time: tensor arrays of programs, with the actions on them, and stacks.

Branches and loops push the values that their derivatives need on a stack.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, cast

from pirkit.diag.errors import RuntimeFault
from pirkit.diag.span import Span
from pirkit.runtime.lazy_numpy import np
from pirkit.runtime.plan import Stack


class TensorList(list[Any]):
    """A tensor array: tensors by index, None at an index that was not written."""

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


def _read_from_either_end(array: TensorList, stack: Stack, xp: Any, i: Any) -> Any:
    place = _number(i)
    return (array.at(place + len(array) if place < 0 else place, stack.span).copy(),)


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
    sizes = _sizes(array, stack)
    if not array:
        raise RuntimeFault("an empty array is no tensor", code="PK0904", span=stack.span)
    out = xp.stack(array, axis) if stacks else xp.concatenate(array, axis)
    return out, xp.array(sizes, np.int32)


def _add(array: TensorList, stack: Stack, xp: Any, x: Any, i: Any) -> None:
    _add_at(array, _number(i), x)


def _add_parts(array: TensorList, stack: Stack, xp: Any, x: Any, sizes: Any) -> None:
    for place, index in enumerate(_parts(stack, sizes)):
        _add_at(array, place, x[index])


def _cut(array: TensorList, stack: Stack, xp: Any, like: TensorList, x: Any) -> None:
    array += [x[index].copy() for index in _parts(stack, _sizes(like, stack))]


def _sizes(array: TensorList, stack: Stack) -> list[int]:
    """The size of each tensor along the axis that they are joined along."""
    axis = stack.numbers[0]
    items = [array.at(i, stack.span) for i in range(len(array))]
    return [item.shape[axis] if axis < item.ndim else 1 for item in items]


def _parts(stack: Stack, sizes: Any) -> list[tuple[Any, ...]]:
    """The index of each part of a tensor that joins an array."""
    axis, stacks = stack.numbers
    ends = [0, *np.cumsum([1 if stacks else int(n) for n in sizes])]
    return [
        (slice(None),) * axis + (start if stacks else slice(start, end),)
        for start, end in pairwise(ends)
    ]


def _add_at(array: TensorList, place: int, x: Any) -> None:
    array += [None] * (place + 1 - len(array))
    array[place] = x.copy() if array[place] is None else array[place] + x


def _claim(array: TensorList, stack: Stack, xp: Any, i: Any, zeros: Any) -> Any:
    found = _peek(array, stack, xp, i, zeros)
    if _number(i) < len(array):
        array[_number(i)] = None
    return found


def _peek(array: TensorList, stack: Stack, xp: Any, i: Any, zeros: Any) -> Any:
    place = _number(i)
    found = array[place] if place < len(array) else None
    return ((zeros if found is None else found).copy(),)


def _peek_parts(array: TensorList, stack: Stack, xp: Any, sizes: Any, zeros: Any) -> Any:
    out = zeros.copy()
    for held, index in zip(array, _parts(stack, sizes), strict=False):
        if held is not None:
            out[index] = held
    return (out,)


def _open(array: TensorList, stack: Stack, xp: Any, i: Any) -> None:
    if _number(i) < len(array):
        array.insert(_number(i), None)


def _close(array: TensorList, stack: Stack, xp: Any, i: Any) -> None:
    del array[_number(i) : _number(i) + 1]


def _number(i: Any) -> int:
    return int(i.reshape(-1)[0])


ACTIONS: Final[dict[str, Callable[..., Any]]] = {
    "write": _write,
    "read": _read,
    "length": _length,
    "take": _take,
    "join": _join,
    "pick": _read_from_either_end,
    "add": _add,
    "add parts": _add_parts,
    "cut": _cut,
    "claim": _claim,
    "peek": _peek,
    "peek parts": _peek_parts,
    "open": _open,
    "close": _close,
}
"""The function of each action of a `Stack` instruction on a tensor array."""


class SavedValues(list[tuple[Any, ...]]):
    """A stack of values that a branch or a loop has saved."""

    def copied(self) -> SavedValues:
        """The same values on a stack of its own, stacks on it likewise."""
        return SavedValues(
            tuple([v.copied() if isinstance(v, SavedValues) else v for v in values])
            for values in self
        )


def saved(value: Any) -> Any:
    """A copy that later iterations cannot overwrite; a stack on a stack is not copied."""
    if isinstance(value, SavedValues):
        return value
    if isinstance(value, list):
        return [saved(v) for v in cast("list[Any]", value)]
    return value.copy() if hasattr(value, "copy") else value
