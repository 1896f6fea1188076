"""numpy indexing of traced values; an index that numpy refuses is refused.

numpy itself checks a known index, on an array that has the shape and no memory. Basic indexing
becomes slices. Advanced indexing becomes a gather: at positions that numpy computes if the index is
known while tracing, else at positions that the program computes from traced integers. A mask has
to be known, as the shape of the result depends on it. A traced mask is known if the function is
traced for the arguments of one call (see `known_values.py`).
"""

from __future__ import annotations

from math import prod
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import TraceError
from pirkit.diag.shown import shown
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.subscript import indexed
from pirkit.frontend.numpy_ufuncs import refused
from pirkit.frontend.positions import is_traced, traced_positions
from pirkit.frontend.user_line import user_span
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.tensor.dense import DenseTensor

_HELP: Final = (
    "an index is an integer, a slice, `...`, None, a list or array of integers, or a mask"
)
_MAX_INT32: Final = 2**31 - 1


def subscript(b: Builder, x: Value, index: tuple[Any, ...]) -> Value:
    """``x[index]``; a scalar index comes as a tuple of one part.

    Raises TraceError (PK0706) if numpy refuses the index, if it is a mask or the bound of a slice
    that is not known, and for all but basic indexing of a value of unknown shape.
    """
    parts = plain_index(index)
    if UNKNOWN in x.shape:
        return _of_unknown_shape(b, x, parts)
    is_basic = all(map(_is_basic, parts))
    try:
        traced = any(map(is_traced, parts))
    except RecursionError as error:
        raise refused("a list that is nested too deep as an index", _HELP) from error
    if traced:
        return _gathered(b, x, parts)
    places = known_index(parts)
    try:
        shape = np.broadcast_to(np.int8(0), x.shape)[places].shape
    except (IndexError, OverflowError, TypeError, ValueError, MemoryError) as error:
        raise TraceError(
            f"index {_spelled(parts)} of a {x.meta}: {error}", span=user_span(), help=_HELP
        ) from error
    if 0 in shape:
        return b.const(0, x.dtype, shape)
    if is_basic:
        return _basic(b, x, places)
    if (found := _along_one_axis(b, x, places)) is not None:
        return found
    # numpy tells the position of each element of the result in the flattened tensor.
    flat = np.arange(prod(x.shape)).reshape(x.shape)[places]
    found = b.gather(b.reshape(x, (-1,)), b.value(flat.reshape(-1)), axis=0)
    return b.reshape(found, shape)


def _along_one_axis(b: Builder, x: Value, parts: tuple[Any, ...]) -> Value | None:
    """``x[parts]`` with one array of integers, and slices before and after it; None for others.

    That is a gather along one axis, which is faster than one at positions of the flattened tensor.
    """
    lists = [k for k, p in enumerate(parts) if not _is_basic(p)]
    others = [p for p in parts if _is_basic(p)]
    if len(lists) != 1 or not all(p is Ellipsis or isinstance(p, slice) for p in others):
        return None
    array = np.asarray(parts[lists[0]])
    if array.dtype.kind not in "iu":
        return None
    axis = lists[0] if Ellipsis not in parts[: lists[0]] else lists[0] - len(parts) + x.rank
    x = _basic(b, x, (*parts[: lists[0]], slice(None), *parts[lists[0] + 1 :]))
    found = elements_at(b, x, array.reshape(-1) % x.shape[axis], axis)
    return b.reshape(found, (*x.shape[:axis], *array.shape, *x.shape[axis + 1 :]))


def elements_at(b: Builder, x: Value, places: np.ndarray[Any, Any], axis: int) -> Value:
    """The elements of ``x`` at known indices in range along an axis: a slice, or a gather."""
    if len(places) and (np.diff(places) == 1).all():
        return _basic(b, x, (*[slice(None)] * axis, slice(int(places[0]), int(places[-1]) + 1)))
    fits = x.shape[axis] <= _MAX_INT32  # int32 indices have twice as many vector lanes
    return b.gather(x, b.value(places.astype(np.int32 if fits else np.int64)), axis=axis)


