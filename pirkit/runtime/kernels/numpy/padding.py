"""Padding: the tensor is copied into the result, then the borders are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.registry import kernel

Pairs = Sequence[tuple[int, int]]
Index = tuple[Any, ...]

Mode = Literal["reflect", "edge", "wrap"]

_MODES: Final[dict[str, Mode]] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""Paddle's mode -> numpy's."""


@kernel("pad", dtypes=dt.ANY, portable=True)
def pad(b: Binding) -> Step:
    """``paddings`` are two numbers for each dimension, beginning with the first dimension."""
    paddings = b.attrs["paddings"]
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    return _constant(b, pairs, b.constant("pad_value"))


@kernel("pad3d", dtypes=dt.REAL)
def pad3d(b: Binding) -> Step | None:
    """``paddings`` begin with the last spatial dimension; negative ones remove elements.

    Other modes than ``constant`` may repeat a removed element in a border: with negative paddings
    they run the reference rule.
    """
    given = b.attrs["paddings"]
    spatial = [(given[i], given[i + 1]) for i in (4, 2, 0)]
    none = (0, 0)
    first = b.attrs["data_format"] == "NCDHW"
    pairs = [none, none, *spatial] if first else [none, *spatial, none]
    if b.attrs["mode"] == "constant":
        return _constant(b, pairs, b.constant("pad_value"))
    return _repeated(b, pairs, _MODES[b.attrs["mode"]]) if min(given) >= 0 else None


def _middle(shape: Sequence[int], pairs: Pairs) -> tuple[Index, Index]:
    """Where ``x`` goes in the result, and which part of it."""
    target = tuple(slice(max(a, 0), d - max(z, 0)) for d, (a, z) in zip(shape, pairs, strict=True))
    source = tuple(
        slice(max(-a, 0), d - a - z - max(-z, 0)) for d, (a, z) in zip(shape, pairs, strict=True)
    )
    return target, source


def _borders(shape: Sequence[int], pairs: Pairs) -> list[tuple[int, slice]]:
    """The axis and the extent of each part of the result that lies outside of ``x``."""
    found: list[tuple[int, slice]] = []
    for axis, (before, after) in enumerate(pairs):
        found += [(axis, slice(0, before))] if before > 0 else []
        found += [(axis, slice(shape[axis] - after, None))] if after > 0 else []
    return found


def _along(axis: int, extent: Any) -> Index:
    return (*[slice(None)] * axis, extent)


def _constant(b: Binding, pairs: Pairs, value: Array) -> Step:
    shape, copyto = b.output().shape, b.xp.copyto
    target, source = _middle(shape, pairs)
    target = (*target, ...)  # a view for a 0-D array, too
    borders = [_along(*border) for border in _borders(shape, pairs)]

    def step(x: Array, out: Array) -> None:
        for border in borders:
            out[border] = value
        copyto(out[target], x[source])

    return step


def _repeated(b: Binding, pairs: Pairs, mode: Mode) -> Step:
    """Writes borders axis by axis, so that those of an axis repeat those of the axes before it."""
    shape, size = b.output().shape, b.input().shape
    target, source = _middle(shape, pairs)
    borders: list[tuple[Index, Index]] = []
    for axis, extent in _borders(shape, pairs):
        repeats = np.pad(np.arange(size[axis]), pairs[axis], mode=mode) + pairs[axis][0]
        borders.append((_along(axis, extent), _along(axis, repeats[extent])))

    def step(x: Array, out: Array) -> None:
        out[target] = x[source]
        for border, repeated in borders:
            out[border] = out[repeated]

    return step
