"""Splits the text that Paddle prints for a program into records, one for each operation.

Operations are not interpreted here; a record is checked when its operation is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn

from msgspec import Struct, field

from pirkit.diag.errors import ParseError, UnsupportedError
from pirkit.diag.limits import check
from pirkit.diag.span import Span
from pirkit.dialect.kinds import BRANCH
from pirkit.dialect.opdef import find
from pirkit.dialect.parser_limits import guard_characters
from pirkit.dialect.structure import PADDLE_NAMES

_HEAD: Final = re.compile(
    r'\(([^()]*)\) = "([^"]+)"(?: \[id:(\d{1,18})\])? \(([^()]*)\) ?', re.ASCII
)
_ARG: Final = re.compile(r"(%[^\s{},()]+)\s*\{([^{}]*)\}")
_RESULT: Final = re.compile(r"%\w+\Z", re.ASCII)
_KERNEL: Final = "_kernel)"


def _is_branch(name: str) -> bool:
    definition = find(name)
    return definition is not None and BRANCH in definition.traits


class Argument(Struct):
    """A keyword argument of a program, or an argument of a loop body."""

    line: int
    name: str
    attrs: str


class Record(Struct):
    """An operation as the texts of its parts. Types are None where the text has none."""

    line: int
    name: str
    results: list[str]
    operands: list[str]
    attrs: str = ""
    types: str | None = None
    result_types: str | None = None
    opens: bool = False
    id: str | None = None


class Loop(Struct):
    """The argument line of a while body."""

    line: int
    arguments: list[Argument]


class BlockEnd(Struct):
    """The end of a block; ``other`` if the else block of the same op follows."""

    line: int
    other: bool


Line = Record | Loop | BlockEnd


class Dump(Struct):
    """The records of one program."""

    arguments: list[Argument] = field(default_factory=list[Argument])
    records: list[Record | Loop | BlockEnd] = field(
        default_factory=list["Record | Loop | BlockEnd"]
    )


class Lines:
    """The lines of a file, counted from 1, and errors that point to them."""

    def __init__(self, text: str, file: str) -> None:
        guard_characters(text, file)
        self.file = file
        self.lines = text.split("\n")

    def dumps(self) -> Iterator[Dump]:
        """The programs of the file, one after the other.

        Raises ParseError, UnsupportedError or LimitError with the location.
        """
        found, at = False, 1
        while at <= len(self.lines):
            line = self.text(at)
            at += 1
            if not line:
                continue
            if line != "{":
                raise ParseError(
                    "a program starts with a line that is `{`",
                    code="PK0101",
                    span=self.whole(at - 1, 1),
                    help="a Paddle dump is `{`, one line per operation, `}`; pirkit's own text has"
                    " the suffix .mlir",
                )
            at, dump = self._dump(at)
            found = True
            yield dump
        if not found:
            raise ParseError(
                "the file holds no program",
                code="PK0102",
                span=Span(self.file),
                help="a Paddle dump is `{`, one line per operation, `}`",
            )

    def text(self, line: int) -> str:
        """A line without the blanks around it."""
        return self.lines[line - 1].strip()

    def _dump(self, at: int) -> tuple[int, Dump]:
        """Read the program whose first line after the ``{`` is ``at``; returns where it ends."""
        dump = Dump()
        depth = 1
        while at <= len(self.lines):
            line = self.text(at)
            if line.startswith("("):
                at, record = self._record(at, line)
                dump.records.append(record)
                depth += record.opens
                check("nesting", depth, Span(self.file, record.line))
                continue
            if line == "}":
                depth -= 1
                if depth == 0:
                    return at + 1, dump
                dump.records.append(BlockEnd(at, other=False))
            elif line == "} else {":
                dump.records.append(BlockEnd(at, other=True))
            elif line.startswith("%kwarg_") and not dump.records:
                dump.arguments += self._arguments(at, line)
            elif line.startswith("^%") or line == "^":
                dump.records.append(Loop(at, self._arguments(at, line[1:])))
            elif line not in ("", "^kw:"):
                self.fail(at, f"expected an operation, found {_shorten(line)!r}")
            at += 1
        raise ParseError(
            "the text ends inside a program",
            code="PK0102",
            span=Span(self.file, len(self.lines)),
            help="the closing `}` is missing: the dump may have been cut off",
        )

    def _arguments(self, at: int, text: str) -> list[Argument]:
        if _ARG.sub("", text).replace(",", "").strip():
            self.fail(at, "arguments are written `%arg_0 {...}, %arg_1 {...}`")
        return [Argument(at, m[1], m[2]) for m in _ARG.finditer(text)]

    def _record(self, start: int, line: str) -> tuple[int, Record]:
        """Read the operation that starts at a line; also returns the line after it."""
        m = _HEAD.match(line)
        if m is None:
            self.fail(
                start, 'an operation is written `(%0) = "dialect.name" (...) {...} : (...) -> ...`'
            )
        at, line = self._join_lines(start, line, m.end())
        name = PADDLE_NAMES.get(m[2], m[2])
        if name.endswith(_KERNEL):
            raise UnsupportedError(
                f"`{name}` stands in a program that is lowered to kernels",
                code="PK0403",
                span=self.find(start, name),
                help="read the program as it is before lowering",
            )
        results = _names(m[1])
        for result in results:
            if not _RESULT.match(result):
                self.fail(start, f"{_shorten(result)!r} is no name of a result")
        if name == "pd_op.while":
            condition, _, inputs = m[4].removeprefix("cond=").partition(", inputs=")
            operands = [condition, *_names(inputs)]
            if line[m.end() :].strip() != "{":
                self.fail(start, "`pd_op.while` is written `(cond=%0, inputs=%1) {`")
            return at, Record(start, name, results, operands, opens=True, id=m[3])
        record = Record(start, name, results, _names(m[4]), id=m[3])
        self._body(record, line[m.end() :].rstrip(), m.end())
        return at, record

    def _join_lines(self, start: int, line: str, tail: int) -> tuple[int, str]:
        """Join the lines of an operation: a string attribute may contain line breaks."""
        parts = [line]
        in_string = _opens_string(line[tail:])
        at = start + 1
        while in_string:
            if at > len(self.lines):
                raise ParseError(
                    "the text ends inside a string", code="PK0102", span=Span(self.file, start)
                )
            parts.append(self.lines[at - 1])
            in_string ^= _opens_string(parts[-1])
            at += 1
        return at, "\n".join(parts)

    def _body(self, record: Record, body: str, tail: int) -> None:
        """Split the attributes and types of an operation."""
        if not body.startswith("{"):
            self.fail(record.line, "expected `{attributes}` after the operands", tail + 1)
        if _is_branch(record.name):
            close = body.rfind("} ->")
            if close < 0 or not body.endswith("{"):
                self.fail(
                    record.line, f"`{record.name}` is written `... {{attributes}} -> types {{`"
                )
            record.result_types = body[close + 4 : -1].strip()
            record.opens = True
        else:
            close = body.rfind("} : (")
            arrow = body.rfind(") ->")
            if not 0 < close < arrow:
                self.fail(record.line, "expected `: (operand types) -> result types`")
            record.types = body[close + 5 : arrow]
            record.result_types = body[arrow + 4 :].strip()
        record.attrs = body[1:close]

    def find(self, line: int, word: str) -> Span:
        """The location of a word in a line, or of the line."""
        column = self.lines[line - 1].find(word) + 1
        return Span(self.file, line, column, len(word) if column else 1)

    def whole(self, line: int, column: int = 1) -> Span:
        """The location of a line's content, from a column of the content on."""
        text = self.lines[line - 1]
        indent = len(text) - len(text.lstrip())
        return Span(self.file, line, indent + column, max(1, len(text) - indent - column + 1))

    def fail(self, line: int, message: str, column: int = 1, code: str = "PK0101") -> NoReturn:
        """Raise a ParseError about a line."""
        raise ParseError(message, code=code, span=self.whole(line, column))


def _names(text: str) -> list[str]:
    text = text.strip()
    return text.split(", ") if text else []


def _opens_string(text: str) -> bool:
    """True if the number of quotes is odd; an escaped quote does not count."""
    return (text.count('"') - text.count('\\"')) % 2 == 1


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
