"""Shapes of traced values: axes moved, joined, repeated and broadcast, as numpy does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pirkit.dialect.build import Builder, Value
from pirkit.frontend.numpy_reductions import total
from pirkit.frontend.numpy_rules import axes_of, function, several, together, typed, value_of
from pirkit.frontend.numpy_ufuncs import refused, size_of
from pirkit.runtime.tensor.methods import Axis


@function("reshape")
def reshape(b: Builder, x: Any, shape: int | Sequence[int], order: str = "C") -> Value:
    """The elements in another shape, by rows, or by columns for the order "F"."""
    x = value_of(b, x)
    sizes = several(shape)
    if order == "F":
        return transpose(b, b.reshape(transpose(b, x), sizes[::-1]))
    if order not in ("C", "A"):
        raise refused(f"the order {order!r} of elements", "take C or F")
    return b.reshape(x, sizes)


@function("ravel")
def _ravel(b: Builder, x: Any, order: str = "C") -> Value:
    return reshape(b, x, -1, "C" if order == "K" else order)


@function("transpose", "permute_dims")
def transpose(b: Builder, x: Any, axes: Sequence[int] | None = None) -> Value:
    """The axes in another order; in reverse by default."""
    x = value_of(b, x)
    order = tuple(reversed(range(x.rank))) if axes is None else normalize_axis_tuple(axes, x.rank)
    if len(order) != x.rank:
        raise refused(f"`transpose` of {x.rank} axes by {order}", "name every axis once")
    return x if order == tuple(range(x.rank)) else b.transpose(x, perm=order)


@function("swapaxes")
def swapaxes(b: Builder, x: Any, axis1: int, axis2: int) -> Value:
    """Two axes exchanged."""
    x = value_of(b, x)
    order = list(range(x.rank))
    one, other = (normalize_axis_index(a, x.rank) for a in (axis1, axis2))
    order[one], order[other] = other, one
    return transpose(b, x, order)


@function("matrix_transpose")
def _matrix_transpose(b: Builder, x: Any) -> Value:
    return swapaxes(b, x, -1, -2)


@function("moveaxis")
def moveaxis(b: Builder, x: Any, source: Any, destination: Any) -> Value:
    """Axes moved to other places."""
    x = value_of(b, x)
    taken, put = (normalize_axis_tuple(a, x.rank) for a in (source, destination))
    order = [i for i in range(x.rank) if i not in taken]
    for place, axis in sorted(zip(put, taken, strict=True)):
        order.insert(place, axis)
    return transpose(b, x, order)


@function("squeeze")
def squeeze(b: Builder, x: Any, axis: Axis = None) -> Value:
    """Remove axes of size 1."""
    x = value_of(b, x)
    axes = [i for i in axes_of(x, axis) if axis is not None or size_of(x, i) == 1]
    if any(x.shape[i] != 1 for i in axes):
        raise refused(f"`squeeze` of axes {axes} of a {x.meta}", "take axes of size 1")
    return b.squeeze(x, axis=axes) if axes else x


@function("expand_dims")
def expand_dims(b: Builder, x: Any, axis: Axis = 0) -> Value:
    """Insert axes of size 1."""
    x = value_of(b, x)
    axes = several(axis)
    places = sorted(normalize_axis_tuple(axes, x.rank + len(axes)))
    for place in places:
        x = b.unsqueeze(x, axis=[place])
    return x


@function("broadcast_to")
def broadcast_to(b: Builder, x: Any, shape: int | Sequence[int]) -> Value:
    """The value, broadcast to a shape."""
    x = value_of(b, x)
    wanted = several(shape)
    return x if x.shape == wanted else b.expand(x, shape=wanted)


@function("flip")
def _flip(b: Builder, x: Any, axis: Axis = None) -> Value:
    x = value_of(b, x)
    axes = axes_of(x, axis)
    return b.flip(x, axis=axes) if axes else x


@function("roll")
def roll(b: Builder, x: Any, shift: int | Sequence[int], axis: Axis = None) -> Value:
    """The elements shifted cyclically along axes."""
    x = value_of(b, x)
    shifts = several(shift)
    if axis is None:
        return b.reshape(b.roll(b.reshape(x, (-1,)), shifts=(sum(shifts),), axis=(0,)), x.shape)
    moves: dict[int, int] = {}  # shifts along the same axis add up
    axes = normalize_axis_tuple(cast(Any, axis), x.rank, allow_duplicate=True)
    for by, at in np.broadcast(shifts, axes):
        moves[int(at)] = moves.get(int(at), 0) + int(by)
    return b.roll(x, shifts=tuple(moves.values()), axis=tuple(moves))


@function("concatenate", "concat")
def concatenate(
    b: Builder, arrays: Sequence[Any], axis: int | None = 0, *, dtype: Any = None
) -> Value:
    """Values joined along an axis."""
    parts = [typed(b, p, dtype) for p in together(b, *arrays)]
    if axis is None:
        parts, axis = [b.reshape(p, (-1,)) for p in parts], 0
    return b.concat(parts, axis=normalize_axis_index(axis, parts[0].rank))


@function("stack")
def _stack(b: Builder, arrays: Sequence[Any], axis: int = 0, *, dtype: Any = None) -> Value:
    parts = [typed(b, p, dtype) for p in together(b, *arrays)]
    return b.stack(parts, axis=normalize_axis_index(axis, parts[0].rank + 1))


@function("hstack")
def _hstack(b: Builder, arrays: Sequence[Any], *, dtype: Any = None) -> Value:
    parts = _at_least(b, arrays, 1)
    return concatenate(b, parts, 0 if parts[0].rank == 1 else 1, dtype=dtype)


@function("vstack")
def _vstack(b: Builder, arrays: Sequence[Any], *, dtype: Any = None) -> Value:
    return concatenate(b, _at_least(b, arrays, 2), 0, dtype=dtype)


def _at_least(b: Builder, arrays: Sequence[Any], rank: int) -> list[Value]:
    parts = [value_of(b, a) for a in arrays]
    return [b.reshape(p, (*(1,) * (rank - p.rank), *p.shape)) for p in parts]


@function("repeat")
def _repeat(b: Builder, x: Any, repeats: Any, axis: int | None = None) -> Value:
    x = value_of(b, x)
    x, axis = (b.reshape(x, (-1,)), 0) if axis is None else (x, normalize_axis_index(axis, x.rank))
    if isinstance(repeats, int):
        return b.repeat_interleave(x, repeats=repeats, axis=axis)
    if isinstance(repeats, Value):
        raise refused(
            "`repeat` by a traced value: the shape of its result depends on its elements",
            "repeat by an integer or by an array of numpy",
        )
    counts = cast("Any", np.asarray(repeats))
    places = cast("Any", np).repeat(np.arange(size_of(x, axis)), counts)
    return b.gather(x, b.value(places), axis=axis)


@function("tile")
def _tile(b: Builder, x: Any, reps: int | Sequence[int]) -> Value:
    return b.tile(value_of(b, x), repeat_times=several(reps))


@function("diagonal")
def diagonal(b: Builder, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The elements whose indices along two axes differ by ``offset``."""
    return b.diagonal(value_of(b, x), offset=offset, axis1=axis1, axis2=axis2)


