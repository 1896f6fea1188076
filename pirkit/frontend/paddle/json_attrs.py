"""Attributes in Paddle's JSON, read and written.

JSON states the kind of every attribute, and so does the op table. Where they differ (a file of an
older Paddle has f32 where f64 is declared now), a value is converted if nothing is lost.
"""

from __future__ import annotations

import cmath
import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, TypeAttribute

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.attrs import (
    ComplexAttr,
    DTypeAttr,
    JsonAttr,
    LayoutAttr,
    NullAttr,
    PlaceAttr,
    as_single,
    encode,
    in_single,
)
from pirkit.frontend.paddle.json_syntax import (
    Malformed,
    expect,
    integer,
    member,
    parse_json,
    real,
    text,
)
from pirkit.frontend.paddle.json_types import NULL, Json, check_depth, declared_type, write_type
from pirkit.runtime import dtype as dt
from pirkit.runtime.place import Place

_UNDEFINED_DTYPE: Final = "Undefined(ALL_DTYPE)"
_PLACES: Final = ("undefined", "cpu", "gpu", "gpu_pinned", "xpu")
"""Place kinds by Paddle's number."""

_INTEGERS: Final = {"0.a_i32": 32, "0.a_i64": 64}
_FLOATS: Final = frozenset({"0.a_f32", "0.a_f64"})
_NOT_FINITE: Final = {"NaN": math.nan, "INF": math.inf, "-INF": -math.inf}

# --- reading: values -----------------------------------------------------------------------------


def _data(node: Any, kind: type) -> Any:
    return member(node, "D", kind)


def _integer(node: Any) -> int:
    return integer(_data(node, int), _INTEGERS[node["#"]], ".D")


def _float(node: Any) -> float:
    if "VD" in node:
        word = member(node, "VD", str)
        if "D" in node or word not in _NOT_FINITE:
            raise Malformed("`VD` is NaN, INF or -INF and stands instead of `D`", ".VD")
        return _NOT_FINITE[word]
    if "D" not in node:
        raise Malformed("field `D` is missing")
    value = real(node["D"], ".D")
    return _to_f32(value) if node["#"] == "0.a_f32" else value


def _to_f32(value: float) -> float:
    try:
        return in_single(value)
    except ValueError:
        raise Malformed("a number is too large for 32 bits", ".D") from None


def _exact_f32(node: Any) -> float:
    value = _float(node)
    if math.isfinite(value) and _to_f32(value) != value:
        raise Malformed(f"{value!r} is no f32, as the op declares", ".D")
    return value


def _exact_i32(node: Any) -> int:
    return integer(_integer(node), 32, ".D")


def _dtype(node: Any) -> str:
    word = text(_data(node, str), ".D")
    if word == _UNDEFINED_DTYPE:
        return "Undefined"
    if word not in dt.BY_NAME:
        raise Malformed(f"unknown dtype `{word[:40]}`", ".D")
    return word


def _place(node: Any) -> Place:
    data = _data(node, list)
    if len(data) != 3:
        raise Malformed("a place has a kind, a device and a custom type", ".D")
    number, device = integer(data[0], 32, ".D[0]"), integer(data[1], 32, ".D[1]")
    if not 0 <= number < len(_PLACES) or data[2] != "":
        raise UnsupportedError("a place on a device that pirkit does not know", code="PK0403")
    return Place(_PLACES[number], device)


def _complex(node: Any) -> complex:
    data = _data(node, list)
    if len(data) != 2:
        raise Malformed("a complex number has two parts", ".D")
    return complex(real(data[0], ".D[0]"), real(data[1], ".D[1]"))


def _string(node: Any) -> str:
    return text(_data(node, str), ".D")


def _layout(node: Any) -> str:
    word = _string(node)
    if not word:
        raise Malformed("an empty layout", ".D")
    return word


def _bool(node: Any) -> bool:
    return _data(node, bool)


_Read = Callable[[Any], Any]

_VALUES: Final[dict[str, dict[str, _Read]]] = {
    "bool": {"0.a_bool": _bool},
    "i32": {"0.a_i32": _integer, "0.a_i64": _exact_i32},
    "i64": dict.fromkeys(_INTEGERS, _integer),
    "f32": {"0.a_f32": _float, "0.a_f64": _exact_f32},
    "f64": dict.fromkeys(_FLOATS, _float),
    "str": {"0.a_str": _string, "0.a_tensorname": _string},
    "dtype": {"1.a_dtype": _dtype},
    "place": {"1.a_place": _place},
    "layout": {"1.a_layout": _layout},
}
"""Declared kind -> the JSON kinds from which it may be read, and the reader of each."""

