"""Types of the IR: MLIR's tensors, and the values for which MLIR has no type.

Element types map to MLIR's builtin ones: ``u8`` is ``ui8``, ``b`` is ``i1``, ``c64`` is
``complex<f32>``. A dynamic dimension is ``?``. The tensor's encoding holds a layout other than
NCHW, or the symbolic sizes of dynamic dimensions: ``tensor<?x8xf32, #pir.dims<["N", ""]>>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final, TypeAlias, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from pirkit.diag.errors import LimitError, VerifyError
from pirkit.dialect.sizes import DimsAttr, Size, number
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import (
    MAX_ARRAY_BYTES,
    UNKNOWN,
    Meta,
    TensorMeta,
    TokenMeta,
    VecMeta,
    is_addressable,
)

AnyTensor: TypeAlias = "mlir.TensorType[Attribute]"
Sizes: TypeAlias = tuple[tuple[Size | None, ...], ...]
"""Symbolic sizes of each tensor of a list, or of one tensor; None where there is none."""


@irdl_attr_definition
class VecType(ParametrizedAttribute, TypeAttribute):
    """A list of values: ``!pir.vec<tensor<2xf32>, tensor<3xf32>>``."""

    name = "pir.vec"
    items: mlir.ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        items = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parser.parse_type)
        return [mlir.ArrayAttr(items)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.items, printer.print_attribute)


@irdl_attr_definition
class SelectedRowsType(ParametrizedAttribute, TypeAttribute):
    """Some rows of a tensor: the gradient of an embedding."""

    name = "pir.selected_rows"
    dense: Attribute


@irdl_attr_definition
class TensorArrayType(ParametrizedAttribute, TypeAttribute):
    """A growing list of tensors of one element type."""

    name = "pir.tensor_array"
    element: Attribute


@irdl_attr_definition
class SparseCooType(ParametrizedAttribute, TypeAttribute):
    """A sparse tensor in coordinate form."""

    name = "pir.sparse_coo"
    dense: Attribute


@irdl_attr_definition
class SparseCsrType(ParametrizedAttribute, TypeAttribute):
    """A sparse tensor in compressed row form."""

    name = "pir.sparse_csr"
    dense: Attribute


@irdl_attr_definition
class StackType(ParametrizedAttribute, TypeAttribute):
    """The container in which a branch or loop body saves values for its gradient."""

    name = "pir.stack"


@irdl_attr_definition
class InletType(ParametrizedAttribute, TypeAttribute):
    """The end of a stack onto which values are pushed."""

    name = "pir.inlet"


@irdl_attr_definition
class OutletType(ParametrizedAttribute, TypeAttribute):
    """The end of a stack from which values are popped."""

    name = "pir.outlet"


@irdl_attr_definition
class UndefinedType(ParametrizedAttribute, TypeAttribute):
    """The element type of a tensor that Paddle leaves undefined."""

    name = "pir.undefined"


@irdl_attr_definition
class OpaqueType(ParametrizedAttribute, TypeAttribute):
    """The type of an argument that the program does not determine: Paddle's text omits it."""

    name = "pir.opaque"


STACK: Final = StackType()
INLET: Final = InletType()
OUTLET: Final = OutletType()
UNDEFINED: Final = UndefinedType()
OPAQUE: Final = OpaqueType()

_ELEMENT: Final[dict[DType, Attribute]] = {
    dt.bool_: mlir.i1,
    dt.uint8: mlir.IntegerType(8, mlir.Signedness.UNSIGNED),
    dt.int8: mlir.i8,
    dt.int16: mlir.i16,
    dt.int32: mlir.i32,
    dt.int64: mlir.i64,
    dt.float16: mlir.f16,
    dt.bfloat16: mlir.bf16,
    dt.float32: mlir.f32,
    dt.float64: mlir.f64,
    dt.complex64: mlir.ComplexType(mlir.f32),
    dt.complex128: mlir.ComplexType(mlir.f64),
    dt.float8_e4m3fn: mlir.Float8E4M3FNType(),
    dt.float8_e5m2: mlir.Float8E5M2Type(),
    dt.BY_NAME["float8_e4m3fnuz"]: mlir.Float8E4M3FNUZType(),
    dt.BY_NAME["float8_e5m2fnuz"]: mlir.Float8E5M2FNUZType(),
    dt.BY_NAME["float8_e8m0fnu"]: mlir.Float8E8M0FNUType(),
    dt.BY_NAME["float4_e2m1fn"]: mlir.Float4E2M1FNType(),
    **{dt.BY_NAME[f"uint{n}"]: mlir.IntegerType(n, mlir.Signedness.UNSIGNED)
       for n in (2, 4, 16, 32, 64)},
    **{dt.BY_NAME[f"int{n}"]: mlir.IntegerType(n) for n in (2, 4)},
}  # fmt: skip
_DTYPE: Final[dict[Attribute, DType]] = {v: k for k, v in _ELEMENT.items()}
_TOKENS: Final[dict[Attribute, TokenMeta]] = {
    STACK: TokenMeta("stack"),
    INLET: TokenMeta("inlet"),
    OUTLET: TokenMeta("outlet"),
    UNDEFINED: TokenMeta("undefined"),
    OPAQUE: TokenMeta("opaque"),
}
_TOKEN_TYPES: Final[dict[TokenMeta, Attribute]] = {v: k for k, v in _TOKENS.items()}


