"""Diagnostics for people (in the shape of Rust's) and for programs (JSON).

::

    error[PK0203]: inner dimensions 128 and 64 of [8, 128] and [64, 32] differ
      --> block.mlir:14:8
       |
    14 |   %7 = pd_op.matmul(%5, %6) : ...
       |        ^^^^^^^^^^^^
       = note: constraint C2 of pd_op.matmul
       = help: a `transpose_x` or `transpose_y` flag may be missing
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Final, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pirkit.diag.errors import PirkitError
from pirkit.diag.source import source_line
from pirkit.diag.span import Span

MAX_MESSAGE: Final = 2_000
"""Longest message or note that is shown in full."""

DEFAULT_WIDTH: Final = 80
"""Columns of an excerpt when it is not written to a terminal."""

TAB: Final = "    "
HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that a terminal would interpret, reorder or drop instead of showing."""


_WORD: Final = re.compile(r"[%@^#!]?[\w.]+", re.ASCII)


def escape(text: str) -> str:
    """The text with control, bidirectional and other invisible characters spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escape_character, text))


def print_error(error: PirkitError, stream: TextIO | None = None, *, as_json: bool = False) -> None:
    """Write a diagnostic to a stream, standard error unless given.

    Colour and the width of the window are used on a terminal only (never with ``NO_COLOR``); in a
    pipe each fact stays on one line, so that it can be searched for, unless ``COLUMNS`` is set.
    """
    out = stream or sys.stderr
    if as_json:
        out.write(json.dumps(to_json(error)) + "\n")
        return
    console = Console(file=out, soft_wrap=True, highlight=False, markup=False, emoji=False)
    columns = os.environ.get("COLUMNS", "")
    width = console.width if console.is_terminal or columns.isdigit() else None
    for line in _lines(error, width):
        console.print(line)


def to_text(error: PirkitError, width: int | None = None) -> str:
    """The diagnostic without colour; lines are at most ``width`` columns wide, if it is given."""
    return "".join(f"{line.plain.rstrip()}\n" for line in _lines(error, width))


def to_json(error: PirkitError) -> dict[str, Any]:
    """The diagnostic as data: code, kind, message, span (or None), notes, help, exit_code."""
    span = error.span
    place = span and {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "length": span.length,
    }
    return {
        "code": error.code,
        "kind": type(error).__name__,
        "message": error.message,
        "span": place,
        "notes": list(error.notes),
        "help": error.help,
        "exit_code": error.exit_code,
    }


def _lines(error: PirkitError, width: int | None) -> Iterator[Text]:
    head = Text.assemble((f"error[{error.code}]", "bold red"), (": ", "bold"))
    yield from _paragraph(head, error.message, width, style="bold", indent=2)
    gutter = " "
    if error.span is not None:
        gutter = " " * len(str(error.span.line)) if error.span.line else " "
        place = Text.assemble(gutter, (" --> ", "blue"))
        yield from _paragraph(place, str(error.span), width, indent=len(gutter) + 5)
        yield from _excerpt(error.span, gutter, width or DEFAULT_WIDTH)
    for kind, text in _remarks(error):
        label = Text.assemble(gutter, (" = ", "blue"), (f"{kind}: ", "bold"))
        yield from _paragraph(label, text, width, indent=len(label))


def _remarks(error: PirkitError) -> Iterator[tuple[str, str]]:
    for note in error.notes:
        yield "note", note
    if error.help:
        yield "help", error.help


def _excerpt(span: Span, gutter: str, width: int) -> Iterator[Text]:
    """The line that the span is about, with carets below it, cut to a window around them."""
    line = source_line(span.file, span.line)
    if line is None or not line.strip():
        return
    bar = Text.assemble(gutter, (" |", "blue"))
    room = width - len(gutter) - len(" | ") - 1  # one more: a caret may come after the line
    before, marked, after = _window(line, span, max(room, 16))
    yield bar
    yield Text.assemble((f"{span.line} | ", "blue"), f"{before}{marked}{after}")
    if span.column:
        carets = "^" * max(cell_len(marked), 1)
        yield Text.assemble(bar, " " * (1 + cell_len(before)), (carets, "bold red"))


def _window(line: str, span: Span, room: int) -> tuple[str, str, str]:
    """The text before, above and after the carets; at most ``room`` columns together."""
    start = min(max(span.column - 1, 0), len(line))
    # Places of operations are points: the carets are as wide as the word there.
    word = _WORD.match(line, start, start + room) if span.length <= 1 else None
    length = max(span.length, word.end() - start if word else 1)
    end = min(start + length, len(line)) if span.column else start
    # The columns are cut before they are escaped: a line may be 64 MiB long.
    before = _shown(line[max(0, start - room) : start])
    marked = _shown(line[start : min(end, start + room)])
    after = _shown(line[end : end + room])
    if cell_len(before) + cell_len(marked) + cell_len(after) <= room and start <= room:
        return before, marked, after
    marked = _keep_left(marked, room)
    free = room - cell_len(marked)
    before = _keep_right(before, max(free // 2, free - cell_len(after)), cut=start > room)
    return before, marked, _keep_left(after, free - cell_len(before))


def _shown(text: str) -> str:
    return escape(text.replace("\t", TAB))


def _keep_left(text: str, room: int) -> str:
    if cell_len(text) <= room:
        return text
    return _fitting(text, room - 3) + "..." if room >= 3 else ""


def _keep_right(text: str, room: int, *, cut: bool) -> str:
    if cell_len(text) <= room and not cut:
        return text
    return "..." + _fitting(text[::-1], room - 3)[::-1] if room >= 3 else ""


def _fitting(text: str, room: int) -> str:
    """The longest beginning that takes at most ``room`` columns."""
    used = 0
    for i, character in enumerate(text):
        used += cell_len(character)
        if used > room:
            return text[:i]
    return text


def _paragraph(
    head: Text, text: str, width: int | None, *, indent: int, style: str = ""
) -> Iterator[Text]:
    """``head`` and the words of a text, wrapped with the further lines indented."""
    shown = escape(_clip(text))
    if width is None:
        yield head.append(shown, style)
        return
    line, filled = head, False
    for word in _words(shown, max(width - max(indent, len(head)), 16)):
        if filled and line.cell_len + 1 + cell_len(word) > width:
            yield line
            line, filled = Text(" " * indent), False
        line.append(f" {word}" if filled else word, style)
        filled = True
    yield line


def _words(text: str, room: int) -> Iterable[str]:
    """The words of a text; a word that is wider than a line is split."""
    for word in text.split(" "):
        rest = word
        while cell_len(rest) > room:
            piece = _fitting(rest, room)
            yield piece
            rest = rest[len(piece) :]
        yield rest


def _clip(text: str) -> str:
    if len(text) <= MAX_MESSAGE:
        return text
    return f"{text[:MAX_MESSAGE]}... ({len(text) - MAX_MESSAGE} more characters)"


def _escape_character(character: str) -> str:
    if unicodedata.category(character) not in HIDDEN:
        return character
    return character.encode("unicode_escape").decode("ascii")
