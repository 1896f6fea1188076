"""Small pieces of HTML for notebooks; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

MAX_LINES: Final = 40
"""Lines of a program that a notebook shows."""


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a line above it."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<p>{escape(title)}</p><table><tr>{top}</tr>{body}</table>"


def listing(title: str, text: str) -> str:
    """The first lines of a text, as it is, with a line above it."""
    lines = text.splitlines()
    left = len(lines) - MAX_LINES
    more = f"\n... {left} more lines" if left > 0 else ""
    shown = "\n".join(lines[:MAX_LINES]) + more
    return f"<p>{escape(title)}</p><pre>{escape(shown)}</pre>"
