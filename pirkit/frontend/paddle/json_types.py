"""Types and ids in Paddle's JSON, read and written by one table each.

An id is ``dialect.word``; the built-in dialects of Paddle are numbered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute

from pirkit.diag.errors import LimitError, UnsupportedError
from pirkit.diag.limits import check
from pirkit.dialect.attrs import LayoutAttr
from pirkit.dialect.sizes import DimsAttr
from pirkit.dialect.structure import OUR_NAMES, PADDLE_NAMES
from pirkit.dialect.types import (
    INLET,
    OUTLET,
    STACK,
    UNDEFINED,
    AnyTensor,
    SelectedRowsType,
    SparseCooType,
    SparseCsrType,
    TensorArrayType,
    VecType,
    dtype_of,
    element_type,
    tensor_type,
    vec_type,
)
from pirkit.frontend.paddle.json_syntax import Malformed, expect, integer, member, text
from pirkit.runtime import dtype as dt

Json = dict[str, Any]

DIALECTS: Final = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "dist"}
_NUMBERS: Final = {name: number for number, name in DIALECTS.items()}

DEEPEST_VALUE: Final = 32
"""Deepest nesting of types and attributes; Paddle nests three levels."""


def read_op_name(word: str) -> str:
    """pirkit's name of an op: ``1.relu`` is ``pd_op.relu``, ``2.yield`` is ``pir.yield``."""
    number, _, name = word.partition(".")
    paddle = f"{DIALECTS.get(number, number)}.{name}"
    return PADDLE_NAMES.get(paddle, paddle)


def write_op_name(name: str) -> str:
    """Paddle's id of one of pirkit's ops."""
    dialect, _, word = OUR_NAMES.get(name, name).partition(".")
    return f"{_NUMBERS.get(dialect, dialect)}.{word}"


_ELEMENTS: Final[dict[str, Attribute]] = {
    "0.t_bool": element_type(dt.bool_),
    "0.t_ui8": element_type(dt.uint8),
    "0.t_i8": element_type(dt.int8),
    "0.t_i16": element_type(dt.int16),
    "0.t_i32": element_type(dt.int32),
    "0.t_i64": element_type(dt.int64),
    "0.t_f16": element_type(dt.float16),
    "0.t_bf16": element_type(dt.bfloat16),
    "0.t_f32": element_type(dt.float32),
    "0.t_f64": element_type(dt.float64),
    "0.t_c64": element_type(dt.complex64),
    "0.t_c128": element_type(dt.complex128),
    "0.t_f8e4m3fn": element_type(dt.float8_e4m3fn),
    "0.t_f8e5m2": element_type(dt.float8_e5m2),
    "0.t_index": mlir.IndexType(),
    "0.t_undefined": UNDEFINED,
}
_TOKENS: Final[dict[str, Attribute]] = {
    "2.t_stack": STACK,
    "2.t_inlet": INLET,
    "2.t_outlet": OUTLET,
}
_WORDS: Final = {type_: word for word, type_ in (_ELEMENTS | _TOKENS).items()}

NULL: Final = "NULL"
_NCHW: Final = "NCHW"
_LAYOUT, _NONZERO, _PARTS = "layout", "nonzero_dims", "parts"


# --- reading -------------------------------------------------------------------------------------


def read_type(node: Any, depth: int = 0) -> Attribute | None:
    """The type of a JSON object; None for the null type.

    Raises Malformed for an object that is no type, LimitError beyond a limit, and UnsupportedError
    (PK0403) for a form that pirkit does not have.
    """
    word = member(node, "#", str)
    check_depth(depth)
    fixed = _ELEMENTS.get(word) or _TOKENS.get(word)
    if fixed is not None:
        return fixed
    if word == NULL:
        return None
    reader = _READERS.get(word)
    if reader is None:
        raise Malformed(f"unknown type `{word[:40]}`", ".#")
    try:
        return reader(member(node, "D", list), depth + 1)
    except Malformed as error:
        raise error.within(".D") from None


