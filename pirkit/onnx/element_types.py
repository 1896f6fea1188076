"""Element types of ONNX and of pirkit, and the arrays of ONNX's tensors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pirkit.diag.errors import ArtifactError, UnsupportedError
from pirkit.onnx.libonnx import TensorProto, checker, numpy_helper
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

Array = np.ndarray[Any, Any]

OF_ONNX: Final[dict[int, DType]] = {
    TensorProto.BOOL: dt.bool_,
    TensorProto.UINT8: dt.uint8,
    TensorProto.INT8: dt.int8,
    TensorProto.INT16: dt.int16,
    TensorProto.INT32: dt.int32,
    TensorProto.INT64: dt.int64,
    TensorProto.FLOAT16: dt.float16,
    TensorProto.BFLOAT16: dt.bfloat16,
    TensorProto.FLOAT: dt.float32,
    TensorProto.DOUBLE: dt.float64,
    TensorProto.COMPLEX64: dt.complex64,
    TensorProto.COMPLEX128: dt.complex128,
    TensorProto.FLOAT8E4M3FN: dt.float8_e4m3fn,
    TensorProto.FLOAT8E5M2: dt.float8_e5m2,
    TensorProto.FLOAT8E4M3FNUZ: dt.BY_NAME["float8_e4m3fnuz"],
    TensorProto.FLOAT8E5M2FNUZ: dt.BY_NAME["float8_e5m2fnuz"],
    TensorProto.FLOAT8E8M0: dt.BY_NAME["float8_e8m0fnu"],
    TensorProto.FLOAT4E2M1: dt.BY_NAME["float4_e2m1fn"],
    **{TensorProto.DataType.Value(f"UINT{n}"): dt.BY_NAME[f"uint{n}"] for n in (2, 4, 16, 32, 64)},
    **{TensorProto.DataType.Value(f"INT{n}"): dt.BY_NAME[f"int{n}"] for n in (2, 4)},
}
"""The number of an element type in TensorProto.DataType -> pirkit's."""
TO_ONNX: Final[dict[DType, int]] = {ours: theirs for theirs, ours in OF_ONNX.items()}


def element_type(number: int) -> DType:
    """pirkit's element type for a number of TensorProto.DataType.

    Raises UnsupportedError (PK0410) for a type that pirkit does not have.
    """
    found = OF_ONNX.get(number)
    if found is None:
        known = number in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(number) if known else f"number {number}"
        raise UnsupportedError(
            f"the element type {name} of ONNX", code="PK0410",
            help="export the model with another element type: " + ", ".join(map(str, TO_ONNX)),
        )  # fmt: skip
    return found


def array_of(tensor: Any, folder: str = "") -> Array:
    """The elements of a TensorProto; files of external data lie in ``folder``.

    Raises ArtifactError (PK0506) if data are missing or their number is not that of the shape, and
    UnsupportedError (PK0410) for an element type that pirkit does not have.
    """
    element_type(tensor.data_type)
    try:
        return np.asarray(numpy_helper.to_array(tensor, folder))
    except (OSError, ValueError, checker.ValidationError) as error:
        raise ArtifactError(
            f"the data of `{tensor.name}` cannot be read: {error}",
            code="PK0506",
            help="copy the files of its external data beside the model, as they were saved",
        ) from error
