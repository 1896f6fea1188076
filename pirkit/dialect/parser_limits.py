"""Limits for the readers of text, against input that would exhaust stack, time or memory.

Each scan is linear, and the cheap counts come first. `guard_characters` is for text of any format,
`guard` for our own, which xDSL's parser reads; that parser has no limits of its own.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import name

from pirkit.diag.errors import LimitError, ParseError
from pirkit.diag.limits import check, current_limits
from pirkit.diag.span import Span

MAX_LINE: Final = 1 << 20
"""Characters of one line; no operation needs more."""

_HIDDEN: Final = re.compile(
    "[\x00\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_TOKEN: Final = re.compile(
    r"""(?P<string>"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+(?P<end>"?))
      | (?P<comment>//[^\n]*)
      | (?P<arrow>->)
      | (?P<open>[\[({<])
      | (?P<close>[\])}>])
      | (?P<integer_type>\b[su]?i(?P<width>\d{3,})\b)
      | (?P<hexadecimal>\b0x[0-9a-fA-F]{19,})
      | (?P<number>\b(?P<digits>\d{19,}))
      | (?P<foreign>[^\x00-\x7f])
      | (?P<float>\b\d+(?:\.\d*)?[eE][+-]?(?P<exponent>\d{3,})\b)
    """,
    re.VERBOSE | re.ASCII,
)
_NOTHING: Final = re.compile(r"(?:[ \t]*+(?://[^\n]*+)?+\n)*+[ \t]*+(?://[^\n]*+)?+\Z")


def guard(text: str, file: str) -> None:
    """Raise LimitError or ParseError, with the place, for text that must not reach the parser."""
    guard_characters(text, file)
    if _NOTHING.match(text):
        raise ParseError("the text holds no program", code="PK0102", span=Span(file))
    _guard_tokens(text, file)


def guard_characters(text: str, file: str, *, long_lines: bool = False) -> None:
    """Bound the size of the text and, but for ``long_lines``, of them; refuse hidden characters."""
    check("input_bytes", len(text), Span(file))
    check("ops", text.count("\n"), Span(file))
    if not long_lines:
        _guard_lines(text, file)
    hidden = _HIDDEN.search(text)
    if hidden is not None:
        raise ParseError(
            f"the text holds the invisible character U+{ord(hidden[0]):04X}",
            code="PK0107",
            span=_span(text, file, hidden.start()),
            help="remove it; names and strings of programs are plain text",
        )


def _guard_lines(text: str, file: str) -> None:
    number, start = 1, 0
    while len(text) - start > MAX_LINE:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end - start > MAX_LINE:
            raise LimitError(
                f"a line of {end - start:,} characters",
                code="PK0302",
                span=Span(file, number),
                help=f"one operation a line, at most {MAX_LINE:,} characters",
            )
        number, start = number + 1, end + 1


def _guard_tokens(text: str, file: str) -> None:
    """Refuse what xDSL's parser takes too long for, or too much stack, from the tokens alone.

    Raises LimitError and ParseError.
    """
    depth, nesting = 0, current_limits().nesting
    for m in _TOKEN.finditer(text):
        match m.lastgroup:
            case "open":
                depth += 1
                if depth > nesting:
                    check("nesting", depth, _span(text, file, m.start()))
            case "close":
                depth -= 1
            case "string":
                if not m["end"]:
                    raise ParseError(
                        "a string does not end",
                        code="PK0102",
                        span=_span(text, file, m.start()),
                        help="close it with a quote on the same line",
                    )
            case "integer_type":
                check("literal_digits", len(m["width"]), _span(text, file, m.start()))
                check("integer_width", int(m["width"]), _span(text, file, m.start()))
            case "hexadecimal":
                check("literal_digits", len(m[0]) - 2, _span(text, file, m.start()))
            case "number":
                check("literal_digits", len(m["digits"]), _span(text, file, m.start()))
            case "foreign":
                raise ParseError(
                    f"the character {name(m[0], hex(ord(m[0])))} outside a string",
                    span=_span(text, file, m.start()),
                    help="names are written in ASCII letters; some letters only look like them",
                )
            case "float":
                if len(m["exponent"]) > 6 or float(m[0]) == float("inf"):
                    raise ParseError(
                        "a floating-point literal overflows",
                        code="PK0106",
                        span=_span(text, file, m.start()),
                        help="write infinity as its bits: 0x7FF0000000000000",
                    )
            case _:
                pass


def depth_of(text: str) -> int:
    """How deep the brackets of a text nest."""
    depth = deepest = 0
    for m in _TOKEN.finditer(text):
        if m.lastgroup == "open":
            depth += 1
            deepest = max(deepest, depth)
        elif m.lastgroup == "close":
            depth -= 1
    return deepest


def _span(text: str, file: str, position: int) -> Span:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return Span(file, line, column)
