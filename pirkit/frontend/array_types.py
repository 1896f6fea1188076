"""Element types in the array API: their kinds, limits and promotion, and the inspection interface.

Source: https://data-apis.org/array-api/2024.12/ ("Data Types", "Inspection").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import ArgumentError, UnsupportedError
from pirkit.frontend.numpy_ufuncs import is_number
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.place import CPU, Place
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type

DTYPES: Final = {d.name: d for d in dt.ALL}
"""All element types of tensors by name, those outside of the standard included."""

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}

_STANDARD: Final = tuple(
    d for d in dt.ALL if d.name not in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
)


def dtype_of(given: Any) -> DType:
    """The element type of a tensor or of an array of numpy; or an element type, given by name."""
    if hasattr(given, "meta"):
        return given.dtype
    is_array = isinstance(given, np.ndarray | np.generic)
    return element_type(cast(Any, given).dtype if is_array else given)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """True if an element type is of a kind, or of one of a tuple of kinds.

    ``kind`` is a word of the standard (``"real floating"``) or an element type. Raises
    ArgumentError (PK0701) for any other text.
    """
    held = element_type(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(held, one) for one in cast("tuple[Any, ...]", kind))
    if not isinstance(kind, str) or (kind in DTYPES and kind not in _KINDS):
        return held is element_type(kind)
    if kind not in _KINDS:
        raise ArgumentError(
            f"`{kind}` is no kind of element types",
            help=f"kinds are {', '.join(_KINDS)}, element types, and tuples of them",
        )
    return held.kind in _KINDS[kind]


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The element type to which tensors, element types and Python numbers promote, as in numpy.

    Raises UnsupportedError (PK0400) where there is none.
    """
    given = [x if is_number(x) else dtype_of(x).np for x in arrays_and_dtypes]
    try:
        return element_type(np.result_type(*given))
    except TypeError as error:
        raise UnsupportedError(f"{error}", help="convert one of them: `x.astype(...)`") from error


def can_cast(from_: Any, to: DTypeLike) -> bool:
    """True if a type, or that of a tensor, converts to another by numpy's ``safe`` rule."""
    return bool(np.can_cast(dtype_of(from_).np, element_type(to).np))


class FloatLimits(Struct, frozen=True):
    """The limits of a floating-point type; of a complex type, those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerLimits(Struct, frozen=True):
    """The limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any) -> FloatLimits:
    """The limits of a floating-point type, or that of a tensor.

    Raises ArgumentError (PK0701) for other types.
    """
    held = dtype_of(type)
    if not (held.is_float or held.is_complex):
        raise ArgumentError(f"`finfo` of {held}", help="integers have `iinfo`")
    part = dt.REAL_OF.get(held, held)
    found = part.limits
    numbers = [float(getattr(found, n)) for n in ("eps", "max", "min", "smallest_normal")]
    return FloatLimits(found.bits, *numbers, dtype=part)


def iinfo(type: Any) -> IntegerLimits:
    """The limits of an integer type, or that of a tensor.

    Raises ArgumentError (PK0701) for other types.
    """
    held = dtype_of(type)
    if not held.is_integer:
        raise ArgumentError(f"`iinfo` of {held}", help="floating types have `finfo`")
    found = np.iinfo(held.np)
    return IntegerLimits(found.bits, int(found.max), int(found.min), held)


class NamespaceInfo:
    """The result of the standard's ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """What tensors support; traced values do not support the first two."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Place:
        """The place of new tensors."""
        return CPU

    def devices(self) -> list[Place]:
        """The places of tensors."""
        return [CPU]

    def default_dtypes(self, *, device: Place | None = None) -> dict[str, DType]:
        """The element types of arrays made from Python numbers, as in numpy, and of indices."""
        return {
            "real floating": dt.float64,
            "complex floating": dt.complex128,
            "integral": dt.int64,
            "indexing": dt.int64,
        }

    def dtypes(self, *, device: Place | None = None, kind: Any = None) -> dict[str, DType]:
        """The element types of the standard that tensors have, of all kinds or of some."""
        return {d.name: d for d in _STANDARD if kind is None or isdtype(d, kind)}
