"""Sorting, searching and gathers of traced values, as numpy and the array API define them."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pirkit.diag.limits import check
from pirkit.dialect.build import Builder, Value
from pirkit.frontend.numpy_rules import function, together, value_of
from pirkit.frontend.numpy_shapes import broadcast_to, concatenate
from pirkit.frontend.numpy_ufuncs import apply_ufunc, refused, size_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.tensor.dense import DenseTensor


def _sorted(
    b: Builder, x: Any, axis: int | None, descending: bool, kind: str | None
) -> tuple[Value, Value]:
    """The elements in order, and their places. Every kind of sort that numpy has is stable here."""
    x = value_of(b, x)
    x, axis = (b.reshape(x, (-1,)), 0) if axis is None else (x, normalize_axis_index(axis, x.rank))
    if x.dtype.is_complex:
        places = _complex_places(b, x, axis, descending)
        return b.take_along_axis(x, places, axis=axis), places
    held, x = x.dtype, b.cast(x, dt.int32) if _is_narrow(x) else x
    ordered, places = b.argsort(x, axis=axis, descending=descending, stable=True)
    return b.cast(ordered, held), places


def _complex_places(b: Builder, x: Value, axis: int, descending: bool) -> Value:
    """The places in order of the real parts, then of the imaginary ones; by stable sorts.

    As in numpy, numbers with NaN in one part are behind all others, in the order of the other part.
    """
    real, imaginary = b.real(x), b.imag(x)
    nan = [b.cast(apply_ufunc(b, np.isnan, (v,)), dt.int32) for v in (real, imaginary)]
    behind = apply_ufunc(b, np.maximum, (b.scaled(nan[0], 2), nan[1]))
    places = b.argsort(imaginary, axis=axis, descending=descending, stable=True)[1]
    for key in (real, behind):
        given = b.take_along_axis(key, places, axis=axis)
        order = b.argsort(given, axis=axis, descending=descending, stable=True)[1]
        places = b.take_along_axis(places, order, axis=axis)
    return places


def _is_narrow(x: Value) -> bool:
    """True for elements of a type that the op for sorting does not take; int32 can hold them."""
    return x.dtype is dt.bool_ or (x.dtype.is_integer and x.dtype.itemsize < 4)


@function("argsort")
def _argsort(
    b: Builder,
    x: Any,
    axis: int | None = -1,
    kind: str | None = None,
    descending: bool = False,
    stable: bool = True,
) -> Value:
    return _sorted(b, x, axis, descending, kind)[1]


@function("sort")
def _sort(
    b: Builder,
    x: Any,
    axis: int | None = -1,
    kind: str | None = None,
    descending: bool = False,
    stable: bool = True,
) -> Value:
    return _sorted(b, x, axis, descending, kind)[0]


@function("take")
def take(
    b: Builder, x: Any, indices: Any, axis: int | None = None, *, mode: str = "raise"
) -> Value:
    """The elements at integer indices, which may be traced, along an axis.

    Indices outside are refused, or moved to the nearest element (``mode="clip"``, where a negative
    one is 0), or taken modulo the length (``mode="wrap"``).
    """
    x = value_of(b, x)
    x, axis = (b.reshape(x, (-1,)), 0) if axis is None else (x, normalize_axis_index(axis, x.rank))
    if mode not in ("raise", "clip", "wrap"):
        raise refused(f"`take` with mode={mode!r}", "the modes are raise, clip and wrap")
    is_traced = isinstance(indices, Value) and indices.dtype.is_integer
    given: Any = b.places(cast(Value, indices)) if is_traced else indices
    if mode == "clip":
        given = np.clip(given, 0, size_of(x, axis) - 1)
    elif mode == "wrap":
        given = np.mod(given, size_of(x, axis))
    if not isinstance(given, Value | DenseTensor):
        return x[(*[slice(None)] * axis, np.asarray(given))]
    places = b.value(given)
    found = b.gather(x, b.reshape(places, (-1,)), axis=axis)
    return b.reshape(found, (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))


@function("take_along_axis")
def _take_along_axis(b: Builder, x: Any, indices: Any, axis: int | None = -1) -> Value:
    x, places = value_of(b, x), value_of(b, indices)
    if axis is None:
        x, axis = b.reshape(x, (-1,)), 0
    axis = normalize_axis_index(axis, x.rank)
    if places.rank != x.rank:
        raise refused(
            f"`take_along_axis` of {x.shape} at {places.shape}", "indices have as many axes"
        )
    places = b.places(places)
    if UNKNOWN in (*x.shape, *places.shape):
        return b.take_along_axis(x, places, axis=axis)
    ones = [tuple(1 if i == axis else s for i, s in enumerate(v.shape)) for v in (x, places)]
    shape = list(np.broadcast_shapes(*ones))
    for each, size in ((0, x.shape[axis]), (1, places.shape[axis])):
        wide = (*shape[:axis], size, *shape[axis + 1 :])
        x, places = (
            (broadcast_to(b, x, wide), places) if not each else (x, broadcast_to(b, places, wide))
        )
    return b.take_along_axis(x, places, axis=axis)


@function("searchsorted")
def _searchsorted(
    b: Builder, x: Any, values: Any, side: Literal["left", "right"] = "left", sorter: Any = None
) -> Value:
    if sorter is not None:
        x = take(b, x, sorter)
    x, values = together(b, x, values)
    if _is_narrow(x):
        x, values = b.cast(x, dt.int32), b.cast(values, dt.int32)
    return b.searchsorted(x, values, right=side == "right")


@function("diff")
def _diff(
    b: Builder, x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Value:
    parts = [p for p in (prepend, x, append) if p is not None]
    value = value_of(b, x)
    axis = normalize_axis_index(axis, value.rank)
    if len(parts) > 1:
        one = tuple(1 if i == axis else s for i, s in enumerate(value.shape))
        spread = [broadcast_to(b, p, one) if not value_of(b, p).rank else p for p in parts]
        value = concatenate(b, spread, axis)
    lead = [slice(None)] * axis
    difference = np.not_equal if value.dtype is dt.bool_ else np.subtract
    size = value.shape[axis]
    if n < 0:
        raise refused(f"`diff` of the order {n}", "give an order of at least 0")
    if size != UNKNOWN:
        n = min(n, size)  # nothing is left after `size` differences
    check("ops", n)
    for _ in range(n):
        later, earlier = value[(*lead, slice(1, None))], value[(*lead, slice(None, -1))]
        value = apply_ufunc(b, difference, (later, earlier))
    return value
