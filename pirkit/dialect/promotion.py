"""Type promotion of the two operands of a binary op, as in Paddle 3.3.1."""

from __future__ import annotations

from typing import Final

from pirkit.diag.errors import ConstraintError
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import np
from pirkit.runtime.meta import TensorMeta

_CATEGORY: Final = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}
_COMPLEX_OF: Final = {dt.float64: dt.complex128, dt.complex128: dt.complex128}
_INT_ORDER: Final = (dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64)


def promote(x: TensorMeta, y: TensorMeta, constraint: str) -> DType:
    """The common element type of two operands.

    Floats promote to the wider one (float16 and bfloat16 to float32), and everything promotes with
    a complex number to a complex type. A 0-D operand does not promote a tensor of the same
    category; with another category the higher of the two wins. Raises ConstraintError otherwise:
    Paddle refuses to mix integers of different width, or integers and floats, silently.
    """
    a, b = x.dtype, y.dtype
    if a is b:
        return a
    if (x.rank == 0) != (y.rank == 0):
        tensor, scalar = (b, a) if x.rank == 0 else (a, b)
        if _CATEGORY[a.kind] == _CATEGORY[b.kind]:
            return tensor
        return wider(tensor, scalar)
    if not (a.is_float and b.is_float) and not (a.is_complex or b.is_complex):
        raise ConstraintError(
            constraint,
            f"dtypes {a} and {b} do not mix",
            help="cast one operand; Paddle promotes only between floats and to complex",
        )
    return wider(a, b)


def wider(a: DType, b: DType) -> DType:
    """The element type in which both can be computed; float32 for float16 with bfloat16."""
    if a.is_complex or b.is_complex:
        return _COMPLEX_OF.get(a) or _COMPLEX_OF.get(b) or dt.complex64
    if a.is_float and b.is_float:
        if {a, b} == {dt.float16, dt.bfloat16}:
            return dt.float32
        return a if a.itemsize > b.itemsize else b
    if a.is_float or b.is_float:
        return a if a.is_float else b
    return max(a, b, key=_INT_ORDER.index)


def numpy_common(a: DType, b: DType) -> DType:
    """The common type as in numpy; float16 and bfloat16 together are float32."""
    return wider(a, b) if a.is_float and b.is_float else dt.BY_NUMPY[np.result_type(a.np, b.np)]
