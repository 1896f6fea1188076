"""The table of numpy functions on traced values, and what its rules share.

Each rule takes the builder, then the parameters of the numpy function. The table serves methods of
values, ``__array_function__`` and the namespace of the array API.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from operator import index
from typing import Any, Final, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pirkit.dialect.build import Builder, Value
from pirkit.frontend.numpy_ufuncs import dtype_of, is_number, loop_types, operand, recorded, refused
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type
from pirkit.runtime.tensor.methods import Axis

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}
"""The rules by their names in numpy and in the array API."""


def function(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a rule into the table under these names."""

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update(dict.fromkeys(names, rule))
        return rule

    return register


def composed(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a rule that is written with numpy's functions; its first argument becomes a value."""

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        def recording(b: Builder, first: Any, *args: Any, **options: Any) -> Any:
            return rule(value_of(b, first), *args, **options)

        FUNCTIONS.update(dict.fromkeys(names, update_wrapper(recording, rule)))
        return rule

    return register


def elementwise(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a rule for a ufunc, written in numpy, whose operands have the types of its loop.

    As in numpy's loops, numbers of 16 bits are computed with in float32.
    """
    ufunc: np.ufunc = getattr(np, name)

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        def recording(b: Builder, *inputs: Any) -> Any:
            types = loop_types(ufunc, inputs)
            operands = zip(inputs, types, strict=False)
            found = rule(*[b.wide(operand(b, x, t)) for x, t in operands])
            if ufunc.nout == 1:
                return b.cast(found, types[-1])
            outs = types[len(inputs) :]
            return tuple([b.cast(x, t) for x, t in zip(found, outs, strict=True)])

        FUNCTIONS[name] = update_wrapper(recording, rule)
        return rule

    return register


def value_of(b: Builder, given: Any) -> Value:
    """A value of the program; arrays and numpy scalars become inputs of it."""
    if is_number(given):
        return b.const(given, element_type(np.asarray(given).dtype))
    return recorded(b, given)


def together(b: Builder, *given: Any) -> list[Value]:
    """Operands cast to the type to which numpy promotes them. Raises TraceError without one."""
    try:
        kinds = [type(g)(0) if is_number(g) else dtype_of(g).np for g in given]
        common = element_type(np.result_type(*kinds))
    except TypeError as error:
        raise refused(f"{error}", "cast the operands with `astype`") from error
    return [operand(b, g, common) for g in given]


def axes_of(x: Value, axis: Axis) -> tuple[int, ...]:
    """The axes that an argument names, in ascending order; all of them for None."""
    if axis is None:
        return tuple(range(x.rank))
    return tuple(sorted(normalize_axis_tuple(cast(Any, axis), x.rank)))


def several(given: Any) -> tuple[int, ...]:
    """Integers, also those of numpy, as a tuple; of one integer as well."""
    return tuple(given) if np.iterable(given) else (index(given),)


def typed(b: Builder, x: Value, dtype: DTypeLike | None) -> Value:
    """``x`` in an element type, if one is given."""
    return x if dtype is None else b.cast(x, element_type(dtype))


def wide_of(dtype: DType) -> DType:
    """The type in which numpy accumulates a sum of such elements."""
    return dt.int64 if dtype is dt.bool_ or dtype.is_integer else dtype