@function("trace")
def _trace(b: Builder, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    return total(b, diagonal(b, x, offset, axis1, axis2), -1)


@function("tril")
def _tril(b: Builder, x: Any, k: int = 0) -> Value:
    return b.tril(value_of(b, x), diagonal=k)


@function("triu")
def _triu(b: Builder, x: Any, k: int = 0) -> Value:
    return b.triu(value_of(b, x), diagonal=k)


@function("broadcast_arrays")
def broadcast_arrays(b: Builder, *arrays: Any) -> list[Value]:
    """The operands, broadcast to one shape."""
    given = [value_of(b, a) for a in arrays]
    if len(given) > 1:
        for v in given:
            _ = [size_of(v, axis) for axis in range(v.rank)]
    shape = np.broadcast_shapes(*[v.shape for v in given])
    return [broadcast_to(b, v, shape) for v in given]


@function("meshgrid")
def _meshgrid(b: Builder, *arrays: Any, indexing: str = "xy", sparse: bool = False) -> list[Value]:
    given = [value_of(b, a) for a in arrays]
    order = list(range(len(given)))
    if indexing == "xy" and len(given) > 1:
        order[:2] = 1, 0
    rank = len(given)
    spread = [
        b.reshape(v, (*(1,) * order[i], -1, *(1,) * (rank - order[i] - 1)))
        for i, v in enumerate(given)
    ]
    return spread if sparse else broadcast_arrays(b, *spread)


@function("unstack")
def _unstack(b: Builder, x: Any, axis: int = 0) -> tuple[Value, ...]:
    x = value_of(b, x)
    axis = normalize_axis_index(axis, x.rank)
    return tuple(x[(*[slice(None)] * axis, i)] for i in range(size_of(x, axis)))
