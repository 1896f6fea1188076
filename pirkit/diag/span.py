"""Places that a diagnostic can point at."""

from __future__ import annotations

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
