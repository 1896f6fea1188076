"""Broadcasting, reshapes, slices, padding, and slices at computed indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.nodes import Tensor
from pirkit.stablehlo.rules import rule


@rule("broadcast_in_dim")
def _(b: HloBuilder, x: Value, broadcast_dimensions: Sequence[int]) -> Value:
    shape = b.outs[0].sizes
    number = b.number_of(x)
    if number is not None:
        return b.filled(number if x.dtype.is_float else int(number), x.dtype, shape)
    if len(broadcast_dimensions) != x.rank:
        raise b.malformed("there is one dimension for each of the operand")
    if list(broadcast_dimensions) != sorted(broadcast_dimensions):
        order = sorted(range(x.rank), key=lambda d: broadcast_dimensions[d])
        x, broadcast_dimensions = b.permute(x, order), sorted(broadcast_dimensions)
    inner = [1] * len(shape)
    for size, d in zip(x.shape, broadcast_dimensions, strict=True):
        inner[d] = size
    return b.expanded(b.reshape(x, tuple(inner)), shape)


@rule("reshape")
def _(b: HloBuilder, x: Value) -> Value:
    number = b.number_of(x)
    if number is not None:
        return b.filled(number if x.dtype.is_float else int(number), x.dtype, b.outs[0].sizes)
    return b.reshape(x, b.outs[0].sizes)


@rule("transpose")
def _(b: HloBuilder, x: Value, permutation: Sequence[int]) -> Value:
    return b.permute(x, permutation)


@rule("reverse")
def _(b: HloBuilder, x: Value, dimensions: Sequence[int]) -> Value:
    return b.flip(x, axis=tuple(dimensions)) if dimensions else x


@rule("concatenate")
def _(b: HloBuilder, *values: Value, dimension: int) -> Value:
    filled = [v for v in values if v.shape[dimension]] or [values[0]]
    return b.concat(filled, dimension)


@rule("iota")
def _(b: HloBuilder, iota_dimension: int) -> Value:
    found = iota(b, b.outs[0], iota_dimension)
    b.iotas[found.ssa] = iota_dimension
    return found


def iota(b: HloBuilder, type_: Tensor, axis: int) -> Value:
    """A tensor whose elements are their index along a dimension."""
    shape = type_.sizes
    held = type_.dtype if type_.dtype in dt.INTS else dt.int64
    counted = b.cast(b.counted(shape[axis], held), type_.dtype)
    inner = [n if d == axis else 1 for d, n in enumerate(shape)]
    return b.expanded(b.reshape(counted, tuple(inner)), shape)


@rule("slice")
def _(
    b: HloBuilder, x: Value, start_indices: Sequence[int], limit_indices: Sequence[int],
    strides: Sequence[int],
) -> Value:  # fmt: skip
    if len(start_indices) != x.rank:
        raise b.malformed("there is one range for each dimension")
    rows = list(zip(start_indices, limit_indices, strides, strict=True))
    cut = [d for d, row in enumerate(rows) if row != (0, x.shape[d], 1)]
    if not cut:
        return x
    starts, ends, steps = ([rows[d][i] for d in cut] for i in range(3))
    where: dict[str, Any] = {"starts": tuple(starts), "ends": tuple(ends), "axes": tuple(cut)}
    if all(s == 1 for s in steps):
        return b("pd_op.slice", x, **where)
    return b("pd_op.strided_slice", x, strides=tuple(steps), **where)


# --- padding ---


def padded(
    b: HloBuilder, x: Value, value: Value, low: Sequence[int], high: Sequence[int],
    interior: Sequence[int],
) -> Value:  # fmt: skip
    """``x`` with ``value`` between and around its elements; a negative width cuts."""
    for d, inner in enumerate(interior):
        if inner and x.shape[d] > 1:
            x = _spread(b, x, value, d, inner)
    for d, (before, behind) in enumerate(zip(low, high, strict=True)):
        x = b.cut(x, d, max(-before, 0), x.shape[d] - max(-behind, 0))
    widths = [n for pair in zip(low, high, strict=True) for n in (max(pair[0], 0), max(pair[1], 0))]
    return _around(b, x, value, widths)


def _around(b: HloBuilder, x: Value, value: Value, widths: Sequence[int]) -> Value:
    if not any(widths):
        return x
    number = b.number_of(value)
    if number is not None:
        return b("pd_op.pad", x, paddings=tuple(widths), pad_value=number)
    for d in range(x.rank):
        sides = [_block(b, x, value, d, n) for n in widths[2 * d : 2 * d + 2]]
        parts = [sides[0], x, sides[1]]
        x = b.concat([p for p in parts if p is not None], d)
    return x


def _block(b: HloBuilder, x: Value, value: Value, axis: int, size: int) -> Value | None:
    shape = [size if d == axis else n for d, n in enumerate(x.shape)]
    return b.expanded(value, shape) if size else None


def _spread(b: HloBuilder, x: Value, value: Value, axis: int, inner: int) -> Value:
    """``x`` with ``inner`` elements ``value`` between adjacent elements of a dimension."""
    shape = x.shape
    rows = b.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    widths = [0] * (2 * rows.rank)
    widths[2 * axis + 3] = inner
    wide = _around(b, rows, value, widths)
    size = shape[axis] * (inner + 1)
    flat = b.reshape(wide, (*shape[:axis], size, *shape[axis + 1 :]))
    return b.cut(flat, axis, 0, size - inner)


@rule("pad")
def _(
    b: HloBuilder, x: Value, value: Value, edge_padding_low: list[int],
    edge_padding_high: list[int], interior_padding: Sequence[int],
) -> Value:  # fmt: skip
    return padded(b, x, value, edge_padding_low, edge_padding_high, interior_padding)


# --- slices at computed indices ---


def _start(b: HloBuilder, place: Value, type_: Tensor, room: int) -> Value | int:
    """A start index clamped to ``0..room``; an int if it is constant."""
    number = b.number_of(place)
    if number is not None:
        return min(max(int(number), 0), room)
    held = place if place.dtype in dt.INTS else b.cast(place, dt.int32)
    if type_.is_unsigned:  # those above the largest signed number are beyond any tensor
        beyond = b.less_than(held, b.const(0, held.dtype))
        held = b.where(beyond, b.const(room, held.dtype), held)
    return b.minimum(b.maximum(held, b.const(0, held.dtype)), b.const(room, held.dtype))


@rule("dynamic_slice")
def _(b: HloBuilder, x: Value, *places: Value, slice_sizes: Sequence[int]) -> Value:
    """Cut dimension by dimension, first where the smallest part is left."""
    if len(places) != x.rank or len(slice_sizes) != x.rank:
        raise b.malformed("there is one start and one size for each dimension")
    types, shape = b.ins[1:], x.shape
    for d in sorted(range(x.rank), key=lambda d: slice_sizes[d] / max(shape[d], 1)):
        size = slice_sizes[d]
        if size == shape[d]:
            continue
        start = _start(b, places[d], types[d], shape[d] - size)
        if isinstance(start, int):
            x = b.cut(x, d, start, start + size)
            continue
        at = b.reshape(start, (1,))
        x = b.gather(x, at if size == 1 else b.add(at, b.counted(size, start.dtype)), axis=d)
    return x


@rule("dynamic_update_slice")
def _(b: HloBuilder, x: Value, part: Value, *places: Value) -> Value:
    """A start that is out of range is clamped, so that ``part`` lies inside ``x``."""
    if len(places) != x.rank or part.rank != x.rank:
        raise b.malformed("there is one start for each dimension")
    if not part.meta.numel:
        return x
    axes = [d for d in range(x.rank) if part.shape[d] != x.shape[d]]
    if not axes:
        return part
    starts = [_start(b, places[d], b.ins[2 + d], x.shape[d] - part.shape[d]) for d in axes]
    if all(isinstance(s, int) for s in starts):
        known = [int(s) for s in starts if isinstance(s, int)]
        ends = [s + part.shape[d] for s, d in zip(known, axes, strict=True)]
        bounds = {"starts": tuple(known), "ends": tuple(ends), "steps": (1,) * len(axes)}
        return b("pd_op.set_value_with_tensor", x, part, axes=tuple(axes), decrease_axes=(),
                 none_axes=(), **bounds)  # fmt: skip
    return _rows_written(b, x, part, dict(zip(axes, starts, strict=True)))


def _rows_written(b: HloBuilder, x: Value, part: Value, starts: Mapping[int, Value | int]) -> Value:
    """``part`` written as rows: the dimensions up to the last that is cut are flattened."""
    count = max(starts) + 1
    places: Value | None = None
    for d in range(count):
        along = b.counted(part.shape[d])
        start = starts.get(d, 0)
        along = b.add(along, b.cast(start, dt.int64)) if isinstance(start, Value) else b.binary(
            "pd_op.add", along, b.const(start, dt.int64))  # fmt: skip
        along = b.scaled(along, prod(x.shape[d + 1 : count]))
        along = b.reshape(along, [-1 if i == d else 1 for i in range(count)])
        places = along if places is None else b.add(places, along)
    assert places is not None  # a dimension is cut
    rest = x.shape[count:]
    rows = b.reshape(x, (-1, *rest))
    found = b.scatter(rows, b.reshape(places, (-1,)), b.reshape(part, (-1, *rest)), overwrite=True)
    return b.reshape(found, x.shape)


@rule("get_dimension_size")
def _(b: HloBuilder, x: Value, dimension: int) -> Value:
    return b.const(x.shape[dimension], b.outs[0].dtype)
