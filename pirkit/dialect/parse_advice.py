"""Translates messages of xDSL's parser, and shows how the parts of a program are written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_OPERATION: Final = (
    "an operation looks like `%y = pd_op.scale(%x, %s) {bias = 0.0 : f32} : (tensor<2xf32>,"
    " tensor<1xf32>) -> tensor<2xf32>`"
)
_PROGRAM: Final = 'a program begins with `pir.program @main(%x "x" : tensor<2xf32>) {`'

_COMMENT: Final = "comments begin with `//`"

_MESSAGES: Final = (
    (r"expected suffix identifier after.*", "`#` begins no comment, and no attribute stands here",
     _COMMENT),
    (r"unexpected character: (.+)", r"the character `\1` stands outside of a string",
     f"remove it: a program has letters, digits, marks and blanks; {_COMMENT}"),
    (r"could not parse entire input.*", "text comes after the last program",
     "remove it; if it is a `}` too many, look for the one that closes the program too early; "
     + _COMMENT),
    (r"SSA value (\S+) is already defined", r"value `\1` is defined twice", None),
    (r"operand is used with type (.+), but has been previously used or defined with type (.+)",
     r"the operand is a `\2`, and is used as a `\1` here",
     r"write `\2`, the type of its definition"),
    (r"expected shape type|expected 'x' in shape delimiter.*",
     "the sizes and the element type of a tensor are expected here", None),
    (r"operand expected", "an operand is expected here",
     "names of values begin with `%`, as in `pd_op.exp(%x)`"),
    (r"type expected", "a type is expected here", None),
    (r"expect symbol name", "the name of the program is expected here", _PROGRAM),
    (r"string literal expected", "a name in quotes is expected here", _PROGRAM),
    (r"'?(.{1,3}?)'? expected|expected '(.{1,3})'", r"`\1\2` is expected here", _OPERATION),
)  # fmt: skip
"""Message of xDSL -> ours and, unless its code tells enough (`diag.advice`), what to do."""

_TABLE: Final = tuple((re.compile(pattern), message, help) for pattern, message, help in _MESSAGES)


def explained(message: str, code: str) -> tuple[str, str | None]:
    """The sentence of a user for a message of xDSL, and what to do."""
    for pattern, wanted, help in _TABLE:
        found = pattern.fullmatch(message)
        if found is not None:
            return found.expand(wanted), help and found.expand(help)
    return message, _OPERATION if code == "PK0101" else None


SPELLED: Final[Mapping[str, str]] = {
    "bool": "true",
    "i32": "1 : i32",
    "i64": "1 : i64",
    "f32": "0.5 : f32",
    "f64": "0.5 : f64",
    "str": '"text"',
    "scalar": "0.5 : f64",
    "intarray": "array<i64: 0, 1>",
    "dtype": "#pir.dtype<float32>",
    "place": "#pir.place<cpu:0>",
    "layout": "#pir.layout<NCHW>",
    "bool[]": "array<i1: true>",
    "i32[]": "array<i32: 0, 1>",
    "i64[]": "array<i64: 0, 1>",
    "f32[]": "array<f32: 0.5>",
    "f64[]": "array<f64: 0.5>",
    "str[]": '["a", "b"]',
    "scalar[]": "[0.5 : f64]",
}
"""Kind of an attribute -> how one is written."""
