"""Types of the IR: MLIR's tensors, and the values that MLIR has no type for.

Element types map to MLIR's builtin ones: ``u8`` is ``ui8``, ``b`` is ``i1``, ``c64`` is
``complex<f32>``. A dimension that is unknown until run time is ``?``. A layout other than NCHW
stands in the tensor's encoding.
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

from pirkit.diag.errors import VerifyError
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, TokenMeta, VecMeta

AnyTensor: TypeAlias = "mlir.TensorType[Attribute]"


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
    """The end of a stack that values are pushed into."""

    name = "pir.inlet"


@irdl_attr_definition
class OutletType(ParametrizedAttribute, TypeAttribute):
    """The end of a stack that values are taken from."""

    name = "pir.outlet"


@irdl_attr_definition
class UndefinedType(ParametrizedAttribute, TypeAttribute):
    """The element type of a tensor that Paddle leaves open."""

    name = "pir.undefined"


@irdl_attr_definition
class OpaqueType(ParametrizedAttribute, TypeAttribute):
    """The type of an argument that the program does not tell: Paddle's text has none there."""

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
}
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


@lru_cache(maxsize=65536)
def tensor_type(
    shape: tuple[int, ...], dtype: DType, encoding: Attribute | None = None
) -> AnyTensor:
    """The tensor type of that shape (UNKNOWN prints as ``?``) and dtype; shared between calls."""
    dims = [mlir.DYNAMIC_INDEX if d == UNKNOWN else d for d in shape]
    return mlir.TensorType(_ELEMENT[dtype], dims, encoding or mlir.NoneAttr())


@lru_cache(maxsize=65536)
def meta_of(type_: Attribute) -> Meta:
    """What a type says of its values. Raises VerifyError for a type outside the dialect."""
    if isinstance(type_, mlir.TensorType):
        tensor = cast(AnyTensor, type_)
        if tensor.element_type == UNDEFINED:
            return TokenMeta("undefined")
        dims = (UNKNOWN if d == mlir.DYNAMIC_INDEX else d for d in tensor.get_shape())
        return TensorMeta(tuple(dims), dtype_of(tensor.element_type))
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


@lru_cache(maxsize=65536)
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


@cache
def types() -> tuple[type[Attribute], ...]:
    """The type classes of dialect ``pir``."""
    return (
        VecType, SelectedRowsType, TensorArrayType, SparseCooType, SparseCsrType, StackType,
        InletType, OutletType, UndefinedType, OpaqueType,
    )  # fmt: skip
