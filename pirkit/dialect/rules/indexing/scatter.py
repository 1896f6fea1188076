"""Writes at computed indices, in terms of `put_along_axis` and `scatter_nd_add`."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.movement.movement import arange, counted, part
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN

# --- element by element along an axis ------------------------------------------------------------


@vjp("pd_op.put_along_axis")
def _(c: OpCall, g: Value) -> tuple[Value | None, None, Value | None]:
    darr, dvalues = _PUT[c.reduce](c, g)
    if dvalues is not None:
        dvalues = c.b.sum_to(dvalues, c.operand("values"))
    return darr, None, dvalues


def _put(c: OpCall, into: Value, values: Value | float, reduce: str = "assign") -> Value:
    if not isinstance(values, Value):
        values = c.b.const(values, into.dtype)
    return c.b.put_along_axis(into, c.indices, values, axis=c.axis, reduce=reduce)


def _taken(c: OpCall, x: Value) -> Value:
    return c.b.take_along_axis(x, c.indices, axis=c.axis)


def _put_assigned(c: OpCall, g: Value) -> tuple[Value, Value | None]:
    """Of several values for one index, the one that was written last gets the cotangent."""
    b, indices = c.b, c.indices
    darr = _put(c, g, 0.0)
    if not c.wants("values"):
        return darr, None
    found = _taken(c, g)
    if indices.rank and indices.shape[c.axis] != 1:
        at = c.axis % indices.rank
        order = b.reshape(arange(b, indices, at), (-1, *[1] * (indices.rank - 1 - at)))
        order = b.expand_like(order, indices)
        last = _put(c, b.cast(b.zeros_like(c.arr), dt.int64), order)
        found = b.where(b.equal(_taken(c, last), order), found, b.zeros_like(found))
    return darr, found


def _put_added(c: OpCall, g: Value) -> tuple[Value, Value | None]:
    darr = g if c.include_self else _put(c, g, 0.0)
    return darr, _taken(c, g) if c.wants("values") else None


def _put_averaged(c: OpCall, g: Value) -> tuple[Value, Value | None]:
    b = c.b
    count = _put(c, b.ones_like(c.arr), 1.0, "add")
    if not c.include_self:
        count = b.where(b.greater_than(count, b.ones_like(count)), count - 1, count)
    share = g / count
    darr = share if c.include_self else _put(c, share, 0.0)
    return darr, _taken(c, share) if c.wants("values") else None


def _put_extremum(c: OpCall, g: Value) -> tuple[Value, Value | None]:
    """All that attain the extremum share the cotangent evenly, the old element included."""
    b, arr = c.b, c.arr
    values = b.expand_like(c.operand("values"), c.indices)
    remaining = b.cast(b.equal(arr, c.out), g.dtype)
    if not c.include_self:
        remaining = _put(c, remaining, 0.0)
    written = b.cast(b.equal(values, _taken(c, c.out)), g.dtype)
    share = g / _put(c, remaining, written, "add")
    return share * remaining, _taken(c, share) * written


def _put_multiplied(c: OpCall, g: Value) -> tuple[Value, Value | None]:
    """A factor's cotangent is the product of the others, without a division.

    The factors of each element are laid out along a new axis, with ones for what goes elsewhere.
    """
    b, arr, indices = c.b, c.arr, c.indices
    ones = b.ones_like(arr)
    if not arr.rank:
        value = b.reshape(c.operand("values"), ())
        return (g * value, g * arr) if c.include_self else (b.zeros_like(g), g)
    darr = g * _put(c, ones, c.operand("values"), "mul")
    darr = darr if c.include_self else _put(c, darr, 0.0)
    if not c.wants("values"):
        return darr, None
    axis = c.axis % arr.rank
    values = b.unsqueeze(b.expand_like(c.operand("values"), indices), axis=(axis,))
    targets = b.reshape(arange(b, arr, axis), (-1, *[1] * (arr.rank - axis)))
    size = b.reshape(part(b, b.shape_of(arr), (0,), (axis,), (axis + 1,)), ())
    places = b.cast(indices, dt.int64)
    places = b.where(places < 0, places + size, places)
    goes = b.equal(b.unsqueeze(places, axis=(axis,)), targets)
    factors = b.where(goes, values, b.ones_like(values))
    before = b.cumprod(factors, dim=axis + 1, exclusive=True)
    trailing = b.cumprod(factors, dim=axis + 1, exclusive=True, reverse=True)
    others = b.where(goes, before * trailing, b.zeros_like(before))
    own = b.sum(others, (axis,))
    entire = g * arr if c.include_self else g
    return darr, _taken(c, entire) * own


_PUT: Any = {
    "assign": _put_assigned,
    "add": _put_added,
    "mean": _put_averaged,
    "amin": _put_extremum,
    "amax": _put_extremum,
    "mul": _put_multiplied,
    "multiply": _put_multiplied,
}


# --- rows and slices -----------------------------------------------------------------------------


@decompose("pd_op.scatter")
def _(c: OpCall) -> Value:
    b, x, updates = c.b, c.x, c.updates
    rows = b.unsqueeze(updates, axis=(0,)) if updates.rank < x.rank else updates
    index = b.reshape(c.index, (-1, *[1] * (x.rank - 1)))
    if rows.rank > 1:
        index = b.expand_like(index, rows)
    if c.overwrite:
        return b.put_along_axis(x, index, rows, axis=0, reduce="assign")
    clear = b.put_along_axis(x, index, b.const(0, x.dtype), axis=0, reduce="assign")
    return b.scatter_nd_add(clear, b.reshape(c.index, (-1, 1)), rows)


@decompose("pd_op.index_add")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    axis = c.axis % x.rank
    order = (axis, *(i for i in range(x.rank) if i != axis))
    front = b.scatter_nd_add(
        b.transpose(x, perm=order),
        b.unsqueeze(c.index, axis=(-1,)),
        b.transpose(c.add_value, perm=order),
    )
    return b.transpose(front, perm=tuple(order.index(i) for i in range(x.rank)))


@decompose("pd_op.index_put")
def _(c: OpCall) -> Value:
    """Coordinates become indices into a tensor of rows, one row for each combination of them."""
    b, x = c.b, c.x
    coordinates = _coordinates(b, c.indices)
    depth = len(coordinates)
    zero = b.const(0, dt.int64)
    for each in coordinates:
        zero = zero + each * 0
    places = [b.expand_like(each, zero) for each in coordinates]
    index = b.stack(places, axis=zero.rank)
    read = b.gather_nd(x, index)
    value = b.expand_like(c.value, read)
    if UNKNOWN in read.shape:
        # As in Paddle, `expand` keeps a dimension where 1 is asked for: a mask may choose one row.
        value = b.reshape(value, b.shape_of(read))
    if c.accumulate and x.dtype is dt.bool_:
        counts = (b.cast(v, dt.int32) for v in (x, value))
        before, added = counts
        return b.cast(b.scatter_nd_add(before, index, added), dt.bool_)
    if c.accumulate:
        return b.scatter_nd_add(x, index, value)
    flat = b.const(0, dt.int64)
    for axis, place in enumerate(places):
        size = b.reshape(part(b, b.shape_of(x), (0,), (axis,), (axis + 1,)), ())
        flat = flat * size + counted(b, place, arange(b, x, axis))
    rows = b.flatten(x, start_axis=0, stop_axis=depth - 1)
    shown = b.flatten(value, start_axis=0, stop_axis=zero.rank - 1) if zero.rank else value
    shown = shown if zero.rank else b.unsqueeze(value, axis=(0,))
    at = b.reshape(flat, (-1, *[1] * (rows.rank - 1)))
    at = b.expand_like(at, shown) if rows.rank > 1 else at
    return b.reshape_like(b.put_along_axis(rows, at, shown, axis=0, reduce="assign"), x)


def _coordinates(b: Builder, indices: tuple[Value, ...]) -> list[Value]:
    found: list[Value] = []
    for index in indices:
        if index.dtype is not dt.bool_:
            found.append(b.cast(index, dt.int64))
            continue
        places = b.nonzero(index)
        found += [part(b, places, (1,), (i,), (i + 1,), (1,)) for i in range(index.rank)]
    return found


# --- parts ---------------------------------------------------------------------------------------


@vjp("pd_op.set_value")
def _(c: OpCall, g: Value) -> Value:
    return c.again(g, shape=(1,), values=(0.0,))


@vjp("pd_op.set_value_with_tensor")
def _(c: OpCall, g: Value) -> tuple[Value | None, Value | None]:
    b, values = c.b, c.operand("values")
    dx = c.again(g, b.const(0.0, g.dtype)) if c.wants("x") else None
    if not c.wants("values"):
        return dx, None
    shown = _shown(c, _window(c, g))
    lead = values.rank - shown.rank
    if lead > 0:
        shown = b.unsqueeze(shown, axis=tuple(range(lead)))
    return dx, b.sum_to(shown, values)


@decompose("pd_op.set_value")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    if len(c.values) == 1:
        value = b.const(c.values[0], x.dtype)
    else:
        value = b.assign_value(shape=c.shape, dtype=x.dtype, values=c.values)
    return _written(c, value)


@decompose("pd_op.set_value_with_tensor")
def _(c: OpCall) -> Value:
    return _written(c, c.operand("values"))


def _window(c: OpCall, x: Value) -> Value:
    """The part of ``x`` that is written, with all its dimensions."""
    if not len(c.axes):
        return x
    bounds = {"starts": c.starts, "ends": c.ends, "strides": c.steps}
    return c.b.strided_slice(x, axes=c.axes, **bounds)


def _shown(c: OpCall, window: Value) -> Value:
    """A part as indexing shows it: some dimensions dropped, some new."""
    b, rank = c.b, window.rank
    gone = {axis % rank for axis in c.decrease_axes}
    places: list[int] = []
    at = 0
    for axis in range(rank):
        for _ in range(c.none_axes.count(axis)):
            places.append(at)
            at += 1
        at += axis not in gone
    places += range(at, at + sum(axis >= rank for axis in c.none_axes))
    dropped = b.squeeze(window, axis=tuple(sorted(gone))) if gone else window
    for place in places:
        dropped = b.unsqueeze(dropped, axis=(place,))
    return dropped


def _written(c: OpCall, value: Value) -> Value:
    """Write into the flattened tensor, at the flat indices of the part."""
    b, x = c.b, c.x
    if not x.rank:
        return b.reshape(b.cast(value, x.dtype), ())
    flat = b.reshape(x, (-1,))
    places = _window(c, b.reshape_like(arange(b, flat, 0), x))
    shown = _shown(c, places)
    extra = value.rank - shown.rank
    if extra > 0:
        value = b.squeeze(value, axis=tuple(range(extra)))
    expanded = b.expand_like(value, shown)
    out = b.put_along_axis(
        flat, b.reshape(places, (-1,)), b.reshape(expanded, (-1,)), axis=0, reduce="assign"
    )
    return b.reshape_like(out, x)