_PLAIN: Final = {
    "0.a_bool": "bool",
    "0.a_i32": "i32",
    "0.a_i64": "i64",
    "0.a_f32": "f32",
    "0.a_f64": "f64",
    "0.a_str": "str",
    "1.a_dtype": "dtype",
    "1.a_place": "place",
    "1.a_layout": "layout",
}
"""Kind in JSON -> the equivalent kind of pirkit."""

_SCALARS: Final = frozenset({"0.a_bool", *_INTEGERS, *_FLOATS})
_STORED_AS_JSON: Final = frozenset({"0.a_c64", "0.a_tensorname", "1.a_intarray", "1.a_scalar"})
"""Kinds that only the declaration of an op can interpret; in other places they stay JSON."""

# --- reading: attributes -------------------------------------------------------------------------


def read_attribute(node: Any, declared: str | None, depth: int = 0) -> Attribute:
    """The attribute of a JSON object; ``declared`` is its kind in the op table, if any.

    Raises Malformed for an object that is damaged or does not fit the declaration.
    """
    found = member(node, "#", str)
    check_depth(depth)
    if found == NULL:
        return NullAttr("null")
    if declared is None:
        return _as_found(node, found, depth)
    if declared == "scalar":
        return _scalar(node, found)
    if declared == "intarray" or declared.endswith("[]"):
        return _list(node, found, declared)
    reader = _VALUES[declared].get(found)
    if reader is None:
        raise Malformed(f"`{found[:40]}` where the op declares {declared}", ".#")
    return encode(declared, reader(node))


def _list(node: Any, found: str, declared: str) -> Attribute:
    if found == "1.a_intarray" and declared in ("intarray", "i64[]", "i32[]"):
        bits = 32 if declared == "i32[]" else 64
        data = enumerate(_data(node, list))
        return encode(declared, tuple([integer(v, bits, f".D[{i}]") for i, v in data]))
    if found != "0.a_array":
        raise Malformed(f"`{found[:40]}` where the op declares {declared}", ".#")
    item_kind = "i64" if declared == "intarray" else declared[:-2]
    items: list[Any] = []
    for index, item in enumerate(_data(node, list)):
        try:
            word = member(item, "#", str)
            if item_kind == "scalar":
                items.append(_scalar(item, word))
                continue
            reader = _VALUES[item_kind].get(word)
            if reader is None:
                raise Malformed(f"`{word[:40]}` in a list of {item_kind}", ".#")
            items.append(reader(item))
        except Malformed as error:
            raise error.within(f".D[{index}]") from None
    return mlir.ArrayAttr(items) if item_kind == "scalar" else encode(declared, tuple(items))


def _scalar(node: Any, found: str) -> Attribute:
    """A number of any type; Paddle writes most scalars as plain numbers."""
    if found in _SCALARS:
        kind = _PLAIN[found]
        return encode(kind, _VALUES[kind][found](node))
    if found in ("0.a_c64", "0.a_c128"):
        return ComplexAttr(_complex(node))
    if found == "1.a_scalar":
        data = _data(node, list)
        if len(data) not in (2, 3):
            raise Malformed("a scalar has a dtype and a value", ".D")
        dtype = dt.BY_NAME.get(text(data[0], ".D[0]"))
        if dtype is None:
            raise Malformed("unknown dtype of a scalar", ".D[0]")
        if dtype.is_complex:
            return ComplexAttr(complex(real(data[1], ".D[1]"), real(data[-1], ".D[2]")))
        if dtype.kind == "bool":
            return encode("bool", expect(data[1], bool, ".D[1]"))
        if dtype.is_float:
            return encode("f64", real(data[1], ".D[1]"))
        return encode("i64", integer(data[1], 64, ".D[1]"))
    raise Malformed(f"`{found[:40]}` where the op declares a scalar", ".#")


def _as_found(node: Any, found: str, depth: int) -> Attribute:
    kind = _PLAIN.get(found)
    if kind is not None:
        return encode(kind, _VALUES[kind][found](node))
    if found == "0.a_array":
        return _list_as_found(_data(node, list), depth)
    if found == "0.a_c128":
        return ComplexAttr(_complex(node))
    if found == "0.a_index":
        return mlir.IntegerAttr(integer(_data(node, int), 64, ".D"), mlir.IndexType())
    if found == "0.a_type":
        try:
            return declared_type(node.get("D"), depth + 1)
        except Malformed as error:
            raise error.within(".D") from None
    if found in _STORED_AS_JSON:
        _check_stored(node, found)
        return JsonAttr(json.dumps(node, separators=(",", ":"), sort_keys=True))
    raise Malformed(f"unknown kind of attribute `{found[:40]}`", ".#")


