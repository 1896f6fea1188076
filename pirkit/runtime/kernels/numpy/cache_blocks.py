"""Several passes over arrays of one shape, block by block, so that blocks stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from pirkit.runtime.binding import Array, Binding
from pirkit.runtime.dtype import DType

BLOCK: Final = 1 << 15
"""Elements per block: a few arrays of float32 then fit into a second-level cache."""

Passes = Callable[..., None]
"""Called with arrays of one shape and then with scratch arrays of that shape."""
Walk = Callable[..., None]
"""Called with some passes and whole arrays of the shape that it was made for."""
Part = tuple[int | slice, ...]


def walker(b: Binding, shape: Sequence[int], scratch: int = 1, dtype: DType | None = None) -> Walk:
    """Makes ``walk(passes, *arrays)``: the passes over all elements, block after block.

    ``scratch`` is the number of scratch arrays of ``dtype`` that the passes are given in addition.
    Small arrays are one block of their own shape; large ones are cut flat where all of them are
    contiguous, else along their axes.
    """
    if prod(shape) <= BLOCK:
        rooms = [b.workspace(shape, dtype) for _ in range(scratch)]

        def entire(passes: Passes, *arrays: Array) -> None:
            passes(*arrays, *rooms)

        return entire

    size, rows = prod(shape), [b.workspace((BLOCK,), dtype) for _ in range(scratch)]

    def walk(passes: Passes, *arrays: Array) -> None:
        if all([a.flags.c_contiguous for a in arrays]):
            flat = [a.reshape(-1) for a in arrays]
            for start in range(0, size, BLOCK):
                stop = min(start + BLOCK, size)
                passes(*[a[start:stop] for a in flat], *[r[: stop - start] for r in rows])
            return
        for part in _parts(shape):
            pieces = [a[part] for a in arrays]
            count, form = pieces[0].size, pieces[0].shape
            passes(*pieces, *[r[:count].reshape(form) for r in rows])

    return walk


def _parts(shape: Sequence[int]) -> Iterator[Part]:
    """Indices of blocks that cover a shape: slices of one axis, single steps of those before it."""
    axis = next(k for k in range(len(shape)) if prod(shape[k + 1 :]) <= BLOCK)
    rows = max(1, BLOCK // max(1, prod(shape[axis + 1 :])))
    for before in np.ndindex(*shape[:axis]):  # an iterator, as there may be very many blocks
        for first in range(0, shape[axis], rows):
            yield (*before, slice(first, first + rows))


def in_blocks(b: Binding, passes: Passes, scratch: int = 1) -> Callable[[Array, Array], Any]:
    """The step ``out = passes(x)`` for an operand and a result of one shape and element type."""
    walk = walker(b, b.input().shape, scratch)

    def step(x: Array, out: Array) -> None:
        walk(passes, x, out)

    return step


def clipped(low: Any, high: Any) -> Callable[[Array, Array], Any]:
    """The step that moves elements into bounds, in one pass; NaN stays.

    Numpy has no such ufunc for half precision.
    """

    def step(x: Array, out: Array) -> None:
        x.clip(low, high, out)

    return step
