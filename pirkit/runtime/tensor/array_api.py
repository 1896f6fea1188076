"""The functions of the array API standard on tensors: wrappers of numpy's (or cupy's) functions.

``xp = t.__array_namespace__()`` gives a namespace whose functions take and return tensors and
whose dtypes are those of pirkit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import UnsupportedError
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.dtype import DType
from pirkit.runtime.place import Place

VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12")

DTYPES: Final = {"bool": dt.bool_, **{d.name: d for d in dt.ALL if d is not dt.bool_}}

CONSTANTS: Final = ("e", "inf", "nan", "newaxis", "pi")

FUNCTIONS: Final = frozenset(
    """
    abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2
    atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    broadcast_arrays broadcast_to can_cast ceil clip concat conj copysign cos cosh count_nonzero
    cumulative_prod cumulative_sum diff divide empty empty_like equal exp expand_dims expm1 eye flip
    floor floor_divide full full_like greater greater_equal hypot imag isdtype isfinite isinf
    isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not
    logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis
    multiply negative nextafter nonzero not_equal ones ones_like permute_dims positive pow prod real
    reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh
    sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile
    tril triu trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot
    where zeros zeros_like finfo iinfo
    """.split()
)
"""The names of the 2024 standard, except ``from_dlpack``, which pirkit implements itself."""


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


class Namespace:
    """The array API for tensors, over the array module of their arrays."""

    def __init__(self, module: ModuleType, tensor: Callable[[Any], Any]) -> None:
        self._module = module
        self._tensor = tensor
        self.__array_api_version__ = VERSIONS[-1]

    def __getattr__(self, name: str) -> Any:
        if name in DTYPES:
            return DTYPES[name]
        if name in CONSTANTS:
            return getattr(self._module, name)
        if name not in FUNCTIONS:
            raise AttributeError(f"the array API has no {name!r}", name=name, obj=self)
        made = lifted(getattr(self._module, name), self._tensor)
        setattr(self, name, made)
        return made

    def __dir__(self) -> list[str]:
        return sorted({*FUNCTIONS, *DTYPES, *CONSTANTS})

    def __repr__(self) -> str:
        return f"<array namespace of tensors over {self._module.__name__}>"


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


@cache
def of(module: ModuleType, tensor: Callable[[Any], Any], version: str | None) -> Namespace:
    """The namespace of tensors. Raises UnsupportedError for an unknown version."""
    if version is not None and version not in VERSIONS:
        raise UnsupportedError(
            f"version {version} of the array API", help=f"known are {', '.join(VERSIONS)}"
        )
    return Namespace(module, tensor)