def element_type(dtype: DType) -> Attribute:
    """The MLIR element type of a dtype."""
    return _ELEMENT[dtype]


def dtype_of(element: Attribute) -> DType:
    """The dtype of an MLIR element type.

    Raises VerifyError for an element type that no tensor of a program has (i17, f80).
    """
    found = _DTYPE.get(element)
    if found is None:
        raise VerifyError(
            f"`{element}` is no element type of a tensor",
            code="PK0105",
            help="element types are " + ", ".join(str(t) for t in _DTYPE),
        )
    return found


@lru_cache(maxsize=1024)
def tensor_type(
    shape: tuple[int, ...], dtype: DType, encoding: Attribute | None = None
) -> AnyTensor:
    """The tensor type of that shape (UNKNOWN prints as ``?``) and dtype; shared between calls."""
    _addressable(TensorMeta(shape, dtype))
    dims = [mlir.DYNAMIC_INDEX if d == UNKNOWN else d for d in shape]
    return mlir.TensorType(_ELEMENT[dtype], dims, encoding or mlir.NoneAttr())


def _addressable(meta: TensorMeta) -> TensorMeta:
    """The meta. Raises LimitError (PK0305) if such a tensor exceeds the address space."""
    if is_addressable(meta):
        return meta
    raise LimitError(
        f"`{meta}` is more than {MAX_ARRAY_BYTES:,} bytes",
        code="PK0305",
        help="no array can be that large; look at the sizes that the shape is computed from",
    )


_METAS: Final[dict[int, tuple[Attribute, Meta]]] = {}
_METAS_LIMIT: Final = 4096


def meta_of(type_: Attribute) -> Meta:
    """The meta of a type's values. Raises VerifyError for a type outside the dialect."""
    held = _METAS.get(id(type_))  # the hash of a type costs as much as all else
    if held is None:
        if len(_METAS) >= _METAS_LIMIT:
            _METAS.clear()
        held = _METAS[id(type_)] = (type_, _meta_of(type_))  # the type lives while its id is a key
    return held[1]


@lru_cache(maxsize=1024)
def _meta_of(type_: Attribute) -> Meta:
    if isinstance(type_, mlir.TensorType):
        tensor = cast(AnyTensor, type_)
        if tensor.element_type == UNDEFINED:
            return TokenMeta("undefined")
        dims = (UNKNOWN if d == mlir.DYNAMIC_INDEX else d for d in tensor.get_shape())
        return _addressable(TensorMeta(tuple(dims), dtype_of(tensor.element_type)))
    if isinstance(type_, VecType):
        items = [meta_of(t) for t in type_.items]
        tensors = [m for m in items if isinstance(m, TensorMeta)]
        if len(tensors) == len(items):
            return VecMeta(tuple(tensors))
        return TokenMeta(str(type_))
    token = _TOKENS.get(type_)
    if token is not None:
        return token
    if type_.name.startswith("pir."):
        return TokenMeta(str(type_))
    raise VerifyError(f"`{type_}` is no type of a program's values", code="PK0105")


@lru_cache(maxsize=1024)
def type_of(meta: Meta) -> Attribute:
    """The type of values with that meta; the inverse of `meta_of` up to layout."""
    if isinstance(meta, TensorMeta):
        return tensor_type(meta.shape, meta.dtype)
    if isinstance(meta, VecMeta):
        return vec_type([type_of(m) for m in meta.items])
    return _TOKEN_TYPES[meta]


