"""Attributes: the kinds that signatures name, and how each maps to MLIR attributes and Python.

A kind is one row of ``KINDS``. ``encode`` converts a Python value to the MLIR attribute, ``decode``
is its inverse. Encoded attributes are shared, because programs repeat a few of them very often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from msgspec import Struct
from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from pirkit.diag.errors import UnsupportedError, VerifyError
from pirkit.diag.shown import shown
from pirkit.dialect.sizes import DimsAttr
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.place import Place


class _Word(Data[str]):
    """An attribute that is one word in angle brackets."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            found = parser.parse_optional_str_literal()
            return parser.parse_identifier() if found is None else found

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            word = self.data
            if word.isascii() and word.isidentifier():
                printer.print_string(word)
            else:
                printer.print_string_literal(word)


@irdl_attr_definition
class DTypeAttr(_Word):
    """An element type as a value: ``#pir.dtype<float32>``; ``Undefined`` leaves it to the op."""

    name = "pir.dtype"


@irdl_attr_definition
class LayoutAttr(_Word):
    """A data layout: ``#pir.layout<NCHW>``."""

    name = "pir.layout"


@irdl_attr_definition
class NullAttr(_Word):
    """An attribute without a value (``null``), or of a kind Paddle cannot print (``opaque``)."""

    name = "pir.null"


@irdl_attr_definition
class JsonAttr(_Word):
    """An attribute of Paddle that no other class here can hold, as its JSON."""

    name = "pir.json"


@irdl_attr_definition
class PlaceAttr(Data[Place]):
    """A device: ``#pir.place<cpu:0>``."""

    name = "pir.place"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Place:
        with parser.in_angle_brackets():
            kind = parser.parse_identifier()
            parser.parse_punctuation(":")
            return Place(kind, parser.parse_integer())

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


@irdl_attr_definition
class ComplexAttr(Data[complex]):
    """A complex number: ``#pir.complex<"(1+2j)">``."""

    name = "pir.complex"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> complex:
        with parser.in_angle_brackets():
            return complex(parser.parse_str_literal())

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(str(self.data))


ATTRIBUTES: Final = (
    DTypeAttr, LayoutAttr, NullAttr, JsonAttr, PlaceAttr, ComplexAttr, DimsAttr,
)  # fmt: skip
"""The attribute classes of dialect ``pir``."""

Encode = Callable[[Any], Attribute]
Decode = Callable[[Attribute], Any]


class Kind(Struct, frozen=True):
    """How values of one kind are represented. ``decode`` returns None for another kind."""

    name: str
    encode: Encode
    accepts: Callable[[Attribute], bool]
    decode: Decode


def _held(number: int, width: int) -> int:
    """The number; raises ValueError if it is none of that width. xDSL takes unsigned ones too."""
    if not -(1 << (width - 1)) <= number < 1 << (width - 1):
        raise ValueError(f"{number} does not fit in {width} bits")
    return number


def _whole(value: Any, width: int) -> int:
    """An integer of that width. Raises ValueError for a number with a fraction, and for text."""
    number = int(value)
    if number != value:
        raise ValueError("it is no integer")
    return _held(number, width)


def _real(value: Any) -> float:
    """A real number. Raises TypeError for text that spells one."""
    if isinstance(value, str):
        raise TypeError("it is no number")
    return float(value)


def _integer(width: int) -> Kind:
    type_ = mlir.IntegerType(width)

    def accepts(a: Attribute) -> bool:
        return isinstance(a, mlir.IntegerAttr) and cast(Any, a).type == type_

    def encode(value: Any) -> Attribute:
        return mlir.IntegerAttr(_whole(value, width), type_)

    return Kind(
        f"i{width}",
        encode,
        accepts,
        lambda a: cast("mlir.IntegerAttr[Any]", a).value.data,
    )


def _float(name: str, encode: Encode, *types: mlir.Float32Type | mlir.Float64Type) -> Kind:
    def accepts(a: Attribute) -> bool:
        return isinstance(a, mlir.FloatAttr) and cast(Any, a).type in types

    return Kind(name, encode, accepts, lambda a: cast("mlir.FloatAttr[Any]", a).value.data)


def _double(value: Any) -> Attribute:
    return mlir.FloatAttr(_real(value), mlir.f64)


def _single(value: Any) -> Attribute:
    """Use f32 if the number fits, and f64 if it does not, for pirkit's own programs.

    Paddle's readers and writers round instead: in Paddle the attribute is a float.
    """
    number = _real(value)
    held = in_single(number)
    is_same = held == number or held != held
    return mlir.FloatAttr(number, mlir.f32) if is_same else _double(number)


