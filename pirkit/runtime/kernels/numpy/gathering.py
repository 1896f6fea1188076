"""Gathers: reads at data-dependent indices, by ``take``, which writes into the result.

Several indices per element are first made one, counted in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final, Literal

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.indexing import check_index
from pirkit.runtime.kernels.numpy.indices import Places, along_axis, coordinates
from pirkit.runtime.registry import kernel

Take = Callable[[Array, Array, int, Array, bool], None]
_MODE: Final[dict[bool, Literal["clip", "wrap"]]] = {False: "clip", True: "wrap"}
"""How ``take`` reads checked indices, by whether one is negative; to check itself it would copy."""


def _taker(b: Binding) -> Take:
    """The ``take`` of an array module. Those other than numpy's do not check indices, and negative
    ones count from the end.
    """
    return _take if b.xp is np else lambda x, index, axis, out, _: b.xp.take(x, index, axis, out)


def _take(x: Array, index: Array, axis: int, out: Array, from_end: bool) -> None:
    """``take`` would first copy a tensor whose elements do not lie in order."""
    if x.flags.c_contiguous:
        np.take(x, index, axis, out, _MODE[from_end])
    else:
        np.copyto(out, x[(*[slice(None)] * axis, index)])


@kernel("gather", "index_select", dtypes=dt.ANY, portable=True)
def gather(b: Binding) -> Step:
    """Slices along an axis; an index of shape [n, 1] counts as one of shape [n]."""
    axis: int = b.attrs["axis"] % b.input().rank
    size, count, take = b.input().shape[axis], b.input(1).shape[:1], _taker(b)

    def step(x: Array, index: Array, out: Array) -> None:
        from_end = check_index(index, size, "C3")
        take(x, index.reshape(count), axis, out, from_end)

    return step


@kernel("embedding", dtypes=dt.INTS, portable=True)
def embedding(b: Binding) -> Step:
    """Rows of the table; those of the padding are zeroed afterwards."""
    rows, padding, take = b.input(1).shape[0], b.attrs["padding_idx"], _taker(b)

    def step(x: Array, weight: Array, out: Array) -> None:
        check_index(x, rows, "C3", from_end=False)
        take(weight, x, 0, out, False)

    def padded(x: Array, weight: Array, out: Array) -> None:
        step(x, weight, out)
        out[x == padding] = 0

    return step if padding == -1 else padded


def _read(places: Places, rest: tuple[int, ...]) -> Step:
    """A step that reads the elements, or rows of shape ``rest``, at the places of its index."""
    rows = (prod(places.shape), *rest)

    def step(x: Array, index: Array, out: Array) -> None:
        if x.flags.c_contiguous:
            np.take(x.reshape(rows), places.flat(index), 0, out, "clip")
        else:
            np.copyto(out, x[places.grid(index)])

    return step


@kernel("gather_nd", dtypes=dt.ANY)
def gather_nd(b: Binding) -> Step:
    """The coordinates of a row become its flat index."""
    x, index = b.input(), b.input(1)
    depth = index.shape[-1]
    return _read(coordinates(b, x.shape[:depth], index.shape[:-1], "C2"), x.shape[depth:])


@kernel("take_along_axis", dtypes=dt.ANY)
def take_along_axis(b: Binding) -> Step | None:
    """One index per element, along an axis."""
    x = b.input()
    if not x.rank:
        return None
    places = along_axis(b, x.shape, b.input(1).shape, b.attrs["axis"], "C3")
    return _read(places, ()) if places else None


@kernel("index_sample", dtypes=dt.ANY)
def index_sample(b: Binding) -> Step | None:
    """One index per element, along the rows."""
    places = along_axis(b, b.input().shape, b.input(1).shape, 1, "C2", from_end=False)
    return _read(places, ()) if places else None
