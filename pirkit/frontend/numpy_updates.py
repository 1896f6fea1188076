"""Updates of elements of traced values: ``x.at[index].set(v)``; see `updates.Updates`."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.subscript import indexed, part_of
from pirkit.frontend.indexing import known_index, plain_index, require_forward
from pirkit.frontend.numpy_rules import FUNCTIONS, function, typed, value_of
from pirkit.frontend.numpy_ufuncs import apply_ufunc, refused
from pirkit.frontend.positions import is_traced, static_positions, traced_positions
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.tensor.updates import LOST_PART, UFUNCS

_REDUCED = {"add": "add", "multiply": "mul", "min": "amin", "max": "amax"}
"""The name in a scatter of each update that it can combine, also where positions repeat."""


@function("updated")
def _updated(b: Builder, x: Any, index: tuple[Any, ...], how: str, value: Any) -> Value:
    """``x.at[index].how(value)``: one scatter into the flat elements, at numpy's positions.

    Raises TraceError for an index that `x` does not have, and for an update that no scatter
    combines where a position may be named twice.
    """
    x = value_of(b, x)
    parts = plain_index(index)
    if len(parts) == 1 and isinstance(parts[0], Value) and parts[0].dtype is dt.bool_:
        return _where(b, x, parts[0], how, value)
    if UNKNOWN in x.shape:
        return _of_unknown_shape(b, x, parts, how, value)
    try:
        if any(map(is_traced, parts)):
            places: Any = traced_positions(b, x.shape, parts)
            is_unique = all(map(_names_one, parts))
        else:
            places = static_positions(x.shape, known_index(parts))
            is_unique = np.unique(places).size == places.size
        value = FUNCTIONS["broadcast_to"](b, _like(b, value, x), places.shape)
    except (IndexError, OverflowError, ValueError) as error:
        raise refused(f"update of a {x.meta}: {error}", "index as numpy does") from error
    if not value.meta.numel:
        return x
    if how == "subtract":
        how, value = "add", -value
    at = b.reshape(b.value(places), (-1,))
    flat, new = b.reshape(x, (-1,)), b.reshape(value, (-1,))
    if how == "set" or (is_unique and how != "add"):
        held = new if how == "set" else _combined(b, how, b.gather(flat, at, axis=0), new)
        made = b.put_along_axis(flat, at, typed(b, held, x.dtype), axis=0, reduce="assign")
    elif how in _REDUCED:  # in int32, whose low bits are those of the narrow integers
        narrow = x.dtype in (dt.bool_, dt.int8, dt.uint8, dt.int16)
        flat, new = (b.cast(v, dt.int32) if narrow else v for v in (flat, new))
        made = b.cast(b.put_along_axis(flat, at, new, axis=0, reduce=_REDUCED[how]), x.dtype)
    else:
        raise refused(
            f"`.at[...].{how}` where places may be named twice",
            "index by slices or by one integer, or `set` what is computed before",
        )
    return b.reshape(made, x.shape)


def _of_unknown_shape(b: Builder, x: Value, parts: tuple[Any, ...], how: str, value: Any) -> Value:
    """An update by integers and slices, which name no place twice."""
    require_forward(x, parts)
    new = _like(b, value, x)
    if how != "set":
        new = typed(b, _combined(b, how, indexed(b, x, parts), new), x.dtype)
    part = part_of(parts, x.rank)
    return b.set_value_with_tensor(
        x, new, starts=part.starts, ends=part.ends, steps=part.steps, axes=part.axes,
        decrease_axes=part.dropped, none_axes=part.before,
    )  # fmt: skip


def _names_one(part: Any) -> bool:
    """Whether a part of an index names each place once: a slice, or one integer."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return True
    return not isinstance(part, list | tuple) and np.size(part) == 1


def _like(b: Builder, value: Any, x: Value) -> Value:
    """The value to write, converted to the element type of the tensor as in numpy."""
    new = value_of(b, value)
    if new.dtype.is_complex and not x.dtype.is_complex:
        raise refused(f"update of a {x.meta}: {LOST_PART}", "write `.real` of it")
    return typed(b, new, x.dtype)


def _combined(b: Builder, how: str, old: Value, new: Value) -> Value:
    return cast(Value, apply_ufunc(b, UFUNCS[how], (old, new)))


def _where(b: Builder, x: Value, mask: Value, how: str, value: Any) -> Value:
    """Elements where a mask holds, updated by one number."""
    new = _like(b, value, x)
    if new.meta.numel != 1:
        raise refused(
            f"`.at[mask].{how}` of {new.meta} by a mask that is traced",
            "give one number, or use `pirkit.where(mask, y, x)`",
        )
    if mask.shape != x.shape[: mask.rank]:
        raise refused(f"a mask of {mask.shape} for a {x.meta}", "a mask has the tensor's shape")
    wide = b.reshape(mask, (*mask.shape, *(1,) * (x.rank - mask.rank)))
    new = b.reshape(new, ())
    found = new if how == "set" else _combined(b, how, x, new)
    return cast(Value, FUNCTIONS["where"](b, wide, typed(b, found, x.dtype), x))
