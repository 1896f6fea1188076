"""Sorts, and indices of extrema. Between equal elements the first one wins.

Elements of up to four bytes are sorted together with their positions, as one int64: the element in
the upper half, changed so that integers compare as it does, the position in the lower half. That
is stable by itself, and numpy sorts and partitions int64 with vector instructions: 2 to 10 times as
fast as a stable ``argsort``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Bind, Binding, Step
from pirkit.runtime.kernels.numpy.indices import numbering
from pirkit.runtime.kernels.numpy.summation import keepdims_shape
from pirkit.runtime.registry import kernel

Read = Callable[[Array, Array, Array], None]
_PACKED: Final = (dt.float32, dt.int32, dt.float16, dt.bfloat16)
_POSITION: Final = np.int64(0xFFFFFFFF)
_SELECTED: Final = (dt.float32, dt.int32)
"""Element types that numpy partitions with vector instructions."""
_FEW: Final = 32
"""`topk` compares with a bound if at most one of so many elements is wanted."""


def _reader(b: Binding, index: tuple[int, ...], axis: int) -> Read:
    """A function that reads the elements of ``x`` at places along an axis, which are in range."""
    number = numbering(b, b.input().shape, index, axis)

    def read(x: Array, places: Array, out: Array) -> None:
        if x.flags.c_contiguous:
            np.take(x.reshape(-1), number(places), None, out, "clip")
        else:
            np.copyto(out, np.take_along_axis(x, places, axis))

    return read


def _position(find: Callable[..., Any], last: float) -> Bind:
    """The first extremum; NaN counts as ``last``."""

    def bind(b: Binding) -> Step:
        if not b.input().rank:
            return _zero
        if b.attrs["flatten"]:
            flat = b.input().with_shape((b.input().numel,))
            return _flattened(_along(replace(b, inputs=(flat,)), 0, find, last))
        return _along(b, b.attrs["axis"] % b.input().rank, find, last)

    return bind


def _zero(x: Array, out: Array) -> None:
    out.fill(0)


def _flattened(step: Step) -> Step:
    def run(x: Array, out: Array) -> None:
        step(x.reshape(-1), out)

    return run


def _along(b: Binding, axis: int, find: Callable[..., Any], last: float) -> Step:
    shape = keepdims_shape(b.input().shape, (axis,))
    found, read = b.workspace(shape, dt.int64), _reader(b, shape, axis)
    values = b.workspace(shape) if b.dtype.is_float else None

    def step(x: Array, out: Array) -> None:
        find(x, axis, found, keepdims=True)
        if values is not None:
            read(x, found, values)  # NaN is an extremum for numpy
            if np.isnan(values, values).any():
                find(np.where(np.isnan(x), last, x), axis, found, keepdims=True)
        np.copyto(out, found.reshape(out.shape), casting="same_kind")

    return step


kernel("argmax", dtypes=dt.REAL, widen=True)(_position(np.argmax, -np.inf))
kernel("argmin", dtypes=dt.REAL, widen=True)(_position(np.argmin, np.inf))


class _Keys:
    """The elements of a tensor with their positions along an axis, which is the last one here."""

    def __init__(self, b: Binding, axis: int, count: int, *, descending: bool) -> None:
        shape = b.input().shape
        self.read = _reader(b, (*shape[:axis], count, *shape[axis + 1 :]), axis)
        self.axis, self.descending = axis, descending
        lines = (*shape[:axis], *shape[axis + 1 :], shape[axis])
        self.space = b.workspace(lines, dt.int64)
        self.positions = np.arange(shape[axis], dtype=np.int64)
        self.floats = b.workspace(lines, dt.float32) if b.dtype.is_float else None

    def __call__(self, x: Array) -> Array:
        keys, lines = self.space, _to_last(x, self.axis)
        if self.floats is None:
            np.copyto(keys, lines)
        else:
            np.add(lines, 0.0, self.floats, dtype=np.float32)  # makes 0 of -0
            np.copyto(self.floats, np.nan, where=np.isnan(self.floats))
            np.copyto(keys, _ordered(self.floats.view(np.int32)))
        if self.descending:
            np.invert(keys, keys)
        np.left_shift(keys, 32, keys)
        return np.bitwise_or(keys, self.positions, out=keys)

    def write(self, keys: Array, x: Array, out: Array | None, indices: Array | None) -> None:
        """Write the positions that sorted keys hold, and the elements at these."""
        order = np.bitwise_and(keys, _POSITION, out=keys)
        if self.axis < order.ndim - 1:
            order = np.moveaxis(order, -1, self.axis)
        if indices is not None:
            np.copyto(indices, order)
        if out is not None:
            self.read(x, order, out)


def _to_last(x: Array, axis: int) -> Array:
    """The axis as the last one. numpy takes 2 us for a view that changes nothing."""
    return x if axis == x.ndim - 1 else np.moveaxis(x, axis, -1)


def _ordered(bits: Array) -> Array:
    """The bits of floats as integers in the same order; NaN is greatest. Written in place."""
    return np.bitwise_xor(bits, (bits >> 31) & 0x7FFFFFFF, out=bits)


@kernel("argsort", dtypes=_PACKED)
def argsort(b: Binding) -> Step | None:
    """One sort of keys."""
    if not _fits(b):
        return None
    axis: int = b.attrs["axis"] % b.input().rank
    make = _Keys(b, axis, b.input().shape[axis], descending=b.attrs["descending"])

    def step(x: Array, out: Array | None, indices: Array | None) -> None:
        keys = make(x)
        keys.sort()
        make.write(keys, x, out, indices)

    return step


@kernel("topk", dtypes=_PACKED)
def topk(b: Binding) -> Step | None:
    """The elements beyond a bound, where that is fast; else a partition of keys, the first part of
    which is sorted.
    """
    k: int = b.attrs["k"]
    if not _fits(b):
        return None
    largest: bool = b.attrs["largest"]
    axis: int = b.attrs["axis"] % b.input().rank
    size = b.input().shape[axis]
    selects = b.dtype in _SELECTED and 0 < _FEW * k <= size
    make: _Keys | None = None

    def step(x: Array, out: Array | None, indices: Array | None) -> None:
        nonlocal make
        if selects:
            lines = _to_last(x, axis)
            places = _selected(lines, k, largest)
            if places is not None:
                if out is not None:
                    np.copyto(_to_last(out, axis), np.take_along_axis(lines, places, -1))
                if indices is not None:
                    np.copyto(_to_last(indices, axis), places)
                return
        make = make or _Keys(b, axis, k, descending=largest)
        keys = make(x)
        if k < size:
            keys.partition(k - 1)
            keys = keys[..., :k]
        keys.sort()
        make.write(keys, x, out, indices)

    return step


def _selected(lines: Array, k: int, largest: bool) -> Array | None:
    """Positions of the first ``k`` elements of each line, in order.

    None where as many as ``k`` are not beyond a bound: for ties with the last one, and for NaN.
    """
    if k == 1 and largest:
        return lines.argmax(-1, keepdims=True)
    size = lines.shape[-1]
    last = size - k if largest else k - 1
    bound = np.partition(lines, last, -1)[..., last : last + 1]
    found = np.flatnonzero(lines >= bound if largest else lines <= bound)
    count = prod(lines.shape[:-1])
    if found.size != count * k:
        return None
    line, places = np.divmod(found.reshape(count, k), size)
    if (line != np.arange(count)[:, None]).any():
        return None
    places = places.reshape(*lines.shape[:-1], k)
    values = np.take_along_axis(lines, places, -1)
    if largest:
        values = np.invert(values) if values.dtype.kind == "i" else np.negative(values)
    return np.take_along_axis(places, values.argsort(-1, kind="stable"), -1)


def _fits(b: Binding) -> bool:
    """True for a tensor with an axis, whose positions fit into 32 bits."""
    return b.input().rank > 0 and prod(b.input().shape) < 2**32
