"""numpy's elementwise functions on traced values: one table for operators and for ``np.sin(v)``.

Element types are those of numpy's inner loops, so a traced expression has the type of an eager one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import pi
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import TraceError
from pirkit.dialect.build import Builder, Value
from pirkit.frontend.user_line import user_span
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import HALF_TYPES
from pirkit.runtime.dtype import DType
from pirkit.runtime.given_arrays import given_array
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.meta_cache import element_type

Rule = Callable[..., Any]
"""Emits the result from a builder and operands that have the types of the loop."""

NUMBERS: Final = (bool, int, float, complex)
"""Python numbers: they take the type of the other operand. numpy scalars have their own type."""

_UNARY: Final = """
    sin cos tan arcsin:asin arccos:acos arctan:atan sinh cosh tanh arcsinh:asinh
    arccosh:acosh arctanh:atanh exp expm1 log log2 log10 log1p sqrt square reciprocal floor ceil
    sign trunc isnan isinf isfinite logical_not invert:bitwise_not
"""
_BINARY: Final = """
    add subtract divide floor_divide remainder maximum minimum fmax fmin arctan2:atan2 copysign
    less:less_than less_equal greater:greater_than greater_equal equal not_equal logical_and
    logical_or logical_xor bitwise_and bitwise_or bitwise_xor left_shift:bitwise_left_shift
    right_shift:bitwise_right_shift matmul nextafter
