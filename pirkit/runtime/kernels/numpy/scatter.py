"""Scatters: writes at data-dependent indices.

Sums go through ``add.at`` on one dimension, which numpy is quickest at: 3 to 10 times as fast as on
rows, and than sorting the places first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, Literal

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import HALF_TYPES, Array, Binding, Step, widened
from pirkit.runtime.indexing import check_index, put_places
from pirkit.runtime.kernels.numpy.indices import along_axis, coordinates, number
from pirkit.runtime.registry import kernel

_WIDE: Final = 512
"""Longer rows are added one by one, as computing the flat index of each element takes longer."""


def _copy_unless_same(x: Array, out: Array) -> None:
    """Copy ``x`` into the result, unless the result is ``x`` itself."""
    if out is not x:
        np.copyto(out, x)


class _Sums:
    """Adds rows to rows of a tensor; several may be added to the same one."""

    def __init__(self, b: Binding, count: int, rest: Sequence[int]) -> None:
        self.count, self.size = count, prod(rest)
        self.elements = None
        if self.size <= _WIDE:
            self.elements = b.workspace((count, self.size), dt.int64)
            self.offsets = np.arange(self.size)

    def add(self, out: Array, places: Array, rows: Array) -> None:
        """Add ``rows`` to the rows of ``out`` at indices ``places``; ``out`` is C-contiguous."""
        places, rows = places.reshape(-1), rows.reshape(self.count, self.size)
        if self.elements is None:
            table = out.reshape(-1, self.size)
            for place, row in zip(places.tolist(), rows, strict=True):
                target = table[place]
                np.add(target, row, target)
            return
        np.multiply(places[:, None], self.size, self.elements, dtype=np.int64)
        np.add(self.elements, self.offsets, self.elements)
        np.add.at(out.reshape(-1), self.elements.reshape(-1), rows.reshape(-1))


@kernel("scatter", dtypes=dt.REAL, inplace={"out": "x"})
def scatter(b: Binding) -> Step | None:
    """Rows along the first axis, replaced or summed."""
    if b.attrs["overwrite"]:
        return _replaced_rows(b)
    return (widened(_summed_rows) if b.dtype in HALF_TYPES else _summed_rows)(b)


def _replaced_rows(b: Binding) -> Step:
    x, count = b.input(), b.input(1).numel
    rows = (count, *x.shape[1:])

    def step(x: Array, index: Array, updates: Array, out: Array) -> None:
        check_index(index, len(x), "C4")
        _copy_unless_same(x, out)
        out[index.reshape(-1)] = updates.reshape(rows)

    return step


def _summed_rows(b: Binding) -> Step:
    x, count = b.input(), b.input(1).numel
    size, rows = x.shape[0], (count, *x.shape[1:])
    sums = _Sums(b, count, x.shape[1:])

    def step(x: Array, index: Array, updates: Array, out: Array) -> None:
        places = index.reshape(-1)
        if check_index(places, size, "C4"):
            places = np.where(places < 0, places + size, places)
        _copy_unless_same(x, out)
        out[places] = 0
        if out.flags.c_contiguous:
            sums.add(out, places, updates)
        else:
            np.add.at(out, places, updates.reshape(rows))

    return step


@kernel("scatter_nd_add", dtypes=dt.NUMBERS, widen=True)
def scatter_nd_add(b: Binding) -> Step:
    """The coordinates of a row become its flat index."""
    x, index = b.input(), b.input(1)
    depth = index.shape[-1]
    places = coordinates(b, x.shape[:depth], index.shape[:-1], "C3")
    sums = _Sums(b, prod(index.shape[:-1]), x.shape[depth:])

    def step(x: Array, index: Array, updates: Array, out: Array) -> None:
        flat = places.flat(index)
        np.copyto(out, x)
        sums.add(out, flat, updates)

    return step


# --- put_along_axis ------------------------------------------------------------------------------

_COMBINE: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "mul": np.multiply,
    "multiply": np.multiply,
    "amin": np.minimum,
    "amax": np.maximum,
}
_NEUTRAL: Final = {"add": 0, "mul": 1, "multiply": 1}


@kernel("put_along_axis", dtypes=dt.REAL, inplace={"out": "arr"})
def put_along_axis(b: Binding) -> Step | None:
    """One place along an axis for each element; means run the reference rule."""
    reduce = b.attrs["reduce"]
    if not b.input().rank or reduce == "mean":
        return None
    if reduce == "assign" or b.dtype not in HALF_TYPES:
        return _put(b)
    return widened(_put)(b)


def _put(b: Binding) -> Step | None:
    arr, index = b.input(), b.input(1)
    places = along_axis(b, arr.shape, index.shape, b.attrs["axis"], "C4")
    if places is None:
        return None
    combine = _COMBINE.get(b.attrs["reduce"])
    start = None if combine is None or b.attrs["include_self"] else _neutral(b)
    shape = index.shape

    def write(out: Array, at: Any, values: Array) -> None:
        if start is not None:
            out[at] = start
        if combine is None:
            out[at] = values
        else:
            combine.at(out, at, values)

    def step(arr: Array, indices: Array, values: Array, out: Array) -> None:
        values = np.broadcast_to(values, shape)
        if out.flags.c_contiguous:
            at = places.flat(indices)
            _copy_unless_same(arr, out)
            write(out.reshape(-1), at.reshape(-1), values.reshape(-1))
        else:
            grid = places.grid(indices)
            _copy_unless_same(arr, out)
            write(out, grid, values)

    return step


def _neutral(b: Binding) -> complex:
    """The neutral element of the reduction."""
    reduce = b.attrs["reduce"]
    if reduce in _NEUTRAL:
        return _NEUTRAL[reduce]
    sign: Literal[1, -1] = 1 if reduce == "amin" else -1
    if b.dtype.is_float:
        return sign * np.inf
    limits = np.iinfo(b.dtype.np)
    return int(limits.max if sign > 0 else limits.min)


# --- index_put -----------------------------------------------------------------------------------


@kernel("index_put", dtypes=dt.ANY, inplace={"out": "x"})
def index_put(b: Binding) -> Step | None:
    """Writes at coordinates, which broadcast together, or where masks hold."""
    masked = any(item.dtype is dt.bool_ for item in b.items(1))
    if not b.attrs["accumulate"]:
        return _fill(b) if masked and len(b.items(1)) == 1 else _assign
    if masked or b.dtype is dt.bool_:
        return None
    return (widened(_accumulate) if b.dtype in HALF_TYPES else _accumulate)(b)


def _assign(x: Array, indices: Sequence[Array], value: Array, out: Array) -> None:
    places = put_places(x, indices, value)
    _copy_unless_same(x, out)
    out[places] = value


def _fill(b: Binding) -> Step:
    """For one mask and a single value: a masked copy, which needs no list of places."""
    if b.input(2).numel != 1:
        return _assign
    x, mask = b.input(), b.items(1)[0]
    if x.shape[: mask.rank] != mask.shape:
        return _assign
    shape = (*mask.shape, *[1] * (x.rank - mask.rank))

    def step(x: Array, indices: Sequence[Array], value: Array, out: Array) -> None:
        _copy_unless_same(x, out)
        np.copyto(out, value.reshape(()), where=indices[0].reshape(shape))

    return step


def _accumulate(b: Binding) -> Step:
    x, items = b.input(), b.items(1)
    covered, rest = x.shape[: len(items)], x.shape[len(items) :]
    count = np.broadcast_shapes(*[item.shape for item in items])
    space, sums = b.workspace(count, dt.int64), _Sums(b, prod(count), rest)
    rows = (*count, *rest)

    def step(x: Array, indices: Sequence[Array], value: Array, out: Array) -> None:
        places = number(indices, covered, "C4", space)
        _copy_unless_same(x, out)
        if out.flags.c_contiguous:
            sums.add(out, places, np.broadcast_to(value, rows))
        else:
            np.add.at(out, tuple(indices), value)

    return step
