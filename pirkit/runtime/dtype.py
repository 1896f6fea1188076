"""Element types, with the three spellings that programs use."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pirkit.diag.gc_pause import imported
from pirkit.runtime.lazy_numpy import Array, np


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. Instances are unique: compare them with ``is``.

    It equals whatever numpy's dtype equals: ``x.dtype == "float32"``, ``== np.float32``. As there,
    names hash otherwise: ``x.dtype in ("float32", "float64")``, but not in a set of strings.

    ``name`` is Paddle's attribute spelling (``float32``), ``short`` the spelling inside Paddle's
    type text (``tensor<2xf32>``), ``np`` the numpy dtype, ``code`` the number in protobuf headers.
    """

    name: str
    short: str
    itemsize: int
    """Bytes of one element."""
    code: int
    kind: str
    """One of ``bool``, ``int``, ``uint``, ``float``, ``complex``."""
    np: np.dtype[Any] = field(init=False)

    def __getattr__(self, name: str) -> Any:  # also called while the slot `np` is empty
        if name != "np":
            raise AttributeError(f"element types have no attribute {name!r}", name=name, obj=self)
        imported("ml_dtypes")  # registers the names of its types with numpy
        for each in EVERY:
            object.__setattr__(each, "np", np.dtype(each.name))
        with suppress(AttributeError):  # another thread was faster
            del DType.__getattr__  # Python reads every attribute slowly where a class has it
        return self.np

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
        """The attribute by which numpy accepts this as a dtype: ``np.eye(2, dtype=x.dtype)``."""
        return self.np

    @property
    def limits(self) -> Any:
        """The limits of a floating type, bfloat16 too, of which numpy's `finfo` knows nothing."""
        return imported("ml_dtypes").finfo(self.np)

    def __call__(self, value: Any) -> Any:
        """A value in this element type, as ``np.float64(value)``: a tensor stays one."""
        if hasattr(value, "astype"):
            return value.astype(self.np)
        return np.asarray(value, self.np)[()]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        return other is not None and bool(self.np == other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, and what another process unpickles, are the instance of that name."""
        return named, (self.name,)


bool_: Final = DType("bool", "b", 1, 0, "bool")
int16: Final = DType("int16", "i16", 2, 1, "int")
int32: Final = DType("int32", "i32", 4, 2, "int")
int64: Final = DType("int64", "i64", 8, 3, "int")
float16: Final = DType("float16", "f16", 2, 4, "float")
float32: Final = DType("float32", "f32", 4, 5, "float")
float64: Final = DType("float64", "f64", 8, 6, "float")
uint8: Final = DType("uint8", "u8", 1, 20, "uint")
int8: Final = DType("int8", "i8", 1, 21, "int")
bfloat16: Final = DType("bfloat16", "bf16", 2, 22, "float")
complex64: Final = DType("complex64", "c64", 8, 23, "complex")
complex128: Final = DType("complex128", "c128", 16, 24, "complex")
float8_e4m3fn: Final = DType("float8_e4m3fn", "f8e4m3fn", 1, 32, "float")
float8_e5m2: Final = DType("float8_e5m2", "f8e5m2", 1, 33, "float")

ALL: Final = (
    bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64,
    complex64, complex128, float8_e4m3fn, float8_e5m2,
)  # fmt: skip


def _stored(name: str, short: str, itemsize: int = 1, kind: str = "float") -> DType:
    return DType(name, short, itemsize, -1, kind)


uint16: Final = _stored("uint16", "u16", 2, "uint")
uint32: Final = _stored("uint32", "u32", 4, "uint")
uint64: Final = _stored("uint64", "u64", 8, "uint")
HELD_IN: Final = {
    uint16: int32, uint32: int64, uint64: int64,
    _stored("int4", "i4", kind="int"): int8, _stored("uint4", "u4", kind="uint"): uint8,
    _stored("int2", "i2", kind="int"): int8, _stored("uint2", "u2", kind="uint"): uint8,
    **dict.fromkeys(
        (float8_e4m3fn, float8_e5m2, _stored("float8_e4m3fnuz", "f8e4m3fnuz"),
         _stored("float8_e5m2fnuz", "f8e5m2fnuz"), _stored("float8_e8m0fnu", "f8e8m0fnu"),
         _stored("float4_e2m1fn", "f4e2m1fn")), float32),
}  # fmt: skip
"""Element types that data are stored in and nothing is computed in, with the one that stands for
them: it has all their values, or (for uint64) their bits."""
STORED: Final = tuple(HELD_IN)
EVERY: Final = (*ALL, *(d for d in STORED if d not in ALL))
"""Also those that only models of ONNX have."""
BY_NAME: Final = {d.name: d for d in EVERY}
BY_SHORT: Final = {d.short: d for d in EVERY}
BY_CODE: Final = {d.code: d for d in ALL}


def named(name: str) -> DType:
    """The element type of a name, such as ``float32``."""
    return BY_NAME[name]


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


class _ByNumpy(dict["np.dtype[Any]", DType]):
    """Filled when it is first indexed, as numpy is imported then; `get` is :func:`of_numpy`."""

    def __missing__(self, key: np.dtype[Any]) -> DType:
        if self:
            raise KeyError(key)
        self.update({d.np: d for d in EVERY})
        return self[key]


BY_NUMPY: Final = _ByNumpy()


def of_numpy(dtype: np.dtype[Any]) -> DType | None:
    """The DType of a numpy dtype; None for one without an element type."""
    try:
        return BY_NUMPY[dtype]
    except KeyError:
        return None


def of_array(array: Array) -> DType:
    """The DType of a numpy array.

    Raises KeyError for a numpy dtype without an element type (strings, objects).
    """
    return BY_NUMPY[array.dtype]
