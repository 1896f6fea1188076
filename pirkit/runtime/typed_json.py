"""Records as JSON data and back, by the declared types of their fields.

`packed` and `unpacked` are inverses. A record, a Struct or a dataclass, is a list of its fields,
without those that comparisons leave out. Where a field may be one of several records, the list
begins with the name of the class. Reading checks each type; whether the parts fit together is for
the caller.
"""

from __future__ import annotations

import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, cast, get_args, get_origin, get_type_hints
from zlib import compress, decompress
from zlib import error as ZlibError

from msgspec import Struct

from pirkit.runtime.dtype import BY_NAME, DType
from pirkit.runtime.place import Place

INVALID: Final = (TypeError, ValueError, LookupError, struct.error, ZlibError, RecursionError)
"""What `unpacked` raises for data of another form."""


class NotSerializableError(Exception):
    """A record contains a value that cannot be serialized; the message names its type."""


class _Codec:
    """How values of one type are written and read."""

    def __init__(self, pack: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
        self.pack, self.read = pack, read


def packed(kind: Any, value: Any) -> Any:
    """A value of a declared type as JSON data. Raises NotSerializableError for other values."""
    return _codec(kind).pack(value)


def unpacked(kind: Any, data: Any) -> Any:
    """The inverse of `packed`. Raises one of `INVALID` for anything else."""
    return _codec(kind).read(data)


@cache
def _codec(kind: Any) -> _Codec:
    origin, args = get_origin(kind), get_args(kind)
    if kind in _LEAVES:
        return _LEAVES[kind]
    if origin is UnionType:
        return _union(args)
    if origin is Mapping:
        return _mapping(args[1])
    if origin is frozenset or (origin is tuple and args[-1] is ...):
        return _sequence(origin, args[0])
    if origin is tuple:
        return _record(lambda *values: values, args, tuple)
    hints = get_type_hints(kind)
    names = _fields(kind)
    return _record(kind, [hints[n] for n in names], lambda v: [getattr(v, n) for n in names])


def _fields(kind: Any) -> Sequence[str]:
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    return [f.name for f in fields(kind) if f.compare]


def _exact(kind: type) -> _Codec:
    def read(data: Any) -> Any:
        if type(data) is not kind:
            raise TypeError(f"{data!r} is no {kind.__name__}")
        return data

    return _Codec(lambda value: value, read)


def _sequence(make: Callable[[Any], Any], each: Any) -> _Codec:
    def write(value: Any) -> Any:
        pack = _codec(each).pack  # looked up late, as types may be recursive
        return [pack(x) for x in (sorted(value) if make is frozenset else value)]

    def parse(data: Any) -> Any:
        read = _codec(each).read
        return make([read(x) for x in _LIST.read(data)])

    return _Codec(write, parse)


def _record(
    make: Callable[..., Any], kinds: Sequence[Any], values: Callable[[Any], Sequence[Any]]
) -> _Codec:
    @cache
    def codecs() -> list[_Codec]:
        return [_codec(kind) for kind in kinds]

    def write(value: Any) -> Any:
        return [c.pack(x) for c, x in zip(codecs(), values(value), strict=True)]

    def parse(data: Any) -> Any:
        return make(*[c.read(x) for c, x in zip(codecs(), _LIST.read(data), strict=True)])

    return _Codec(write, parse)


def _mapping(each: Any) -> _Codec:
    codec = _codec(each)
    return _Codec(
        lambda value: {name: codec.pack(x) for name, x in value.items()},
        lambda data: {name: codec.read(x) for name, x in _TABLE.read(data).items()},
    )


def _union(kinds: Sequence[Any]) -> _Codec:
    """One of several types: records by name if there are several, others by their JSON type."""
    classes: dict[Any, Any] = {get_origin(kind) or kind: kind for kind in kinds}
    records = {
        c.__name__: c
        for c in classes
        if issubclass(c, Struct) or hasattr(c, "__dataclass_fields__")
    }
    by_data = {list if c in records.values() or c is tuple else c: k for c, k in classes.items()}
    is_named = len(records) > 1

    def write(value: Any) -> Any:
        kind = cast("type[Any]", type(value))
        if kind not in classes:
            raise NotSerializableError(f"a {kind.__name__} is none of {kinds}")
        found = _codec(classes[kind]).pack(value)
        return [kind.__name__, *found] if is_named and kind.__name__ in records else found

    def parse(data: Any) -> Any:
        if is_named and type(data) is list:
            name, *rest = cast("list[Any]", data)
            return _codec(records[name]).read(rest)
        return _codec(by_data[type(data)]).read(data)

    return _Codec(write, parse)


# --- values of any type ---------------------------------------------------------------------------


def _value(value: Any) -> Any:
    """Numbers, strings and tuples as they are, other types as an object with one name."""
    kind = cast("type[Any]", type(value))
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is tuple:
        return [_value(v) for v in value]
    codec = _NAMED.get(kind.__name__)
    if codec is None or kind not in (float, complex, list, DType, Place):
        raise NotSerializableError(f"an attribute of a plan is a {kind.__name__}")
    return {kind.__name__: codec.pack(value)}


def _read_value(data: Any) -> Any:
    if isinstance(data, list):
        return tuple([_read_value(v) for v in cast("list[Any]", data)])
    if not isinstance(data, dict):
        return data
    ((name, held),) = cast("dict[str, Any]", data).items()
    return _NAMED[name].read(held)


def _doubles(*values: float) -> str:
    """The bits of numbers: JSON has no infinities, and NaN has many forms."""
    return struct.pack(f"<{len(values)}d", *values).hex()


def _read_double(bits: str) -> float:
    (value,) = struct.unpack("<d", bytes.fromhex(bits))
    return value


_LIST: Final = _exact(list)
_TABLE: Final = _exact(dict)
_LEAVES: Final[dict[Any, _Codec]] = {
    **{kind: _exact(kind) for kind in (int, str, bool, NoneType)},
    DType: _Codec(lambda d: d.name, lambda name: BY_NAME[name]),
    range: _Codec(lambda r: [r.start, r.stop], lambda ends: range(*map(_exact(int).read, ends))),
    bytes: _Codec(lambda b: b64encode(compress(b)).decode(), lambda s: decompress(b64decode(s))),
    Any: _Codec(_value, _read_value),
}
_NAMED: Final[dict[str, _Codec]] = {
    "float": _Codec(_doubles, _read_double),
    "complex": _Codec(
        lambda v: _doubles(v.real, v.imag),
        lambda s: complex(*struct.unpack("<dd", bytes.fromhex(s))),
    ),
    "list": _Codec(lambda v: list(map(_value, v)), lambda d: list(map(_read_value, d))),
    "DType": _LEAVES[DType],
    "Place": _Codec(lambda p: packed(Place, p), lambda d: unpacked(Place, d)),
}
