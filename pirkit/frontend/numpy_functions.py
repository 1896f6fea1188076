"""numpy functions of whole arrays on traced values: ``v.sum(axis=0)``, ``np.stack([v, w])``.

Each function takes the builder, then the parameters of the numpy function. The table serves methods
of values, ``__array_function__`` and the namespace of the array API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod as product
from typing import Any, Final, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pirkit.diag.errors import TraceError
from pirkit.dialect.build import Builder, Value
from pirkit.frontend.numpy_ufuncs import (
    apply_ufunc,
    dtype_of,
    is_number,
    operand,
    recorded,
    refused,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type
from pirkit.runtime.tensor.methods import Axis

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}
"""By the name in numpy, and by that in the array API."""


def _function(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update(dict.fromkeys(names, rule))
        return rule

    return register


def apply_function(b: Builder, name: str, arguments: Sequence[Any], options: Any) -> Any:
    """Record ``numpy.name(*arguments, **options)``.

    Raises TraceError for a function that is not in the table, for parameters that it does not
    take, and for axes that the value does not have.
    """
    rule = FUNCTIONS.get(name)
    if rule is None:
        raise refused(
            f"`numpy.{name}` takes no traced value",
            "compose it of the functions of `pirkit.ops`, or of methods of the value",
        )
    given = {k: v for k, v in options.items() if v is not None and v is not np._NoValue}  # pyright: ignore
    try:
        return rule(b, *arguments, **given)
    except (np.exceptions.AxisError, IndexError) as error:
        raise refused(f"`{name}`: {error}", "take an axis that the value has") from error
    except TypeError as error:
        if isinstance(error, TraceError):
            raise
        raise refused(f"`{name}`: {error}", "the parameters are those of numpy") from error


# --- operands ------------------------------------------------------------------------------------


def _value(b: Builder, given: Any) -> Value:
    """A value of the program; arrays and numpy scalars become inputs of it."""
    if is_number(given):
        return b.const(given, element_type(np.asarray(given).dtype))
    return recorded(b, given)


def _together(b: Builder, *given: Any) -> list[Value]:
    """Operands cast to the type to which numpy promotes them."""
    try:
        kinds = [type(g)(0) if is_number(g) else dtype_of(g).np for g in given]
        common = element_type(np.result_type(*kinds))
    except TypeError as error:
        raise refused(f"{error}", "cast the operands with `astype`") from error
    return [operand(b, g, common) for g in given]


def _axes(x: Value, axis: Axis) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.rank))
    return tuple(sorted(normalize_axis_tuple(cast(Any, axis), x.rank)))


def _typed(b: Builder, x: Value, dtype: DTypeLike | None) -> Value:
    return x if dtype is None else b.cast(x, element_type(dtype))


# --- reductions ----------------------------------------------------------------------------------


def _wide(dtype: DType) -> DType:
    """The type in which numpy accumulates a sum of such elements."""
    return dt.int64 if dtype is dt.bool_ or dtype.is_integer else dtype


@_function("sum")
def _sum(
    b: Builder, x: Any, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Value:
    x = _value(b, x)
    x = b.cast(x, element_type(dtype) if dtype is not None else _wide(x.dtype))
    return b.sum(x, _axes(x, axis), keepdim=keepdims)


@_function("prod")
def _prod(
    b: Builder, x: Any, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Value:
    x = _value(b, x)
    x = b.cast(x, element_type(dtype) if dtype is not None else _wide(x.dtype))
    axes = _axes(x, axis)
    return x if not axes else b.prod(x, axis=axes, keepdim=keepdims, reduce_all=False)


@_function("mean", "average")
def _mean(
    b: Builder, x: Any, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Value:
    x = _value(b, x)
    inexact = x.dtype.is_float or x.dtype.is_complex
    x = b.cast(x, element_type(dtype) if dtype is not None else x.dtype if inexact else dt.float64)
    axes = _axes(x, axis)
    return x if not axes else b.mean(x, axis=axes, keepdim=keepdims)


@_function("var")
def _var(
    b: Builder,
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float = 0,
) -> Value:
    x = _typed(b, _value(b, x), dtype)
    axes = _axes(x, axis)
    centered = apply_ufunc(b, np.subtract, (x, _mean(b, x, axes, keepdims=True)))
    squares = centered * (b.conj(centered) if centered.dtype.is_complex else centered)
    squares = b("pd_op.real", squares) if squares.dtype.is_complex else squares
    sizes = [x.shape[i] for i in axes]
    if UNKNOWN in sizes:
        raise refused("`var` over axes of unknown size", "give the traced argument a known shape")
    found = _mean(b, squares, axes, keepdims=keepdims)
    count, less = product(sizes), ddof or correction
    return b.scaled(found, count / (count - less)) if less else found


@_function("std")
def _std(b: Builder, x: Any, *arguments: Any, **options: Any) -> Value:
    return b("pd_op.sqrt", _var(b, x, *arguments, **options))


def _extreme(op: str) -> Callable[..., Value]:
    def rule(b: Builder, x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
        x = _value(b, x)
        axes = _axes(x, axis)
        if 0 in [x.shape[i] for i in axes]:
            raise refused(f"`{op}` of no elements", "reduce over axes that have elements")
        return x if not axes else b(f"pd_op.{op}", x, axis=axes, keepdim=keepdims)

    return rule


_function("max", "amax")(_extreme("max"))
_function("min", "amin")(_extreme("min"))


def _logical(op: str) -> Callable[..., Value]:
    def rule(b: Builder, x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
        x = b.cast(_value(b, x), dt.bool_)
        axes = _axes(x, axis)
        return x if not axes else b(f"pd_op.{op}", x, axis=axes, keepdim=keepdims)

    return rule


_function("any")(_logical("any"))
_function("all")(_logical("all"))


def _place(op: str) -> Callable[..., Value]:
    def rule(b: Builder, x: Any, axis: int | None = None, keepdims: bool = False) -> Value:
        x = _value(b, x)
        if 0 in x.shape:
            raise refused(f"`{op}` of no elements", "search a value that has elements")
        if axis is None:
            found = b(f"pd_op.{op}", b.reshape(x, (-1,)), axis=0)
            return b.reshape(found, (1,) * x.rank if keepdims else ())
        return b(f"pd_op.{op}", x, axis=normalize_axis_index(axis, x.rank), keepdims=keepdims)

    return rule


_function("argmax")(_place("argmax"))
_function("argmin")(_place("argmin"))


@_function("cumsum", "cumulative_sum")
def _cumsum(b: Builder, x: Any, axis: int | None = None, dtype: DTypeLike | None = None) -> Value:
    x = _value(b, x)
    x = b.cast(x, element_type(dtype) if dtype is not None else _wide(x.dtype))
    if axis is None:
        return b.cumsum(b.reshape(x, (-1,)), axis=0)
    return b.cumsum(x, axis=normalize_axis_index(axis, x.rank))


@_function("cumprod", "cumulative_prod")
def _cumprod(b: Builder, x: Any, axis: int | None = None, dtype: DTypeLike | None = None) -> Value:
    x = _value(b, x)
    x = b.cast(x, element_type(dtype) if dtype is not None else _wide(x.dtype))
    if axis is None:
        return b.cumprod(b.reshape(x, (-1,)), dim=0)
    return b.cumprod(x, dim=normalize_axis_index(axis, x.rank))


# --- shapes --------------------------------------------------------------------------------------


@_function("reshape")
def _reshape(b: Builder, x: Any, shape: int | Sequence[int]) -> Value:
    x = _value(b, x)
    return b.reshape(x, (shape,) if isinstance(shape, int) else tuple(shape))


@_function("ravel")
def _ravel(b: Builder, x: Any) -> Value:
    return _reshape(b, x, -1)


@_function("transpose", "permute_dims")
def _transpose(b: Builder, x: Any, axes: Sequence[int] | None = None) -> Value:
    x = _value(b, x)
    order = tuple(reversed(range(x.rank))) if axes is None else normalize_axis_tuple(axes, x.rank)
    if len(order) != x.rank:
        raise refused(f"`transpose` of {x.rank} axes by {order}", "name every axis once")
    return x if order == tuple(range(x.rank)) else b.transpose(x, perm=order)


@_function("swapaxes")
def _swapaxes(b: Builder, x: Any, axis1: int, axis2: int) -> Value:
    x = _value(b, x)
    order = list(range(x.rank))
    one, other = (normalize_axis_index(a, x.rank) for a in (axis1, axis2))
    order[one], order[other] = other, one
    return _transpose(b, x, order)


@_function("matrix_transpose")
def _matrix_transpose(b: Builder, x: Any) -> Value:
    return _swapaxes(b, x, -1, -2)


@_function("moveaxis")
def _moveaxis(b: Builder, x: Any, source: Any, destination: Any) -> Value:
    x = _value(b, x)
    taken, put = (normalize_axis_tuple(a, x.rank) for a in (source, destination))
    order = [i for i in range(x.rank) if i not in taken]
    for place, axis in sorted(zip(put, taken, strict=True)):
        order.insert(place, axis)
    return _transpose(b, x, order)


@_function("squeeze")
def _squeeze(b: Builder, x: Any, axis: Axis = None) -> Value:
    x = _value(b, x)
    axes = [i for i in _axes(x, axis) if axis is not None or x.shape[i] == 1]
    if any(x.shape[i] != 1 for i in axes):
        raise refused(f"`squeeze` of axes {axes} of a {x.meta}", "take axes of size 1")
    return b.squeeze(x, axis=axes) if axes else x


@_function("expand_dims")
def _expand_dims(b: Builder, x: Any, axis: Axis = 0) -> Value:
    x = _value(b, x)
    count = 1 if isinstance(axis, int) else len(cast("Sequence[int]", axis))
    places = sorted(normalize_axis_tuple(cast(Any, axis), x.rank + count))
    for place in places:
        x = b.unsqueeze(x, axis=[place])
    return x


@_function("broadcast_to")
def _broadcast_to(b: Builder, x: Any, shape: int | Sequence[int]) -> Value:
    x = _value(b, x)
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    return x if x.shape == wanted else b.expand(x, shape=wanted)


@_function("flip")
def _flip(b: Builder, x: Any, axis: Axis = None) -> Value:
    x = _value(b, x)
    axes = _axes(x, axis)
    return b.flip(x, axis=axes) if axes else x


@_function("roll")
def _roll(b: Builder, x: Any, shift: int | Sequence[int], axis: Axis = None) -> Value:
    x = _value(b, x)
    shifts = (shift,) if isinstance(shift, int) else tuple(shift)
    if axis is None:
        return b.reshape(b.roll(b.reshape(x, (-1,)), shifts=shifts, axis=(0,)), x.shape)
    axes = normalize_axis_tuple(cast(Any, axis), x.rank)
    return b.roll(x, shifts=shifts * (len(axes) if len(shifts) == 1 else 1), axis=axes)


@_function("concatenate", "concat")
def _concatenate(b: Builder, arrays: Sequence[Any], axis: int | None = 0) -> Value:
    parts = _together(b, *arrays)
    if axis is None:
        parts, axis = [b.reshape(p, (-1,)) for p in parts], 0
    return b.concat(parts, axis=normalize_axis_index(axis, parts[0].rank))


@_function("stack")
def _stack(b: Builder, arrays: Sequence[Any], axis: int = 0) -> Value:
    parts = _together(b, *arrays)
    return b.stack(parts, axis=normalize_axis_index(axis, parts[0].rank + 1))


@_function("hstack")
def _hstack(b: Builder, arrays: Sequence[Any]) -> Value:
    parts = _at_least(b, arrays, 1)
    return _concatenate(b, parts, 0 if parts[0].rank == 1 else 1)


@_function("vstack")
def _vstack(b: Builder, arrays: Sequence[Any]) -> Value:
    return _concatenate(b, _at_least(b, arrays, 2), 0)


def _at_least(b: Builder, arrays: Sequence[Any], rank: int) -> list[Value]:
    parts = [_value(b, a) for a in arrays]
    return [b.reshape(p, (*(1,) * (rank - p.rank), *p.shape)) for p in parts]


@_function("repeat")
def _repeat(b: Builder, x: Any, repeats: int, axis: int | None = None) -> Value:
    x = _value(b, x)
    x, axis = (b.reshape(x, (-1,)), 0) if axis is None else (x, normalize_axis_index(axis, x.rank))
    return b.repeat_interleave(x, repeats=repeats, axis=axis)


@_function("tile")
def _tile(b: Builder, x: Any, reps: int | Sequence[int]) -> Value:
    times = (reps,) if isinstance(reps, int) else tuple(reps)
    return b.tile(_value(b, x), repeat_times=times)


@_function("diagonal")
def _diagonal(b: Builder, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    return b.diagonal(_value(b, x), offset=offset, axis1=axis1, axis2=axis2)


@_function("trace")
def _trace(b: Builder, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    return _sum(b, _diagonal(b, x, offset, axis1, axis2), -1)


@_function("tril")
def _tril(b: Builder, x: Any, k: int = 0) -> Value:
    return b.tril(_value(b, x), diagonal=k)


@_function("triu")
def _triu(b: Builder, x: Any, k: int = 0) -> Value:
    return b.triu(_value(b, x), diagonal=k)


# --- elements ------------------------------------------------------------------------------------


@_function("where")
def _where(b: Builder, condition: Any, x: Any, y: Any) -> Value:
    held = operand(b, condition, dt.bool_)
    left, right = _together(b, x, y)
    shape = np.broadcast_shapes(held.shape, left.shape, right.shape)
    held, left, right = (_broadcast_to(b, v, shape) for v in (held, left, right))
    return b("pd_op.where", held, left, right)


@_function("clip")
def _clip(
    b: Builder, x: Any, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None
) -> Value:
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    found = _value(b, x)
    if low is not None:
        found = apply_ufunc(b, np.maximum, (found, low))
    return found if high is None else apply_ufunc(b, np.minimum, (found, high))


@_function("round", "around")
def _round(b: Builder, x: Any, decimals: int = 0) -> Value:
    x = _value(b, x)
    if x.dtype.is_integer and decimals >= 0:
        return x
    if not x.dtype.is_float:
        raise refused(f"`round` of a {x.meta} to {decimals} decimals", "cast it with `astype`")
    return b.round(x, decimals=decimals)


@_function("real")
def _real(b: Builder, x: Any) -> Value:
    x = _value(b, x)
    return b.real(x) if x.dtype.is_complex else x


@_function("imag")
def _imag(b: Builder, x: Any) -> Value:
    x = _value(b, x)
    return b.imag(x) if x.dtype.is_complex else b.zeros_like(x)


@_function("conj")
def _conj(b: Builder, x: Any) -> Value:
    return apply_ufunc(b, np.conjugate, (_value(b, x),))


@_function("astype")
def _astype(b: Builder, x: Any, dtype: DTypeLike, copy: bool = True) -> Value:
    return b.cast(_value(b, x), element_type(dtype))


@_function("copy")
def _copy(b: Builder, x: Any) -> Value:
    return _value(b, x)


@_function("full_like")
def _full_like(b: Builder, x: Any, fill_value: Any, dtype: DTypeLike | None = None) -> Value:
    x = _typed(b, _value(b, x), dtype)
    if is_number(fill_value):
        return b.like(fill_value, x)
    return _broadcast_to(b, operand(b, fill_value, x.dtype), x.shape)


@_function("zeros_like")
def _zeros_like(b: Builder, x: Any, dtype: DTypeLike | None = None) -> Value:
    return _full_like(b, x, 0, dtype)


@_function("ones_like")
def _ones_like(b: Builder, x: Any, dtype: DTypeLike | None = None) -> Value:
    return _full_like(b, x, 1, dtype)


# --- products and indices ------------------------------------------------------------------------


@_function("dot")
def _dot(b: Builder, x: Any, y: Any) -> Value:
    x, y = _value(b, x), _value(b, y)
    if not x.rank or not y.rank:
        return apply_ufunc(b, np.multiply, (x, y))
    if y.rank > 2:
        raise refused("`dot` with a tensor of more than two axes", "use `@` or `pirkit.ops.matmul`")
    return apply_ufunc(b, np.matmul, (x, y))


@_function("outer")
def _outer(b: Builder, x: Any, y: Any) -> Value:
    return apply_ufunc(b, np.multiply, (_reshape(b, x, (-1, 1)), _reshape(b, y, (1, -1))))


@_function("argsort")
def _argsort(b: Builder, x: Any, axis: int = -1) -> Value:
    x = _value(b, x)
    return b.argsort(x, axis=normalize_axis_index(axis, x.rank), stable=True)[1]


@_function("sort")
def _sort(b: Builder, x: Any, axis: int = -1) -> Value:
    x = _value(b, x)
    return b.argsort(x, axis=normalize_axis_index(axis, x.rank), stable=True)[0]


@_function("take")
def _take(b: Builder, x: Any, indices: Any, axis: int | None = None) -> Value:
    x = _value(b, x)
    x, axis = (b.reshape(x, (-1,)), 0) if axis is None else (x, normalize_axis_index(axis, x.rank))
    places = b.value(indices) if isinstance(indices, Value | DenseTensor) else np.asarray(indices)
    return x[(*[slice(None)] * axis, places)]


@_function("shape")
def _shape(b: Builder, x: Any) -> tuple[int, ...]:
    return _value(b, x).shape


@_function("ndim")
def _ndim(b: Builder, x: Any) -> int:
    return _value(b, x).rank


@_function("size")
def _size(b: Builder, x: Any, axis: int | None = None) -> int:
    shape = _value(b, x).shape
    return product(shape) if axis is None else shape[axis]


@_function("result_type")
def _result_type(b: Builder, *given: Any) -> DType:
    return _together(b, *given)[0].dtype
