"""Scans: cumulative sums and products."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.registry import kernel

_LONG: Final = 64
"""From so many elements per slice a loop over slices beats ``accumulate``, which goes by lines."""


@kernel(
    "cumsum", dtypes=(*dt.NUMBERS, dt.uint8, dt.int8, dt.int16), inplace={"out": "x"}, widen=True
)
def cumsum(b: Binding) -> Step:
    """Sums along ``axis``, or of the flattened tensor if ``flatten``."""
    if not b.attrs["flatten"]:
        return _scan(b, b.input().shape, b.attrs["axis"], np.add, 0)
    run = _scan(b, (b.input().numel,), 0, np.add, 0)

    def step(x: Array, out: Array) -> None:
        run(x.reshape(-1), out)

    return step


@kernel("cumprod", dtypes=dt.NUMBERS, inplace={"out": "x"}, widen=True)
def cumprod(b: Binding) -> Step:
    """Products along ``dim``."""
    return _scan(b, b.input().shape, b.attrs["dim"], np.multiply, 1)


def _scan(b: Binding, shape: tuple[int, ...], axis: int, combine: np.ufunc, first: int) -> Step:
    """A scan along one axis.

    With ``reverse`` it runs on reversed views. With ``exclusive`` an element does not count for its
    own result, so results are shifted by one place, and the first one is ``first``.
    """
    if not shape:
        shape, axis = (1,), 0
    axis %= len(shape)
    exclusive, size = b.attrs["exclusive"], shape[axis]
    before: tuple[Any, ...] = (slice(None),) * axis
    order = (*before, slice(None, None, -1 if b.attrs["reverse"] else 1))
    earlier, later, start = (*before, slice(None, -1)), (*before, slice(1, None)), (*before, 0)
    by_slices = size > 1 and prod(shape[axis + 1 :]) >= _LONG
    accumulator = b.dtype.np

    def run(x: Array, out: Array) -> None:
        if not by_slices:
            combine.accumulate(x, axis, accumulator, out)
            return
        np.copyto(out[start], x[start])
        for last, at in pairwise(range(size)):
            combine(out[(*before, last)], x[(*before, at)], out[(*before, at)])

    def step(x: Array, out: Array) -> None:
        x, out = x.reshape(shape)[order], out.reshape(shape)[order]
        run(x, out)
        if exclusive and size:
            out[later] = out[earlier]
            out[start] = first

    return step
