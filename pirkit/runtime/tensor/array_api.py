"""Functions of numpy (or cupy) as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, cast

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.dtype import DType
from pirkit.runtime.place import Place

SUMS: Final = (
    *("cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "mean", "prod", "std", "sum"),
    *("var", "vecdot"),
)
"""Functions that would accumulate rounding errors in float16 and bfloat16; they compute in float32
and round once."""


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


@cache
def lifted(function: Callable[..., Any], tensor: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function of arrays as a function of tensors."""
    if function is np.matmul:
        return function  # `DenseTensor.__array_ufunc__` rounds its result
    exact = in_f32(function) if function.__name__ in SUMS else function

    def apply_to_arrays(*arguments: Any, **options: Any) -> Any:
        apply = exact if options.get("dtype") is None else function
        return wrap(apply(*unwrap(arguments), **unwrap(options)), tensor)

    apply_to_arrays.__name__ = apply_to_arrays.__qualname__ = function.__name__
    apply_to_arrays.__doc__ = function.__doc__
    return apply_to_arrays
