"""Element types, with the three spellings that programs use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. Instances are unique: compare them with ``is``.

    ``name`` is Paddle's attribute spelling (``float32``), ``short`` the spelling inside Paddle's
    type text (``tensor<2xf32>``), ``np`` the numpy dtype, ``code`` the number in protobuf headers.
    """

    name: str
    short: str
    np: np.dtype[Any]
    code: int
    kind: str
    """One of ``bool``, ``int``, ``uint``, ``float``, ``complex``."""

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.np.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned; bool is not an integer."""
        return self.kind in ("int", "uint")

    @property
    def dtype(self) -> np.dtype[Any]:
        """What numpy reads of an object that stands for a dtype: ``np.eye(2, dtype=x.dtype)``."""
        return self.np

    def __call__(self, value: Any) -> Any:
        """A value in this element type, as ``np.float64(value)``: a tensor stays one."""
        if hasattr(value, "astype"):
            return value.astype(self.np)
        return np.asarray(value, self.np)[()]

    def __repr__(self) -> str:
        return self.name


def _dtype(name: str, short: str, scalar: Any, code: int, kind: str) -> DType:
    return DType(name, short, np.dtype(scalar), code, kind)


bool_: Final = _dtype("bool", "b", np.bool_, 0, "bool")
int16: Final = _dtype("int16", "i16", np.int16, 1, "int")
int32: Final = _dtype("int32", "i32", np.int32, 2, "int")
int64: Final = _dtype("int64", "i64", np.int64, 3, "int")
float16: Final = _dtype("float16", "f16", np.float16, 4, "float")
float32: Final = _dtype("float32", "f32", np.float32, 5, "float")
float64: Final = _dtype("float64", "f64", np.float64, 6, "float")
uint8: Final = _dtype("uint8", "u8", np.uint8, 20, "uint")
int8: Final = _dtype("int8", "i8", np.int8, 21, "int")
bfloat16: Final = _dtype("bfloat16", "bf16", ml_dtypes.bfloat16, 22, "float")
complex64: Final = _dtype("complex64", "c64", np.complex64, 23, "complex")
complex128: Final = _dtype("complex128", "c128", np.complex128, 24, "complex")
float8_e4m3fn: Final = _dtype("float8_e4m3fn", "f8e4m3fn", ml_dtypes.float8_e4m3fn, 32, "float")
float8_e5m2: Final = _dtype("float8_e5m2", "f8e5m2", ml_dtypes.float8_e5m2, 33, "float")

ALL: Final = (
    bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64,
    complex64, complex128, float8_e4m3fn, float8_e5m2,
)  # fmt: skip
BY_NAME: Final = {d.name: d for d in ALL}
BY_SHORT: Final = {d.short: d for d in ALL}
BY_NUMPY: Final = {d.np: d for d in ALL}
BY_CODE: Final = {d.code: d for d in ALL}

FLOATS: Final = (float32, float64, float16, bfloat16)
INTS: Final = (int32, int64)
COMPLEX: Final = (complex64, complex128)
REAL: Final = (*FLOATS, *INTS)
NUMBERS: Final = (*REAL, *COMPLEX)
ANY: Final = (*NUMBERS, bool_, uint8, int8, int16)
BOOL: Final = (bool_,)

COMPLEX_OF: Final = {float32: complex64, float64: complex128}
"""The complex type whose parts have that real type."""
REAL_OF: Final = {v: k for k, v in COMPLEX_OF.items()}


def of_array(array: np.ndarray[Any, Any]) -> DType:
    """The DType of a numpy array.

    Raises KeyError for a numpy dtype without an element type (strings, objects, uint64).
    """
    return BY_NUMPY[array.dtype]
