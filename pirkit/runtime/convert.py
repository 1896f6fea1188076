"""Element conversion as Paddle does it, and arithmetic wider than the storage."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import zip_longest
from typing import Any, Final, cast

from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np

HALF_TYPES: Final = (dt.float16, dt.bfloat16)
"""Storage types too narrow to compute in."""

_NARROW_FLOATS: Final = (*HALF_TYPES, dt.float8_e4m3fn, dt.float8_e5m2)

_NARROW_INTS: Final = (dt.uint8, dt.int8, dt.int16)


def convert(x: Array, dtype: DType) -> Array:
    """``x`` as ``dtype``: C conversion, with the same result on every machine.

    Floats are truncated to integers; those out of range (also NaN and infinities) become the
    smallest int32 or int64, and narrower integers get the low bits of that int32. Complex to real
    takes the real part; any non-zero value is true.
    """
    if x.dtype == dtype.np:
        return x
    if x.dtype.kind == "c" and not dtype.is_complex and dtype is not dt.bool_:
        x = x.real
    with np.errstate(invalid="ignore", over="ignore"):
        if dtype in _NARROW_INTS and dt.of_array(x).is_float:
            x = _truncated(x, dt.int32)
        elif dtype.is_integer and dt.of_array(x).is_float:
            return _truncated(x, dtype)
        return x.astype(dtype.np)


def _truncated(x: Array, dtype: DType) -> Array:
    in_float64 = x.astype(np.float64)
    limit = 2.0 ** (8 * dtype.itemsize - 1)
    inside = (in_float64 > -limit - 1) & (in_float64 < limit)
    integers = np.where(inside, in_float64, 0.0).astype(dtype.np)
    return np.where(inside, integers, np.iinfo(dtype.np).min)


def constant(value: complex, dtype: DType) -> Array:
    """A Python number as a 0-D array. Integers are exact in int64 and wrap in narrower types."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        value = float(value)
    x = np.asarray(value)
    return convert(x if x.dtype.kind != "i" else x.astype(np.int64), dtype)


def constants(values: Sequence[complex], dtype: DType) -> Array:
    """Python numbers as a 1-D array, each as `constant` converts it."""
    kinds = {*map(type, values)}
    if kinds in ({float}, {bool}) or (kinds == {int} and max(map(abs, values)) < 2**63):
        return convert(np.asarray(values), dtype)
    return np.asarray([constant(v, dtype) for v in values], dtype.np)


_CODES: Final = {dt.float32: "f", dt.float64: "d"}


def rounded(number: complex, dtype: DType) -> Any:
    """A Python number as that dtype holds it: 0.1 in float32 is 0.10000000149011612."""
    if number != number:
        return number
    if not isinstance(number, complex):  # common calls without numpy, whose first use is slow
        if dtype in _CODES and (isinstance(number, float) or abs(number) <= 2**53):
            return array(_CODES[dtype], (number,))[0]
        if dtype.kind == "int" and abs(number) < 128:
            return int(number)
    element = constant(number, dtype)
    return float(element) if dtype.is_float else element.item()


def arithmetic_dtype(x: Array) -> DType:
    """The element type in which arithmetic on ``x`` is computed."""
    return dt.float32 if dt.of_numpy(x.dtype) in HALF_TYPES else dt.of_array(x)


def widened(x: Array) -> Array:
    """``x`` in float32 if it is float16 or bfloat16, else unchanged."""
    return x.astype(np.float32) if dt.of_numpy(x.dtype) in HALF_TYPES else x


def in_f32(function: Callable[..., Any]) -> Callable[..., Array]:
    """``function``, computed in float32 and rounded once if its arrays are of 16 or 8 bits.

    The result is always an array, even if numpy would return a scalar.
    """

    @wraps(function)
    def rule(*arrays: Array, **attributes: Any) -> Array:
        narrow = arrays[0].dtype
        if dt.of_numpy(narrow) not in _NARROW_FLOATS:
            return np.asarray(function(*arrays, **attributes))
        wide = (a.astype(np.float32) if _is_of(a, narrow) else a for a in arrays)
        out = np.asarray(function(*wide, **attributes))
        return out.astype(narrow) if out.dtype == np.float32 else out

    return rule


def _is_of(value: Any, dtype: np.dtype[Any]) -> bool:
    return getattr(value, "dtype", None) == dtype  # an axis has none


def in_single(step: Callable[..., Any], half: DType, wanted: Sequence[Any]) -> Callable[..., Any]:
    """``step``, computed in float32 for operands of type ``half``, with results as ``wanted``.

    Floating results of which nothing is known get the type ``half``.
    """

    def widen(x: Any) -> Any:
        if isinstance(x, list | tuple):
            return [widened(a) for a in cast("list[Array]", x)]
        return None if x is None else widened(x)

    def narrowed(x: Any, meta: Any) -> Any:
        if isinstance(x, list):
            items = zip_longest(cast("list[Array]", x), getattr(meta, "items", ()))
            return [narrowed(a, m) for a, m in items]
        kind = half if meta is None else meta.dtype
        return _as_array(x if x is None or x.dtype.kind != "f" else x.astype(kind.np))

    def run(*operands: Any) -> tuple[Any, ...]:
        found: Any = step(*map(widen, operands))
        results = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        return tuple([narrowed(x, m) for x, m in zip_longest(results, wanted[: len(results)])])

    return run


def with_arrays(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` with arrays for results: numpy gives scalars for some of rank 0."""

    def run(*operands: Any) -> Any:
        found: Any = step(*operands)
        if isinstance(found, tuple):
            return tuple([_as_array(x) for x in cast("tuple[Any, ...]", found)])
        return _as_array(found)

    return run


def _as_array(x: Any) -> Any:
    return cast("Array", np.asarray(x)) if isinstance(cast("object", x), np.generic) else x
