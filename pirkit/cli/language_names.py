"""Finds definitions and uses of the values of a text, also while it is no valid program.

Names are found by their spelling alone, in MLIR's forms and in Paddle's: a definition stands before
`=` at the beginning of a line, or is an argument of a block. Braces bound its scope.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_NAME: Final = r"%[\w$.-]+"
_TOKEN: Final = re.compile(rf'//.*|"(?:\\.|[^"\\\n])*"|[{{}}]|{_NAME}(?:\#\d+)?')
_RESULTS: Final = re.compile(rf"^\s*\(?((?:{_NAME}(?::\d+)?(?:\s*,\s*)?)+)\)?\s*=")
_ARGUMENT: Final = re.compile(r"\s*:\s*((?:[^,()<>{}]|<[^<>]*(?:<[^<>]*>[^<>]*)*>)+)")
_PADDLE_BLOCK: Final = re.compile(r"^\s*\^%")
_ABOVE_PROGRAM: Final = re.compile(r"\bpir\.program\b")


@dataclass(eq=False, slots=True)
class Name:
    """One occurrence of a value: its line and columns, from 0."""

    text: str
    line: int
    start: int
    end: int
    definition: Name | None = None
    """The occurrence that defines it, perhaps this one; None if nothing does."""
    index: int | None = None
    """Of a definition: which result of its operation it is; None for an argument of a block."""
    type: str = ""
    """Of an argument: its type as it is written."""


def names_of(text: str) -> tuple[list[Name], dict[str, Name]]:
    """All occurrences of values in order, and the definitions that are visible after the text."""
    found: list[Name] = []
    scopes: list[dict[str, Name]] = [{}]
    for number, line in enumerate(text.split("\n")):
        if _ABOVE_PROGRAM.search(line):
            scopes = [{}]
        results = _RESULTS.match(line)
        end_of_results = results.end(1) if results else 0
        is_block = _PADDLE_BLOCK.match(line) is not None
        made: list[Name] = []
        for token in _TOKEN.finditer(line):
            if token[0] == "{":
                scopes.append({})
            elif token[0] == "}":
                scopes = scopes[:-1] or [{}]
            elif token[0].startswith("%"):
                name = Name(token[0].partition("#")[0], number, token.start(), token.end())
                argument = _ARGUMENT.match(line, token.end())
                if token.end() <= end_of_results:
                    name.index = len(made)
                    made.append(name)
                elif is_block or argument:
                    name.type = argument[1].strip() if argument else ""
                    name.definition = scopes[-1][name.text] = name
                else:
                    held = (s[name.text] for s in reversed(scopes) if name.text in s)
                    name.definition = next(held, None)
                found.append(name)
        for name in made:  # an operation does not see its own results
            name.definition = _scope_of_line(scopes, line)[name.text] = name
    return found, {key: name for scope in scopes for key, name in scope.items()}


def _scope_of_line(scopes: list[dict[str, Name]], line: str) -> dict[str, Name]:
    """The scope in which a line begins: the one outside of a region that it opens."""
    opened = line.count("{") - line.count("}")
    return scopes[-1 - opened] if 0 < opened < len(scopes) else scopes[-1]
