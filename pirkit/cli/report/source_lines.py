"""The files that operations come from: their text, and the functions in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pirkit.cli.report.snapshots import Snapshots

_MAX_BYTES: Final = 400_000


def source_facts(snapshots: Snapshots) -> list[dict[str, Any]]:
    """Name, text and functions of each file; no text where it cannot be read, or is too long."""
    found: list[dict[str, Any]] = []
    for path in snapshots.files.items:
        lines: list[str] = []
        functions: list[tuple[str, int, int]] = []
        try:
            text = Path(path).read_text(encoding="utf-8")
            lines = text.splitlines() if len(text) <= _MAX_BYTES else []
            if path.endswith(".py"):
                functions = list(_functions(ast.parse(text), ""))
        except (OSError, UnicodeDecodeError, SyntaxError):
            pass  # the page says that there is no text
        found.append({"path": path, "lines": lines, "functions": functions})
    return found


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Qualified name, first and last line of each function, an outer one before its inner ones."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, child.lineno, child.end_lineno or child.lineno
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)
