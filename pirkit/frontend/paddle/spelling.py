"""Types and attribute values in the text that Paddle prints, read and written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import copysign, isinf, isnan
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute

from pirkit.diag.errors import ParseError
from pirkit.diag.limits import check, current_limits
from pirkit.dialect.attrs import (
    KINDS,
    ComplexAttr,
    DTypeAttr,
    LayoutAttr,
    NullAttr,
    PlaceAttr,
    encode,
    in_single,
)
from pirkit.dialect.types import (
    INLET,
    OUTLET,
    STACK,
    UNDEFINED,
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
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.place import Place

NULL_VALUE: Final = "<<NULL VALUE>>"
NULL_TYPE: Final = "<<NULL TYPE>>"

_WORD_TYPES: Final[dict[str, Attribute]] = {
    "cf.stack": STACK,
    "cf.inlet": INLET,
    "cf.outlet": OUTLET,
    "undefined": UNDEFINED,
    "index": mlir.IndexType(),
}
_TYPE_WORDS: Final = {v: k for k, v in _WORD_TYPES.items()}
_WRAPPERS: Final[dict[str, Any]] = {
    "pd_op.selectedrows": SelectedRowsType,
    "pd_op.tensor_array": TensorArrayType,
    "pd_op.sparsecootensor": SparseCooType,
    "pd_op.sparsecsrtensor": SparseCsrType,
}
_WRAPPER_WORDS: Final = {v: k for k, v in _WRAPPERS.items()}
_TENSOR: Final = re.compile(r"(?:builtin\.|pd_op\.)?tensor<((?:-?\d+x)*)(\w+)>\Z", re.ASCII)


# --- types ---------------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def read_type(text: str) -> Attribute | None:
    """The type of a text; None for the null type. Raises ParseError (PK0105) or LimitError."""
    m = _TENSOR.match(text)
    if m is not None:
        dims = tuple([_dim(d) for d in m[1].split("x")[:-1]])
        check("rank", len(dims))
        return _tensor(dims, m[2])
    if text == NULL_TYPE:
        return None
    if text in _WORD_TYPES:
        return _WORD_TYPES[text]
    if text.startswith("vec[") and text.endswith("]"):
        check_nesting(text)
        items = [read_type(t) for t in split_list(text[4:-1])]
        return vec_type([t for t in items if t is not None])
    head, bracket, tail = text.partition("<")
    if bracket and head in _WRAPPERS and tail.endswith(">"):
        inner = read_type(f"tensor<{tail}")
        return _WRAPPERS[head](inner)
    if text in dt.BY_SHORT:
        return element_type(dt.BY_SHORT[text])
    raise ParseError(f"{text!r} is no type", code="PK0105")


def _dim(text: str) -> int:
    check("literal_digits", len(text))
    value = int(text)
    if value < -1:
        raise ParseError(f"dimension {value} is negative", code="PK0105")
    check("dimension", value)
    return UNKNOWN if value == -1 else value


def _tensor(dims: tuple[int, ...], short: str) -> Attribute:
    if short in dt.BY_SHORT:
        return tensor_type(dims, dt.BY_SHORT[short])
    if short in ("undefined", "index"):
        shape = [mlir.DYNAMIC_INDEX if d == UNKNOWN else d for d in dims]
        return mlir.TensorType(cast(Any, _WORD_TYPES[short]), shape)
    raise ParseError(f"unknown element type {short!r}", code="PK0105")


@lru_cache(maxsize=65536)
def read_types(text: str) -> tuple[Attribute | None, ...]:
    """The types of a comma-separated list."""
    return tuple([read_type(t) for t in split_list(text)])


@lru_cache(maxsize=65536)
def write_type(type_: Attribute | None) -> str:
    """The text of a type. Raises ParseError for a type that Paddle does not have."""
    if type_ is None:
        return NULL_TYPE
    if isinstance(type_, mlir.TensorType):
        return f"tensor<{_write_tensor_body(cast('Attribute', type_))}>"
    if isinstance(type_, VecType):
        return "vec[" + ",".join(write_type(t) for t in type_.items) + "]"
    if type_ in _TYPE_WORDS:
        return _TYPE_WORDS[type_]
    word = _WRAPPER_WORDS.get(type(type_))
    if word is not None:
        return f"{word}<{_write_tensor_body(cast(Any, type_).parameters[0])}>"
    return dtype_of(type_).short


def _write_tensor_body(type_: Attribute) -> str:
    if not isinstance(type_, mlir.TensorType):  # the elements of an array of tensors
        return dtype_of(type_).short
    tensor = cast("mlir.TensorType[Any]", type_)
    dims = "".join(f"{-1 if d == mlir.DYNAMIC_INDEX else d}x" for d in tensor.get_shape())
    element = tensor.element_type
    return dims + (_TYPE_WORDS.get(element) or dtype_of(element).short)


def check_nesting(text: str) -> None:
    """Raise LimitError for deeply nested lists, which are read by recursion."""
    limit, depth = current_limits().nesting, 0
    for c in _BRACKET.findall(text):
        depth += 1 if c == "[" else -1
        if depth > limit:
            check("nesting", depth)


def split_list(text: str) -> list[str]:
    """Split at commas outside brackets and strings; blanks around items are removed."""
    if not any(c in text for c in '[<"('):
        return [t.strip() for t in text.split(",")] if text.strip() else []
    items: list[str] = []
    depth, quoted, start, i = 0, False, 0, 0
    while i < len(text):
        c = text[i]
        if quoted:
            if c == "\\" and text[i + 1 : i + 2] == '"':
                i += 1
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
        elif c in "[<(":
            depth += 1
        elif c in "])" or (c == ">" and text[i - 1] != "-"):
            depth -= 1
        elif c == "," and depth == 0:
            items.append(text[start:i].strip())
            start = i + 1
        i += 1
    last = text[start:].strip()
    return [*items, last] if items or last else items


_BRACKET: Final = re.compile(r"[\[\]]")

# --- attributes ----------------------------------------------------------------------------------

_INTEGER: Final = re.compile(r"(?!-0\Z)-?\d+\Z", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)\Z", re.ASCII)
_COMPLEX: Final = re.compile(r"(?:real:(\S+) imag:|\(([^(),]+),)([^(),\s]+)\)?\Z")
_PLACE: Final = re.compile(r"Place\((\w+)(?::(\d{1,9}))?\)\Z", re.ASCII)
_CAST: Final = re.compile(r"\([\w.]+\)(?=.)", re.ASCII)
_ENTRY: Final = re.compile(r"([A-Za-z_][\w.]*)\s*:\s*", re.ASCII)
_LAYOUTS: Final = frozenset(
    {"NHWC", "NCHW", "NCDHW", "NDHWC", "Undefined(AnyLayout)", "ONEDNN", "STRIDED",
     "SPARSE_COO", "SPARSE_CSR", "PSTRING_UNION"}
)  # fmt: skip


def read_attributes(text: str, kinds: dict[str, str]) -> dict[str, Attribute]:
    """The attributes of the text between the braces.

    ``kinds`` gives the kind of each known attribute; others are recognized by their text.
    Raises ParseError (PK0106) for text that is not an attribute list.
    """
    entries: dict[str, Attribute] = {}
    for item in split_list(text):
        m = _ENTRY.match(item)
        if m is None:
            raise ParseError(f"{item!r} is no attribute", code="PK0106")
        name, value = m[1], item[m.end() :]
        if name in entries:
            raise ParseError(f"attribute {name!r} is given twice", code="PK0106")
        try:
            entries[name] = read_value(value, kinds.get(name))
        except ParseError as error:
            raise ParseError(f"attribute {name!r}: {error.message}", code=error.code) from error
    return entries


def read_value(text: str, kind: str | None) -> Attribute:
    """The attribute of a text; without a kind, recognized by its form.

    Raises ParseError (PK0106) for text that is no attribute of that kind, or of any.
    """
    cast_prefix = _CAST.match(text)
    if cast_prefix is not None:  # "(Float)1", "(pd_op.IntArray)[3,4]" of older builds
        text = text[cast_prefix.end() :]
    if text == "<#AttrNull>":
        return NullAttr("null")
    if text == "<#AttrNotImplemented>":
        return NullAttr("opaque")
    if kind is None:
        return _read_by_looks(text)
    if kind.endswith("[]") or kind == "intarray":
        if not (text.startswith("[") and text.endswith("]")):
            raise ParseError(f"{text!r} is no list", code="PK0106")
        item = "i64" if kind == "intarray" else kind[:-2]
        return encode(kind, tuple([_read_item(t, item) for t in split_list(text[1:-1])]))
    if kind == "place":
        return _read_place(text)
    return encode(kind, _read_item(text, kind))


def _read_item(text: str, kind: str) -> Any:
    cast_prefix = _CAST.match(text)
    if cast_prefix is not None:
        text = text[cast_prefix.end() :]
    if kind == "str":
        return read_string(text)
    if kind == "bool" or (kind == "scalar" and text in ("true", "false")):
        if text in ("true", "false", "1", "0"):
            return text in ("true", "1")
    elif kind in ("i32", "i64") or (kind == "scalar" and _INTEGER.match(text)):
        if _INTEGER.match(text):
            return _integer(text, 32 if kind == "i32" else 64)
    elif kind == "scalar" and (m := _COMPLEX.match(text)):
        return complex(_read_item(m[1] or m[2], "f64"), _read_item(m[3], "f64"))
    elif kind in ("f32", "f64", "scalar"):
        if _NUMBER.match(text):
            return _single(text) if kind == "f32" else _float(text)
    elif kind == "dtype":
        if text in dt.BY_NAME or text == "Undefined":
            return text
    elif kind == "layout":
        if text in _LAYOUTS:
            return text
    raise ParseError(f"{text!r} is no {kind}", code="PK0106")


def _integer(text: str, width: int) -> int:
    check("literal_digits", len(text))
    value = int(text)
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise ParseError(f"{value} does not fit in {width} bits", code="PK0106")
    return value


def _float(text: str) -> float:
    value = float(text)
    if isinf(value) and not text.endswith("inf"):
        raise ParseError("a floating-point literal overflows", code="PK0106")
    return value


def _single(text: str) -> float:
    try:
        return in_single(_float(text))
    except ValueError as error:
        raise ParseError(str(error), code="PK0106") from None


def _read_place(text: str) -> Attribute:
    m = _PLACE.match(text)
    if m is None:
        raise ParseError(f"{text!r} is no place", code="PK0106")
    return PlaceAttr(Place(m[1], int(m[2] or 0)))


def _read_by_looks(text: str) -> Attribute:
    if text.startswith('"'):
        return encode("str", read_string(text))
    if text in ("true", "false"):
        return encode("bool", text == "true")
    if _INTEGER.match(text):
        narrow = len(text) < 10  # the text has no kind: i32 where it surely fits
        return encode("i32" if narrow else "i64", _integer(text, 64))
    if _NUMBER.match(text):
        return encode("f64", _float(text))
    if _COMPLEX.match(text):
        return encode("scalar", _read_item(text, "scalar"))
    if text.startswith("[") and text.endswith("]"):
        check_nesting(text)
        items = [_read_by_looks(t) for t in split_list(text[1:-1])]
        return _list(items)
    if text.startswith("Place("):
        return _read_place(text)
    if text in dt.BY_NAME or text == "Undefined":
        return DTypeAttr(text)
    if text in _LAYOUTS:
        return LayoutAttr(text)
    raise ParseError(f"{text!r} is no attribute value", code="PK0106")


def _list(items: Sequence[Attribute]) -> Attribute:
    for name in ("bool", "i32", "i64", "f64"):
        kind = KINDS[name]
        if items and all(map(kind.accepts, items)):
            return KINDS[f"{name}[]"].encode([kind.decode(i) for i in items])
    return mlir.ArrayAttr(items)


def read_string(text: str) -> str:
    """The content of a quoted string.

    Paddle escapes only quotes, so a literal backslash before a quote cannot be distinguished from
    an escape; it is taken as one.
    """
    inner = text[1:-1].replace('\\"', "")
    if len(text) < 2 or text[0] != '"' or text[-1] != '"' or '"' in inner or inner.endswith("\\"):
        raise ParseError(f"{text!r} is no string", code="PK0106")
    return text[1:-1].replace('\\"', '"')


def write_attributes(entries: dict[str, Attribute]) -> str:
    """The text between the braces, sorted by name."""
    return ",".join(f"{k}:{write_value(entries[k])}" for k in sorted(entries))


@lru_cache(maxsize=65536)
def write_value(attribute: Attribute) -> str:
    """The text of an attribute. Raises ParseError (PK0403) for one that Paddle does not have."""
    match attribute:
        case mlir.IntegerAttr():
            number = cast("mlir.IntegerAttr[Any]", attribute)
            value = number.value.data
            return ("true" if value else "false") if number.type == mlir.i1 else str(value)
        case mlir.FloatAttr():
            return _write_float(cast("mlir.FloatAttr[Any]", attribute).value.data)
        case mlir.StringAttr():
            return '"' + attribute.data.replace('"', '\\"') + '"'
        case DTypeAttr() | LayoutAttr():
            return attribute.data
        case PlaceAttr():
            place = attribute.data
            return f"Place({place.kind})" if place.kind == "cpu" else f"Place({place})"
        case mlir.DenseArrayBase():
            return _write_dense(cast("mlir.DenseArrayBase[Any]", attribute))
        case mlir.ArrayAttr():
            return "[" + ",".join(map(write_value, attribute)) + "]"
        case NullAttr():
            return "<#AttrNull>" if attribute.data == "null" else "<#AttrNotImplemented>"
        case ComplexAttr():
            number = attribute.data
            return f"real:{_write_float(number.real)} imag:{_write_float(number.imag)}"
        case _:
            raise ParseError(f"Paddle's text has no spelling of `{attribute}`", code="PK0403")


def _write_float(value: float) -> str:
    return "-nan" if isnan(value) and copysign(1, value) == -1 else f"{value:g}"


def _write_dense(attribute: mlir.DenseArrayBase[Any]) -> str:
    values = attribute.get_values()
    if attribute.elt_type == mlir.i1:
        items = ("true" if v else "false" for v in values)
    elif isinstance(attribute.elt_type, mlir.IntegerType):
        items = map(str, values)
    else:
        items = map(_write_float, values)
    return "[" + ",".join(items) + "]"
