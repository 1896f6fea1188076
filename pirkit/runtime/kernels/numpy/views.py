"""Views: ops whose results alias their operands where strides can express it, else a copy."""

from __future__ import annotations

from itertools import accumulate, pairwise
from operator import attrgetter, itemgetter, methodcaller
from typing import Any, cast

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.indexing import window
from pirkit.runtime.meta import VecMeta
from pirkit.runtime.registry import kernel


def _itself(x: Array, *_: object) -> Array:
    return x


@kernel("assign", "share_data", "share_data_", "depend", dtypes=dt.ANY, form="view", portable=True)
def same(b: Binding) -> Step:
    """The operand itself. The memory planner prevents writes to it while others read it."""
    return _itself


@kernel("reshape", "flatten", "squeeze", "unsqueeze", dtypes=dt.ANY, form="view", portable=True)
def reshape(b: Binding) -> Step:
    """All of these are a reshape to the shape of the result."""
    return methodcaller("reshape", b.output().shape)


@kernel("transpose", dtypes=dt.ANY, form="view", portable=True)
def transpose(b: Binding) -> Step:
    """The strides in another order."""
    return methodcaller("transpose", tuple(b.attrs["perm"]))


@kernel("expand", "expand_as", dtypes=dt.ANY, form="view", portable=True)
def expand(b: Binding) -> Step:
    """Broadcasting repeats by strides of zero."""
    shape = b.output().shape
    if shape == b.input().shape:
        return _itself
    broadcast = b.xp.broadcast_to

    def step(x: Array, *_: Array) -> Array:
        return broadcast(x, shape)

    return step


@kernel("slice", dtypes=dt.ANY, form="view", portable=True)
def slice_(b: Binding) -> Step:
    """An index of slices, and of numbers for the dimensions that go."""
    shape, attrs = b.input().shape, b.attrs
    cut = window(shape, attrs["axes"], attrs["starts"], attrs["ends"])
    gone = [axis % len(shape) for axis in attrs["decrease_axis"]]
    remaining = [range(shape[i])[c][0] if i in gone else c for i, c in enumerate(cut)]
    return itemgetter((*remaining, ...))


@kernel("strided_slice", dtypes=dt.ANY, form="view", portable=True)
def strided_slice(b: Binding) -> Step:
    """An index of slices."""
    axes, starts, ends, steps = (b.attrs[n] for n in ("axes", "starts", "ends", "strides"))
    return itemgetter((*window(b.input().shape, axes, starts, ends, steps), ...))


@kernel("flip", dtypes=dt.ANY, form="view", portable=True)
def flip(b: Binding) -> Step:
    """Negative strides."""
    cut = [slice(None)] * b.input().rank
    for axis in b.attrs["axis"] if cut else ():
        cut[axis] = slice(None, None, -1)
    return itemgetter((*cut, ...))


@kernel("split", "split_with_num", dtypes=dt.ANY, form="view", portable=True)
def split(b: Binding) -> Step:
    """One slice per piece."""
    axis: int = b.attrs["axis"] % b.input().rank
    sizes = [piece.shape[axis] for piece in cast(VecMeta, b.outputs[0]).items]
    edges = pairwise(accumulate(sizes, initial=0))
    return _parts([(*[slice(None)] * axis, slice(first, end)) for first, end in edges])


@kernel("unbind", "unstack", dtypes=dt.ANY, form="view", portable=True)
def unbind(b: Binding) -> Step:
    """One index per element of the axis."""
    axis: int = b.attrs["axis"] % b.input().rank
    count = b.input().shape[axis]
    return _parts([(*[slice(None)] * axis, i, ...) for i in range(count)])


def _parts(cuts: list[tuple[Any, ...]]) -> Step:
    def step(x: Array) -> list[Array]:
        return [x[cut] for cut in cuts]

    return step


@kernel("diagonal", dtypes=(*dt.NUMBERS, dt.bool_), form="view", portable=True)
def diagonal(b: Binding) -> Step:
    """The sum of two strides."""
    return methodcaller("diagonal", *[b.attrs[name] for name in ("offset", "axis1", "axis2")])


@kernel("real", dtypes=dt.COMPLEX, form="view", portable=True)
def real(b: Binding) -> Step:
    """Every other number in memory."""
    return attrgetter("real")


@kernel("imag", dtypes=dt.COMPLEX, form="view", portable=True)
def imag(b: Binding) -> Step:
    """Every other number in memory."""
    return attrgetter("imag")


@kernel("as_real", dtypes=dt.COMPLEX, form="view", portable=True)
def as_real(b: Binding) -> Step:
    """A number is a pair of its parts in memory."""
    part = b.output().dtype.np

    def step(x: Array) -> Array:
        return x[..., None].view(part)

    return step


@kernel("as_complex", dtypes=(dt.float32, dt.float64), form="view", portable=True)
def as_complex(b: Binding) -> Step:
    """Pairs that are not contiguous are copied first."""
    entire, contiguous = b.output().dtype.np, b.xp.ascontiguousarray

    def step(x: Array) -> Array:
        pairs = x if x.strides[-1] == x.itemsize else contiguous(x)
        return pairs.view(entire)[..., 0]

    return step
