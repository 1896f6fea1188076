"""Slices and indices of ops: Paddle's bounds as Python slices, and bounds checks of indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pirkit.diag.errors import ConstraintError
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN


def places(size: int, start: int, end: int, step: int) -> slice:
    """The Python slice of Paddle's ``start``, ``end`` and ``step``.

    Both clamp. With a negative step a negative end counts from the end of the axis; if it is before
    the first element, the slice includes the first element.
    """
    if step < 0:
        stop = end + size if end < 0 else end
        return slice(start, stop if stop >= 0 else None, step)
    return slice(start, end, step)


def window(
    shape: Sequence[int],
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int] | None = None,
) -> list[slice]:
    """The index of a slice op: one Python slice for each dimension, bounded along ``axes``."""
    cut = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True):
        cut[axis] = places(shape[axis], start, end, step)
    return cut


def check_index(index: Array, size: int, constraint: str, *, from_end: bool = True) -> bool:
    """Raise ConstraintError unless each index is in ``[-size, size)``; True if one is negative.

    Without ``from_end`` no index may be negative.
    """
    if not index.size:
        return False
    low, high = index.min(), index.max()
    if high >= size or low < (-size if from_end else 0):
        raise ConstraintError(constraint, f"an index lies outside a dimension of {size}")
    return bool(low < 0)


def check_fills(given: Sequence[int], shape: Sequence[int], constraint: str, what: str) -> None:
    """Raise ConstraintError unless values of the shape ``given`` repeat to fill ``shape``."""
    missing = len(shape) - len(given)
    pairs = zip(given, shape[max(missing, 0) :], strict=False)
    if missing < 0 or not all(a in (1, b, UNKNOWN) or b == UNKNOWN for a, b in pairs):
        told = f"{[*given]} of {what} does not broadcast to {[*shape]}".replace("-1", "?")
        raise ConstraintError(constraint, f"shape {told}")


def put_places(x: Array, indices: Sequence[Array], value: Array) -> tuple[Array, ...]:
    """The coordinates that `index_put` writes, after a check of indices and shapes.

    A mask stands for the coordinates of the elements where it holds.
    """
    places: list[Array] = []
    for index in indices:
        places += index.nonzero() if index.dtype == bool else [index]
    for size, each in zip(x.shape, places, strict=False):
        check_index(each, size, "C4")
    shapes = [each.shape for each in places]
    try:
        chosen = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ConstraintError("C5", f"indices of shapes {shapes} do not broadcast") from None
    check_fills(value.shape, (*chosen, *x.shape[len(places) :]), "C5", "the value")
    return tuple(places)


def part_shown(
    shape: Sequence[int], decrease_axes: Sequence[int], none_axes: Sequence[int]
) -> tuple[Any, ...]:
    """The index that reshapes a slice as Python indexing does; it always gives a view.

    Dimensions in ``decrease_axes`` are dropped, and a new one is inserted before each dimension in
    ``none_axes``, which counts dropped dimensions.
    """
    dimensions = range(len(shape))
    gone = {dimensions[axis] for axis in decrease_axes}
    shown: list[Any] = []
    for axis, size in enumerate(shape):
        shown += [None] * none_axes.count(axis)
        shown.append(0 if axis in gone and size == 1 else slice(None))
    shown += [None] * sum(axis >= len(shape) for axis in none_axes)
    return (*shown, ...)


def fitted(value: Array, rank: int) -> Array:
    """``value`` reshaped to ``rank`` by dropping extra leading dimensions of 1."""
    extra = value.ndim - rank
    if extra > 0 and all(size == 1 for size in value.shape[:extra]):
        return value.reshape(value.shape[extra:])
    return value
