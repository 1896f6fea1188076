"""Small pieces of HTML for notebooks; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

MAX_LINES: Final = 40
"""Lines of a tensor that a notebook shows."""

MAX_FOLDED: Final = 1000
"""Lines of a program, most of which are folded."""


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


def tree(title: str, text: str) -> str:
    """The first lines of a program, with a line above it; what stands in braces folds.

    The outer two levels, a module and its programs, are open, and the regions in them closed.
    """
    lines = text.splitlines()
    shown, depth = list[str](), 0
    for line in lines[:MAX_FOLDED]:
        opens, closes = line.endswith("{"), line.lstrip().startswith("}") and depth > 0
        depth -= closes
        if opens:  # perhaps `} else {`
            is_open = " open" if depth < 2 else ""
            end = "</details>" if closes else ""
            shown.append(f"{end}<details{is_open}><summary>{escape(line)}</summary>")
        else:
            shown.append(f"{escape(line)}\n" + ("</details>" if closes else ""))
        depth += opens
    left = len(lines) - MAX_FOLDED
    end = "</details>" * depth + (f"... {left} more lines" if left > 0 else "")
    style = "white-space: pre; font-family: monospace; max-height: 40em; overflow: auto"
    return f'<p>{escape(title)}</p><div style="{style}">{"".join(shown)}{end}</div>'
