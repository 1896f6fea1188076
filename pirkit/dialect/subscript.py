"""Basic indexing of values, as numpy has it."""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec import Struct

from pirkit.dialect.value import Arithmetic, Value

_END: Final = 2**31 - 1
"""As the end of a slice: to the end of the axis."""


class Part(Struct):
    """The part of a tensor that an index names, in the words of slices."""

    axes: list[int]
    starts: list[int]
    ends: list[int]
    steps: list[int]
    dropped: list[int]
    """Axes of one element, which the result does not have."""
    added: list[int]
    """Axes of the result that are new."""
    before: list[int]
    """The axis of the tensor before which each of them stands."""


def part_of(index: tuple[Any, ...], rank: int) -> Part:
    """What integers, slices, ``...`` and None name; negative numbers count from the end."""
    count = sum(i is not None and i is not Ellipsis for i in index)
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    at = index.index(Ellipsis)
    index = (*index[:at], *[slice(None)] * (rank - count), *index[at + 1 :])
    part = Part([], [], [], [], [], [], [])
    axis = 0
    for place, item in enumerate(index):
        if item is None:
            part.added.append(place - len(part.dropped))
            part.before.append(axis)
            continue
        if isinstance(item, int):
            first, last, step = item, item + 1 or _END, 1
            part.dropped.append(axis)
        elif isinstance(item, slice):
            bounds = cast("slice[Any, Any, Any]", item)
            step = 1 if bounds.step is None else int(bounds.step)
            first = bounds.start or 0
            last = _END if bounds.stop is None else bounds.stop
        else:
            raise TypeError(f"an index is an integer, a slice, `...` or None, not {item!r}")
        if (first, last, step) != (0, _END, 1):
            part.axes.append(axis)
            part.starts.append(first)
            part.ends.append(last)
            part.steps.append(step)
        axis += 1
    return part


def indexed(b: Arithmetic, x: Value, index: tuple[Any, ...]) -> Value:
    """``x[index]`` for integers, slices with positive steps, ``...`` and None."""
    part = part_of(index, x.rank)
    axes, starts, ends, steps, dropped = part.axes, part.starts, part.ends, part.steps, part.dropped
    if axes and set(steps) == {1}:
        x = b(
            "pd_op.slice",
            x,
            axes=axes,
            starts=starts,
            ends=ends,
            infer_flags=[1] * len(axes),
            decrease_axis=dropped,
        )
    elif axes:
        x = b("pd_op.strided_slice", x, axes=axes, starts=starts, ends=ends, strides=steps)
        x = b("pd_op.squeeze", x, axis=dropped) if dropped else x
    for place in part.added:
        x = b("pd_op.unsqueeze", x, axis=[place])
    return x