def check_depth(depth: int) -> None:
    """Raise LimitError for a type or attribute that is nested too deeply."""
    if depth > DEEPEST_VALUE:
        raise LimitError(
            f"more than {DEEPEST_VALUE} types or attributes inside each other", code="PK0301"
        )


def declared_type(node: Any, depth: int = 0) -> Attribute:
    """A type that may not be null. Raises what `read_type` raises."""
    type_ = read_type(node, depth)
    if type_ is None:
        raise Malformed("the null type is not allowed here")
    return type_


def _items(data: list[Any], count: int) -> list[Any]:
    if len(data) != count:
        raise Malformed(f"expected {count} items, found {len(data)}")
    return data


def _dims(value: Any, path: str) -> tuple[int, ...]:
    dims = expect(value, list, path)
    check("rank", len(dims))
    for index, dim in enumerate(dims):
        if integer(dim, 64, f"{path}[{index}]") < -1:
            raise Malformed(f"dimension {dim} is negative", f"{path}[{index}]")
        check("dimension", dim)
    return tuple(dims)


def _tensor(element: Any, dims: Any, layout: Any, extra: Json | None = None) -> AnyTensor:
    found = _ELEMENTS.get(member(element, "#", str))
    if found is None:
        raise Malformed("is no element type", "[0]")
    return _shared_tensor(found, _dims(dims, "[1]"), _encoding(text(layout), extra))


@lru_cache(maxsize=65536)
def _shared_tensor(
    element: Attribute, dims: tuple[int, ...], encoding: Attribute | None
) -> AnyTensor:
    shape = [mlir.DYNAMIC_INDEX if d == -1 else d for d in dims]
    return mlir.TensorType(element, shape, encoding or mlir.NoneAttr())


def _encoding(layout: str, extra: Json | None) -> Attribute | None:
    if extra is not None:
        return mlir.DictionaryAttr({_LAYOUT: LayoutAttr(layout), **extra})
    return None if layout == _NCHW else LayoutAttr(layout)


def _read_dense(data: list[Any], depth: int) -> Attribute:
    del depth
    element, dims, layout, lod, offset = _items(data, 5)
    if lod != [] or offset != 0:
        raise UnsupportedError("a tensor type with level-of-detail or an offset", code="PK0403")
    return _tensor(element, dims, layout)


def _read_selected_rows(data: list[Any], depth: int) -> Attribute:
    return SelectedRowsType(_read_dense(data, depth))


def _read_vec(data: list[Any], depth: int) -> Attribute:
    items: list[Attribute] = []
    for index, item in enumerate(data):
        try:
            items.append(declared_type(item, depth))
        except Malformed as error:
            raise error.within(f"[{index}]") from None
    return vec_type(items)


def _read_tensor_array(data: list[Any], depth: int) -> Attribute:
    del depth
    return TensorArrayType(_tensor(*_items(data, 3)))


def _read_coo(data: list[Any], depth: int) -> Attribute:
    element, dims, nonzero, layout, *parts = _items(data, 6)
    held = mlir.DenseArrayBase.from_list(mlir.i64, _dims(nonzero, "[2]"))
    return SparseCooType(
        _tensor(element, dims, layout, {_NONZERO: held, _PARTS: _parts(parts, 4, depth)})
    )


def _read_csr(data: list[Any], depth: int) -> Attribute:
    element, dims, layout, *parts = _items(data, 6)
    return SparseCsrType(_tensor(element, dims, layout, {_PARTS: _parts(parts, 3, depth)}))


def _parts(nodes: list[Any], first: int, depth: int) -> Attribute:
    """Types of the tensors that a sparse tensor consists of."""
    found: list[Attribute] = []
    for index, node in enumerate(nodes, first):
        try:
            found.append(declared_type(node, depth))
        except Malformed as error:
            raise error.within(f"[{index}]") from None
    return mlir.ArrayAttr(found)