def _check_stored(node: Any, found: str) -> None:
    """Check an attribute that is stored as JSON."""
    if found == "0.a_tensorname":
        _string(node)
    elif found == "1.a_intarray":
        _list(node, found, "intarray")
    else:
        _scalar(node, found)


def _list_as_found(data: list[Any], depth: int) -> Attribute:
    items: list[Attribute] = []
    kinds: set[str] = set()
    for index, item in enumerate(data):
        try:
            items.append(read_attribute(item, None, depth + 1))
        except Malformed as error:
            raise error.within(f".D[{index}]") from None
        kinds.add(item["#"])
    if len(kinds) == 1 and kinds <= _SCALARS:
        word = kinds.pop()
        kind = _PLAIN[word]
        return encode(f"{kind}[]", tuple([_VALUES[kind][word](item) for item in data]))
    return mlir.ArrayAttr(items)


# --- writing -------------------------------------------------------------------------------------

_NUMBER_WORDS: Final[dict[Attribute, str]] = {
    mlir.i1: "0.a_bool",
    mlir.i32: "0.a_i32",
    mlir.i64: "0.a_i64",
    mlir.IndexType(): "0.a_index",
    mlir.f32: "0.a_f32",
    mlir.f64: "0.a_f64",
}


@lru_cache(maxsize=65536)
def write_attribute(attribute: Attribute, declared: str | None = None) -> Json:
    """The JSON object of an attribute, shared between calls: do not change it.

    Raises UnsupportedError for an attribute that Paddle's JSON cannot hold.
    """
    match attribute:
        case mlir.FloatAttr() if declared == "f32":
            number = cast("mlir.FloatAttr[Any]", as_single(attribute))
            return _number(attribute, mlir.f32, number.value.data)
        case mlir.IntegerAttr() | mlir.FloatAttr():
            number = cast("mlir.IntegerAttr[Any]", attribute)
            return _number(attribute, number.type, number.value.data)
        case mlir.StringAttr():
            return {"#": "0.a_str", "D": attribute.data}
        case mlir.DenseArrayBase():
            held = cast("mlir.DenseArrayBase[Any]", attribute)
            if declared == "intarray":
                return {"#": "1.a_intarray", "D": list(held.get_values())}
            items = [_number(attribute, held.elt_type, v) for v in held.get_values()]
            return {"#": "0.a_array", "D": items}
        case mlir.ArrayAttr():
            return {"#": "0.a_array", "D": [write_attribute(a) for a in attribute]}
        case DTypeAttr():
            word = attribute.data
            return {"#": "1.a_dtype", "D": _UNDEFINED_DTYPE if word == "Undefined" else word}
        case PlaceAttr() if attribute.data.kind in _PLACES:
            place = attribute.data
            return {"#": "1.a_place", "D": [_PLACES.index(place.kind), place.device, ""]}
        case LayoutAttr():
            return {"#": "1.a_layout", "D": attribute.data}
        case ComplexAttr() if cmath.isfinite(attribute.data):
            return {"#": "0.a_c128", "D": [attribute.data.real, attribute.data.imag]}
        case JsonAttr():
            return _stored_json(attribute)
        case NullAttr() if attribute.data == "null":
            return {"#": NULL}
        case TypeAttribute():
            return {"#": "0.a_type", "D": write_type(cast(Attribute, attribute))}
        case _:
            raise _no_spelling(attribute)


def _stored_json(attribute: JsonAttr) -> Json:
    """The object that the attribute holds, if reading could have produced it."""
    node = parse_json(attribute.data, "#pir.json")
    if read_attribute(node, None) != attribute:
        raise _no_spelling(attribute)
    return node


def _no_spelling(attribute: Attribute) -> UnsupportedError:
    return UnsupportedError(
        f"Paddle's JSON has no spelling of attribute `{attribute}`", code="PK0403"
    )


def _number(attribute: Attribute, type_: Attribute, value: float) -> Json:
    word = _NUMBER_WORDS.get(type_)
    if word is None:
        raise _no_spelling(attribute)
    if word == "0.a_bool":
        return {"#": word, "D": bool(value)}
    if isinstance(value, float) and not math.isfinite(value):
        spelled = "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
        return {"#": word, "VD": spelled}
    return {"#": word, "D": value}