"""


def refused(what: str, help: str) -> TraceError:
    """The error (PK0706) for a numpy function that cannot be recorded."""
    return TraceError(what, span=user_span(), help=help)


def size_of(x: Any, axis: int) -> int:
    """The size of an axis. Raises TraceError (PK0706) where only the run knows it."""
    size = x.shape[axis]
    if size == UNKNOWN:
        raise refused(
            f"the size of axis {axis} of a {x.meta}, which is unknown until the program runs,",
            "give the argument a known shape",
        )
    return size


# --- operands ------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """True for Python numbers, which promote weakly; ``np.float64`` is a 0-D tensor."""
    return type(value) in NUMBERS


def weak_kind(value: Any) -> type[Any] | None:
    """The Python type of a number or of a traced number (`WeakValue`); None for all else."""
    return cast("type[Any]", type(value)) if is_number(value) else getattr(value, "weak", None)


def dtype_of(value: Any) -> DType:
    """The element type of an operand that is not a Python number."""
    if isinstance(value, Value | DenseTensor):
        return value.dtype
    if isinstance(value, list | tuple) and any(
        isinstance(v, Value) for v in cast("list[Any]", value)
    ):
        raise refused("a list of traced values as one tensor", "join them: `np.stack(values)`")
    return element_type(given_array(value).dtype)


def recorded(b: Builder, value: Any) -> Value:
    """A traced value, an array, or a list of numbers, as a value of the program."""
    if not isinstance(value, list | tuple):
        return b.value(value)
    return b.value(given_array(value))


def typed(b: Builder, value: Any, dtype: DType) -> Value:
    """A traced value or an array, cast; of a `WeakValue` its number that is not rounded yet."""
    given = value.wide if getattr(value, "weak", None) is not None else value
    return b.cast(recorded(b, given), dtype)


def fits(number: Any, dtype: DType) -> bool:
    """Whether a Python integer is within an integer type; true for other numbers and types."""
    if not dtype.is_integer or not isinstance(number, int):
        return True
    limits = np.iinfo(dtype.np)
    return bool(limits.min <= number <= limits.max)


def held(number: Any, dtype: DType) -> Any:
    """The number. Raises TraceError if the type cannot hold it; numpy raises OverflowError."""
    if fits(number, dtype):
        return number
    raise refused(f"{number} is beyond {dtype}", "give the other operand a wider type: `astype`")


def _wide(number: Any) -> Any:
    """A number to compare integers with: in int64, or infinite where it is beyond int64."""
    return np.int64(number) if fits(number, dt.int64) else float("inf" if number > 0 else "-inf")


def operand(b: Builder, value: Any, dtype: DType) -> Value:
    """An operand as a value of that type."""
    if is_number(value):
        return b.const(held(value, dtype), dtype)
    return typed(b, value, dtype)


def loop_types(ufunc: np.ufunc, inputs: Sequence[Any]) -> tuple[DType, ...]:
    """The types of numpy's inner loop: of the operands, then of the results.

    Raises TraceError if numpy has no loop for them.
    """
    kinds = [weak_kind(x) for x in inputs]
    if None not in kinds:  # numbers alone: traced ones take part with their element type
        kinds = [k if is_number(x) else None for x, k in zip(inputs, kinds, strict=True)]
    types = [None if k else dtype_of(x) for x, k in zip(inputs, kinds, strict=True)]
    # A type of `ml_dtypes`, such as bfloat16, which numpy would not give to a Python float.
    narrow = next((t for t in types if t and t.np.kind not in "biufc"), None)
    pairs = zip(kinds, types, strict=True)
    return _loop(
        ufunc, *[_weak(cast("type[Any]", k), narrow) if t is None else t.np for k, t in pairs]
    )


def _dtypes(inputs: Sequence[Any]) -> tuple[DType, ...] | None:
    """The element types of operands that are all traced values; None if one is anything else."""
    found: list[DType] = []
    for x in inputs:
        if not isinstance(x, Value) or x.weak is not None:
            return None
        found.append(x.dtype)
    return tuple(found)


@cache
def _loop_of_values(ufunc: np.ufunc, dtypes: tuple[DType, ...]) -> tuple[DType, ...]:
    """`loop_types` of traced values, which are most operands."""
    return _loop(ufunc, *[t.np for t in dtypes])


def _weak(kind: type[Any], narrow: DType | None) -> Any:
    """The placeholder for a Python number when numpy resolves the types."""
    if kind is bool:
        return np.dtype(bool)
    return narrow.np if kind is float and narrow else kind


def _loop(ufunc: np.ufunc, *kinds: Any) -> tuple[DType, ...]:
    found = _resolved(ufunc, kinds)
    if isinstance(found, str):
        raise refused(f"`numpy.{ufunc.__name__}`: {found}", "cast the operands with `astype`")
    if ufunc is np.matmul and len(set(kinds)) == 1 and dt.of_numpy(kinds[0]) in HALF_TYPES:
        return (element_type(kinds[0]),) * 3  # `ml_dtypes` gives the product a wider type
    return found


@cache
def _resolved(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> tuple[DType, ...] | str:
    try:
        found = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
    except (TypeError, ValueError) as error:
        return f"{error}".splitlines()[0]
    return tuple([element_type(t) for t in found])


# --- the table -----------------------------------------------------------------------------------


def _unary(name: str, **attributes: Any) -> Rule:
    def rule(b: Builder, x: Value) -> Any:
        return b(f"pd_op.{name}", x, **attributes)

    return rule


def _binary(name: str) -> Rule:
    def rule(b: Builder, x: Any, y: Any) -> Any:
        return b.binary(f"pd_op.{name}", x, y)

    return rule


def _multiply(b: Builder, x: Any, y: Any) -> Value:
    if is_number(x):
        x, y = y, x
    return b.scaled(x, y) if is_number(y) else b.binary("pd_op.multiply", x, y)


def _power(b: Builder, x: Any, y: Any) -> Value:
    if is_number(x) or not is_number(y) or isinstance(y, complex):
        return b.binary("pd_op.elementwise_pow", x, y)
    if x.dtype.is_integer and y < 0:
        raise refused("an integer to a negative power", "cast it: `x.astype('float64') ** y`")
    if x.dtype.is_integer and y > 2:  # attribute `y` of pow is a float32
        return b.binary("pd_op.elementwise_pow", x, y)
    return b.power(x, y)


def _divmod(b: Builder, x: Any, y: Any) -> tuple[Value, Value]:
    return b.binary("pd_op.floor_divide", x, y), b.binary("pd_op.remainder", x, y)


def _scaled(factor: float) -> Rule:
    def rule(b: Builder, x: Value) -> Value:
        return b.scaled(x, factor)

    return rule


def _exp2(b: Builder, x: Value) -> Value:
    return b.binary("pd_op.elementwise_pow", 2, x)


def _absolute(b: Builder, x: Value) -> Value:
    return x if x.dtype is dt.bool_ else b.abs(x)


def _conjugate(b: Builder, x: Value) -> Value:
    return b.conj(x) if x.dtype.is_complex else x


def _same(b: Builder, x: Value) -> Value:
    return x


_SPECIAL: Final[dict[str, Rule]] = {
    "multiply": _multiply,
    "power": _power,
    "float_power": _power,
    "divmod": _divmod,
    "positive": _same,
    "conjugate": _conjugate,
    "negative": _scaled(-1),
    "rint": _unary("round", decimals=0),
    "fabs": _unary("abs"),
    "absolute": _absolute,
    "exp2": _exp2,
    "deg2rad": _scaled(pi / 180),
    "radians": _scaled(pi / 180),
    "rad2deg": _scaled(180 / pi),
    "degrees": _scaled(180 / pi),
}


def _named(text: str, rule: Callable[[str], Rule]) -> dict[str, Rule]:
    pairs = [word.partition(":") for word in text.split()]
    return {name: rule(op or name) for name, _, op in pairs}


UFUNCS: Final[dict[np.ufunc, Rule]] = {
    getattr(np, name): rule
    for name, rule in {**_named(_UNARY, _unary), **_named(_BINARY, _binary), **_SPECIAL}.items()
}
"""Every ufunc that can be recorded. Operators of values call these, by numpy's operator mixin."""


def apply_ufunc(b: Builder, ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """Record ``ufunc(*inputs)``. Raises TraceError for a function that has no op."""
    rule = UFUNCS.get(ufunc)
    if rule is None:
        raise refused(
            f"`numpy.{ufunc.__name__}` of a traced value has no op",
            "compose it of the functions of `pirkit.ops`",
        )
    dtypes = _dtypes(inputs)
    types = loop_types(ufunc, inputs) if dtypes is None else _loop_of_values(ufunc, dtypes)
    # A comparison is exact, also with an integer beyond the type of the other operand.
    if types[-1] is dt.bool_:
        pairs = list(zip(inputs, types, strict=False))
        if any(is_number(x) and not fits(x, t) for x, t in pairs):
            return apply_ufunc(b, ufunc, [_wide(x) if is_number(x) else x for x in inputs])
    given = (
        inputs
        if dtypes == types[: len(inputs)]
        else [
            held(x, t) if is_number(x) else typed(b, x, t)
            for x, t in zip(inputs, types, strict=False)
        ]
    )
    found: Any = rule(b, *given)
    out = types[len(inputs)]
    if isinstance(found, tuple) or found.dtype is out or dt.bool_ in (out, found.dtype):
        return cast(Any, found)
    return b.cast(found, out)
