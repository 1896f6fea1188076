"""Reshapes, transposes, slices, padding: elements in other shapes and orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.limits import check
from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@rule("Reshape")
def _(
    b: NodeBuilder, x: Value, given: Value | None = None, allowzero: int = 0,
    shape: Sequence[int] | None = None,
) -> Value:  # fmt: skip
    wanted: Any = list(shape) if shape is not None else None
    if given is not None:
        found = b.evaluated(given.ssa)
        if found is None:
            return b.reshape(x, given)
        wanted = [int(n) for n in found]
    is_empty = 0 in x.shape or UNKNOWN in x.shape
    if wanted.count(-1) > 1 or (allowzero and 0 in wanted and not is_empty):
        raise b.unsupported(f"gives {x.shape} the shape {wanted}, which does not fit")
    if allowzero and 0 in wanted:
        return b.const(0, x.dtype, [0 if n == -1 else n for n in wanted])
    for i, size in enumerate(wanted):
        if size == 0 and x.shape[i] != UNKNOWN:
            wanted[i] = x.shape[i]
    if -1 in wanted and UNKNOWN not in x.shape:
        rest = math.prod(n for n in wanted if n != -1)
        wanted[wanted.index(-1)] = math.prod(x.shape) // rest if rest else 0
    if 0 in x.shape and 0 in wanted:
        return b.const(0, x.dtype, wanted)
    return b.reshape(x, wanted)


@rule("Flatten")
def _(b: NodeBuilder, x: Value, axis: int = 1) -> Value:
    place = x.rank if axis == x.rank else b.axis(axis, x.rank)
    if UNKNOWN in x.shape[place:]:
        b.static(x)
    columns = math.prod(x.shape[place:])
    if UNKNOWN in x.shape[:place]:
        return b.reshape(x, (-1, columns))
    return b.reshape(x, (math.prod(x.shape[:place]), columns))


def _distinct(b: NodeBuilder, axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front. Raises UnsupportedError (PK0410) for one that is there twice."""
    dims = [b.axis(a, rank) for a in axes]
    if len({*dims}) < len(dims):
        raise b.unsupported(f"names a dimension twice in {list(axes)}")
    return dims


@rule("Squeeze")
def _(
    b: NodeBuilder, x: Value, given: Value | None = None, axes: Sequence[int] | None = None
) -> Value:
    listed = b.integers_of(given, "axes") if axes is None else list(axes)
    if listed is None:
        listed = [d for d, n in enumerate(b.static(x)) if n == 1]
    dims = _distinct(b, listed, x.rank)
    if any(x.shape[d] not in (1, UNKNOWN) for d in dims):
        raise b.unsupported(f"removes the dimensions {dims} of {x.shape}, not all of size 1")
    return b.squeezed(x, dims)


@rule("Unsqueeze")
def _(
    b: NodeBuilder, x: Value, given: Value | None = None, axes: Sequence[int] | None = None
) -> Value:
    listed = (b.integers_of(given, "axes") if axes is None else list(axes)) or []
    rank = x.rank + len(listed)
    return b.unsqueezed(x, sorted(_distinct(b, listed, rank)))


@rule("Transpose")
def _(b: NodeBuilder, x: Value, perm: Sequence[int] | None = None) -> Value:
    return b.permute(x, range(x.rank)[::-1] if perm is None else perm)


@rule("Concat")
def _(b: NodeBuilder, *values: Value, axis: int) -> Value:
    return b.concat(values, b.axis(axis, values[0].rank))


