"""Places that a diagnostic can point at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text file: the user's Python, IR text, or JSON.

    ``line`` and ``column`` count from 1; ``column`` 0 means the whole line, ``line`` 0 the whole
    file. ``length`` is the number of characters to underline.
    """

    file: str
    line: int = 0
    column: int = 0
    length: int = 1

    def __str__(self) -> str:
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


def lines_of(spans: Iterable[Span]) -> str:
    """The lines of several places by file: ``net.py:3, 5-7``."""
    by_file: dict[str, set[int]] = {}
    for span in spans:
        by_file.setdefault(span.file, set()).add(span.line)
    return "; ".join(f"{file}:{_ranges(sorted(lines))}" for file, lines in by_file.items())


def _ranges(lines: list[int]) -> str:
    found: list[list[int]] = []
    for line in lines:
        if found and line == found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)