def vec_type(items: Sequence[Attribute]) -> VecType:
    """The type of a list of values of these types."""
    return VecType(mlir.ArrayAttr(items))


@lru_cache(maxsize=1024)
def sizes_of(type_: Attribute) -> Sizes:
    """The size of each dimension as far as the type determines it; empty if it is not a tensor."""
    if isinstance(type_, VecType):
        items = [sizes_of(item) for item in type_.items]
        return tuple([item[0] for item in items]) if all(items) else ()
    if not isinstance(type_, mlir.TensorType):
        return ()
    tensor = cast(AnyTensor, type_)
    shape, names = tensor.get_shape(), names_of(tensor)
    pairs = zip(shape, names, strict=True)
    return (tuple([s if d == mlir.DYNAMIC_INDEX else number(d) for d, s in pairs]),)


def names_of(tensor: AnyTensor) -> tuple[Size | None, ...]:
    """The symbolic sizes of the dimensions; None for one that has none."""
    encoding = tensor.encoding
    return encoding.data if isinstance(encoding, DimsAttr) else (None,) * tensor.get_num_dims()


def named(type_: Attribute, sizes: Sizes) -> Attribute:
    """The type with these symbolic sizes on its dynamic dimensions, and no others.

    A tensor whose encoding holds a layout cannot hold symbolic sizes and is returned unchanged.
    """
    if not sizes:
        return type_
    if isinstance(type_, VecType):
        pairs = zip(type_.items, sizes, strict=True)
        return vec_type([named(item, (dims,)) for item, dims in pairs])
    if not isinstance(type_, mlir.TensorType):
        return type_
    tensor = cast(AnyTensor, type_)
    if not isinstance(tensor.encoding, DimsAttr | mlir.NoneAttr):
        return tensor
    pairs = zip(tensor.get_shape(), sizes[0], strict=True)
    names = tuple([s if d == mlir.DYNAMIC_INDEX and s and s.terms else None for d, s in pairs])
    encoding = DimsAttr(names) if any(names) else mlir.NoneAttr()
    return mlir.TensorType(tensor.element_type, tensor.get_shape(), encoding)


def retyped(type_: Attribute, meta: Meta) -> Attribute:
    """The type of values with that meta that preserves symbolic sizes and layout of ``type_``."""
    if isinstance(type_, VecType) and isinstance(meta, VecMeta):
        return vec_type([retyped(t, m) for t, m in zip(type_.items, meta.items, strict=True)])
    if not isinstance(type_, mlir.TensorType) or not isinstance(meta, TensorMeta):
        return type_of(meta)
    encoding = cast(AnyTensor, type_).encoding
    if isinstance(encoding, DimsAttr):
        return named(type_of(meta), (encoding.data,))
    return tensor_type(meta.shape, meta.dtype, encoding)


@lru_cache(maxsize=1024)
def check_names(type_: Attribute) -> None:
    """Raise VerifyError unless symbolic sizes are on dynamic dimensions only, one entry for each.

    Raises LimitError (PK0305) for a type that is too large for memory.
    """
    if isinstance(type_, SelectedRowsType | SparseCooType | SparseCsrType):
        meta_of(type_.dense)
    if isinstance(type_, VecType):
        for item in type_.items:
            check_names(item)
    if not isinstance(type_, mlir.TensorType):
        return
    tensor = cast(AnyTensor, type_)
    meta_of(tensor)
    if not isinstance(tensor.encoding, DimsAttr):
        return
    shape, names = tensor.get_shape(), tensor.encoding.data
    if len(names) != len(shape):
        raise VerifyError(f"`{type_}` names {len(names)} of {len(shape)} dimensions", code="PK0105")
    for index, (dim, size) in enumerate(zip(shape, names, strict=True)):
        if size is not None and dim != mlir.DYNAMIC_INDEX:
            raise VerifyError(f"dimension {index} of `{type_}` is known and named", code="PK0105")


@cache
def types() -> tuple[type[Attribute], ...]:
    """The type classes of dialect ``pir``."""
    return (
        VecType, SelectedRowsType, TensorArrayType, SparseCooType, SparseCsrType, StackType,
        InletType, OutletType, UndefinedType, OpaqueType,
    )  # fmt: skip
