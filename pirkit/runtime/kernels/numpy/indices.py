"""Index tensors as flat indices in row-major order, or as tuples by which numpy indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

import numpy as np
from msgspec import Struct

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding
from pirkit.runtime.indexing import check_index

Shape = tuple[int, ...]


class Places(Struct, frozen=True):
    """Reads indices in two ways; both raise ConstraintError for one that is out of range.

    ``flat`` gives the number of each place among all of ``shape``, in scratch memory that the next
    call overwrites; ``grid`` gives what indexes an array, which may have any strides.
    """

    shape: Shape
    flat: Callable[[Array], Array]
    grid: Callable[[Array], tuple[Array, ...]]


def last_dimension(index: Array) -> Iterable[Array]:
    """The coordinates in the last dimension of an index tensor, one array for each."""
    return np.moveaxis(index, -1, 0)


def number(coordinates: Iterable[Array], shape: Shape, constraint: str, flat: Array) -> Array:
    """The flat index of each place in a tensor of ``shape``, written to ``flat``.

    Coordinates broadcast; negative ones count from the end.
    """
    flat[...] = 0
    for coordinate, size in zip(coordinates, shape, strict=True):
        from_end = check_index(coordinate, size, constraint)
        np.multiply(flat, size, flat)
        np.add(flat, coordinate, flat)
        if from_end:
            np.add(flat, size, flat, where=coordinate < 0)
    return flat


def coordinates(b: Binding, shape: Shape, count: Shape, constraint: str) -> Places:
    """An index whose last dimension holds one coordinate per dimension of ``shape``."""
    space = b.workspace(count, dt.int64)

    def flat(index: Array) -> Array:
        return number(last_dimension(index), shape, constraint, space)

    def grid(index: Array) -> tuple[Array, ...]:
        found = tuple(last_dimension(index))
        for coordinate, size in zip(found, shape, strict=True):
            check_index(coordinate, size, constraint)
        return found

    return Places(shape, flat, grid)


def numbering(b: Binding, shape: Shape, index: Shape, axis: int) -> Callable[[Array], Array]:
    """A function from places along an axis, of the shape ``index``, to flat indices in ``shape``.

    The places must be in range and not negative.
    """
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    lines = _sparse([1 if i == axis else n for i, n in enumerate(index)])
    start = np.asarray(sum(line * s for line, s in zip(lines, strides, strict=True)))
    space, stride = b.workspace(index, dt.int64), strides[axis]

    def flat(places: Array) -> Array:
        np.multiply(places, stride, space, dtype=np.int64)
        return np.add(space, start, space)

    return flat


def along_axis(
    b: Binding, shape: Shape, index: Shape, axis: int, constraint: str, *, from_end: bool = True
) -> Places | None:
    """An index that holds a place along ``axis`` for each element of the result.

    None if it is longer than ``shape`` along another axis.
    """
    axis %= len(shape)
    if any(i != axis and n > size for i, (n, size) in enumerate(zip(index, shape, strict=True))):
        return None
    size, entire, place = shape[axis], _sparse(index), numbering(b, shape, index, axis)
    step = prod(shape[axis:])

    def flat(places: Array) -> Array:
        wraps = check_index(places, size, constraint, from_end=from_end)
        found = place(places)
        return np.add(found, step, found, where=places < 0) if wraps else found

    def grid(places: Array) -> tuple[Array, ...]:
        check_index(places, size, constraint, from_end=from_end)
        return (*entire[:axis], places, *entire[axis + 1 :])

    return Places(shape, flat, grid)


def _sparse(shape: Sequence[int]) -> list[Array]:
    """``arange`` along each dimension, in shapes that broadcast to ``shape``."""
    return list(np.ix_(*map(np.arange, shape)))