def in_single(value: float) -> float:
    """The number as Paddle stores it in an attribute of kind `f32`.

    Raises ValueError if it is too large for that.
    """
    try:
        return mlir.FloatAttr(value, mlir.f32).value.data
    except OverflowError:
        raise ValueError(f"{value:g} does not fit in single precision") from None


def as_single(held: Attribute) -> Attribute:
    """An attribute of kind `f32` as Paddle stores it.

    Raises UnsupportedError (PK0403) if the number is too large for that.
    """
    if not KINDS["f64"].accepts(held):
        return held
    number = cast("mlir.FloatAttr[Any]", held)
    try:
        return mlir.FloatAttr(in_single(number.value.data), mlir.f32)
    except ValueError as error:
        raise UnsupportedError(f"in Paddle's programs {error}", code="PK0403") from None


def _array(name: str, element: Attribute, as_python: Callable[[Any], Any]) -> Kind:
    def accepts(a: Attribute) -> bool:
        return isinstance(a, mlir.DenseArrayBase) and cast(Any, a).elt_type == element

    def encode(values: Sequence[Any]) -> Attribute:
        held = [as_python(v) for v in values]
        if element == mlir.i64:  # in range: checked again by xDSL, long lists take 10 times as long
            return mlir.DenseArrayBase(mlir.i64, mlir.BytesAttr(mlir.i64.pack(held)))
        return mlir.DenseArrayBase.from_list(cast(Any, element), held)

    return Kind(
        name,
        encode,
        accepts,
        lambda a: tuple(map(as_python, cast("mlir.DenseArrayBase[Any]", a).iter_values())),
    )


def _objects(name: str, item: Kind) -> Kind:
    def encode(values: Sequence[Any]) -> Attribute:
        made: dict[tuple[object, str], Attribute] = {}  # numbers of long lists are often equal
        keys: list[tuple[object, str]] = [(type(v), repr(v)) for v in values]
        for key, value in zip(keys, values, strict=True):
            if key not in made:
                made[key] = item.encode(value)
        return mlir.ArrayAttr([made[key] for key in keys])

    return Kind(
        name,
        encode,
        lambda a: (
            isinstance(a, mlir.ArrayAttr)
            and all(map(item.accepts, cast("mlir.ArrayAttr[Attribute]", a)))
        ),
        lambda a: tuple(item.decode(x) for x in cast("mlir.ArrayAttr[Attribute]", a)),
    )


def _encode_scalar(value: Any) -> Attribute:
    value = value.item() if hasattr(value, "item") else value  # a numpy scalar
    if isinstance(value, bool):
        return mlir.IntegerAttr(int(value), mlir.i1)
    if isinstance(value, int):
        return mlir.IntegerAttr(_held(value, 64), mlir.i64)
    if isinstance(value, complex):
        return ComplexAttr(value)
    return mlir.FloatAttr(_real(value), mlir.f64)


def _decode_scalar(attribute: Attribute) -> Any:
    if isinstance(attribute, mlir.IntegerAttr):
        number = cast("mlir.IntegerAttr[Any]", attribute)
        return bool(number.value.data) if number.type == mlir.i1 else number.value.data
    if isinstance(attribute, mlir.FloatAttr):
        return cast("mlir.FloatAttr[Any]", attribute).value.data
    return cast(ComplexAttr, attribute).data


def _is_scalar(attribute: Attribute) -> bool:
    return isinstance(attribute, mlir.IntegerAttr | mlir.FloatAttr | ComplexAttr)


def _encode_dtype(value: DType | str | type[Any] | None) -> Attribute:
    """Encode an element type, also one given as a numpy dtype or scalar type."""
    if value is None:
        return DTypeAttr("Undefined")
    if isinstance(value, type):
        return DTypeAttr(value.__name__)
    return DTypeAttr(value if isinstance(value, str) else value.name)


def _is_dtype(attribute: Attribute) -> bool:
    return isinstance(attribute, DTypeAttr) and (
        attribute.data == "Undefined" or attribute.data in dt.BY_NAME
    )


def _place(value: Place | str) -> Attribute:
    if isinstance(value, Place):
        return PlaceAttr(value)
    return PlaceAttr(Place(value or "undefined"))


def _string(value: Any) -> Attribute:
    if not isinstance(value, str):
        raise TypeError("it is no string")
    return mlir.StringAttr(value)


def _truth(value: Any) -> bool:
    if value not in (0, 1):
        raise TypeError("it is neither true nor false")
    return bool(value)


