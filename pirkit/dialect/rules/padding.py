"""Padding of volumes: by a constant, or by reading again what is inside."""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement import END, part
from pirkit.dialect.rules.sizes import Size, as_list, sizes_of
from pirkit.runtime import dtype as dt


@decompose("pd_op.pad3d")
def _(c: OpCall) -> Value:
    b, x, paddings = c.b, c.x, c.paddings
    if isinstance(paddings, Value):
        return NotImplemented
    first = 2 if c.data_format == "NCDHW" else 1
    around = {first + 2 - i: (paddings[2 * i], paddings[2 * i + 1]) for i in range(3)}
    if c.mode == "constant":
        return _constant(b, x, around, c.pad_value)
    sizes = sizes_of(b, x)
    for axis, (before, after) in around.items():
        if before or after:
            x = b.gather(x, _places(b, sizes[axis], before, after, c.mode), axis=axis)
    return x


def _constant(b: Builder, x: Value, around: dict[int, tuple[int, int]], value: float) -> Value:
    """Negative paddings cut elements off."""
    flat = [0] * (2 * x.rank)
    for axis, (before, after) in around.items():
        flat[2 * axis : 2 * axis + 2] = max(before, 0), max(after, 0)
    wide = b.pad(x, paddings=flat, pad_value=value) if any(flat) else x
    cut = [axis for axis, pair in around.items() if min(pair) < 0]
    starts = [max(-around[axis][0], 0) for axis in cut]
    ends = [min(around[axis][1], 0) or END for axis in cut]
    return part(b, wide, cut, starts, ends)


def _places(b: Builder, size: Size, before: int, after: int, mode: str) -> Value:
    """Where each element along an axis is read."""
    length = as_list(b, size)
    end = b.reshape(length + b.integers((after,)), ())
    places = b.arange(start=-before, end=end, step=1, dtype=dt.int64)
    if mode == "circular":
        return b.remainder(places, length)
    last = length - b.integers((1,))
    if mode == "replicate":
        return b.minimum(b.maximum(places, b.zeros_like(places)), last)
    return last - b.abs(last - b.abs(places))
