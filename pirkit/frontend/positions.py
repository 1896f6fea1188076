"""The positions in the flattened tensor that an index with traced integers selects.

The rules are numpy's: integers and arrays are broadcast together, and their axes take the place of
the first of them, or the front if a slice stands between them.
"""

from __future__ import annotations

from math import prod
from typing import Any, cast

import numpy as np

from pirkit.dialect.build import Builder, Value
from pirkit.frontend.numpy_rules import FUNCTIONS
from pirkit.frontend.numpy_ufuncs import refused
from pirkit.runtime import dtype as dt

Array = np.ndarray[Any, Any]


def is_traced(part: Any) -> bool:
    """Whether a part of an index is a traced value, or a list that holds one."""
    if isinstance(part, list | tuple):
        return any(is_traced(p) for p in cast("list[Any]", part))
    return isinstance(part, Value)


def static_positions(shape: tuple[int, ...], index: tuple[Any, ...]) -> Array:
    """The positions that a known index selects. Raises IndexError as numpy does."""
    return np.arange(prod(shape)).reshape(shape)[index]


def traced_positions(b: Builder, shape: tuple[int, ...], index: tuple[Any, ...]) -> Value:
    """The positions that an index selects, in the shape of the result; at least one part is traced.

    Negative integers count from the end. A traced integer outside of its axis gives a position
    outside of the tensor, which kernels refuse. Raises IndexError for a known one, and TraceError
    for anything but integers, slices, arrays of integers, ``...`` and None.
    """
    parts: list[Any] = [_joined(b, p) for p in _full(index, len(shape))]
    # Each part with the size and the stride of its axis; None makes a new axis of size 1.
    sizes = iter(shape)
    strides = iter([prod(shape[k + 1 :]) for k in range(len(shape))])
    rows = [(p, 1, 0) if p is None else (p, next(sizes), next(strides)) for p in parts]
    joint = [k for k, p in enumerate(parts) if p is not None and not isinstance(p, slice)]
    shapes: dict[int, tuple[int, ...]] = {k: np.shape(parts[k]) for k in joint}
    common = np.broadcast_shapes(*shapes.values())
    is_adjacent = joint == list(range(joint[0], joint[-1] + 1))
    front = joint[0] if is_adjacent else 0
    rank = len(common) + len(parts) - len(joint)
    # A position is the sum of index * stride over the axes: `known` sums the known indices, `total`
    # the traced ones, and `inside` tells where all of these are within their axes.
    known: Any = np.zeros((1,) * rank, np.int64)
    total: Any = 0
    inside: Any = None
    for k, (part, size, stride) in enumerate(rows):
        if k in joint:
            after = rank - front - len(common)
            lead = rank - len(shapes[k]) - after
            spread = (*(1,) * lead, *shapes[k], *(1,) * after)
            if not isinstance(part, Value):
                known = known + _wrapped(part, size).reshape(spread) * stride
                continue
            value: Any = b.reshape(b.cast(part, dt.int64), spread)
            value = FUNCTIONS["where"](b, value < 0, value + size, value)
            here = (value >= 0) & (value < size)
            inside = here if inside is None else inside & here
            total = value * stride + total
            continue
        taken = np.arange(size)[part if part is not None else slice(None)]
        axis = _axis_of(k, joint, front, len(common), is_adjacent)
        known = known + (taken * stride).reshape((-1, *(1,) * (rank - axis - 1)))
    return FUNCTIONS["where"](b, inside, total + known, prod(shape))


def _axis_of(k: int, joint: list[int], front: int, count: int, is_adjacent: bool) -> int:
    """The axis of the result that belongs to the slice or new axis at ``k``."""
    before = sum(j < k for j in joint)
    if not is_adjacent:
        return count + k - before
    return k - before + (count if k > joint[0] else 0)


def _full(index: tuple[Any, ...], rank: int) -> list[Any]:
    """The parts for all axes, without ``...``."""
    count = sum(p is not None and p is not Ellipsis for p in index)
    if count > rank:
        raise refused(f"{count} indices of a tensor of {rank} axes", "give one for each axis")
    at = next((i for i, p in enumerate(index) if p is Ellipsis), len(index))
    return [*index[:at], *[slice(None)] * (rank - count), *index[at + 1 :]]


def _joined(b: Builder, part: Any) -> Any:
    """A list of traced integers as one value; other lists as arrays."""
    if isinstance(part, list | tuple):
        parts = [_joined(b, p) for p in cast("list[Any]", part)]
        return FUNCTIONS["stack"](b, parts) if is_traced(part) else np.asarray(parts)
    dtype = part.dtype if isinstance(part, Value) else None
    if dtype is not None and not dtype.is_integer:
        raise refused(
            f"an index of a traced {dtype}",
            "indices are integers; choose by a mask with `pirkit.where(mask, x, y)`",
        )
    return part


def _wrapped(part: Any, size: int) -> Array:
    """Known integers, those below zero counted from the end. Raises IndexError for others."""
    return np.arange(size)[np.asarray(part)]
