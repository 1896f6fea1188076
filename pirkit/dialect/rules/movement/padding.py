"""Padding of volumes: by a constant, or by gathering elements of the input."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import constant_array
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement.movement import END, part
from pirkit.dialect.rules.movement.size_ops import Size, as_list, sizes_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import VecMeta


@decompose("pd_op.pad3d")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    numbers = _numbers(b, c.paddings)
    if numbers is None:
        return NotImplemented
    first = 2 if c.data_format == "NCDHW" else 1
    around = {first + 2 - i: (numbers[2 * i], numbers[2 * i + 1]) for i in range(3)}
    known = {a: (n, m) for a, (n, m) in around.items() if isinstance(n, int) and isinstance(m, int)}
    if c.mode == "constant":
        x = _constant(b, x, known, c.pad_value)
        around = {axis: pair for axis, pair in around.items() if axis not in known}
    sizes = sizes_of(b, x)
    for axis, (before, after) in around.items():
        if known.get(axis) == (0, 0):
            continue
        if c.mode == "constant":
            x = _surrounded(b, x, axis, before, after, c.pad_value)
        else:
            x = b.gather(x, _places(b, sizes[axis], before, after, c.mode), axis=axis)
    return x


def _numbers(b: Builder, paddings: Any) -> list[Size] | None:
    """The paddings one by one, those as numbers that the program tells; None if it tells none."""
    if not isinstance(paddings, Value):
        return list(paddings)
    known = constant_array(paddings.ssa)
    if known is None:
        return None
    if isinstance(paddings.any_meta, VecMeta):
        items = [b.reshape(v, (1,)) for v in b.split_vec(paddings)]
    else:
        items = [part(b, paddings, (0,), (i,), (i + 1,)) for i in range(len(known))]
    return [b.cast(v, dt.int64) if n is None else n for v, n in zip(items, known, strict=True)]


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


def _surrounded(b: Builder, x: Value, axis: int, before: Size, after: Size, value: float) -> Value:
    """What is read outside is one element more, which stands at the end."""
    paddings = [0] * (2 * x.rank)
    paddings[2 * axis + 1] = 1
    size = sizes_of(b, x)[axis]
    places, length = _along(b, size, before, after), as_list(b, size)
    outside = b.logical_or(places < 0, b.greater_equal(places, length))
    wide = b.pad(x, paddings=paddings, pad_value=value)
    return b.gather(wide, b.where(outside, length, places), axis=axis)


def _along(b: Builder, size: Size, before: Size, after: Size) -> Value:
    """The places along a padded axis, counted from the first element that was there."""
    if isinstance(size, int) and isinstance(before, int) and isinstance(after, int):
        return b.arange(start=-before, end=size + after, step=1, dtype=dt.int64)
    front = as_list(b, before)
    total = front + as_list(b, size) + as_list(b, after)
    return b.arange(start=0, end=b.reshape(total, ()), step=1, dtype=dt.int64) - front


def _places(b: Builder, size: Size, before: Size, after: Size, mode: str) -> Value:
    """Where each element along an axis is read."""
    length, places = as_list(b, size), _along(b, size, before, after)
    if mode == "circular":
        return b.remainder(places, length)
    last = length - b.integers((1,))
    if mode == "replicate":
        return b.minimum(b.maximum(places, b.zeros_like(places)), last)
    return last - b.abs(last - b.abs(places))
