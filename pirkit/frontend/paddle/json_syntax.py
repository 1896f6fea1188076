"""Strict JSON within limits, which the standard parser does not enforce.

Size and nesting are measured on the bytes, before any object is created. Duplicate keys, ``NaN``
and the like, and text that is not UTF-8 are refused.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

import numpy as np

from pirkit.diag.errors import ArtifactError, LimitError
from pirkit.diag.limits import check
from pirkit.diag.span import Span

BRACKETS_PER_LEVEL: Final = 3
"""Brackets that one level of ``nesting`` may open: an attribute opens two, a region six."""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(c for c in range(256) if c not in b"[]{}")
_OPEN, _CLOSE = b"\x01", b"\xff"
_DIRECTION: Final = bytes.maketrans(b"[{]}", _OPEN * 2 + _CLOSE * 2)
"""Maps brackets to +1 and -1, as signed bytes."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Malformed(ArtifactError):
    """An error inside a JSON document; ``path`` is extended as the error propagates outwards."""

    def __init__(self, message: str, path: str = "", code: str = "PK0502") -> None:
        super().__init__(message, code=code)
        self.path = path

    def within(self, path: str) -> Malformed:
        """The error, with ``path`` put in front of its position."""
        self.path = path + self.path
        return self


def parse_json(data: bytes | str, file: str) -> Any:
    """The value of a JSON document.

    Raises ArtifactError (PK0501) for text that is not strict JSON, LimitError for a document that
    is too large or nested too deeply.
    """
    span = Span(file)
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    check("input_bytes", len(raw), span)
    _check_brackets(raw, span)
    try:
        return json.loads(
            raw.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_object
        )
    except UnicodeDecodeError as error:
        raise ArtifactError(f"byte {error.start} is not UTF-8", code="PK0501", span=span) from error
    except json.JSONDecodeError as error:
        where = Span(file, error.lineno, error.colno)
        raise ArtifactError(_lower(error.msg), code="PK0501", span=where) from error
    except Malformed as error:
        raise ArtifactError(error.message, code="PK0501", span=span) from error
    except ValueError as error:  # Python's own bound on the digits of an integer
        raise LimitError("an integer of thousands of digits", code="PK0304", span=span) from error
    except RecursionError as error:  # only with the limit on nesting lifted
        raise LimitError("brackets nested too deeply", code="PK0301", span=span) from error


def _check_brackets(raw: bytes, span: Span) -> None:
    brackets = _STRING.sub(b"", raw).translate(_DIRECTION, _NOT_BRACKETS)
    opening = brackets.count(_OPEN)
    check("attribute_nodes", opening, span)
    if len(brackets) > 2 * opening:  # more are closed than opened: the parser says where
        return
    depth = np.cumsum(np.frombuffer(brackets, np.int8), dtype=np.int32)
    deepest = int(depth.max(initial=0))
    check("nesting", -(-deepest // BRACKETS_PER_LEVEL), span)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))
        raise Malformed(f"key {twice[:40]!r} occurs twice in one object")
    return made


def _refuse_constant(word: str) -> NoReturn:
    raise Malformed(f"`{word}` is not JSON")


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


# --- typed access --------------------------------------------------------------------------------

_KIND_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def expect(value: Any, kind: type, path: str = "") -> Any:
    """``value`` if it is of exactly that type. Raises Malformed with the type that it has."""
    if type(value) is not kind:
        found = _KIND_NAMES[type(value)]
        raise Malformed(f"expected {_KIND_NAMES[kind]}, found {found}", path)
    return value


def member(node: Any, key: str, kind: type) -> Any:
    """Field ``key`` of an object. Raises Malformed if it is missing or of another type."""
    held: dict[str, Any] = expect(node, dict)
    if key not in held:
        raise Malformed(f"field `{key}` is missing")
    value = held[key]
    return value if type(value) is kind else expect(value, kind, f".{key}")


def text(value: Any, path: str = "") -> str:
    """A string without lone surrogates, which no encoding can represent."""
    word: str = expect(value, str, path)
    if _SURROGATE.search(word):
        raise Malformed("a string holds half a character (a lone surrogate)", path)
    return word


def integer(value: Any, bits: int, path: str = "") -> int:
    """An integer that fits in that many bits, signed."""
    number: int = expect(value, int, path)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise Malformed(f"an integer does not fit in {bits} bits", path)
    return number


def real(value: Any, path: str = "") -> float:
    """A finite number; JSON may write an integral one without a decimal point."""
    if type(value) is int and abs(value) <= 1 << 53:
        return float(value)
    number: float = expect(value, float, path)
    if number - number != 0:
        raise Malformed("a number is too large for 64 bits", path)
    return number