def _gathered(b: Builder, x: Value, parts: tuple[Any, ...]) -> Value:
    """``x[parts]`` with traced integers among the parts."""
    masks = [p for p in parts if isinstance(p, Value) and p.dtype is dt.bool_]
    if masks:
        raise refused(
            f"a {masks[0].meta} that is traced as an index: how many it takes is known only when"
            " the program runs",
            "`pirkit.where(mask, x, 0)` keeps the shape; `x.at[mask].set(v)` updates by a mask",
        )
    wanted = [k for k, p in enumerate(parts) if p != slice(None)] if _is_plain(parts) else []
    if len(wanted) == 1 and isinstance(parts[wanted[0]], Value):
        index, axis = parts[wanted[0]], wanted[0]
        if index.dtype.is_integer:
            found = b.gather(x, b.reshape(b.places(index), (-1,)), axis=axis)
            return b.reshape(found, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    try:
        flat = traced_positions(b, x.shape, parts)
    except (IndexError, OverflowError, ValueError) as error:
        raise refused(f"index {_spelled(parts)} of a {x.meta}: {error}", _HELP) from error
    found = b.gather(b.reshape(x, (-1,)), b.reshape(flat, (-1,)), axis=0)
    return b.reshape(found, flat.shape)


def _is_plain(parts: tuple[Any, ...]) -> bool:
    return all(isinstance(p, slice | Value) for p in parts)


def plain_index(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The parts of an index, with Python integers for those of numpy and for known values."""
    return tuple([_plain(part) for part in index])


def known_index(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The parts of an index, with arrays for known values. Raises TraceError for unknown ones."""
    return tuple([_known(part) for part in parts])


def _is_basic(part: Any) -> bool:
    if part is None or part is Ellipsis or isinstance(part, slice):
        return True
    return isinstance(part, int) and not isinstance(part, bool)


def _plain(given: Any) -> Any:
    """A part with integers of numpy, tensors and known values as Python integers or arrays.

    Slices get Python integers as bounds.
    """
    part: Any = given
    if isinstance(given, slice):
        bounds = cast("slice[Any, Any, Any]", given)
        return slice(*[_bound(v) for v in (bounds.start, bounds.stop, bounds.step)])
    if isinstance(given, Value):
        if getattr(given.b, "known", None) is None or _is_inexact(given):
            return given
        part = np.asarray(cast(Any, given))
    elif isinstance(given, DenseTensor):
        part = given.numpy()
    if not isinstance(part, np.ndarray | np.integer):
        return part
    array = cast("np.ndarray[Any, Any]", part)
    return int(array) if array.dtype.kind in "iu" and array.ndim == 0 else array


def _is_inexact(value: Value) -> bool:
    return value.dtype.is_float or value.dtype.is_complex


def _bound(value: Any) -> Any:
    """The bound of a slice as an integer or None. Raises TraceError (PK0706) for an unknown one."""
    if isinstance(value, Value) and getattr(value.b, "known", None) is None:
        raise refused(
            f"a {value.meta} that is traced as the bound of a slice, whose size would be unknown,",
            "take places: `x[i + np.arange(2)]` has two rows from `i`",
        )
    index = getattr(cast(object, value), "__index__", None)
    return value if index is None else index()


def _known(part: Any) -> Any:
    """Replace known values by arrays, in lists too. Raises TraceError if a value is unknown."""
    if isinstance(part, list | tuple):
        return [_known(p) for p in cast("list[Any]", part)]
    return np.asarray(cast(Any, part)) if isinstance(part, Value) else part


def _basic(b: Builder, x: Value, parts: tuple[Any, ...]) -> Value:
    """Basic indexing; a slice with a negative step is a slice of the flipped axis."""
    count = sum(p is not None and p is not Ellipsis for p in parts)
    at = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
    full = (*parts[:at], *[slice(None)] * (x.rank - count), *parts[at + 1 :])
    done: list[Any] = []
    flipped: list[int] = []
    axis = 0
    for part in full:
        if part is None:
            done.append(None)
            continue
        size = x.shape[axis]
        if isinstance(part, slice):
            start, stop, step = part.indices(size)
            if step < 0:
                flipped.append(axis)
                start, stop, step = size - 1 - start, size - 1 - stop, -step
            is_all = (start, step) == (0, 1) and stop >= size
            done.append(slice(None) if is_all else slice(start, stop, step))
        else:
            done.append(part % size)
        axis += 1
    if flipped:
        x = b.flip(x, axis=flipped)
    return indexed(b, x, tuple(done))


def _of_unknown_shape(b: Builder, x: Value, parts: tuple[Any, ...]) -> Value:
    """Basic indexing with positive steps, which needs no sizes; anything else is refused."""
    require_forward(x, parts)
    return indexed(b, x, parts)


def require_forward(x: Value, parts: tuple[Any, ...]) -> None:
    """Raise TraceError for an index whose places depend on the unknown sizes of ``x``."""
    steps = [cast("slice[Any, Any, Any]", p).step for p in parts if isinstance(p, slice)]
    if not all(map(_is_basic, parts)) or any(s is not None and s < 1 for s in steps):
        raise refused(
            f"index {_spelled(parts)} of a {x.meta}, whose size is unknown",
            "index it by integers, slices with positive steps, `...` and None",
        )
    if sum(p is not None and p is not Ellipsis for p in parts) > x.rank:
        raise refused(f"index {_spelled(parts)} of a {x.meta}: too many indices", _HELP)


def _spelled(parts: tuple[Any, ...]) -> str:
    words = [shown(p) if _is_basic(p) else type(p).__name__ for p in parts]
    return f"[{', '.join(words)}]"
