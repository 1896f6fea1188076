"""Functions of numpy (or cupy) as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any, Final, cast

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.dtype import DType
from pirkit.runtime.place import Place

_IN_F32: Final = frozenset(
    (
        *(
            "average",
            "clip",
            "cumprod",
            "cumsum",
            "cumulative_prod",
            "cumulative_sum",
            "matrix_norm",
        ),
        *("mean", "nancumprod", "nancumsum", "nanmean", "nanprod", "nanstd", "nansum", "nanvar"),
        *("norm", "prod", "std", "sum", "trace", "trapezoid", "var", "vecdot", "vector_norm"),
    )
)
"""Functions that compute in float32, and round once, for floats of 16 or 8 bits: sums would
accumulate rounding errors, and numpy has no `clip` for the types of `ml_dtypes`."""


class Wrapped:
    """Base of classes whose instances wrap an ``array``."""

    __slots__ = ()

    array: Any


def unwrap(value: Any) -> Any:
    """The value with tensors and dtypes unwrapped to those of numpy, also inside lists."""
    if isinstance(value, Wrapped):
        return value.array
    if isinstance(value, DType):
        return value.np
    if isinstance(value, Place):
        return value.kind
    if isinstance(value, list | tuple):
        items = [unwrap(v) for v in cast("list[Any]", value)]
        return items if isinstance(cast(object, value), list) else tuple(items)
    if isinstance(value, dict):
        return {k: unwrap(v) for k, v in cast("dict[Any, Any]", value).items()}
    return value


def wrap(value: Any, tensor: Callable[[Any], Any]) -> Any:
    """The value with arrays and numpy scalars wrapped as tensors, also inside lists and tuples."""
    held = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    items: list[Any] = [wrap(v, tensor) for v in held]
    match value:
        case list():
            return items
        case tuple():
            named: Any = getattr(cast(Any, value), "_make", tuple)
            return named(items)
        case np.dtype():
            return dt.BY_NUMPY[value]
        case np.generic():
            return wrap(np.asarray(cast(Any, value)), tensor)
        case np.ndarray() if cast(Any, value).dtype == np.uint64:
            return tensor(cast(Any, value).astype(np.int64))  # sums of uint8; uint64 has no DType
        case _:
            return tensor(value) if hasattr(value, "ndim") else value


def with_weak_numbers(operands: tuple[Any, ...], kinds: Collection[type]) -> tuple[Any, ...]:
    """Python numbers of some kinds converted to the `ml_dtypes` type of the other operands, as
    numpy would promote the result to a wider type.
    """
    types: list[np.dtype[Any]] = [x.dtype for x in operands if hasattr(x, "dtype")]
    narrow = next((t for t in types if dt.of_numpy(t) and t.kind not in "biufc"), None)
    if narrow is None:
        return operands
    return tuple([np.asarray(x, narrow) if type(x) in kinds else x for x in operands])


def _is_wide(value: Any) -> bool:
    """True for an array of floats that float16 and bfloat16 are promoted to."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and dtype.kind in "fc" and dtype.itemsize >= 4


@cache
def lifted(function: Callable[..., Any], tensor: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function of arrays as a function of tensors."""
    if function is np.matmul:
        return function  # `DenseTensor.__array_ufunc__` rounds its result
    name = function.__name__
    exact = in_f32(function) if name in _IN_F32 else None
    weak: frozenset[type] = frozenset({"where": (float, int)}.get(name, ()))
    weak = weak or frozenset({float} if isinstance(function, np.ufunc) else ())

    def apply_to_arrays(*arguments: Any, **options: Any) -> Any:
        arrays, options = unwrap(arguments), unwrap(options)
        if weak and not weak.isdisjoint(map(type, arrays)):
            arrays = with_weak_numbers(arrays, weak)
        if exact is None or (arrays and getattr(arrays[0], "itemsize", 0) > 2):
            return wrap(function(*arrays, **options), tensor)
        if not arrays and "a" in options:
            arrays = (options.pop("a"),)
        is_wide = any(map(_is_wide, (*arrays[1:], *options.values())))  # so is the result
        if is_wide or not arrays or options.get("dtype") is not None:
            return wrap(function(*arrays, **options), tensor)
        first = arrays[0] if hasattr(arrays[0], "dtype") else np.asarray(arrays[0])
        return wrap(exact(first, *arrays[1:], **options), tensor)

    apply_to_arrays.__name__ = apply_to_arrays.__qualname__ = name
    apply_to_arrays.__doc__ = function.__doc__
    return apply_to_arrays