def _word(name: str, encode: Callable[[Any], Attribute], held_in: type[Any]) -> Kind:
    """A kind whose attributes are of one class, with the value as ``data``."""
    return Kind(name, encode, lambda a: isinstance(a, held_in), lambda a: cast(Any, a).data)


_STR: Final = _word("str", _string, mlir.StringAttr)
_SCALAR: Final = Kind("scalar", _encode_scalar, _is_scalar, _decode_scalar)
_BOOL: Final = Kind(
    "bool",
    lambda v: mlir.IntegerAttr(int(_truth(v)), mlir.i1),
    lambda a: isinstance(a, mlir.IntegerAttr) and cast(Any, a).type == mlir.i1,
    lambda a: bool(cast("mlir.IntegerAttr[Any]", a).value.data),
)
_I64S: Final = _array("i64[]", mlir.i64, lambda v: _whole(v, 64))

KINDS: Final[dict[str, Kind]] = {
    "bool": _BOOL,
    "i32": _integer(32),
    "i64": _integer(64),
    "f32": _float("f32", _single, mlir.f32, mlir.f64),
    "f64": _float("f64", _double, mlir.f64),
    "str": _STR,
    "scalar": _SCALAR,
    "intarray": Kind("intarray", _I64S.encode, _I64S.accepts, _I64S.decode),
    "dtype": Kind(
        "dtype", _encode_dtype, _is_dtype, lambda a: dt.BY_NAME.get(cast(DTypeAttr, a).data)
    ),
    "place": _word("place", _place, PlaceAttr),
    "layout": _word("layout", LayoutAttr, LayoutAttr),
    "bool[]": _array("bool[]", mlir.i1, bool),
    "i32[]": _array("i32[]", mlir.i32, lambda v: _whole(v, 32)),
    "i64[]": _I64S,
    "f32[]": _array("f32[]", mlir.f32, float),
    "f64[]": _array("f64[]", mlir.f64, float),
    "str[]": _objects("str[]", _STR),
    "scalar[]": _objects("scalar[]", _SCALAR),
}

DISCARDABLE: Final[dict[str, str]] = {
    "stop_gradient": "bool[]",
    "persistable": "bool[]",
    "struct_name": "str",
    "comp_op_name": "str",
    "op_namescope": "str",
    "op_callstack": "str[]",
    "op_role": "i32",
    "op_device": "str",
    "chunk_id": "i32",
    "sym_shape_str": "str",
    "force_backend": "str",
    "execution_stream": "str",
    "stream_priority": "i32",
    "scheduling_priority": "i64",
    "event_to_record": "str",
    "events_to_wait": "str[]",
    "is_inplace": "bool",
    "kernel_name": "str",
    "op_name": "str",
    "origin_id": "i64",
    "op_id": "i64",
    "fallback_reason": "str",
}
"""Attributes that any op may carry and that do not change its meaning."""

_OTHERS: Final = frozenset(
    "comp_order comp_rule grad_op_dist_attr is_distributed is_parameter is_persistable "
    "is_target need_clip op_dist_attr op_role_var skip_quant sync_after_launch trainable "
    "with_quant_attr".split()
)
"""Further such attributes, whose kind nothing reads."""


def is_discardable(name: str) -> bool:
    """True for an attribute that any op may carry, whether it is declared or not.

    The attributes of frameworks are listed above; one with a prefix (``pir.id``, ``mine.note``)
    belongs to the dialect or the tool of that name.
    """
    return name in DISCARDABLE or name in _OTHERS or "." in name


@lru_cache(maxsize=2048)
def _encode_shared(kind: str, value: Any, sign: str) -> Attribute:
    del sign  # part of the key: 0.0 == -0.0 and True == 1 would share an entry otherwise
    return KINDS[kind].encode(value)


def encode(kind: str, value: Any) -> Attribute:
    """The attribute of that kind for a Python value; equal calls may return one object.

    Raises VerifyError if the value is not of the kind.
    """
    key: Any = tuple(cast("list[Any]", value)) if isinstance(value, list) else value
    try:
        return _encode_shared(kind, key, repr(key))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise VerifyError(f"{shown(value)} is no {kind}: {error}", code="PK0106") from error


def decode(kind: str, attribute: Attribute) -> Any:
    """The Python value of an attribute of that kind.

    Raises VerifyError if the attribute is of another kind.
    """
    row = KINDS[kind]
    if not row.accepts(attribute):
        raise VerifyError(f"`{attribute}` is no {kind} attribute", code="PK0205")
    return row.decode(attribute)
