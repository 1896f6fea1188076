"""Data movement (transpose, flip, tile, roll...) as one copy between two strided views."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from math import prod

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.registry import kernel

Shape = tuple[int, ...]


def _rearrange(b: Binding, source: Shape, target: Shape, order: Shape | None = None) -> Step:
    """Copies ``x`` seen as ``source``, its axes in ``order``, to the result seen as ``target``.

    Both only take dimensions apart, so that they are views for any strides.
    """
    copyto = b.xp.copyto
    axes = order or tuple(range(len(source)))

    def step(x: Array, out: Array) -> None:
        copyto(out.reshape(target), x.reshape(source).transpose(axes))

    return step


@kernel("tile", dtypes=dt.ANY, portable=True)
def tile(b: Binding) -> Step:
    """Each dimension of the result is a number of repetitions and the dimension that repeats."""
    times, dims, rank = tuple(b.attrs["repeat_times"]), b.input().shape, b.output().rank
    times = (1,) * (rank - len(times)) + times
    dims = (1,) * (rank - len(dims)) + dims
    once = tuple(chain.from_iterable((1, d) for d in dims))
    return _rearrange(b, once, tuple(chain.from_iterable(zip(times, dims, strict=True))))


@kernel("repeat_interleave", dtypes=dt.REAL, portable=True)
def repeat_interleave(b: Binding) -> Step:
    """The dimension of the result is the one of ``x``, and the copies of each of its slices."""
    shape, repeats = b.input().shape, b.attrs["repeats"]
    at = b.attrs["axis"] % len(shape) + 1
    return _rearrange(b, (*shape[:at], 1, *shape[at:]), (*shape[:at], repeats, *shape[at:]))


@kernel("pixel_shuffle", dtypes=dt.FLOATS, portable=True)
def pixel_shuffle(b: Binding) -> Step:
    """A square of channels becomes a square of pixels."""
    r, order = b.attrs["upscale_factor"], (0, 1, 4, 2, 5, 3)
    if b.attrs["data_format"] == "NCHW":
        n, c, h, w = b.input().shape
        c //= r * r
        return _rearrange(b, (n, c, r, r, h, w), (n, c, h, r, w, r), order)
    n, h, w, c = b.input().shape
    c //= r * r
    return _rearrange(b, (n, h, w, c, r, r), (n, h, r, w, r, c), order)


@kernel("roll", dtypes=dt.ANY, portable=True)
def roll(b: Binding) -> Step:
    """A block per combination of the two parts that each axis falls into."""
    shape, axes, copyto = b.input().shape, b.attrs["axis"], b.xp.copyto
    sizes = shape if axes and shape else (prod(shape),)
    shifts = dict.fromkeys(range(len(sizes)), 0)
    for axis, shift in zip(axes or (0,), b.attrs["shifts"], strict=True):
        shifts[axis % len(sizes)] += shift
    moves = [_halves(size, shifts[i]) for i, size in enumerate(sizes)]
    blocks = [tuple(zip(*parts, strict=True)) for parts in product(*moves)]

    def step(x: Array, out: Array) -> None:
        for target, source in blocks:
            copyto(out[target], x[source])

    def flattened(x: Array, out: Array) -> None:
        step(x.reshape(-1), out.reshape(-1))

    return step if axes and shape else flattened


def _halves(size: int, shift: int) -> Sequence[tuple[slice, slice]]:
    """The parts of an axis by where they go and where they come from."""
    at = shift % size if size else 0
    if not at:
        return [(slice(None), slice(None))]
    return [(slice(at, None), slice(None, size - at)), (slice(None, at), slice(size - at, None))]
