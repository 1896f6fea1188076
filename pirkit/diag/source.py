"""Lines of source text, for the excerpts in diagnostics.

A span may come out of a program that somebody else wrote, so its file name is data: only files
that the user named, Python sources of this process, and registered texts are ever read.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from itertools import islice
from typing import Final

from pirkit.diag.limits import DEFAULT

CACHED_TEXTS: Final = 8
"""Number of registered texts that are retained; a long-lived process reads many programs."""

_HEAD: Final = 8000
"""Number of bytes in which a file that is no text has a zero byte."""

_texts: Final[dict[str, str]] = {}
_trusted: Final[set[str]] = set()


def register_source(name: str, text: str) -> None:
    """Register a text that is not in a file (standard input, a string) under a name.

    Only the latest texts are retained: an excerpt is shown soon after its text was read.
    """
    _texts.pop(name, None)
    _texts[name] = text
    while len(_texts) > CACHED_TEXTS:
        _texts.pop(next(iter(_texts)), None)


def trust_source(path: str) -> None:
    """Allow excerpts from a file that the user named, or from the files in that folder."""
    with suppress(OSError):  # there is no working folder any more
        _trusted.add(os.path.realpath(path))


def source_line(name: str, number: int) -> str | None:
    """Line ``number``, counted from 1, of a text or file, without its end; None if there is none.

    Lines end with a line feed, as they do for the parsers.
    """
    if number < 1:
        return None
    text = _texts.get(name)
    if text is not None:
        return _line_of_text(text, number)
    return _line_of_file(name, number) if _is_readable(name) else None


def _line_of_text(text: str, number: int) -> str | None:
    start = 0
    for _ in range(number - 1):
        start = text.find("\n", start) + 1
        if start == 0:
            return None
    end = text.find("\n", start)
    return text[start : end if end >= 0 else len(text)].removesuffix("\r")


def _line_of_file(path: str, number: int) -> str | None:
    try:
        with open(path, "rb") as start:
            if b"\0" in start.read(_HEAD):
                return None  # binary, by the rule of git
        with open(path, encoding="utf-8-sig", errors="replace", newline="\n") as lines:
            line = next(islice(lines, number - 1, number), None)
    except OSError:
        return None  # the excerpt is a courtesy; the diagnostic itself names the place
    return None if line is None or "\0" in line else line.rstrip("\r\n")


def _is_readable(name: str) -> bool:
    try:
        real = os.path.realpath(name)
        if not os.path.isfile(real) or os.path.getsize(real) > DEFAULT.input_bytes:
            return False
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False
    if real in _trusted or os.path.dirname(real) in _trusted:
        return True
    return real.endswith(".py") and real in _python_sources()


def _python_sources() -> set[str]:
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return {os.path.realpath(file) for file in files if isinstance(file, str)}
