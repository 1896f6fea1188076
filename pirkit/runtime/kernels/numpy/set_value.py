"""Writes to slices of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.convert import convert
from pirkit.runtime.indexing import fitted, part_shown, window
from pirkit.runtime.registry import kernel


@kernel("set_value_with_tensor", dtypes=dt.ANY, inplace={"out": "x"})
def set_value_with_tensor(b: Binding) -> Step | None:
    """The part is a view of the result."""
    cut, shown = _part(b)
    rank, fits = _fit(b, cut, shown, b.input(1).shape)
    if not fits:
        return None

    def step(x: Array, values: Array, out: Array) -> None:
        if out is not x:
            np.copyto(out, x)
        out[cut][shown] = fitted(values, rank)

    return step


@kernel("set_value", dtypes=dt.ANY, inplace={"out": "x"})
def set_value(b: Binding) -> Step | None:
    """The values are known while binding."""
    given, shape = convert(np.asarray(b.attrs["values"]), b.dtype), tuple(b.attrs["shape"])
    many = given.size > 1
    value = given.reshape(shape) if many else np.broadcast_to(given.reshape(()), shape)
    cut, shown = _part(b)
    rank, fits = _fit(b, cut, shown, shape)
    if not fits:
        return None
    value = fitted(value, rank)

    def step(x: Array, out: Array) -> None:
        if out is not x:
            np.copyto(out, x)
        out[cut][shown] = value

    return step


def _part(b: Binding) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The index of the part, and the one that shows it as values are given."""
    shape, attrs = b.input().shape, b.attrs
    cut = tuple(window(shape, attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"]))
    sizes = [len(range(size)[extent]) for size, extent in zip(shape, cut, strict=True)]
    return (*cut, ...), part_shown(sizes, attrs["decrease_axes"], attrs["none_axes"])


def _fit(
    b: Binding, cut: tuple[Any, ...], shown: tuple[Any, ...], value: tuple[int, ...]
) -> tuple[int, bool]:
    """The rank of the part as it is shown, and whether values of a shape broadcast to it."""
    seen = np.broadcast_to(np.empty(()), b.input().shape)[cut][shown]
    given = fitted(np.broadcast_to(np.empty(()), value), seen.ndim).shape
    padded = (1,) * (seen.ndim - len(given)) + given
    fits = len(padded) == seen.ndim and all(
        d in (1, size) for d, size in zip(padded, seen.shape, strict=True)
    )
    return seen.ndim, fits
