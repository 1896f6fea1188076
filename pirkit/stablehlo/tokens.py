"""Tokens, types, attributes and locations of StableHLO text.

This room has a lexer of its own, because xDSL's parser does not read all that jax writes:
locations with ranges of columns, aliases that follow their uses, constants as strings of bytes, and
attributes of dialects that xDSL does not define.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from pirkit.diag.errors import ParseError, UnsupportedError
from pirkit.diag.span import Span
from pirkit.stablehlo.constants import elements_of
from pirkit.stablehlo.nodes import DTYPES, Dense, Tensor

T = TypeVar("T")

_TOKEN: Final = re.compile(
    r"""(?:\s+|//[^\n]*)*+
      (?: (?P<string>"(?:[^"\\\n]|\\.)*+")
        | (?P<type>tensor<(?P<dims>(?:[?\d]+x)*+)(?P<element>complex<\w+>|\w+)(?:,[^>]*)?>)
        | (?P<value>%[\w$.-]+(?:\#\d+|:\d+)?)
        | (?P<symbol>@(?:[\w$.-]+|"[^"\n]*"))
        | (?P<label>\^[\w$.-]+)
        | (?P<hash>[\#!][\w$.-]+)
        | (?P<number>-?0x[0-9a-fA-F]+|-?\d+(?:\.\d*(?:[eE][+-]?\d+)?)?)
        | (?P<word>[A-Za-z_][\w$.]*)
        | (?P<mark>->|::|.)
        | (?P<end>\Z)
      )""",
    re.VERBOSE | re.DOTALL,
)
_BRACKET: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"|[()]')
_ELEMENT: Final = re.compile(r"(?:u?i|f|bf)\d+|index")
_WORD_OF: Final = {"true": True, "false": False, "unit": True}
_DEPTH: Final = 100
"""How deep attributes may nest."""


class Token(NamedTuple):
    """A token: its kind (a name in `_TOKEN`), its text, and the position where it begins."""

    kind: str
    text: str
    start: int


class Reader:
    """Reads tokens, and types, attributes and constants; ``token`` is the next token.

    Methods raise ParseError (PK0101, PK0102, PK0105, PK0106) with the location.
    """

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self.types: dict[str, Tensor] = {}
        self.token = Token("end", "", 0)
        self.next_at = 0
        self.depth = 0
        self.advance()

    # --- tokens ---

    def advance(self) -> Token:
        """Take the token, which is returned, and read the next one."""
        taken = self.token
        m = _TOKEN.match(self.text, self.next_at)
        assert m is not None  # the last alternatives match anything
        kind = m.lastgroup if m.lastgroup not in ("dims", "element") else "type"
        self.token = Token(kind or "end", m[kind or "end"], m.start(kind or "end"))
        self.next_at = m.end()
        return taken

    def resume(self, position: int) -> None:
        """Continue with the token at a position."""
        self.next_at = position
        self.advance()

    def accept(self, text: str) -> bool:
        """Take the token if it is this one."""
        if self.token.text != text or self.token.kind == "string":
            return False
        self.advance()
        return True

    def expect(self, text: str) -> None:
        """Take the token, which must be this one."""
        if not self.accept(text):
            self.fail(f"expected `{text}`")

    def take(self, kind: str) -> str:
        """The text of the token, which must be of a kind."""
        if self.token.kind != kind:
            self.fail(f"expected a {kind}")
        return self.advance().text

    def listed(self, end: str, read: Callable[[], T]) -> list[T]:
        """The items between commas up to a closing bracket, which is taken."""
        found: list[T] = []
        while not self.accept(end):
            if found:
                self.expect(",")
            found.append(read())
        return found

    def line_of(self, position: int) -> int:
        return bisect_right(self.starts, position)

    def span(self, position: int | None = None) -> Span:
        """The location of the token, or of a position."""
        at = self.token.start if position is None else position
        line = self.line_of(at)
        return Span(self.file, line, at - self.starts[line - 1] + 1)

    def fail(self, message: str, code: str = "PK0101") -> NoReturn:
        """Raise a ParseError at the token."""
        if self.token.kind == "end":
            raise ParseError(
                "the text ends in the middle of an operation or a region",
                code="PK0102",
                span=self.span(len(self.text.rstrip())),
                help="the file was cut, or a `}` is missing",
            )
        raise ParseError(f"{message}, found `{self.token.text}`", code=code, span=self.span())

    # --- types ---

    def is_type(self) -> bool:
        return self.token.kind == "type" or self.token.text.startswith("!")

    def type(self) -> Tensor:
        """A tensor type. Raises UnsupportedError (PK0411) for another type."""
        known = self.types.get(self.token.text)
        if known is None:
            known = self.types[self.token.text] = self._new_type()
        self.advance()
        return known

    def _new_type(self) -> Tensor:
        text = self.token.text
        if text.startswith("!") or text == "tuple":
            raise UnsupportedError(
                f"values of type `{text}` have no place in a program", code="PK0411",
                span=self.span(), help="return tensors, and leave out tokens of effects",
            )  # fmt: skip
        m = _TOKEN.match(self.text, self.token.start)
        if m is None or m["type"] is None:
            self.fail("expected a type", "PK0105")
        dims = [None if n == "?" else int(n) for n in m["dims"].split("x")[:-1]]
        return Tensor(tuple(dims), m["element"])

    def types_of(self) -> list[Tensor]:
        """Types between commas, with or without parentheses."""
        if self.accept("("):
            return self.listed(")", self.type)
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

    def result_types(self) -> list[Tensor]:
        """The types after an arrow: a list in parentheses, or one."""
        return self.listed(")", self.type) if self.accept("(") else [self.type()]

    # --- attributes ---

    def dictionary(self, end: str) -> dict[str, Any]:
        """Entries ``name = value`` between commas; a name alone is True."""
        found: dict[str, Any] = {}

        def entry() -> None:
            name = self.advance().text.strip('"')
            found[name] = self.value() if self.accept("=") else True

        self.listed(end, entry)
        return found

    def value(self) -> Any:
        """An attribute as a Python value."""
        self.depth += 1
        if self.depth > _DEPTH:
            self.fail("attributes nest too deep")
        try:
            return self._value()
        finally:
            self.depth -= 1

    def _value(self) -> Any:
        kind, text, _ = self.token
        match kind:
            case "string":
                self.advance()
                return text[1:-1]
            case "number":
                self.advance()
                self._element_type()
                return _number(text)
            case "symbol":
                self.advance()
                return text[1:].strip('"')
            case "type":
                return self.type()
            case "hash":
                self.advance()
                return self._body() if self.token.text == "<" else text
            case "word" if text == "dense":
                return self.dense()
            case "word" if text == "array":
                self.advance()
                return self._array()
            case "word" if text == "loc":
                return self.location()
            case "word":
                self.advance()
                self._element_type()
                return _WORD_OF.get(text, text)
            case _:
                pass
        if self.accept("["):
            return self.listed("]", self.value)
        if self.accept("{"):
            return self.dictionary("}")
        if text == "<":
            return self._body()
        if self.accept("("):  # the type of a function
            inputs = self.listed(")", self.type)
            self.expect("->")
            return inputs, self.result_types()
        self.fail("expected an attribute", "PK0106")

    def _element_type(self) -> None:
        """Skip the type after a number, such as ``: i64``."""
        m = _TOKEN.match(self.text, self.next_at)
        if self.token.text == ":" and m is not None and _ELEMENT.fullmatch(m["word"] or ""):
            self.advance()
            self.advance()

    def _array(self) -> list[Any]:
        self.expect("<")
        self.advance()  # the element type
        self.accept(":")
        return self.listed(">", self.value)

    def _body(self) -> Any:
        """The parameters of a dialect's attribute: a dictionary, words, or dimension numbers."""
        self.expect("<")
        if self.token.text == "[":
            found = self.dimension_numbers()
            self.expect(">")
            return found
        m = _TOKEN.match(self.text, self.next_at)
        if m is not None and m["mark"] == "=":
            return self.dictionary(">")
        found = None
        while not self.accept(">"):
            found = self.value() if self.token.text in ("<", "[", "{") else self.advance().text
            if self.token.kind == "end":
                self.fail("expected `>`")
        return found

    def dimension_numbers(self) -> list[list[str]]:
        """``[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]``: the layouts of a convolution."""
        found: list[list[str]] = []
        for mark in ("x", "->", ""):
            self.expect("[")
            found.append(self.listed("]", lambda: self.advance().text))
            if mark:
                self.expect(mark)
        return found

    def dense(self) -> Dense:
        """``dense<...> : type``: numbers in nested brackets, one for all, or bytes as a string.

        Raises UnsupportedError (PK0411) for an element type that pirkit does not have.
        """
        start = self.token.start
        self.advance()
        if self.token.text != "<":
            self.fail("expected `<`")
        end = self.text.find(">", self.next_at)
        if end < 0:
            self.resume(len(self.text))
            self.fail("expected `>`")
        written = self.text[self.next_at : end].strip()
        self.resume(end + 1)
        self.expect(":")
        type_ = self.type()
        if type_.element == "index":
            type_ = Tensor(type_.shape, "i64")
        if type_.element not in DTYPES or None in type_.shape:
            raise UnsupportedError(
                f"there are no constants of type {type_}", code="PK0411", span=self.span(start),
                help="convert the constant to a type of at least 8 bits before the export",
            )  # fmt: skip
        try:
            array = elements_of(written, type_)
        except ValueError as error:
            raise ParseError(f"these are no elements of {type_}: {error}", code="PK0106",
                             span=self.span(start)) from error  # fmt: skip
        return Dense(array, type_)

    def location(self) -> str:
        """The text inside ``loc(...)``; `place_of` finds the line that it names."""
        start = self.next_at
        self.advance()
        depth = 0
        for m in _BRACKET.finditer(self.text, self.token.start):
            depth += {"(": 1, ")": -1}.get(m[0], 0)
            if depth == 0:
                self.resume(m.end())
                return self.text[start + 1 : m.end() - 1]
        self.resume(len(self.text))
        self.fail("expected `)`")


def _number(text: str) -> int | float:
    return float(text) if re.search(r"[.eE]", text) and "x" not in text else int(text, 0)