@rule("Split")
def _(
    b: NodeBuilder, x: Value, given: Value | None = None, axis: int = 0,
    split: Sequence[int] | None = None, num_outputs: int | None = None,
) -> Any:  # fmt: skip
    sizes = b.integers_of(given, "split") if split is None else list(split)
    place = b.axis(axis, x.rank)
    if sizes is None:
        length, count = x.shape[place], num_outputs or b.outputs
        length = b.static(x)[place] if length == UNKNOWN else length
        check("list_elements", count)
        part = -(-length // count)
        sizes = [part] * (count - 1)
        sizes.append(length - sum(sizes))
    elif min(sizes, default=0) < 0 or x.shape[place] not in (UNKNOWN, sum(sizes)):
        raise b.unsupported(f"makes parts of {sizes} along dimension {place} of {x.shape}")
    starts = np.cumsum([0, *sizes]).tolist()
    return tuple([b.cut(x, place, s, s + n) for s, n in zip(starts, sizes, strict=False)])


UNKNOWN_END: Final = 2**31 - 1
"""The end of a slice that takes all to the end of an unknown size."""


@rule("Slice")
def _(
    b: NodeBuilder, x: Value, begin: Value | None = None, end: Value | None = None,
    along: Value | None = None, by: Value | None = None, starts: Sequence[int] | None = None,
    ends: Sequence[int] | None = None, axes: Sequence[int] | None = None,
) -> Value:  # fmt: skip
    if any(v is not None and b.evaluated(v.ssa) is None for v in (begin, end)):
        return _sliced(b, x, begin, end, along, by)
    first = list(starts) if starts is not None else b.integers_of(begin, "starts") or []
    last = list(ends) if ends is not None else b.integers_of(end, "ends") or []
    places = list(axes) if axes is not None else b.integers_of(along, "axes")
    steps = b.integers_of(by, "steps") or [1] * len(first)
    dims = [b.axis(a, x.rank) for a in (places if places is not None else range(len(first)))]
    if 0 in steps or not len(dims) == len(first) == len(last) == len(steps):
        raise b.unsupported(f"has bounds that do not fit: {first} to {last} in steps of {steps}")
    flipped: list[int] = []
    bounds: list[tuple[int, int, int, int]] = []
    for d, s, e, step in zip(dims, first, last, steps, strict=True):
        size = x.shape[d]
        if size == UNKNOWN:
            if step < 0:
                b.static(x)
            bounds.append((d, s, min(e, UNKNOWN_END), step))
            continue
        low, high, step = slice(s, max(e, -size - 1) if step < 0 else e, step).indices(size)
        if step < 0:  # the same elements of the flipped dimension, forward
            flipped.append(d)
            low, high, step = size - 1 - low, size - 1 - high, -step
        bounds.append((d, low, max(high, low), step))
    found = b.flip(x, axis=tuple(flipped)) if flipped else x
    sizes = [UNKNOWN_END if n == UNKNOWN else n for n in x.shape]
    bounds = [t for t in bounds if t[1:] != (0, sizes[t[0]], 1)]
    if not bounds:
        return found
    d, s, e, steps = (tuple(n) for n in zip(*bounds, strict=True))
    if any(low == high for low, high in zip(s, e, strict=True)):
        parts = dict(zip(d, zip(s, e, steps, strict=True), strict=True))
        if UNKNOWN not in x.shape:
            shape = [len(range(*parts[i])) if i in parts else n for i, n in enumerate(x.shape)]
            return b.const(0, x.dtype, shape)
    if set(steps) == {1}:
        return b("pd_op.slice", found, starts=s, ends=e, axes=d)
    return b.strided_slice(found, starts=s, ends=e, strides=steps, axes=d)


def _sliced(
    b: NodeBuilder, x: Value, begin: Value | None, end: Value | None, along: Value | None,
    by: Value | None,
) -> Value:  # fmt: skip
    """A slice whose bounds are computed at run time; steps must be 1 (else PK0406)."""
    assert begin is not None
    assert end is not None
    steps, axes = b.integers_of(by, "steps"), b.integers_of(along, "axes")
    if steps is not None and set(steps) != {1}:
        for bound, name in ((begin, "starts"), (end, "ends")):
            b.known(bound, name)
    bounds = {"starts": begin, "ends": end}
    held = {n: b.evaluated(v.ssa) for n, v in bounds.items()}
    given = {n: b.cast(bounds[n], dt.int64) if k is None
             else tuple(min(int(i), 2**31 - 1) for i in k) for n, k in held.items()}  # fmt: skip
    dims = range(b.static(begin)[0]) if axes is None else [b.axis(a, x.rank) for a in axes]
    return b("pd_op.slice", x, axes=tuple(dims), **given)


@rule("Expand")
def _(b: NodeBuilder, x: Value, shape: Value) -> Value:
    known = b.evaluated(shape.ssa)
    if known is None:  # both shapes may broadcast, which `expand` does not do
        ones = b.full_with_tensor(b.const(1, x.dtype), shape=shape, dtype=x.dtype)
        return b.logical_and(x, ones) if x.dtype is dt.bool_ else b.multiply(x, ones)
    if UNKNOWN in x.shape:
        rank = max(len(known), x.rank)
        sizes = [*[1] * (rank - len(known)), *map(int, known)]
        held = [*[1] * (rank - x.rank), *x.shape]
        return b.expand(x, shape=[h if n == 1 else n for n, h in zip(sizes, held, strict=True)])
    return b.expanded(x, np.broadcast_shapes(x.shape, tuple(map(int, known))))


@rule("Tile")
def _(b: NodeBuilder, x: Value, repeats: Value) -> Value:
    known = b.evaluated(repeats.ssa)
    if known is not None and len(known) != x.rank:
        raise b.unsupported(f"has {len(known)} numbers for {x.rank} dimensions")
    return b.tile(x, repeat_times=repeats if known is None else tuple(map(int, known)))


@rule("Pad")
def _(
    b: NodeBuilder, x: Value, given: Value | None = None, constant: Value | None = None,
    along: Value | None = None, mode: str = "constant", pads: Sequence[int] | None = None,
    value: float = 0.0,
) -> Value:  # fmt: skip
    widths = list(pads) if pads is not None else b.integers_of(given, "pads") or []
    axes = b.integers_of(along, "axes")
    dims = [b.axis(a, x.rank) for a in (range(x.rank) if axes is None else axes)]
    if len(widths) != 2 * len(dims):
        raise b.unsupported(f"has {len(widths)} widths for {len(dims)} dimensions")
    around = [(0, 0)] * x.rank
    for i, d in enumerate(dims):
        around[d] = (widths[i], widths[i + len(dims)])
    for d, (low, high) in enumerate(around):  # a negative width cuts
        if low < 0 or high < 0:
            x = b.cut(x, d, max(-low, 0), b.static(x)[d] - max(-high, 0))
    around = [(max(low, 0), max(high, 0)) for low, high in around]
    if mode == "constant":
        number = value if constant is None else np.ravel(b.known(constant, "constant"))[0].item()
        flat = tuple([n for pair in around for n in pair])
        return x if not any(flat) else b.pad(x, paddings=flat, pad_value=number)
    for d, (low, high) in enumerate(around):
        if low or high:
            places = np.pad(np.arange(b.static(x)[d]), (low, high), mode=cast("Any", mode))
            x = b.index_select(x, b.array(places.astype(np.int64)), axis=d)
    return x


@rule("DepthToSpace")
def _(b: NodeBuilder, x: Value, blocksize: int, mode: str = "DCR") -> Value:
    n, c, h, w = b.static(x)
    s = blocksize
    if mode == "DCR":
        split, order = (n, s, s, c // s**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (n, c // s**2, s, s, h, w), (0, 1, 4, 2, 5, 3)
    return b.reshape(b.permute(b.reshape(x, split), order), (n, c // s**2, h * s, w * s))


@rule("SpaceToDepth")
def _(b: NodeBuilder, x: Value, blocksize: int, mode: str = "DCR") -> Value:
    n, c, h, w = b.static(x)
    s = blocksize
    split = b.reshape(x, (n, c, h // s, s, w // s, s))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return b.reshape(b.permute(split, order), (n, c * s * s, h // s, w // s))


@rule("Trilu")
def _(b: NodeBuilder, x: Value, k: Value | None = None, upper: int = 1) -> Value:
    (diagonal,) = b.integers_of(k, "k") or [0]
    if 0 in x.shape:
        return x
    plain = b.cast(x, dt.int32) if x.dtype is dt.bool_ else x
    found = (b.triu if upper else b.tril)(plain, diagonal=diagonal)
    return b.cast(found, x.dtype)


@rule("ReverseSequence")
def _(b: NodeBuilder, x: Value, lengths: Value, batch_axis: int = 1, time_axis: int = 0) -> Value:
    """In a row of length ``n``, element ``t < n`` is taken from ``n - 1 - t``, others stay."""
    times = b.static(x)[time_axis]
    place = b.arange(start=0, end=times, step=1, dtype=dt.int64)
    shape = [1] * x.rank
    shape[time_axis] = times
    place = b.reshape(place, shape)
    shape = [1] * x.rank
    shape[batch_axis] = x.shape[batch_axis]
    length = b.reshape(b.cast(lengths, dt.int64), shape)
    back = b.subtract(b.subtract(length, b.const(1, dt.int64)), place)
    index = b.where(b.less_than(place, length), back, place)
    return b.take_along_axis(x, b.expanded(index, x.shape), axis=time_axis)


@rule("Compress")
def _(b: NodeBuilder, x: Value, condition: Value, axis: int | None = None) -> Value:
    chosen = np.flatnonzero(b.known(condition, "condition"))
    given = b.reshape(x, (math.prod(b.static(x)),)) if axis is None else x
    place = 0 if axis is None else b.axis(axis, x.rank)
    return b.index_select(given, b.array(chosen.astype(np.int64)), axis=place)
