"""Writes the TextMate grammar of programs, for editors, from the table of the Pygments lexer.

``python tools/textmate.py`` writes it; a test says whether it is up to date.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from pirkit.cli.lexer import PirLexer

TARGET = Path(__file__).parents[1] / "editors/vscode/syntaxes/pir.tmLanguage.json"

SCOPES = {
    Comment.Single: "comment.line.double-slash",
    Keyword: "constant.language",
    Keyword.Type: "storage.type",
    Name: None,  # as plain text
    Name.Attribute: "support.type",
    Name.Class: "entity.name.function",
    Name.Function: "support.function",
    Name.Label: "entity.name.label",
    Name.Variable: "variable.other",
    Number.Float: "constant.numeric.float",
    Number.Integer: "constant.numeric.integer",
    Operator: "keyword.operator",
    Punctuation: "punctuation",
    String: "string.quoted.double",
    Text: None,
}
"""The kind of a token -> the scope that themes of editors give a colour."""


def grammar() -> dict[str, Any]:
    rules = PirLexer.tokens["root"]
    patterns = [(pattern, SCOPES[token]) for pattern, token in rules]
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": PirLexer.name,
        "scopeName": "source.pir",
        "fileTypes": [name.removeprefix("*.") for name in PirLexer.filenames],
        # A rule without a scope stands as well: what it matches is not for the rules below it.
        "patterns": [
            {"match": pattern, **({"name": f"{scope}.pir"} if scope else {})}
            for pattern, scope in patterns
        ],
    }


def text() -> str:
    return json.dumps(grammar(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
