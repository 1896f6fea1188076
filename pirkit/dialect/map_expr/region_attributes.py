"""Attributes and types inside of a kernel: values of Python as MLIR attributes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.attrs import ComplexAttr
from pirkit.dialect.map_expr.affine import sizes_map, sizes_of
from pirkit.dialect.map_expr.kernel_syntax import EMPTY
from pirkit.dialect.types import dtype_of, element_type, tensor_type
from pirkit.index.extent import is_sized
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

NONE: Final = mlir.NoneType()


def attribute_of(value: Any) -> Attribute:
    """The attribute of a value: None, a number, a string, an element type, or a tuple of such."""
    match value:
        case None:
            return NONE
        case bool():
            return mlir.IntegerAttr(int(value), mlir.i1)
        case int():
            return mlir.IntegerAttr(value, mlir.i64)
        case float():
            return mlir.FloatAttr(value, mlir.f64)
        case complex():
            return ComplexAttr(value)
        case str():
            return StringAttr(value)
        case DType():
            return element_type(value)
        case tuple():
            return ArrayAttr([attribute_of(v) for v in cast("tuple[Any, ...]", value)])
        case _:
            raise ConstraintError("C1", f"a kernel cannot hold the attribute {value!r}")


def python_of(attribute: Attribute) -> Any:
    """The inverse of `attribute_of`."""
    match attribute:
        case mlir.NoneType():
            return None
        case mlir.IntegerAttr():
            number = cast("mlir.IntegerAttr[Any]", attribute)
            return bool(number.value.data) if number.type == mlir.i1 else number.value.data
        case mlir.FloatAttr():
            return cast("mlir.FloatAttr[Any]", attribute).value.data
        case ComplexAttr() | StringAttr():
            return attribute.data
        case ArrayAttr():
            return tuple([python_of(a) for a in attribute])
        case _:
            return dtype_of(attribute)


def dictionary_of(attrs: Mapping[str, Any]) -> DictionaryAttr:
    """Attributes by name."""
    return DictionaryAttr({k: attribute_of(v) for k, v in attrs.items()}) if attrs else EMPTY


def mapping_of(attrs: DictionaryAttr | None) -> dict[str, Any]:
    """The inverse of `dictionary_of`."""
    return {} if attrs is None else {k: python_of(v) for k, v in attrs.data.items()}


def type_in_kernel(meta: TensorMeta) -> mlir.TensorType[Attribute]:
    """The tensor type of a meta; symbolic sizes are the results of its encoding, a map."""
    if not any(map(is_sized, meta.shape)):
        return tensor_type(meta.shape, meta.dtype)
    dims = [mlir.DYNAMIC_INDEX if is_sized(n) else n for n in meta.shape]
    return mlir.TensorType(element_type(meta.dtype), dims, sizes_map(meta.shape))


def meta_in_kernel(type_: Attribute) -> TensorMeta:
    """The inverse of `type_in_kernel`. Raises ConstraintError (C1) for a type without sizes."""
    if not isinstance(type_, mlir.TensorType):
        raise ConstraintError("C1", f"`{type_}` is no tensor")
    tensor = cast("mlir.TensorType[Attribute]", type_)
    shape, dtype = tensor.get_shape(), dtype_of(tensor.element_type)
    if isinstance(tensor.encoding, AffineMapAttr):
        sizes = sizes_of(tensor.encoding)
        pairs = zip(sizes, shape, strict=False)
        if len(sizes) == len(shape) and all(
            d == (mlir.DYNAMIC_INDEX if is_sized(n) else n) for n, d in pairs
        ):
            return TensorMeta(sizes, dtype)
    elif mlir.DYNAMIC_INDEX not in shape:
        return TensorMeta(tuple(shape), dtype)
    raise ConstraintError(
        "C1",
        f"`{type_}` does not say of which size each axis is",
        help="in a kernel dynamic sizes are named: `tensor<?xf32, affine_map<()[s0] -> (s0)>>`",
    )