_READERS: Final[dict[str, Callable[[list[Any], int], Attribute]]] = {
    "0.t_dtensor": _read_dense,
    "0.t_vec": _read_vec,
    "1.t_selected_rows": _read_selected_rows,
    "1.t_dense_tensor_array": _read_tensor_array,
    "1.t_sparse_coo_tensor": _read_coo,
    "1.t_sparse_csr_tensor": _read_csr,
}


# --- writing -------------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def write_type(type_: Attribute | None) -> Json:
    """The JSON object of a type, shared between calls: do not change it.

    Raises UnsupportedError for a type that Paddle's JSON cannot hold.
    """
    if type_ is None:
        return {"#": NULL}
    word = _WORDS.get(type_)
    if word is not None:
        return {"#": word}
    match type_:
        case mlir.TensorType():
            return {"#": "0.t_dtensor", "D": _write_dense(_inner(type_))}
        case VecType():
            return {"#": "0.t_vec", "D": [write_type(t) for t in type_.items]}
        case SelectedRowsType():
            return {"#": "1.t_selected_rows", "D": _write_dense(_inner(type_.dense))}
        case TensorArrayType():
            element, dims, layout, *_ = _write_dense(_array_elements(type_.element))
            return {"#": "1.t_dense_tensor_array", "D": [element, dims, layout]}
        case SparseCooType():
            return {"#": "1.t_sparse_coo_tensor", "D": _write_coo(_inner(type_.dense))}
        case SparseCsrType():
            return {"#": "1.t_sparse_csr_tensor", "D": _write_csr(_inner(type_.dense))}
        case _:
            raise _no_spelling(type_)


def _no_spelling(type_: Attribute) -> UnsupportedError:
    return UnsupportedError(f"Paddle's JSON has no spelling of type `{type_}`", code="PK0403")


def _inner(type_: Attribute) -> AnyTensor:
    if not isinstance(type_, mlir.TensorType):
        raise _no_spelling(type_)
    return cast(AnyTensor, type_)


def _array_elements(element: Attribute) -> AnyTensor:
    if isinstance(element, mlir.TensorType):
        return cast(AnyTensor, element)
    return tensor_type((), dtype_of(element))


def _write_dims(type_: AnyTensor) -> list[int]:
    return [-1 if d == mlir.DYNAMIC_INDEX else d for d in type_.get_shape()]


def _write_dense(type_: AnyTensor) -> list[Any]:
    match type_.encoding:
        case mlir.NoneAttr() | DimsAttr():
            layout = _NCHW
        case LayoutAttr() as held:
            layout = held.data
        case _:
            raise _no_spelling(type_)
    return [write_type(type_.element_type), _write_dims(type_), layout, [], 0]


def _write_coo(type_: AnyTensor) -> list[Any]:
    layout, held, parts = _sparse_parts(type_)
    nonzero = held.get(_NONZERO)
    if not isinstance(nonzero, mlir.DenseArrayBase):
        raise _no_spelling(type_)
    dims = list(cast("mlir.DenseArrayBase[Any]", nonzero).get_values())
    return [write_type(type_.element_type), _write_dims(type_), dims, layout, *parts]


def _write_csr(type_: AnyTensor) -> list[Any]:
    layout, _, parts = _sparse_parts(type_)
    return [write_type(type_.element_type), _write_dims(type_), layout, *parts]


def _sparse_parts(type_: AnyTensor) -> tuple[str, Any, list[Json]]:
    """Layout, all entries of the encoding, and the types of the parts.

    Paddle's text does not state the parts, so a program that was read from text has none.
    """
    if not isinstance(type_.encoding, mlir.DictionaryAttr):
        raise _no_spelling(type_)
    held = type_.encoding.data
    layout, parts = held.get(_LAYOUT), held.get(_PARTS)
    if not isinstance(layout, LayoutAttr) or not isinstance(parts, mlir.ArrayAttr):
        raise _no_spelling(type_)
    items = cast("mlir.ArrayAttr[Attribute]", parts)
    return layout.data, held, [write_type(t) for t in items]
