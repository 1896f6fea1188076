"""Limits in front of xDSL's parser, which has none of its own.

One scan over the characters refuses what would cost the parser its stack, its time or its memory:
deep nesting, huge literals, splats of huge tensors, aliases that double, characters that hide.
The scan is linear, and the cheap counts come first.
"""

from __future__ import annotations

import re
from math import prod
from typing import Final

from pirkit.diag.errors import ParseError
from pirkit.diag.limits import check, current_limits
from pirkit.diag.span import Span

MAX_LINE: Final = 1 << 20
"""Characters of one line; no operation needs more."""

_HIDDEN: Final = re.compile(
    "[\x00\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_TOKEN: Final = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"?)
      | (?P<comment>//[^\n]*)
      | (?P<arrow>->)
      | (?P<open>[\[({<])
      | (?P<close>[\])}>])
      | (?P<integer_type>\b[su]?i(?P<width>\d{3,})\b)
      | (?P<number>\b(?P<digits>\d{19,}))
      | (?P<float>\b\d+(?:\.\d*)?[eE][+-]?(?P<exponent>\d{3,})\b)
    """,
    re.VERBOSE,
)
_TENSOR: Final = re.compile(r"\btensor<((?:(?:\d+|\?)\s*x\s*)+)")
_SPLAT: Final = re.compile(r"\bdense<[^>\n]*>\s*:\s*tensor<((?:\d+x)+)")
_ALIAS: Final = re.compile(r"^\s*([!#][\w.$]+)\s*=\s*([^\n]*)", re.MULTILINE)
_REFERENCE: Final = re.compile(r"[!#][A-Za-z_][\w.$]*")


def guard(text: str, file: str) -> None:
    """Raise LimitError or ParseError, with the place, for text that must not reach the parser."""
    check("input_bytes", len(text), Span(file))
    check("ops", text.count("\n"), Span(file))
    _guard_lines(text, file)
    hidden = _HIDDEN.search(text)
    if hidden is not None:
        raise ParseError(
            f"the text holds the invisible character U+{ord(hidden[0]):04X}",
            code="PK0107",
            span=_span(text, file, hidden.start()),
            help="remove it; names and strings of programs are plain text",
        )
    _guard_tokens(text, file)
    rank = current_limits().rank
    for m in _TENSOR.finditer(text):
        dims = m[1].count("x")
        if dims > rank:
            check("rank", dims, _span(text, file, m.start()))
    for m in _SPLAT.finditer(text):
        count = prod(int(d) for d in m[1].split("x") if d)
        check("constant_elements", count, _span(text, file, m.start()))
    _guard_aliases(text, file)


def _guard_lines(text: str, file: str) -> None:
    if len(text) <= MAX_LINE:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_LINE:
            raise ParseError(
                f"a line of {len(line):,} characters",
                code="PK0302",
                span=Span(file, number),
                help=f"one operation a line, at most {MAX_LINE:,} characters",
            )


def _guard_tokens(text: str, file: str) -> None:
    depth = 0
    for m in _TOKEN.finditer(text):
        match m.lastgroup:
            case "open":
                depth += 1
                if depth > 100:
                    check("nesting", depth, _span(text, file, m.start()))
            case "close":
                depth -= 1
            case "string":
                if len(m[0]) < 2 or m[0][-1] != '"':
                    raise ParseError(
                        "a string does not end", code="PK0102", span=_span(text, file, m.start())
                    )
            case "width" | "integer_type":
                check("literal_digits", len(m["width"]), _span(text, file, m.start()))
                check("integer_width", int(m["width"]), _span(text, file, m.start()))
            case "digits" | "number":
                check("literal_digits", len(m["digits"]), _span(text, file, m.start()))
                if text[m.end() : m.end() + 1] == "x":
                    check("dimension", int(m["digits"]), _span(text, file, m.start()))
            case "exponent" | "float":
                if len(m["exponent"]) > 6 or float(m[0]) == float("inf"):
                    raise ParseError(
                        "a floating-point literal overflows",
                        code="PK0106",
                        span=_span(text, file, m.start()),
                        help="write infinity as its bits: 0x7FF0000000000000",
                    )
            case _:
                pass


def _guard_aliases(text: str, file: str) -> None:
    """Aliases are shared while parsed but spelled out when printed or hashed: bound that size."""
    sizes: dict[str, int] = {}
    limit = current_limits().alias_bytes
    for m in _ALIAS.finditer(text):
        size = len(m[2]) + sum(sizes.get(r, 0) for r in _REFERENCE.findall(m[2]))
        sizes[m[1]] = size
        if size * _ALIAS_COST > limit:
            check("alias_bytes", size * _ALIAS_COST, _span(text, file, m.start()))


_ALIAS_COST: Final = 256
"""Bytes an object of the parsed form takes per character of the printed form, about."""


def _span(text: str, file: str, position: int) -> Span:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return Span(file, line, column)
