"""Scans: cumulative sums, products and extrema."""

from __future__ import annotations

from typing import Any

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.kernels.cupy.results import Unary, computes


@computes("cumsum", dtypes=(*dt.NUMBERS, dt.uint8, dt.int8, dt.int16), widen=True)
def cumsum(b: Binding) -> Step | None:
    """Sums along ``axis``, or of the flattened tensor if ``flatten``."""
    if b.attrs["flatten"]:
        return _scan(b, (b.input().numel,), 0, b.xp.cumsum, 0)
    return _scan(b, b.input().shape, b.attrs["axis"], b.xp.cumsum, 0)


@computes("cumprod", dtypes=dt.NUMBERS, widen=True)
def cumprod(b: Binding) -> Step | None:
    """Products along ``dim``."""
    return _scan(b, b.input().shape, b.attrs["dim"], b.xp.cumprod, 1)


def _scan(b: Binding, shape: tuple[int, ...], axis: int, running: Any, first: int) -> Step | None:
    """A scan along one axis; see ``_scan`` of the numpy kernels."""
    xp, accumulator, result = b.xp, b.dtype.np, b.output().shape
    if not shape:
        shape, axis = (1,), 0
    axis %= len(shape)
    before = (slice(None),) * axis
    reverse, exclusive = b.attrs["reverse"], b.attrs["exclusive"]

    def run(x: Any) -> Any:
        x = x.reshape(shape)
        found = running(xp.flip(x, axis) if reverse else x, axis=axis, dtype=accumulator)
        if exclusive:
            moved = xp.full(shape, first, accumulator)
            moved[(*before, slice(1, None))] = found[(*before, slice(None, -1))]
            found = moved
        return (xp.flip(found, axis) if reverse else found).reshape(result)

    return run


@computes("cummax", "cummin", dtypes=(dt.float32, dt.float64, *dt.INTS))
def running_extremum(b: Binding) -> Unary | None:
    """Computed in log2(size) steps, each of which doubles the number of elements that a result
    covers. Of equal elements the last one wins, and NaN is propagated.
    """
    xp, shape = b.xp, b.input().shape
    if not shape:
        return lambda x: (x, 0)
    axis: int = b.attrs["axis"] % len(shape)
    before, size = (slice(None),) * axis, shape[axis]
    wins = xp.greater_equal if b.op == "pd_op.cummax" else xp.less_equal
    line = [size if i == axis else 1 for i in range(len(shape))]

    def run(x: Any) -> tuple[Any, Any]:
        places = xp.broadcast_to(xp.arange(size).reshape(line), shape)
        reach = 1
        while reach < size:
            start, early = (*before, slice(0, reach)), (*before, slice(0, size - reach))
            shifted_up = (*before, slice(reach, None))
            newer = wins(x[shifted_up], x[early]) | (
                x[shifted_up] != x[shifted_up]
            )  # only NaN differs from itself
            places = _joined(
                xp, places, start, xp.where(newer, places[shifted_up], places[early]), axis
            )
            x = _joined(xp, x, start, xp.where(newer, x[shifted_up], x[early]), axis)
            reach *= 2
        return x, places

    return run


def _joined(xp: Any, old: Any, start: Any, rest: Any, axis: int) -> Any:
    return xp.concatenate([old[start], rest], axis=axis)
