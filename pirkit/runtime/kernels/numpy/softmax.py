"""Softmax and its relatives by blocks of rows, so that the passes over a row hit the cache."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.cache_blocks import BLOCK
from pirkit.runtime.registry import kernel

Slabs = tuple[int, int, int]
"""A tensor as ``[outer, axis, inner]``."""


def slabs(b: Binding) -> Slabs | None:
    """The shape around the axis; None for a tensor without axes, or empty."""
    shape = b.input().shape
    if not shape or not prod(shape):
        return None
    axis: int = b.attrs["axis"] % len(shape)
    return int(prod(shape[:axis])), int(shape[axis]), int(prod(shape[axis + 1 :]))


def blocks(outer: int, each: int) -> Iterator[slice]:
    """Stretches of the outer dimension that make blocks of the usual size."""
    some = max(BLOCK // max(each, 1), 1)
    for first in range(0, outer, some):
        yield slice(first, min(first + some, outer))


def _rows(b: Binding) -> tuple[Slabs, list[slice], Array] | None:
    found = slabs(b)
    if found is None:
        return None
    outer, size, inner = found
    parts = list(blocks(outer, size * inner))
    most = max(p.stop - p.start for p in parts)
    return found, parts, b.workspace((most, 1, inner))


def _over_rows(b: Binding, logarithm: bool) -> Step | None:
    """The maximum is subtracted first, so that nothing overflows."""
    held = _rows(b)
    if held is None:
        return None
    shape, parts, room = held
    _, size, inner = shape
    powers = b.workspace((room.shape[0], size, inner)) if logarithm else None
    xp = b.xp

    def step(x: Array, out: Array) -> None:
        source, target = x.reshape(shape), out.reshape(shape)
        for part in parts:
            one, goal = source[part], target[part]
            count = part.stop - part.start
            edge, power = room[:count], goal if powers is None else powers[:count]
            xp.maximum.reduce(one, axis=1, keepdims=True, out=edge)
            xp.subtract(one, edge, goal)
            xp.exp(goal, power)
            xp.add.reduce(power, axis=1, keepdims=True, out=edge)
            if logarithm:
                xp.subtract(goal, xp.log(edge, edge), goal)
            else:
                xp.divide(goal, edge, goal)
        copy_back(out, target)

    return step


@kernel("softmax", dtypes=dt.FLOATS, inplace={"out": "x"}, widen=True)
def softmax(b: Binding) -> Step | None:
    return _over_rows(b, False)


@kernel("log_softmax", dtypes=dt.FLOATS, widen=True)
def log_softmax(b: Binding) -> Step | None:
    """``x - max - log(sum(exp(x - max)))``."""
    return _over_rows(b, True)


def copy_back(out: Array, target: Array) -> None:
    """Bring to the result what was computed beside it, where it is not contiguous."""
    if not out.flags.c_contiguous:
        out[...] = target.reshape(out.shape)


@kernel("logsumexp", dtypes=dt.FLOATS, widen=True)
def logsumexp(b: Binding) -> Step | None:
    """Over the last axes, in blocks of rows; over others it is the reference rule's."""
    shape = b.input().shape
    axes = tuple(range(len(shape))) if b.attrs["reduce_all"] else b.axes()
    if not prod(shape) or axes != tuple(range(len(shape) - len(axes), len(shape))):
        return None
    rows, size = prod(b.output().shape), prod([shape[a] for a in axes])
    parts = list(blocks(rows, size))
    powers, room = b.workspace((parts[0].stop, size)), b.workspace((parts[0].stop, 1))
    finite = b.workspace((parts[0].stop, 1), dt.bool_)
    xp = b.xp

    def step(x: Array, out: Array) -> None:
        source, target = x.reshape(rows, size), out.reshape(rows, 1)
        for part in parts:
            count = part.stop - part.start
            power, top, goal = powers[:count], room[:count], target[part]
            xp.maximum.reduce(source[part], axis=1, keepdims=True, out=top)
            xp.isfinite(top, finite[:count])  # inf - inf would make NaN of an infinite sum
            goal.fill(0)
            xp.copyto(goal, top, where=finite[:count])
            xp.subtract(source[part], goal, power)
            xp.exp(power, power)
            xp.add.reduce(power, axis=1, keepdims=True, out=top)
            xp.log(top, top)
            xp.add(goal, top, goal)
        copy_back(out, target)

    return step
