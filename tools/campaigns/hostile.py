"""Hostile variants of a call: element types, shapes, values and attributes that nobody meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import ml_dtypes
import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from tests.ops.calls import Call, each_array

Array = np.ndarray[Any, Any]
Draw = np.random.Generator

_INTS: Final = (0, 1, -1, 2, 3, -2, 7, 100, -100, 2**31 - 1, -(2**31), 2**63 - 1)
_FLOATS: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 88.8, 1e-30, 1e300, float("inf"), float("nan"))
_WORDS: Final = ("", "bogus", "NCHW", "NHWC", "mean", "none", "SAME", "VALID")


SORTED: Final = {"pd_op.searchsorted": 0}
"""The operand whose rows have to be in order: of others, nothing promises what a search finds."""


def hostile(call: Call, draw: Draw) -> Call:
    """The call with one to three changes."""
    for _ in range(int(draw.integers(1, 4))):
        changes = [c for c in CHANGES if c is not _attribute or call.attrs]
        call = changes[int(draw.integers(len(changes)))](call, draw)
    place = SORTED.get(call.definition.name)
    if place is None:
        return call
    args = [
        np.sort(a) if k == place and isinstance(a, np.ndarray) and a.ndim else a
        for k, a in enumerate(call.args)
    ]
    return replace(call, args=tuple(args))


def _some(call: Call, draw: Draw, change: Callable[[Array], Array]) -> Call:
    """One tensor changed, or all of them alike."""
    present = [k for k, a in enumerate(call.args) if a is not None]
    if not present:
        return call
    chosen = set(present) if draw.random() < 0.4 else {present[int(draw.integers(len(present)))]}
    args = tuple([each_array(a, change) if k in chosen else a for k, a in enumerate(call.args)])
    return replace(call, args=args)


def _types(call: Call, draw: Draw) -> Call:
    dtype = dt.ANY[int(draw.integers(len(dt.ANY)))]
    with np.errstate(all="ignore"):
        return _some(call, draw, lambda a: _real(a, dtype).astype(dtype.np))


def _real(a: Array, dtype: DType) -> Array:
    return a.real if a.dtype.kind == "c" and not dtype.is_complex else a


def _shapes(call: Call, draw: Draw) -> Call:
    way = int(draw.integers(5))

    def change(a: Array) -> Array:
        if way == 0:
            return a.reshape(-1)[:1].reshape(()) if a.size else np.zeros((), a.dtype)
        if a.ndim == 0:
            return a.reshape(1)[: way % 2]
        if way == 1:
            return a[:0]
        if way == 2:
            return a[..., :0]
        return a[None] if way == 3 else a[:1]

    return _some(call, draw, change)


def _values(call: Call, draw: Draw) -> Call:
    def change(a: Array) -> Array:
        found = a.copy()
        count = max(1, found.size // 3) if draw.random() < 0.7 else found.size
        if not found.size:
            return found
        places = draw.integers(0, found.size, count)
        found.reshape(-1)[places] = draw.choice(specials(dt.of_array(a)), count)
        return found

    return _some(call, draw, change)


def specials(dtype: DType) -> Array:
    """Numbers of an element type that are special: limits, infinities, NaN, zeros."""
    if dtype is dt.bool_:
        return np.array([False, True])
    if dtype.is_integer:
        limits = np.iinfo(dtype.np)
        return np.array([limits.min, limits.max, 0, 1, 3]).astype(dtype.np)
    real = dt.REAL_OF.get(dtype, dtype)
    limits = ml_dtypes.finfo(real.np)
    numbers = [np.nan, np.inf, -np.inf, 0.0, -0.0, float(limits.max), float(limits.tiny), 88.8]
    return np.array(numbers).astype(dtype.np)


def _attribute(call: Call, draw: Draw) -> Call:
    names = sorted(call.attrs)
    name = names[int(draw.integers(len(names)))]
    return replace(call, attrs={**call.attrs, name: _other(call.attrs[name], draw)})


def _other(value: Any, draw: Draw) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return int(draw.choice(_INTS[:-1])) if draw.random() < 0.9 else _INTS[-1]
        case float():
            return float(draw.choice(_FLOATS))
        case str():
            return str(draw.choice(_WORDS))
        case DType():
            return dt.ANY[int(draw.integers(len(dt.ANY)))]
        case tuple() | list():
            items: tuple[Any, ...] = tuple(value)
            if not items or draw.random() < 0.3:
                return (*items, *items[:1]) if draw.random() < 0.5 else ()
            k = int(draw.integers(len(items)))
            return (*items[:k], _other(items[k], draw), *items[k + 1 :])
        case _:
            return value


def laid_out(array: Array, way: int) -> Array:
    """The same numbers elsewhere: negative strides, columns first, gaps, or an odd address."""
    match way % 4:
        case 0:
            back = (*(slice(None, None, -1),) * array.ndim, ...)
            return array[back].copy()[back]
        case 1:
            return np.array(array, order="F")
        case 2:
            gaps = np.zeros([2 * n for n in array.shape], array.dtype)
            found = gaps[(*(slice(None, None, 2),) * array.ndim, ...)]
        case _:
            memory = np.zeros(array.nbytes + 1, np.uint8)
            found = memory[1:].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


CHANGES: Final = (_types, _shapes, _values, _values, _attribute, _attribute)
